# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Who publishes on the topic of a camera, and where else there are pictures."""

from __future__ import annotations

from difflib import SequenceMatcher
import math
import time

from rclpy.node import Node
from rclpy.topic_endpoint_info import TopicEndpointInfo

# so long one look at the graph serves all who ask: the log and the diagnostics, once a second
FRESH_S = 0.5
# one that was killed is still announced for some 20 s
SEVERAL_AFTER_S = 30.0
STATUS = 'infinipot_ros/msg/MemoryStatus'
RAW, COMPRESSED = 'sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage'


class Publishers:
    """Look at the ROS graph around one topic; to be asked about once a second."""

    def __init__(self, node: Node, topic: str) -> None:
        """Look at nothing yet; `topic` is the full name."""
        self._node = node
        self._topic = topic
        self._several_since: float | None = None
        self._looked = -math.inf
        self._found: list[TopicEndpointInfo] = []
        self._others: list[str] | None = None

    def names(self) -> list[str]:
        """Return the nodes that publish on the topic, one that does so twice twice."""
        return sorted(f"{info.node_namespace.rstrip('/')}/{info.node_name}"
                      for info in self._look())

    def rivals(self) -> list[str]:
        """Return `names` if they have been several for a while."""
        names, now = self.names(), time.monotonic()
        if len(names) < 2:
            self._several_since = None
            return []
        self._several_since = now if self._several_since is None else self._several_since
        return names if now - self._several_since >= SEVERAL_AFTER_S else []

    def kinds(self) -> list[str]:
        """Return the types of message that are published on the topic."""
        return sorted({info.topic_type for info in self._look()})

    def elsewhere(self) -> list[str]:
        """Return the other topics of cameras that have a publisher, those of like names first."""
        self._look()
        if self._others is None:
            topics = self._node.get_topic_names_and_types()
            # what a memory draws is no camera's
            drawn = tuple(
                name.removesuffix('memory_status') + picture for name, kinds in topics
                if STATUS in kinds for picture in ('retained', 'evidence/'))
            found = [name for name, kinds in topics
                     if {RAW, COMPRESSED} & set(kinds) and not name.startswith(drawn)
                     and name != self._topic and self._node.count_publishers(name)]
            self._others = sorted(found, key=lambda name: (-self._likeness(name), name))
        return self._others

    def _likeness(self, name: str) -> float:
        return SequenceMatcher(None, name, self._topic).ratio()

    def _look(self) -> list[TopicEndpointInfo]:
        now = time.monotonic()
        if now - self._looked > FRESH_S:
            self._found = self._node.get_publishers_info_by_topic(self._topic)
            self._looked, self._others = now, None
        return self._found
