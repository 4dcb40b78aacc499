# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the demo knows of the running robot: only what any ROS node could hear and ask."""
from __future__ import annotations

from collections.abc import Callable
import json
from pathlib import Path
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from infinipot_ros.demo.processes import Processes
from infinipot_ros.msg import MemoryStatus
from infinipot_ros.srv import VideoQA
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import String

NODE_NAME = 'infinipot'
CAMERA_NAME = 'simulated_camera'
# a sheet comes at once but from a machine that is busy with something else
_PICTURE_WAIT_S = 30.0
_CATCH_UP = 20


class DemoFailed(Exception):
    """Something that had to happen did not; the message says what."""


class Observer:
    """
    Subscribe to the memory's status and pictures and to the camera's truth; ask questions.

    For use in a `with` statement.
    """

    def __init__(self, processes: Processes) -> None:
        """Join the ROS graph; while waiting, watch that the processes live."""
        self._processes = processes
        self._context = rclpy.Context()
        self._context.init(domain_id=None)
        self._node: Node = rclpy.create_node('demo', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self.status: MemoryStatus | None = None
        self.most_bytes = 0
        self.reason = ''
        self.reports = 0
        self.same_reports = 0
        self.truths: list[dict[str, Any]] = []
        self.pictures: dict[str, CompressedImage] = {}
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._node.create_subscription(
            MemoryStatus, f'{NODE_NAME}/memory_status', self._hear_status, latched)
        self._node.create_subscription(
            String, f'{CAMERA_NAME}/truth',
            lambda message: self.truths.append(json.loads(message.data)),
            QoSProfile(depth=10_000, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        self._node.create_subscription(
            DiagnosticArray, '/diagnostics', self._hear_diagnostics, 10)
        for kind, topic in (('retained', 'retained'), ('evidence', 'evidence/image/compressed')):
            self._node.create_subscription(
                CompressedImage, f'{NODE_NAME}/{topic}', self._keeper(kind), latched)
        self._questions = self._node.create_client(VideoQA, 'video_qa')

    def __enter__(self) -> Observer:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the ROS graph."""
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()

    def wait(self, done: Callable[[], bool], what: str, timeout_s: float,
             meanwhile: Callable[[], None] = lambda: None) -> None:
        """
        Listen until `done()`.

        :param what: what is waited for, to be named if it does not come.
        :raises DemoFailed: it did not come in time.
        :raises ProcessDied: a process ended.
        """
        deadline = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline:
                raise DemoFailed(f'waited {timeout_s:.0f} s in vain for {what}; the logs are in '
                                 f"{self._processes.log('').parent}")
            self._processes.check()
            self._executor.spin_once(timeout_sec=0.1)
            for _ in range(_CATCH_UP):
                self._executor.spin_once(timeout_sec=0)
            if self.reason:
                raise DemoFailed(self.reason)
            meanwhile()

    def ready(self) -> bool:
        """Say whether the node has its memory and takes questions."""
        return self.status is not None and self._questions.service_is_ready()

    def ask(self, question: str, timeout_s: float = 60.0) -> VideoQA.Response:
        """Ask over the service; the sheet of evidence is then in `pictures['evidence']`."""
        self.pictures.pop('evidence', None)
        future = self._questions.call_async(VideoQA.Request(question=question))
        self.wait(future.done, f"the answer to '{question}'", timeout_s)
        response = future.result()
        assert response is not None
        if response.evidence:
            deadline = time.monotonic() + _PICTURE_WAIT_S
            self.wait(lambda: 'evidence' in self.pictures or time.monotonic() > deadline,
                      'the sheet of evidence', 2 * _PICTURE_WAIT_S)
        return response

    def wait_for_sheet_of_newest(self) -> None:
        """Wait a moment for a sheet of what is kept that the newest known frame is on."""
        newest = None if self.status is None else self.status.newest_stamp
        deadline = time.monotonic() + _PICTURE_WAIT_S
        self.wait(lambda: time.monotonic() > deadline or (
            'retained' in self.pictures
            and _seconds(self.pictures['retained'].header.stamp) >= _seconds(newest)),
            'the sheet of what is kept', 2 * _PICTURE_WAIT_S)

    def save_picture(self, kind: str, path: Path) -> Path | None:
        """Write the newest sheet of this kind, if one has come."""
        message = self.pictures.get(kind)
        if message is None:
            return None
        path.write_bytes(bytes(message.data))
        return path

    @property
    def frames_seen(self) -> int:
        """Return how many frames the memory has taken, as of the last report."""
        return 0 if self.status is None else int(self.status.frames_seen)

    @property
    def compressions(self) -> int:
        """Return how often the memory has compressed, as of the last report."""
        return 0 if self.status is None else int(self.status.compressions)

    def _hear_diagnostics(self, array: DiagnosticArray) -> None:
        """Take note of an error: a node that cannot use its parameters stays up and says why."""
        for status in array.status:
            if status.level == DiagnosticStatus.ERROR and status.name == f'{NODE_NAME}: model':
                self.reason = status.message

    def _hear_status(self, status: MemoryStatus) -> None:
        same = status.frames_seen == self.frames_seen
        self.same_reports = self.same_reports + 1 if same else 0
        self.status = status
        self.reports += 1
        self.most_bytes = max(self.most_bytes, status.held_bytes)

    def _keeper(self, kind: str) -> Callable[[CompressedImage], None]:
        def keep(message: CompressedImage) -> None:
            self.pictures[kind] = message
        return keep


def _seconds(stamp: Any) -> float:
    """Return a stamp in seconds; 0 for none."""
    return 0.0 if stamp is None else float(stamp.sec + stamp.nanosec / 1e9)
