# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The way of a question: what is attended to, the answer, and its evidence."""

from collections.abc import Sequence
from dataclasses import dataclass, field
import time
from typing import Any

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.attention import Context, Piece, Watcher
from infinipot_ros.memory.camera_memory import CameraMemory
from infinipot_ros.memory.decoding import decode, Decoded, Limits
from infinipot_ros.memory.evidence import attended_frames, evidence_list, Labelled
from infinipot_ros.memory.fetching import Fetch
from infinipot_ros.memory.question_selection import Selection, Watchers
from infinipot_ros.memory.records import Answer, AnswerStatus
from infinipot_ros.memory.state import MemoryState
from infinipot_ros.wording import left_out
import numpy as np
import torch
from torch import Tensor


@dataclass
class Question:
    """A question and what of the memory it is about."""

    text: str
    cameras: list[CameraMemory]
    limits: Limits
    since_ns: int | None = None
    until_ns: int | None = None
    history: Sequence[tuple[str, str]] = ()
    name_unknown: bool = True
    started: float = field(default_factory=time.perf_counter)

    @property
    def has_span(self) -> bool:
        """Whether only part of the time is asked about."""
        return self.since_ns is not None or self.until_ns is not None


@dataclass
class _Scene:
    """The pieces a question reads, in order, whose tokens they are, and who has none there."""

    pieces: list[Piece]
    stretches: list[Labelled]
    watchers: list[Watcher]
    base: int
    without: list[CameraMemory] = field(default_factory=list)


def answer(state: MemoryState, question: Question) -> Answer:
    """
    Answer a question without changing what is remembered.

    Raises NumericError, and what the model raises; the memory is then what it was.
    """
    fault = _fault(state, question)
    if fault:
        return _end(question, AnswerStatus.BAD_REQUEST, fault)
    if not any(camera.frames_seen for camera in question.cameras):
        return _end(question, AnswerStatus.EMPTY_MEMORY, _nothing_of(question.cameras))
    ids = _question_ids(state, question)
    with torch.inference_mode():
        scene = _scene(state, question)
        if len(scene.without) == len(question.cameras):
            return _end(question, AnswerStatus.EMPTY_MEMORY, _nothing_of(scene.without))
        return _generate(state, question, scene, ids)


def _nothing_of(cameras: Sequence[CameraMemory]) -> str:
    """Say why some cameras have no part in an answer; '' where there are none."""
    new = ', '.join(camera.name for camera in cameras if not camera.frames_seen)
    old = ', '.join(camera.name for camera in cameras if camera.frames_seen)
    reasons = [
        f'no frame was seen yet by {new}' if new else '',
        f'nothing that {old} saw in that span is still remembered' if old else '',
    ]
    return '; '.join(filter(None, reasons))


def _fault(state: MemoryState, question: Question) -> str:
    """Return what is wrong with a question, or nothing. Raises ConfigError if it is no text."""
    limit = state.config.max_question_tokens
    if not isinstance(question.text, str):
        raise ConfigError(f'the question is {question.text!r}: give a text')
    if not question.text.strip():
        return 'the question is empty'
    # A token is rarely more than some characters: a text far too long need not be tokenised.
    if len(question.text) > 64 * limit:
        return (
            f'the question has {len(question.text)} characters: max_question_tokens is {limit}'
        )
    tokens = state.model.question_tokens(question.text)
    if tokens > limit:
        return f'the question has {tokens} tokens: max_question_tokens is {limit}'
    since, until = question.since_ns, question.until_ns
    if since is not None and until is not None and since > until:
        return f'the span is empty: since {since} ns is after until {until} ns'
    return state.model.nothing_understood(question.text)


def _question_ids(state: MemoryState, question: Question) -> list[int]:
    """Return the question's ids after as much of the newest history as there is room for."""
    room = state.sizes.suffix_tokens + state.config.max_question_tokens
    limit = 64 * state.config.max_question_tokens
    history = [turn for turn in question.history if len(turn[0]) + len(turn[1]) <= limit]
    history = history[-state.config.max_question_tokens:]
    while True:
        ids = state.model.suffix_ids(question.text, history)
        if len(ids) <= room or not history:
            return ids
        history = history[1:]


def _scene(state: MemoryState, question: Question) -> _Scene:
    """Lay out sinks, then of each camera past and newest frames."""
    build, sinks = state.build, state.sizes.sink_tokens
    scene = _Scene([build.sink_piece(question.cameras[0])], [Labelled(sinks, None)], [], sinks)
    for camera in question.cameras:
        build.build_instant(camera, state.compression.recent_frames(camera))
        following, of_past = _past(state, camera, question, scene)
        instant, following, of_now = _instant(state, camera, question, scene.base, following)
        if instant is not None:
            scene.pieces.append(instant[0])
            scene.stretches.append(instant[1])
        if not of_past and not of_now:
            scene.without.append(camera)
        scene.base = build.scheme.end(scene.base, following, state.sizes.newest_grid)
    return scene


def _past(
    state: MemoryState, camera: CameraMemory, question: Question, scene: _Scene
) -> tuple[int, bool]:
    """Add what is read of a camera's past; return what follows, and whether any is attended to."""
    build, compression = state.build, state.compression
    policy, fetching = compression.question_policy, compression.fetching
    recent = compression.recent_frames(camera)
    if fetching is not None and camera.store is not None:
        asked = set(_frames_in_span(state, question)) if question.has_span else None
        fetch = Fetch(build, fetching, camera.store, camera.fetched, scene.base, recent, asked)
        scene.watchers.append(fetch)
        scene.pieces.append(fetch.piece)
        scene.stretches.append(Labelled(fetch.tokens, fetch.frames))
        return fetch.following, fetch.tokens > 0
    attended = _attended_past(state, camera, question)
    if policy is not None:
        first = sum(piece.tokens for piece in scene.pieces)
        selection = Selection(build, compression, policy, camera, scene.base, first, attended)
        scene.watchers.append(selection)
        piece, following = selection.piece, selection.following
    else:
        piece, following = build.past_piece(camera, scene.base, recent, attended=attended)
    scene.pieces.append(piece)
    scene.stretches.append(Labelled(piece.tokens, camera.past.frames))
    return following, bool(piece.tokens) if attended is None else bool(attended.any())


def _attended_past(
    state: MemoryState, camera: CameraMemory, question: Question
) -> Tensor | None:
    """Return which tokens of the past are in the span, [L, H, n], or None for all."""
    if not question.has_span:
        return None
    inside = torch.tensor(
        _frames_in_span(state, question), dtype=torch.int32, device=camera.past.frame.device
    )
    return torch.isin(camera.past.frames, inside)


def _frames_in_span(state: MemoryState, question: Question) -> list[int]:
    rows = state.table.rows
    inside = np.ones(len(rows), bool)
    if question.since_ns is not None:
        inside &= rows['stamp_ns'] >= question.since_ns
    if question.until_ns is not None:
        inside &= rows['stamp_ns'] <= question.until_ns
    return [int(frame) for frame in rows['frame'][inside]]


def _instant(
    state: MemoryState, camera: CameraMemory, question: Question, base: int, following: int
) -> tuple[tuple[Piece, Labelled] | None, int, bool]:
    """Return the newest frames' piece, what follows them, and whether one is attended to."""
    frames = list(camera.instant_frames or ())
    if not frames:
        return None, following, False
    inside = None
    if question.has_span:
        allowed = set(_frames_in_span(state, question))
        inside = [frame.frame in allowed for frame in frames]
    coordinates, following = state.build.instant_coordinates(frames, base, following, inside)
    device = camera.past.frame.device
    counts = torch.tensor([frame.tokens for frame in frames], device=device)
    labels = torch.tensor([frame.frame for frame in frames], dtype=torch.int32, device=device)
    hidden = None
    if inside is not None:
        outside = torch.tensor([not there for there in inside], device=device)
        hidden = outside.repeat_interleave(counts)[None, None]
    stored = camera.instant.stored_tokens
    piece = Piece(camera.instant, 0, stored, coordinates, hidden=hidden)
    stretch = Labelled(stored, labels.repeat_interleave(counts)[None, None])
    return (piece, stretch), following, inside is None or any(inside)


def _generate(state: MemoryState, question: Question, scene: _Scene, ids: list[int]) -> Answer:
    build, config, recorder = state.build, state.config, state.recorder
    recorder.clear()
    context = Context(
        scene.pieces,
        build.scratch,
        build.rotation,
        build.workspace,
        hold=True,
        recorder=recorder,
        watcher=Watchers(scene.watchers) if scene.watchers else None,
    )
    decoded = decode(state.model, build.scheme, context, ids, scene.base, question.limits)
    scene.stretches.append(Labelled(context.added, None))
    attended = attended_frames(recorder, scene.stretches, context.context_tokens + context.added)
    return _end(
        question,
        decoded.status,
        '; '.join(filter(None, (
            _why(decoded), _nothing_of(scene.without), _left_out(state, question, decoded)))),
        text=state.model.text(decoded.ids),
        confidence=decoded.confidence,
        evidence=evidence_list(attended, state.table, config.cameras, config.max_evidence),
        attention_by_frame=attended.mass,
        other_attention=attended.other,
        tokens=len(decoded.ids),
    )


def _end(
    question: Question, status: AnswerStatus, message: str, text: str = '', **found: Any
) -> Answer:
    cameras = question.cameras
    stamps = [c.newest_stamp_ns for c in cameras if c.newest_stamp_ns is not None]
    return Answer(
        text=text,
        status=status,
        message=message,
        frames_seen=sum(camera.frames_seen for camera in cameras),
        newest_stamp_ns=max(stamps, default=0),
        latency_s=time.perf_counter() - question.started,
        **found,
    )


def _left_out(state: MemoryState, question: Question, decoded: Decoded) -> str:
    """Name the words of an answered question that the model does not know."""
    if decoded.status is not AnswerStatus.ANSWERED or not question.name_unknown:
        return ''
    return left_out(state.model.unknown_words(question.text))


def _why(decoded: Decoded) -> str:
    tokens = len(decoded.ids)
    if decoded.status is AnswerStatus.TIMEOUT:
        return f'the deadline passed after {tokens} tokens'
    if decoded.status is AnswerStatus.CANCELLED:
        return f'cancelled after {tokens} tokens'
    return '' if tokens else 'the model ended its answer at once'
