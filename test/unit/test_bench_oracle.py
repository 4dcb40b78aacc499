# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The label oracle keeps a view of every thing before a second view of any, and walls last."""

from infinipot_ros.bench.oracle import NAME, OPTION, truth_of
from infinipot_ros.demo.world import Drive, SEEN_FRACTION
from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.policies import get_policy, LayerView
import pytest
import torch

PATCHES = 16


def view_of(frames: list[int], options: dict) -> LayerView:
    frame = torch.tensor(frames).repeat_interleave(PATCHES).repeat(2, 1)
    patch = torch.arange(PATCHES).repeat(len(frames)).repeat(2, 1)
    rows = torch.ones(2, frame.shape[1], 4)
    return LayerView(rows, rows, frame, patch, (4, 4), options=options)


def kept_frames(drive: Drive, frames: list[int], budget: int) -> set[tuple[int, int]]:
    truth = truth_of(drive)
    view = view_of(frames, {OPTION: truth})
    kept = get_policy(NAME)(view, budget)[0]
    return {(int(view.frame[0, k]), int(view.patch[0, k])) for k in kept}


def test_every_thing_keeps_its_best_view():
    drive = Drive(7_000_001, 'still', 60)
    truth = truth_of(drive)
    kept = kept_frames(drive, list(range(60)), 128)
    for thing in drive.things:
        shown = [index for index in range(60) for item in drive.visible(index)
                 if item.thing == thing and item.fraction >= SEEN_FRACTION]
        if thing.fixture or not shown:
            continue
        best = {(index, patch) for index in shown for patch in range(PATCHES)
                if truth[index, patch] == 0}
        assert best & kept, thing


def test_newest_frame_stays_whole_and_walls_go_first():
    drive = Drive(7_000_002, 'calm', 60)
    truth = truth_of(drive)
    kept = kept_frames(drive, list(range(60)), 64)
    assert {(59, patch) for patch in range(PATCHES)} <= kept
    older = [float(truth[index, patch]) for index, patch in kept if index != 59]
    dropped = [float(truth[index, patch]) for index in range(59) for patch in range(PATCHES)
               if (index, patch) not in kept]
    assert max(older) <= min(dropped)


def test_furniture_comes_after_every_thing_that_is_asked_about():
    drive = Drive(7_000_003, 'still', 60)
    truth = truth_of(drive)
    fixtures = [item for item in drive.visible(0) if item.thing.fixture]
    assert fixtures
    ranks = truth[0]
    shows_thing = ranks < 100_000
    shows_fixture = (ranks >= 100_000) & (ranks < 1_000_000)
    assert shows_fixture.any()
    assert not (shows_thing & shows_fixture).any()


def test_without_the_truth_it_refuses():
    with pytest.raises(ConfigError, match='truth'):
        get_policy(NAME)(view_of([0, 1], {}), 20)


def test_no_robot_can_use_it():
    assert not get_policy(NAME).on_robot
