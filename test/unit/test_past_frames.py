# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The frames of the retained sheet show the past, and their pictures are still there by then."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from infinipot_ros.memory.records import KeptFrame
from infinipot_ros.node.past_frames import ago, pictured, shown
import pytest

WHOLE = 16


def kept(*tokens: float) -> list[KeptFrame]:
    """Return frames 0, 1, ... with so many kept tokens each."""
    return [KeptFrame(frame=number, stamp_ns=number, camera='camera', frame_id='', pose=None,
                      kept_tokens=count, stamp_went_back=False)
            for number, count in enumerate(tokens)]


def numbers(frames: list[KeptFrame]) -> list[int]:
    return [frame.frame for frame in frames]


def test_the_newest_comes_first_and_then_the_thinned_past_in_order_of_time() -> None:
    frames = kept(3, 9, 1, 7, *[WHOLE] * 20)
    assert numbers(shown(frames, WHOLE, 12)) == [23, 0, 1, 2, 3]
    assert numbers(shown(frames, WHOLE, 4)) == [23, 0, 1, 3]


def test_before_the_first_compression_the_sheet_spans_all_of_the_past() -> None:
    assert numbers(shown(kept(*[WHOLE] * 41), WHOLE, 5)) == [40, 9, 19, 29, 39]
    assert numbers(shown(kept(*[WHOLE] * 3), WHOLE, 12)) == [2, 0, 1]


def test_equal_shares_are_no_reason_to_show_the_oldest_only() -> None:
    assert numbers(shown(kept(2, 2, 2, 2, WHOLE), WHOLE, 3)) == [4, 2, 3]


def test_frames_of_one_moment_do_not_crowd_out_the_rest_of_the_past() -> None:
    frames = kept(*[4] * 10, *[9] * 12, *[3] * 8, WHOLE)
    chosen = numbers(shown(frames, WHOLE, 6))
    gaps = [later - earlier for earlier, later in pairwise(chosen[1:])]
    assert len(chosen) == 6 and min(gaps) >= 5 and chosen[1] < 5 and chosen[-1] > 20
    assert 21 in chosen, 'the best of all is there'
    both = [replace(frame, camera=name, frame=2 * frame.frame + half)
            for frame in kept(5, 5, WHOLE) for half, name in enumerate(('front', 'rear'))]
    assert numbers(shown(both, WHOLE, 5)) == [5, 0, 1, 2, 3], 'cameras see different things'
    still = [replace(frame, stamp_ns=7) for frame in kept(5, 6, 7, WHOLE)]
    assert numbers(shown(still, WHOLE, 3)) == [3, 1, 2], 'equal stamps'


@pytest.mark.parametrize('frames', [[], kept(WHOLE), kept(0.5)])
def test_a_memory_of_no_frame_or_one(frames: list[KeptFrame]) -> None:
    assert shown(frames, WHOLE, 12) == frames
    assert pictured(frames, WHOLE, 12) == frames


def test_whole_frames_do_not_crowd_the_pictures_of_the_past_out() -> None:
    frames = kept(*[2.0] * 30, *[WHOLE] * 500)
    chosen = numbers(pictured(frames, WHOLE, 48))
    assert len(chosen) == len(set(chosen)) == 48
    assert sum(number < 30 for number in chosen) == 24
    gaps = [later - earlier for earlier, later in pairwise(chosen[24:])]
    assert chosen[-1] == 529 and max(gaps) <= 21


def test_places_that_whole_frames_do_not_need_go_to_the_past() -> None:
    assert numbers(pictured(kept(*[2.0] * 30, WHOLE), WHOLE, 20)) == [*range(11, 31)]


@pytest.mark.parametrize(('seconds', 'words'), [
    (0.01, 'now'), (17.64, '17.6 s ago'), (59.94, '59.9 s ago'), (60.0, '1 min 00 s ago'),
    (3599.0, '59 min 59 s ago'), (3600.0, '1 h 00 min ago'), (90_061.0, '25 h 01 min ago'),
    (-2.0, '2.0 s later')])
def test_ages_are_told_in_units_of_their_size(seconds: float, words: str) -> None:
    assert ago(seconds) == words
