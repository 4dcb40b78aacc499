# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where the robot was when a frame was taken. Nothing here imports ROS."""

from __future__ import annotations

import bisect
import math
import threading
from typing import Any, TYPE_CHECKING

from infinipot_ros.node.sampling import JUMP_NS, SECOND_NS

if TYPE_CHECKING:
    from infinipot_ros.memory import Pose

LENGTH_NS = 10 * SECOND_NS
# a pose further from the stamp than this says nothing about it
NEAR_NS = SECOND_NS // 2
LENGTH = 2000


class PoseHistory:
    """Keep the last seconds of poses, and give the one at a stamp."""

    def __init__(self) -> None:
        """Start empty."""
        self._stamps: list[int] = []
        self._poses: list[Pose] = []
        self._lock = threading.Lock()

    def add(self, stamp_ns: int, pose: Pose) -> None:
        """Take note of a pose; one from before the last jump of time back is forgotten."""
        if not all(map(math.isfinite, (*pose.position, *pose.orientation))):
            return
        with self._lock:
            if self._stamps and stamp_ns < self._stamps[-1] - JUMP_NS:
                self._stamps.clear()
                self._poses.clear()
            place = bisect.bisect_right(self._stamps, stamp_ns)
            self._stamps.insert(place, stamp_ns)
            self._poses.insert(place, pose)
            old = bisect.bisect_left(self._stamps, self._stamps[-1] - LENGTH_NS)
            old = max(old, len(self._stamps) - LENGTH)
            del self._stamps[:old], self._poses[:old]

    def at(self, stamp_ns: int) -> Pose | None:
        """Return the pose at a stamp, between the two around it; None if none is near."""
        with self._lock:
            place = bisect.bisect_left(self._stamps, stamp_ns)
            around = [(self._stamps[i], self._poses[i]) for i in (place - 1, place)
                      if 0 <= i < len(self._stamps) and abs(self._stamps[i] - stamp_ns) <= NEAR_NS]
        if not around:
            return None
        if len(around) == 1 or around[0][1].frame_id != around[1][1].frame_id:
            return min(around, key=lambda entry: abs(entry[0] - stamp_ns))[1]
        (before_ns, before), (after_ns, after) = around
        share = (stamp_ns - before_ns) / max(1, after_ns - before_ns)
        return _between(before, after, share)


def pose_of(message: Any) -> tuple[int, Pose]:
    """Return stamp and pose of an Odometry, PoseStamped or PoseWithCovarianceStamped."""
    from infinipot_ros.memory import Pose  # torch comes with it, so not before it is needed
    inner = message.pose.pose if hasattr(message.pose, 'pose') else message.pose
    at, turn = inner.position, inner.orientation
    stamp = message.header.stamp
    return stamp.sec * SECOND_NS + stamp.nanosec, Pose(
        message.header.frame_id, (at.x, at.y, at.z), (turn.x, turn.y, turn.z, turn.w))


def _between(before: Pose, after: Pose, share: float) -> Pose:
    position = tuple(a + share * (b - a)
                     for a, b in zip(before.position, after.position, strict=True))
    # q and -q are one rotation: go the short way
    dot = sum(a * b for a, b in zip(before.orientation, after.orientation, strict=True))
    sign = 1.0 if dot >= 0 else -1.0
    turn = [a + share * (sign * b - a)
            for a, b in zip(before.orientation, after.orientation, strict=True)]
    length = math.sqrt(sum(part * part for part in turn))
    if length < 1e-9:
        return before
    x, y, z, w = (part / length for part in turn)
    return type(before)(before.frame_id, (position[0], position[1], position[2]), (x, y, z, w))
