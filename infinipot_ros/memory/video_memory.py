# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""VideoMemory: what a robot has seen, as a KV cache that never outgrows its budget."""

from collections.abc import Callable, Sequence
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.attention import Context, MassRecorder, Piece, Workspace
from infinipot_ros.memory.budget import plan_budget, Sizes
from infinipot_ros.memory.camera_memory import CameraMemory, FeatureBuffer
from infinipot_ros.memory.compression import Compression
from infinipot_ros.memory.config import MemoryConfig
from infinipot_ros.memory.construction import checked, Construction
from infinipot_ros.memory.decoding import decode, Decoded, Limits
from infinipot_ros.memory.evidence import attended_frames, evidence_list, Labelled
from infinipot_ros.memory.frame_table import FrameTable
from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.model import RgbImage, VisionLanguageModel
from infinipot_ros.memory.pictures import checked_rgb
from infinipot_ros.memory.positions import PositionScheme, Rotation
from infinipot_ros.memory.records import (
    Answer,
    AnswerStatus,
    FrameReceipt,
    KeptFrame,
    MemoryStatus,
    Pose,
)

DESCRIBE_PROMPT = 'Describe what the camera sees now.'


class VideoMemory:
    """The visual memory of one robot on one model.

    All methods are called from one thread at a time; the memory has no locks. Several memories may
    share a model, in the same thread.

    Raises BudgetError where `budget_mib` does not hold 8 frames a camera, ConfigError for a setting
    that does not fit the model.
    """

    def __init__(self, model: VisionLanguageModel, config: MemoryConfig) -> None:
        """Allocate everything the memory will ever hold, and read the prompt's first part."""
        self.model = model
        self.config = config
        shape = model.shape
        self.frame_size_px = config.frame_size_px or model.default_frame_size_px
        grid = model.grid(self.frame_size_px)
        scheme = PositionScheme(grid, shape.max_rank, model.rank_step, shape.device)
        prefix = model.prefix_ids()
        self._sizes = Sizes(shape, scheme, config, len(prefix), len(model.suffix_ids('')))
        self.plan = plan_budget(self._sizes)
        layers = config.evidence_layers or tuple(range(shape.layers))
        if any(not 0 <= layer < shape.layers for layer in layers):
            raise ConfigError(
                f'evidence_layers is {layers}: the model has the layers 0 to {shape.layers - 1}'
            )
        self._compression = Compression(config, grid, shape.layers, self._extras)
        self._cameras = [
            self._new_camera(index, name, tokens)
            for index, (name, tokens) in enumerate(
                zip(config.cameras, self.plan.camera_tokens, strict=True)
            )
        ]
        workspace = Workspace(shape, self.plan.workspace_tokens, config.hold_rotated_keys)
        self._recorder = MassRecorder(layers, shape, self.plan.workspace_tokens)
        self._build = Construction(
            model=model,
            scheme=scheme,
            rotation=Rotation(model.rotary_table(self.plan.positions)),
            workspace=workspace,
            scratch=LayerCache(shape, self._sizes.scratch_tokens),
            sink_tokens=len(prefix),
            instant_frames=config.instant_frames,
        )
        self._table = FrameTable(
            self.plan.table_rows, self.plan.thumbnails, self._sizes.thumbnail_px
        )
        self._next_frame = 0
        self._stamps_gone_back = 0
        with torch.inference_mode():
            self._build.build_sinks(self._cameras)

    def _new_camera(self, index: int, name: str, tokens: int) -> CameraMemory:
        shape, sizes = self.model.shape, self._sizes
        return CameraMemory(
            index=index,
            name=name,
            past=LayerCache(shape, tokens, prefix=sizes.sink_tokens, provenance=True),
            buffer=FeatureBuffer(shape, self.config.instant_frames, sizes.tokens_per_frame),
            instant=LayerCache(shape, sizes.instant_tokens),
            policy_state=[{} for _ in range(shape.layers)],
        )

    def _extras(self, camera: CameraMemory, layer: int) -> dict[str, Any]:
        wanted = {*self._compression.policy.required, *self._compression.policy.optional}
        found: dict[str, Any] = {}
        if 'fresh' in wanted:
            found['fresh'] = camera.past.frames[layer] > camera.judged_until
        return found

    def _camera(self, name: str | None) -> CameraMemory:
        if name is None:
            return self._cameras[0]
        for camera in self._cameras:
            if camera.name == name:
                return camera
        raise ConfigError(f'no camera {name!r}; this memory has {", ".join(self.config.cameras)}')

    # Frames

    def add_frame(
        self,
        rgb: RgbImage,
        stamp: float | None = None,
        camera: str | None = None,
        *,
        stamp_ns: int | None = None,
        frame_id: str = '',
        pose: Pose | None = None,
    ) -> FrameReceipt:
        """Take in one frame: uint8 [height, width, 3], RGB, with its time in s or in ns.

        A stamp earlier than the one before is noted, and the frame kept in the order of arrival.
        Raises ImageFormatError, ConfigError (unknown camera, no stamp) or NumericError, or what the
        model raises; the memory is then what it was.
        """
        started = time.perf_counter()
        rgb = checked_rgb(rgb)
        keeper = self._camera(camera)
        when_ns = _stamp_ns(stamp, stamp_ns)
        with torch.inference_mode():
            embeddings = checked(self.model.encode([rgb], self.frame_size_px), 'a picture')
            novelty = self._novelty(keeper, embeddings)
            frame = self._next_frame
            spent, compressed = 0.0, False
            if keeper.buffer.capacity == 0:
                compressed, spent = self._remember(keeper, frame, embeddings)
            elif keeper.buffer.full:
                compressed, spent = self._remember(keeper, *keeper.buffer.oldest())
        # Nothing below can fail: this is where the frame becomes part of the memory.
        keeper.buffer.push(frame, embeddings)
        keeper.instant_valid = False
        keeper.last_features = embeddings
        went_back = keeper.newest_stamp_ns is not None and when_ns < keeper.newest_stamp_ns
        self._stamps_gone_back += went_back
        keeper.newest_stamp_ns = when_ns
        keeper.frames_seen += 1
        self._next_frame += 1
        kept = float(self._sizes.tokens_per_frame)
        self._table.add(frame, when_ns, keeper.index, frame_id, pose, kept, went_back, rgb)
        if compressed:
            self._retain_rows(keeper)
        total = time.perf_counter() - started
        return FrameReceipt(frame, compressed, novelty, spent, total, went_back)

    def _remember(
        self, camera: CameraMemory, frame: int, embeddings: Tensor
    ) -> tuple[bool, float]:
        """Move a frame into the cumulative cache, compressing it first where it is full."""
        usable = self._compression.usable(camera)
        recent = self._compression.recent_frames(usable)
        choice, spent = None, 0.0
        if self._compression.needed(camera):
            started = time.perf_counter()
            choice = self._compression.choose(camera, self._compression.target(usable))
            spent = time.perf_counter() - started
        newest = int(camera.past.frames[0, 0, -1]) if choice else camera.judged_until
        self._build.append(camera, frame, embeddings, recent, choice)
        if choice is not None:
            camera.compressions += 1
            camera.judged_until = newest
        return choice is not None, spent

    @staticmethod
    def _novelty(camera: CameraMemory, embeddings: Tensor) -> float:
        """Return the mean of 1 - cos between a frame's embeddings and the last frame's, per patch."""
        if camera.last_features is None:
            return 1.0
        cos = torch.nn.functional.cosine_similarity(embeddings, camera.last_features, dim=-1)
        return float(1.0 - cos.mean())

    def _retain_rows(self, camera: CameraMemory) -> None:
        """Drop the table rows of frames that have no token left, and count those of the rest."""
        ids, counts = torch.unique(camera.past.frames, return_counts=True)
        caches = camera.past.frame.shape[0] * camera.past.frame.shape[1]
        buffered = camera.buffer.frame_ids
        frames = np.concatenate([ids.cpu().numpy().astype(np.int64), np.asarray(buffered, np.int64)])
        kept = np.concatenate(
            [
                counts.cpu().numpy().astype(np.float32) / caches,
                np.full(len(buffered), self._sizes.tokens_per_frame, np.float32),
            ]
        )
        self._table.retain(camera.index, frames, kept)

    # Questions

    def ask(
        self,
        question: str,
        *,
        cameras: Sequence[str] | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        max_new_tokens: int = 0,
        timeout_s: float = 0.0,
        cancel: Callable[[], bool] | None = None,
        on_token: Callable[[str], None] | None = None,
        history: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """Answer a question about everything seen, without changing the memory.

        Parameters
        ----------
        cameras: names to look at; None or empty is all.
        since_ns, until_ns: only frames stamped in this span are attended to.
        max_new_tokens: at most the configured number; 0 is that number.
        timeout_s: 0 is no deadline; what was generated by then comes back with TIMEOUT.
        cancel, on_token: asked, and told of new text, once a token.
        history: earlier (question, answer) pairs, read again as text before this question.

        What is wrong with a question comes back as a status with a message. Raises NumericError when
        the logits are not finite, and what the model raises; the memory is what it was in every case.
        """
        started = time.perf_counter()
        limits = Limits(
            max_new_tokens=min(max_new_tokens or 10**9, self.config.max_new_tokens),
            deadline_s=time.monotonic() + timeout_s if timeout_s > 0 else float('inf'),
            cancel=cancel,
            on_token=on_token,
        )
        chosen = [self._camera(name) for name in cameras] if cameras else list(self._cameras)
        seen = [camera for camera in chosen if camera.frames_seen]
        fault = self._fault(question, history)
        if fault:
            return self._end(started, chosen, AnswerStatus.BAD_REQUEST, fault)
        if not seen:
            names = ', '.join(camera.name for camera in chosen)
            return self._end(
                started, chosen, AnswerStatus.EMPTY_MEMORY, f'no frame was seen yet by {names}'
            )
        ids = self.model.suffix_ids(question, history)
        with torch.inference_mode():
            return self._answer(started, seen, ids, limits)

    def _fault(self, question: str, history: Sequence[tuple[str, str]]) -> str:
        """Return what is wrong with a question, or nothing."""
        if not question.strip():
            return 'the question is empty'
        # A token is at most some characters, so a text far too long need not be tokenised.
        limit = self.config.max_question_tokens
        characters = len(question) + sum(len(q) + len(a) for q, a in history)
        if characters > 64 * limit:
            return f'the question has {characters} characters: max_question_tokens is {limit}'
        tokens = len(self.model.suffix_ids(question, history)) - self._sizes.suffix_tokens
        if tokens > limit:
            return f'the question has {tokens} tokens: max_question_tokens is {limit}'
        return ''

    def _answer(
        self, started: float, cameras: list[CameraMemory], ids: list[int], limits: Limits
    ) -> Answer:
        build = self._build
        pieces = [build.sink_piece(cameras[0])]
        stretches = [Labelled(self._sizes.sink_tokens, None)]
        base = self._sizes.sink_tokens
        for camera in cameras:
            build.build_instant(camera)
            usable = self._compression.usable(camera)
            recent = self._compression.recent_frames(usable)
            piece, following = build.past_piece(camera, base, recent)
            pieces.append(piece)
            stretches.append(Labelled(piece.tokens, camera.past.frames))
            buffered = camera.buffer.frame_ids
            count = len(buffered)
            coordinates = build.scheme.frames(count, base, following)
            pieces.append(Piece(camera.instant, 0, camera.instant.stored_tokens, coordinates))
            stretches.append(Labelled(camera.instant.stored_tokens, self._labels(buffered)))
            base = build.scheme.end(base, build.scheme.following(following, count))
        self._recorder.clear()
        context = Context(
            pieces,
            build.scratch,
            build.rotation,
            build.workspace,
            hold=True,
            recorder=self._recorder,
        )
        decoded = decode(self.model, build.scheme, context, ids, base, limits)
        total = context.context_tokens + context.added
        stretches.append(Labelled(context.added, None))
        attended = attended_frames(self._recorder, stretches, total)
        return self._end(
            started,
            cameras,
            decoded.status,
            _why(decoded.status, len(decoded.ids)),
            text=self.model.text(decoded.ids),
            confidence=_mean(decoded),
            evidence=evidence_list(
                attended, self._table, self.config.cameras, self.config.max_evidence
            ),
            attention_by_frame=attended.mass,
            other_attention=attended.other,
            tokens=len(decoded.ids),
        )

    def _labels(self, frames: list[int]) -> Tensor:
        each = torch.tensor(frames, dtype=torch.int32, device=self.model.shape.device)
        return each.repeat_interleave(self._sizes.tokens_per_frame)[None, None]

    def _end(
        self,
        started: float,
        cameras: list[CameraMemory],
        status: AnswerStatus,
        message: str,
        text: str = '',
        **found: Any,
    ) -> Answer:
        stamps = [c.newest_stamp_ns for c in cameras if c.newest_stamp_ns is not None]
        return Answer(
            text=text,
            status=status,
            message=message,
            frames_seen=sum(camera.frames_seen for camera in cameras),
            newest_stamp_ns=max(stamps, default=0),
            latency_s=time.perf_counter() - started,
            **found,
        )

    def describe(self, prompt: str = DESCRIBE_PROMPT, **options: Any) -> Answer:
        """Describe what is seen now: `ask` with a fixed prompt."""
        return self.ask(prompt, **options)

    # What is held

    def status(self) -> MemoryStatus:
        """Return bytes, tokens and counts; the bytes are those of the storage really held."""
        parts = self._bytes_by_part()
        rows = self._table.rows
        stamps = rows['stamp_ns']
        span_s = float(stamps.max() - stamps.min()) / 1e9 if len(rows) else 0.0
        held = sum(c.past.stored_tokens for c in self._cameras)
        buffered = sum(len(c.buffer.frame_ids) for c in self._cameras)
        tokens = held + buffered * self._sizes.tokens_per_frame
        return MemoryStatus(
            budget_bytes=self.plan.budget_bytes,
            held_bytes=sum(parts.values()),
            capacity_tokens=sum(self.plan.camera_tokens)
            + len(self._cameras) * self._sizes.instant_tokens,
            held_tokens=tokens,
            tokens_per_frame=self._sizes.tokens_per_frame,
            frames_seen=sum(camera.frames_seen for camera in self._cameras),
            frames_kept=len(rows),
            compressions=sum(camera.compressions for camera in self._cameras),
            oldest_stamp_ns=int(stamps.min()) if len(rows) else 0,
            newest_stamp_ns=int(stamps.max()) if len(rows) else 0,
            stamps_gone_back=self._stamps_gone_back,
            policy=self.config.policy,
            model=self.model.name,
            bytes_by_part=parts,
            tokens_per_minute=tokens / (span_s / 60.0) if span_s > 0 else 0.0,
        )

    def _bytes_by_part(self) -> dict[str, int]:
        build, cameras = self._build, self._cameras
        past = sum(camera.past.nbytes for camera in cameras)
        row = 2 * build.scratch.keys[0][0, 0].nbytes * len(build.scratch.keys)
        sinks = row * self.model.shape.kv_heads * self._sizes.sink_tokens * len(cameras)
        labels = sum(c.past.frame.nbytes + c.past.patch.nbytes for c in cameras)
        return {
            'sinks': sinks,
            'cumulative': past - sinks - labels,
            'provenance': labels,
            'instant': sum(camera.instant.nbytes for camera in cameras),
            'features': sum(camera.buffer.nbytes for camera in cameras),
            'text': build.scratch.nbytes,
            'workspace': build.workspace.nbytes,
            'evidence': self._recorder.nbytes,
            'rotation': build.rotation.nbytes,
            'frame_table': self._table.nbytes,
            'thumbnails': self._table.thumbnail_nbytes,
        }

    def frames(self) -> list[KeptFrame]:
        """Return the frames of which something is kept, oldest first."""
        return [
            self._table.describe(index, self.config.cameras) for index in range(len(self._table))
        ]

    def retained(self, frame: int | None = None) -> npt.NDArray[np.float32]:
        """Return, for each patch [rows, columns] of a frame, the share of caches that hold it.

        A cache is one head of one layer. None is the newest frame; one that is still in the feature
        buffer is held whole.
        """
        rows, columns = self._build.scheme.grid
        wanted = self._next_frame - 1 if frame is None else frame
        if any(wanted in camera.buffer.frame_ids for camera in self._cameras):
            return np.ones((rows, columns), np.float32)
        shares = np.zeros(rows * columns, np.float32)
        for camera in self._cameras:
            here = camera.past.frames == wanted
            patches = camera.past.patches[here].cpu().numpy()
            caches = here.shape[0] * here.shape[1]
            shares += np.bincount(patches, minlength=rows * columns).astype(np.float32) / caches
        return shares.reshape(rows, columns)

    def reset(self) -> None:
        """Forget every frame; nothing is freed or allocated."""
        for camera in self._cameras:
            camera.clear()
        self._table.clear()
        self._next_frame = 0
        self._stamps_gone_back = 0


def _stamp_ns(stamp: float | None, stamp_ns: int | None) -> int:
    """Return one time in integer nanoseconds."""
    if (stamp is None) == (stamp_ns is None):
        raise ConfigError('give a frame either stamp (seconds) or stamp_ns (nanoseconds)')
    when = stamp_ns if stamp_ns is not None else round(float(stamp or 0.0) * 1e9)
    if not -(2**63) <= when < 2**63:
        raise ConfigError(f'a stamp of {when} ns does not fit 64 bits')
    return int(when)


def _mean(decoded: Decoded) -> float:
    values = decoded.probabilities
    return sum(values) / len(values) if values else 0.0


def _why(status: AnswerStatus, tokens: int) -> str:
    if status is AnswerStatus.TIMEOUT:
        return f'the deadline passed after {tokens} tokens'
    if status is AnswerStatus.CANCELLED:
        return f'cancelled after {tokens} tokens'
    return ''
