# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Sampling by stamp: the wanted rate, late frames, jumps of time, stamps that mean nothing."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from infinipot_ros.node.sampling import Sampler, SECOND_NS, usable_stamp, Verdict
import pytest

START = 1_700_000_000 * SECOND_NS


def taken(stamps: list[int], fps: float) -> list[int]:
    sampler = Sampler()
    return [s for s in stamps if sampler.judge(s, fps) in (Verdict.DUE, Verdict.JUMPED_BACK)]


@settings(max_examples=60, deadline=None)
@given(camera_fps=st.sampled_from([5, 10, 15, 29.97, 30, 60]), fps=st.floats(0.2, 5.0),
       jitter_ms=st.integers(0, 3), seed=st.integers(0, 99))
def test_the_rate_is_the_wanted_one(camera_fps: float, fps: float, jitter_ms: int,
                                    seed: int) -> None:
    noise = random.Random(seed)
    stamps = sorted(START + int(i * SECOND_NS / camera_fps) + noise.randint(0, jitter_ms * 10**6)
                    for i in range(int(60 * camera_fps)))
    assert len(taken(stamps, fps)) == pytest.approx(60 * fps, abs=2 + 60 * fps * 0.02)


def test_a_camera_at_exactly_the_wanted_rate_loses_nothing() -> None:
    noise = random.Random(1)
    stamps = [START + i * SECOND_NS // 2 + noise.randint(-20, 20) * 10**6 for i in range(100)]
    assert taken(stamps, 2.0) == stamps


def test_after_a_gap_the_next_frame_is_due_and_none_are_made_up_for() -> None:
    stamps = [START, START + 10 * SECOND_NS, START + 10 * SECOND_NS + SECOND_NS // 10,
              START + 11 * SECOND_NS]
    assert taken(stamps, 1.0) == [stamps[0], stamps[1], stamps[3]]


def test_late_is_told_from_jumped_back() -> None:
    sampler = Sampler()
    assert sampler.judge(START, 1.0) is Verdict.DUE
    assert sampler.judge(START + 100, 1.0) is Verdict.EARLY
    assert sampler.judge(START - SECOND_NS // 2, 1.0) is Verdict.LATE
    assert sampler.judge(START - 50 * SECOND_NS, 1.0) is Verdict.JUMPED_BACK
    assert sampler.judge(START - 49 * SECOND_NS, 1.0) is Verdict.DUE


def test_one_stamp_again_and_again_is_one_frame() -> None:
    sampler = Sampler()
    assert [sampler.judge(START, 60.0) for _ in range(5)] == [Verdict.DUE] + [Verdict.EARLY] * 4
    assert not sampler.wants_newest(START, 60.0)
    assert sampler.judge(START + SECOND_NS, 60.0) is Verdict.DUE


def test_a_raised_rate_applies_at_once() -> None:
    sampler = Sampler()
    assert sampler.judge(START, 0.01) is Verdict.DUE
    assert sampler.judge(START + SECOND_NS, 0.01) is Verdict.EARLY
    assert sampler.judge(START + 2 * SECOND_NS, 2.0) is Verdict.DUE


def test_a_question_takes_the_newest_frame_unless_it_has_been_taken() -> None:
    sampler = Sampler()
    sampler.judge(START, 1.0)
    assert not sampler.wants_newest(START, 1.0)
    assert not sampler.wants_newest(START + SECOND_NS // 10, 1.0)
    assert sampler.wants_newest(START + SECOND_NS // 2, 1.0)
    assert not sampler.wants_newest(START + SECOND_NS // 2, 1.0)
    assert sampler.judge(START + SECOND_NS, 1.0) is Verdict.DUE


@pytest.mark.parametrize(('stamp', 'now', 'usable', 'words'), [
    (START, START, START, ''),
    (START - 10**18, START, START - 10**18, ''),
    (0, START, START, 'no stamp'),
    (-5, START, START, 'no stamp'),
    (START + 3600 * SECOND_NS, START, START, '3600 s ahead'),
    (START, 0, START, ''),
])
def test_stamps_that_mean_nothing(stamp: int, now: int, usable: int, words: str) -> None:
    value, problem = usable_stamp(stamp, now)
    assert value == usable
    assert (words in problem) if words else not problem
