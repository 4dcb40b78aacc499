# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The pose at a frame's stamp, from a short history."""

from __future__ import annotations

import math
from types import SimpleNamespace

from infinipot_ros.memory.records import Pose
from infinipot_ros.node.pose_history import LENGTH, pose_of, PoseHistory
from infinipot_ros.node.sampling import SECOND_NS
import pytest

START = 1_700_000_000 * SECOND_NS


def pose(x: float, heading: float = 0.0, frame_id: str = 'odom') -> Pose:
    return Pose(frame_id, (x, 0.0, 0.0), (0.0, 0.0, math.sin(heading / 2), math.cos(heading / 2)))


def test_between_two_poses_is_between_them_and_turns_the_short_way() -> None:
    history = PoseHistory()
    history.add(START, pose(1.0, math.radians(170)))
    history.add(START + SECOND_NS // 10, pose(2.0, math.radians(-170)))
    found = history.at(START + SECOND_NS // 20)
    assert found is not None
    assert found.position == pytest.approx((1.5, 0.0, 0.0))
    heading = 2 * math.atan2(found.orientation[2], found.orientation[3])
    assert abs(heading) == pytest.approx(math.pi)
    assert math.hypot(*found.orientation) == pytest.approx(1.0)


def test_far_from_every_pose_there_is_none() -> None:
    history = PoseHistory()
    assert history.at(START) is None
    history.add(START, pose(1.0))
    assert history.at(START + SECOND_NS // 4) == pose(1.0)
    assert history.at(START + SECOND_NS) is None
    assert history.at(START - SECOND_NS) is None


def test_frames_of_different_maps_are_not_mixed() -> None:
    history = PoseHistory()
    history.add(START, pose(1.0, frame_id='map'))
    history.add(START + 100, pose(9.0, frame_id='odom'))
    assert history.at(START + 30) == pose(1.0, frame_id='map')


def test_late_poses_are_sorted_in_and_time_that_jumps_back_starts_anew() -> None:
    history = PoseHistory()
    history.add(START + SECOND_NS, pose(2.0))
    history.add(START + SECOND_NS // 2, pose(1.0))
    found = history.at(START + SECOND_NS * 3 // 4)
    assert found is not None and found.position[0] == pytest.approx(1.5)
    history.add(START - 60 * SECOND_NS, pose(7.0))
    assert history.at(START + SECOND_NS) is None
    assert history.at(START - 60 * SECOND_NS) == pose(7.0)


def test_the_history_is_bounded_and_takes_no_nan() -> None:
    history = PoseHistory()
    for i in range(LENGTH + 500):
        history.add(START + i, pose(float(i)))
    assert len(history._stamps) == len(history._poses) == LENGTH
    history.add(START + 20 * SECOND_NS, pose(math.nan))
    assert history.at(START + 20 * SECOND_NS) is None
    history.add(START + 30 * SECOND_NS, pose(1.0))
    assert len(history._stamps) == 1


def test_all_three_messages_are_read() -> None:
    inner = SimpleNamespace(position=SimpleNamespace(x=1.0, y=2.0, z=3.0),
                            orientation=SimpleNamespace(x=0.0, y=0.0, z=0.0, w=1.0))
    header = SimpleNamespace(frame_id='map', stamp=SimpleNamespace(sec=3, nanosec=7))
    for body in (inner, SimpleNamespace(pose=inner, covariance=[0.0] * 36)):
        stamp_ns, found = pose_of(SimpleNamespace(header=header, pose=body))
        assert stamp_ns == 3 * SECOND_NS + 7
        assert found == Pose('map', (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))
