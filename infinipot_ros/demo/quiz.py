# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Six questions for the demo, by a rule that never looks at an answer.

Three are about the things last seen longest ago, one about something that never was there, two
about what is in view. Which things those are follows from the drive alone.
"""
from __future__ import annotations

from infinipot_ros.demo.questions import make_question, Question, Sightings
from infinipot_ros.demo.things import Thing
from infinipot_ros.demo.world import Drive
import numpy as np

OLD_FRAMES = 48
_DRAWS = 100
# for each question: families and kinds that will do
_WANTED: tuple[tuple[tuple[str, str | None], ...], ...] = (
    (('colour', 'seen'),),
    (('shape', 'seen'), ('colour', 'seen')),
    (('did', 'yes'), ('did', 'yes-shared')),
    (('did', 'no-recombined'), ('did', 'no')),
    (('see', None),),
    (('now', 'yes'), ('now', 'yes-shared')),
)
QUESTIONS = len(_WANTED)


def stopping_frame(drive: Drive, earliest: int) -> int:
    """
    Return the first frame from `earliest` on that shows a thing clearly and no thing in part.

    :raises ValueError: no such frame is left in the drive.
    """
    for index in range(earliest, drive.num_frames):
        visible = drive.visible(index)
        if visible and all(item.fraction == 1.0 for item in visible):
            return index
    raise ValueError(f'no frame from {earliest} on shows things clearly; the drive has '
                     f'{drive.num_frames} frames: take another seed or a longer drive')


def choose_questions(drive: Drive, frame: int, rng: np.random.Generator) -> list[Question]:
    """
    Return six questions to ask after `frame`, the ones about the past first.

    :raises ValueError: the drive has too little in it to ask about.
    """
    sightings = Sightings()
    for index in range(frame + 1):
        sightings.add(drive.visible(index))
    chosen: list[Question] = []
    for wanted in _WANTED:
        drawn = [make_question(family, sightings, rng, kind)
                 for family, kind in wanted for _ in range(_DRAWS)]
        fitting = [question for question in drawn if question is not None]
        if not fitting:
            raise ValueError(f"the drive gives no question of the family '{wanted[0][0]}' at "
                             f'frame {frame}: take another seed')
        asked = {question.thing for question in chosen if question.thing is not None}
        chosen.append(max(fitting, key=lambda question: _rank(question, asked, wanted[0][0])))
    return chosen


def _rank(question: Question, asked: set[Thing], family: str) -> tuple[bool, bool, bool, int]:
    """Prefer a thing not asked about yet, long out of view; then the family; then the oldest."""
    age = question.age_frames or 0
    return question.thing not in asked, age > OLD_FRAMES, question.family == family, age
