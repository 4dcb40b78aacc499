# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
One camera topic: choose frames by their stamps, turn them into RGB, and know how the camera is.

The subscription hands over the serialised message. Its stamp is read from the first bytes; only a
frame that is due, or that a question wants to see, is deserialised and converted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import hashlib
import struct
import threading
from typing import Any, TYPE_CHECKING

import cv2
from infinipot_ros.errors import ImageFormatError
from infinipot_ros.node.camera_health import CameraHealth
from infinipot_ros.node.compressed_images import compressed_to_rgb
from infinipot_ros.node.guarding import describe, guarded, kind_of, Throttle
from infinipot_ros.node.images import (
    encoding_note,
    ImageLike,
    ImageRules,
    Rgb,
    SUPPORTED_ENCODINGS,
)
from infinipot_ros.node.publishers import Publishers
from infinipot_ros.node.sampling import Sampler, SECOND_NS, usable_stamp, Verdict
from infinipot_ros.node.work import Frame
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CompressedImage, Image

if TYPE_CHECKING:
    from infinipot_ros.memory import Pose

try:
    from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
except ImportError:  # Humble
    from rclpy.qos_event import SubscriptionEventCallbacks, UnsupportedEventTypeError

# frames wait in a queue: larger ones than a model looks at only fill the RAM
LONGEST_SIDE_PX = 1280
MOST_NOTES = 32
MOST_LOST_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class CameraSetup:
    """
    What a camera is and how its frames are taken.

    :param topic: that is subscribed to, with /compressed where its pictures are.
    :param fps: asked at every frame, so that it can change.
    :param read: turns a raw image into RGB.
    :param pose_at: gives the pose of the robot at a stamp.
    """

    name: str
    topic: str
    compressed: bool
    fps: Callable[[], float]
    rules: Callable[[], ImageRules]
    read: Callable[[ImageLike, ImageRules], Rgb]
    pose_at: Callable[[int], Pose | None]
    offer: Callable[[Frame], None]
    on_jump: Callable[[str], None]


class Camera:
    """Subscribe to one camera and offer the frames that are due."""

    def __init__(self, node: Node, setup: CameraSetup) -> None:
        """Subscribe at once."""
        self.setup = setup
        self.health = CameraHealth()
        self._node = node
        self._logger = node.get_logger()
        self._warn = Throttle(self._logger, 'warning')
        self._notes: set[str] = set()
        self._sampler = Sampler()
        self._lock = threading.Lock()
        self._newest: tuple[int, bytes] | None = None
        self._type = CompressedImage if setup.compressed else Image
        self._subscription = self._subscribe(setup.topic)
        self.publishers = Publishers(node, self.topic)
        reliability = self._subscription.qos_profile.reliability.name.lower().replace('_', ' ')
        self._logger.info(f"camera '{setup.name}': listening to {self.topic} ({reliability})")

    @property
    def topic(self) -> str:
        """Return the topic with namespace and remaps."""
        return str(self._subscription.topic_name)

    @property
    def kind(self) -> str:
        """Return the type of message that is read."""
        return f'sensor_msgs/msg/{self._type.__name__}'

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)

    def newest(self) -> Frame | None:
        """Return the newest frame for a question, if the memory has none as new as that."""
        with self._lock:
            newest, self._newest = self._newest, None
            if newest is None or not self._sampler.wants_newest(newest[0], self.setup.fps()):
                return None
        return self._frame(*newest)

    def simulated(self) -> bool:
        """Say whether the time is that of a simulator or a bag."""
        return bool(self._node.get_parameter('use_sim_time').value)

    def _subscribe(self, topic: str) -> Any:
        options: dict[str, Any] = {
            'qos_profile': sensor_qos(),
            'qos_overriding_options': QoSOverridingOptions.with_default_policies(),
            'callback_group': MutuallyExclusiveCallbackGroup(), 'raw': True}
        callback = guarded(self._on_message, self._logger)
        events = {'incompatible_qos': guarded(self._on_incompatible_qos, self._logger),
                  'message_lost': guarded(self._on_lost, self._logger)}
        while True:
            try:
                return self._node.create_subscription(
                    self._type, topic, callback, **options,
                    event_callbacks=SubscriptionEventCallbacks(**events))
            except UnsupportedEventTypeError:
                # some middlewares know one of them, some none
                if not events:
                    raise
                events.popitem()

    def _on_lost(self, event: Any) -> None:
        # a middleware was seen to tell of 2^31 - 1
        known = 0 < event.total_count_change < MOST_LOST_AT_ONCE
        self.health.lose(event.total_count_change if known else 1)

    def _on_incompatible_qos(self, event: Any) -> None:
        policy = str(getattr(event.last_policy_kind, 'name', event.last_policy_kind))
        self.health.incompatible_qos = policy
        self._logger.warning(
            f"camera '{self.setup.name}': a publisher on {self.topic} offers a {policy} that this "
            f'subscription does not accept, so its images do not arrive; change the publisher, or '
            f'the parameter qos_overrides.{self.topic}.subscription.{policy.lower()}')

    def _on_message(self, raw: bytes) -> None:
        health, now_ns = self.health, self._node.get_clock().now().nanoseconds
        health.arrive(self.setup.fps())
        try:
            stamp_ns, problem = usable_stamp(_stamp_of(raw), now_ns)
        except ImageFormatError as error:
            self._refuse(None, error)
            return
        health.delay_s = max(0.0, (now_ns - stamp_ns) / SECOND_NS)
        if problem:
            self._note(kind_of(problem), f"camera '{self.setup.name}': {problem}")
        with self._lock:
            verdict = self._sampler.judge(stamp_ns, self.setup.fps())
            if verdict is Verdict.LATE:
                health.dropped['late'] += 1
                return
            self._newest = (stamp_ns, raw) if verdict is Verdict.EARLY else None
        if verdict is Verdict.EARLY:
            return
        if verdict is Verdict.JUMPED_BACK:
            self._warn('jump', f"camera '{self.setup.name}': stamps jumped back to "
                               f'{stamp_ns / SECOND_NS:.3f} s')
            self.setup.on_jump(self.setup.name)
        frame = self._frame(stamp_ns, raw)
        if frame is not None:
            health.taken += 1
            self.setup.offer(frame)

    def _frame(self, stamp_ns: int, raw: bytes) -> Frame | None:
        """Deserialise and convert; a bad image costs that image."""
        message = None
        try:
            message = self._unpacked(raw)
            rgb = _shrink(self._to_rgb(message))
        except ImageFormatError as error:
            self._refuse(message, error)
            return None
        digest = _digest_of(raw)
        self.health.look_at(digest)
        return Frame(self.setup.name, stamp_ns, message.header.frame_id, rgb,
                     self.setup.pose_at(stamp_ns), digest)

    def _unpacked(self, raw: bytes) -> Any:
        try:
            return deserialize_message(raw, self._type)
        except Exception as error:  # the middleware's own, or a text that is no UTF-8
            raise ImageFormatError(f'message of {len(raw)} bytes is cut off or damaged: '
                                   f'{describe(error)}') from error

    def _to_rgb(self, message: Any) -> Rgb:
        kind = message.format if self.setup.compressed else message.encoding
        if self.setup.compressed:
            rgb = compressed_to_rgb(message, self.setup.rules())
        else:
            rgb = self.setup.read(message, self.setup.rules())
            if encoding_note(kind):
                self._note(kind, f"camera '{self.setup.name}': {encoding_note(kind)}")
        seen = f'{rgb.shape[1]}x{rgb.shape[0]} {kind}'
        if self.health.kind and seen != self.health.kind:
            self._warn('kind', f"camera '{self.setup.name}': images changed from "
                               f'{self.health.kind} to {seen}')
        if not self.health.kind:
            self._logger.info(f"camera '{self.setup.name}': first picture, {seen}")
        self.health.kind = seen
        return rgb

    def _refuse(self, message: Any, error: ImageFormatError) -> None:
        self.health.refuse(str(error))
        text = f"camera '{self.setup.name}' on {self.topic}: {error}"
        encoding = getattr(message, 'encoding', None)
        if encoding is not None and encoding not in SUPPORTED_ENCODINGS:
            self._note(f'encoding {encoding[:40]}', text)
        else:
            self._warn(kind_of(str(error)), text)

    def _note(self, kind: str, text: str) -> None:
        """Warn once of each kind."""
        if kind not in self._notes and len(self._notes) < MOST_NOTES:
            self._notes.add(kind)
            self._logger.warning(text)


def sensor_qos(depth: int = 5) -> QoSProfile:
    """Return the QoS of sensor data; a new one, because rclpy writes overrides into it."""
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth,
                      reliability=ReliabilityPolicy.BEST_EFFORT)


def _stamp_of(raw: bytes) -> int:
    """
    Read the stamp of a serialised message that begins with a std_msgs/Header (CDR).

    :raises ImageFormatError: it ends before its stamp does.
    """
    if len(raw) < 12:
        raise ImageFormatError(f'message of {len(raw)} bytes is cut off before its stamp')
    order = '<' if raw[1] & 1 else '>'
    seconds, nanoseconds = struct.unpack_from(f'{order}iI', raw, 4)
    return int(seconds) * SECOND_NS + int(nanoseconds)


def _digest_of(raw: bytes) -> bytes:
    """Return a digest of everything but the stamp; no two pictures of a lens have the same."""
    return hashlib.blake2b(memoryview(raw)[12:], digest_size=16).digest()


def _shrink(rgb: Rgb) -> Rgb:
    longest = max(rgb.shape[:2])
    if longest <= LONGEST_SIDE_PX:
        return rgb
    scale = LONGEST_SIDE_PX / longest
    size = (max(1, round(rgb.shape[1] * scale)), max(1, round(rgb.shape[0] * scale)))
    return cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)  # type: ignore[return-value]
