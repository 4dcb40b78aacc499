# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Follow a pose topic, whichever of three message types it carries."""

from __future__ import annotations

from typing import Any

from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from infinipot_ros.node.camera import sensor_qos
from infinipot_ros.node.guarding import guarded, Throttle
from infinipot_ros.node.pose_history import pose_of, PoseHistory
from infinipot_ros.node.topics import subscribing
from nav_msgs.msg import Odometry
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos_overriding_options import QoSOverridingOptions

_TYPES = {'nav_msgs/msg/Odometry': Odometry, 'geometry_msgs/msg/PoseStamped': PoseStamped,
          'geometry_msgs/msg/PoseWithCovarianceStamped': PoseWithCovarianceStamped}
LOOK_EVERY_S = 0.5


class PoseSource:
    """Wait for a publisher, subscribe with its type, and fill a history."""

    def __init__(self, node: Node, topic: str) -> None:
        """Begin to look for publishers."""
        self.history = PoseHistory()
        self.received = 0
        self._node = node
        self._logger = node.get_logger()
        self._warn = Throttle(self._logger, 'warning')
        self._topic = node.resolve_topic_name(topic)
        self._name = topic
        self._group = MutuallyExclusiveCallbackGroup()
        self._subscription: Any = None
        self._timer = node.create_timer(
            LOOK_EVERY_S, guarded(self._look, self._logger), callback_group=self._group,
            clock=Clock(clock_type=ClockType.STEADY_TIME))
        try:
            self._look()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_timer(self._timer)
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)

    def _look(self) -> None:
        kinds = {info.topic_type for info in self._node.get_publishers_info_by_topic(self._topic)}
        known = [kind for kind in _TYPES if kind in kinds]
        if known:
            self._timer.cancel()
            with subscribing(self._node, 'pose_topic', self._name):
                self._subscription = self._node.create_subscription(
                    _TYPES[known[0]], self._name, guarded(self._on_pose, self._logger),
                    sensor_qos(depth=100), callback_group=self._group,
                    qos_overriding_options=QoSOverridingOptions.with_default_policies())
        elif kinds:
            self._warn('type', f'pose_topic {self._topic} carries {", ".join(sorted(kinds))}; it '
                               f'has to be one of {", ".join(_TYPES)}. Frames have no pose')

    def _on_pose(self, message: Any) -> None:
        stamp_ns, pose = pose_of(message)
        if stamp_ns <= 0:
            stamp_ns = self._node.get_clock().now().nanoseconds
        self.history.add(stamp_ns, pose)
        self.received += 1
