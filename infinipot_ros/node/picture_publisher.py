# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Publish RGB pictures the way a ROS camera driver does: raw and compressed, reliably."""
from __future__ import annotations

from array import array
import math
import time
from typing import Any

from builtin_interfaces.msg import Time
from infinipot_ros.node.compressed_images import rgb_to_jpeg
from infinipot_ros.node.images import Rgb
from infinipot_ros.node.topics import check_qos
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

NANOSECONDS = 1_000_000_000
# a publisher knows of a subscription a little before that one listens
SETTLE_S = 0.5


def to_time(stamp_ns: int) -> Time:
    """Turn nanoseconds into a message."""
    return Time(sec=stamp_ns // NANOSECONDS, nanosec=stamp_ns % NANOSECONDS)


class PicturePublisher:
    """Topics `<topic>` (Image, rgb8) and `<topic>/compressed` (CompressedImage, JPEG)."""

    def __init__(self, node: Node, topic: str, frame_id: str, jpeg_quality: int = 90) -> None:
        """
        Create both publishers; reliable, as REP-2003 asks of a driver.

        :raises ConfigError: a QoS override of theirs can be none.
        """
        self._frame_id = frame_id
        self._jpeg_quality = jpeg_quality
        self._there_since = math.inf
        self._raw = _publisher(node, Image, topic)
        self._compressed = _publisher(node, CompressedImage, f'{topic}/compressed')

    def ready(self, subscriptions: int) -> bool:
        """Say whether there have been so many subscriptions, to either topic, for a moment."""
        there = self._raw.get_subscription_count() + self._compressed.get_subscription_count()
        if there < subscriptions:
            self._there_since = math.inf
            return False
        self._there_since = min(self._there_since, time.monotonic())
        return subscriptions == 0 or time.monotonic() - self._there_since > SETTLE_S

    def publish(self, rgb: Rgb, stamp_ns: int, frame_id: str = '') -> None:
        """
        Publish one picture on the topics that somebody listens to.

        :param rgb: uint8 `[height, width, 3]`.
        """
        header = Header(stamp=to_time(stamp_ns), frame_id=frame_id or self._frame_id)
        height, width = rgb.shape[:2]
        if self._raw.get_subscription_count():
            message = Image(header=header, height=height, width=width, encoding='rgb8',
                            is_bigendian=0, step=3 * width, data=_bytes(rgb.tobytes()))
            self._raw.publish(message)
        if self._compressed.get_subscription_count():
            self._compressed.publish(CompressedImage(
                header=header, format='rgb8; jpeg compressed bgr8',
                data=_bytes(rgb_to_jpeg(rgb, self._jpeg_quality))))


def _publisher(node: Node, kind: Any, topic: str) -> Publisher:
    check_qos(node, topic, 'publisher')
    return node.create_publisher(
        kind, topic, QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE),
        qos_overriding_options=QoSOverridingOptions.with_default_policies())


def _bytes(data: bytes) -> array[int]:
    # a message takes an array as it is, and checks anything else element by element
    return array('B', data)
