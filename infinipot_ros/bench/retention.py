# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Run one stream through many memories and grade every answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
import time
from typing import Any

from infinipot_ros.bench.methods import Budget, Method
from infinipot_ros.bench.oracle import OPTION, truth_of
from infinipot_ros.bench.shared_vision import SharedVision
from infinipot_ros.bench.streams import draw_frames, frames_showing, questions_of, Stream
from infinipot_ros.demo.questions import is_abstention, is_right, Question
from infinipot_ros.memory import Answer, AnswerStatus, VideoMemory
from infinipot_ros.memory import budget as memory_budget
from infinipot_ros.memory.model import VisionLanguageModel
import numpy as np


@dataclass(frozen=True)
class Cell:
    """One memory to run on a stream."""

    budget: Budget
    method: Method


@dataclass(frozen=True)
class AnswerRow:
    """
    One graded answer.

    `age` counts frames since the thing was last seen (-1: the question is about no thing).
    `evidence` is 1 where the best evidence frame shows the thing, 0 where not, -1 where no frame
    does.
    """

    setting: str
    seed: int
    budget: str
    method: str
    asked_at: int
    family: str
    kind: str
    age: int
    question: str
    truth: str
    answer: str
    right: int
    abstained: int
    evidence: int
    first_token_ms: float


@dataclass(frozen=True)
class MemoryRow:
    """
    What a memory held and cost up to one asking time; the times are means over its frames.

    `host_bytes` is what it kept in host memory beside `held_bytes`: nothing, unless its policy
    offloads.
    """

    setting: str
    seed: int
    budget: str
    method: str
    frames: int
    capacity_tokens: int
    held_tokens: int
    held_bytes: int
    growing_bytes: int
    compressions: int
    vision_ms: float
    frame_ms: float
    compression_ms: float
    host_bytes: int = 0


@dataclass(frozen=True)
class StreamResult:
    """All rows of one stream."""

    answers: list[AnswerRow]
    memory: list[MemoryRow]


def run_stream(model: VisionLanguageModel, stream: Stream, cells: Sequence[Cell]) -> StreamResult:
    """
    Show a stream to every cell's memory, one after the other, and ask what the stream asks.

    Frames are drawn once and encoded once. Raises what a memory raises, naming the cell.
    """
    drive = stream.drive()
    questions = questions_of(stream, drive)
    frames = draw_frames(drive)
    shared = SharedVision(model)
    options = {OPTION: truth_of(drive)}
    showing = {id(question): frames_showing(question, drive)
               for asked in questions.values() for question in asked}
    result = StreamResult([], [])
    for cell in cells:
        run = _Run(shared, stream, cell, options)
        for index, rgb in enumerate(frames):
            run.show(rgb, index / drive.fps)
            if index in questions:
                result.memory.append(run.measure())
                for question in questions[index]:
                    result.answers.append(run.ask(question, showing[id(question)]))
    return result


class _Run:
    """One memory on its way through a stream."""

    def __init__(
        self, model: SharedVision, stream: Stream, cell: Cell, options: dict[str, Any],
    ) -> None:
        self._stream, self._cell, self._model = stream, cell, model
        rows, columns = model.grid(model.default_frame_size_px)
        self._frame_tokens = rows * columns
        tokens = cell.budget.of(stream.num_frames * self._frame_tokens)
        shape = model.shape
        # What a cache that keeps everything would hold: keys and values of every token.
        self._token_bytes = (
            2 * shape.layers * shape.kv_heads * shape.head_dim * shape.dtype.itemsize)
        with few_frames_allowed():
            self._memory = VideoMemory(model, cell.method.config(tokens, options))
        self._index_of: dict[int, int] = {}
        self._total_s = self._compression_s = 0.0

    def show(self, rgb: np.ndarray, stamp: float) -> None:
        vision_s = self._model.vision_s
        receipt = self._memory.add_frame(rgb, stamp=stamp)
        self._index_of[receipt.frame_id] = len(self._index_of)
        # Only the first memory of a stream encodes; what that costs is told apart.
        self._total_s += receipt.total_s - (self._model.vision_s - vision_s)
        self._compression_s += receipt.compression_s

    def measure(self) -> MemoryRow:
        status = self._memory.status()
        seen = len(self._index_of)
        return MemoryRow(
            self._stream.setting, self._stream.seed, self._cell.budget.text,
            self._cell.method.name, seen, status.capacity_tokens, status.held_tokens,
            status.held_bytes, seen * self._frame_tokens * self._token_bytes,
            status.compressions, round(self._model.vision_s / self._model.encoded * 1e3, 3),
            round(self._total_s / seen * 1e3, 3), round(self._compression_s / seen * 1e3, 4),
            status.host_bytes)

    def ask(self, question: Question, showing: frozenset[int]) -> AnswerRow:
        start = time.perf_counter()
        first_s: list[float] = []

        def on_token(_: str) -> None:
            if not first_s:
                first_s.append(time.perf_counter() - start)

        answer = self._memory.ask(question.text, on_token=on_token)
        if answer.status is not AnswerStatus.ANSWERED:
            raise RuntimeError(
                f'{self._cell.method.name} at {self._cell.budget.text} did not answer '
                f'{question.text!r}: {answer.status.value}, {answer.message}')
        return AnswerRow(
            self._stream.setting, self._stream.seed, self._cell.budget.text,
            self._cell.method.name, question.asked_at, question.family, question.kind,
            -1 if question.age_frames is None else question.age_frames, question.text,
            question.answer, answer.text, int(is_right(question, answer.text)),
            int(is_abstention(answer.text)), self._evidence(answer, showing),
            round(first_s[0] * 1e3, 2) if first_s else float('nan'))

    def _evidence(self, answer: Answer, showing: frozenset[int]) -> int:
        if not showing:
            return -1
        best = answer.evidence[0].frame if answer.evidence else -1
        return int(self._index_of.get(best, -1) in showing)


@contextmanager
def few_frames_allowed() -> Iterator[None]:
    """
    Let a memory be smaller than the 8 frames below which a robot's memory is refused.

    The crowd setting needs 4 frames to tell policies apart.
    """
    before = memory_budget.LEAST_FRAMES
    memory_budget.LEAST_FRAMES = 1
    try:
        yield
    finally:
        memory_budget.LEAST_FRAMES = before
