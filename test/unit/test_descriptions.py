# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The scene is described by time and by novelty, never both at once, and not of an old picture."""

from __future__ import annotations

from infinipot_ros.node import descriptions
from infinipot_ros.node.descriptions import Descriptions
import pytest


class Clock:
    """A steady clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(descriptions, 'time', clock)
    return clock


def test_a_period_counts_from_the_last_and_needs_a_picture(clock: Clock) -> None:
    begun: list[float] = []
    scene = Descriptions({'describe.period_s': 5.0, 'describe.novelty': 0.0},
                         lambda: begun.append(clock.now))
    for pictures, now in enumerate((104.0, 105.0, 106.0, 110.0, 112.0)):
        clock.now = now
        scene.in_time(pictures)
        scene.on_novelty(2.0)
    assert begun == [105.0, 110.0]
    clock.now = 120.0
    scene.in_time(3)
    assert begun == [105.0, 110.0], 'no picture since then'
    scene.restart()
    clock.now = 124.0
    scene.in_time(9)
    assert begun == [105.0, 110.0]


def test_what_is_new_enough_is_described_and_puts_off_the_period(clock: Clock) -> None:
    begun: list[float] = []
    parameters = {'describe.period_s': 5.0, 'describe.novelty': 0.3}
    scene = Descriptions(parameters, lambda: begun.append(clock.now))
    for now, novelty in ((101.0, 1.0), (103.0, 0.2), (103.0, 0.3), (104.0, 1.0)):
        clock.now = now
        scene.on_novelty(novelty)
    assert begun == [103.0], 'once in two seconds at most'
    clock.now = 107.0
    scene.in_time(1)
    assert begun == [103.0]
    parameters['describe.period_s'] = 0.0
    clock.now = 200.0
    scene.in_time(2)
    assert begun == [103.0]
