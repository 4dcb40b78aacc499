# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Which streams of the demo world a benchmark runs, and what it asks in them.

Everything here follows from setting, seed and length alone, so every policy sees the same frames
and gets the same questions at the same times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from infinipot_ros.demo.questions import make_question, Question, Sightings
from infinipot_ros.demo.world import Drive, SEEN_FRACTION, SETTINGS
from infinipot_ros.errors import ConfigError
import numpy as np

# Seeds that reports are made from, and seeds that anyone may look at while changing something.
REPORT_SEED = 9_000_000
TUNING_SEED = 7_000_000
MAX_STREAMS = 100_000

# Questions of one asking time: family, kind (None: any), how many different ones at most.
QUESTIONS: tuple[tuple[str, str | None, int], ...] = (
    ('colour', 'seen', 4), ('colour', 'never', 1), ('shape', 'seen', 2),
    ('did', 'yes', 2), ('did', 'yes-shared', 1), ('did', 'no', 1), ('did', 'no-recombined', 2),
    ('now', None, 1), ('see', None, 1), ('where', None, 1), ('first', 'seen', 1),
)
# A draw may repeat a question; more draws than this find hardly another one.
_DRAWS = 6


@dataclass(frozen=True)
class Stream:
    """One drive through the demo world and when questions are asked, in frames."""

    setting: str
    seed: int
    num_frames: int = 240
    first_ask: int = 59
    ask_every: int = 45

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if self.setting not in SETTINGS:
            raise ConfigError(f'settings: there is no {self.setting!r}; use {", ".join(SETTINGS)}')
        if self.num_frames < 2 or self.ask_every < 1:
            raise ConfigError(
                f'frames is {self.num_frames}, ask-every {self.ask_every}: give at least 2 and 1')

    @cached_property
    def ask_times(self) -> list[int]:
        """Return the frames after which questions are asked; the last frame is one of them."""
        last = self.num_frames - 1
        times = list(range(min(self.first_ask, last), last, self.ask_every))
        # A time just before the last one would ask the same again.
        while times and last - times[-1] < self.ask_every // 2:
            times.pop()
        return [*times, last]

    def drive(self) -> Drive:
        """Build the drive."""
        return Drive(self.seed, self.setting, self.num_frames)


def make_streams(
    setting: str, count: int, num_frames: int, tuning: bool = False, ask_every: int = 45,
) -> list[Stream]:
    """Return `count` streams of a setting, from the reporting seeds or from the tuning seeds."""
    if not 1 <= count <= MAX_STREAMS:
        raise ConfigError(f'streams is {count}: give a number from 1 to {MAX_STREAMS}')
    first = TUNING_SEED if tuning else REPORT_SEED
    return [Stream(setting, first + k, num_frames, min(59, num_frames // 4), ask_every)
            for k in range(count)]


def questions_of(stream: Stream, drive: Drive) -> dict[int, list[Question]]:
    """Return the questions of every asking time: all different, and the same in every run."""
    asked: dict[int, list[Question]] = {}
    sightings = Sightings()
    times = set(stream.ask_times)
    for index in range(stream.num_frames):
        sightings.add(drive.visible(index))
        if index in times:
            rng = np.random.default_rng([stream.seed, SETTINGS.index(stream.setting), index])
            asked[index] = _draw(sightings, rng)
    return asked


def _draw(sightings: Sightings, rng: np.random.Generator) -> list[Question]:
    chosen: dict[str, Question] = {}
    for family, kind, count in QUESTIONS:
        wanted = len(chosen) + count
        for _ in range(_DRAWS * count):
            question = make_question(family, sightings, rng, kind)
            if question is not None:
                chosen.setdefault(question.text, question)
            if len(chosen) == wanted:
                break
    return list(chosen.values())


def frames_showing(question: Question, drive: Drive) -> frozenset[int]:
    """Return the frames up to the question that show what it asks about, for its evidence."""
    if question.thing is None:
        return frozenset()
    return frozenset(
        index for index in range(question.asked_at + 1)
        if any(item.thing == question.thing and item.fraction >= SEEN_FRACTION
               for item in drive.visible(index)))


def draw_frames(drive: Drive) -> Sequence[np.ndarray]:
    """Draw every frame of a drive, each uint8 [112, 112, 3]."""
    return [drive.frame(index).rgb for index in range(drive.num_frames)]
