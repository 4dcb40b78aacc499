# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The cameras and the pose topic of a node, while it is active."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from infinipot_ros.node.camera import Camera, CameraSetup
from infinipot_ros.node.cv_bridge_check import image_reader, right_encodings
from infinipot_ros.node.diagnostics import trouble
from infinipot_ros.node.engine_thread import EngineThread
from infinipot_ros.node.guarding import Throttle
from infinipot_ros.node.images import ImageRules
from infinipot_ros.node.parameter_table import image_topic
from infinipot_ros.node.parameters import Parameters
from infinipot_ros.node.pose_source import PoseSource
from infinipot_ros.node.topics import check_qos, check_topic, subscribing
from infinipot_ros.node.work import Frame
from rclpy.node import Node

if TYPE_CHECKING:
    from infinipot_ros.memory import Pose


class Inputs:
    """Open and close the subscriptions of a node together."""

    def __init__(self, node: Node, engine: EngineThread, parameters: Parameters,
                 on_jump: Callable[[str], None]) -> None:
        """Open nothing yet; `on_jump` is told the camera whose stamps have jumped back."""
        self.cameras: list[Camera] = []
        self._node = node
        self._engine = engine
        self._parameters = parameters
        self._on_jump = on_jump
        self._poses: PoseSource | None = None
        self._read = image_reader(())
        self._warn = Throttle(node.get_logger(), 'warning', 30.0)

    def prepare(self) -> None:
        """
        Find out for which encodings cv_bridge can be used here, and whether the topics can be.

        :raises ConfigError: the name or the QoS of a topic can be none; its parameter is named.
        """
        values = self._parameters.values()
        for name in ('pose_topic', *(f'{camera}.topic' for camera in values['cameras'])):
            if values[name]:
                check_topic(self._node, name, values[name])
        for topic in (values['pose_topic'], *map(self._topic, values['cameras'])):
            if topic:
                check_qos(self._node, topic)
        encodings = right_encodings()
        self._read = image_reader(encodings)
        if encodings:
            self._node.get_logger().info(f"cv_bridge reads {', '.join(encodings)}")

    def open(self) -> None:  # noqa: A003
        """Subscribe to everything, or to nothing."""
        values = self._parameters.values()
        try:
            if values['pose_topic']:
                self._poses = PoseSource(self._node, values['pose_topic'])
            for name in values['cameras']:
                setup = CameraSetup(
                    name=name, topic=self._topic(name), compressed=self._compressed(name),
                    fps=lambda: float(self._parameters['sample_fps']), rules=self._rules,
                    read=self._read, pose_at=self._pose_at, offer=self._engine.queue.offer,
                    on_jump=self._on_jump)
                with subscribing(self._node, f'{name}.topic', setup.topic):
                    self.cameras.append(Camera(self._node, setup))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unsubscribe."""
        for camera in self.cameras:
            camera.close()
        self.cameras = []
        if self._poses is not None:
            self._poses.close()
            self._poses = None

    def newest(self) -> list[Frame]:
        """Return the newest frame of each camera that the memory has not seen."""
        frames = [camera.newest() for camera in self.cameras]
        return [frame for frame in frames if frame is not None]

    def received(self) -> int:
        """Return how many pictures have come since the cameras were opened."""
        return sum(camera.health.received for camera in self.cameras)

    def warn(self) -> None:
        """Say which cameras send nothing, nothing new, or what several publish."""
        for camera in self.cameras:
            problem = trouble(camera)
            if problem:
                self._warn(camera.setup.name, f"camera '{camera.setup.name}': {problem}")

    def _compressed(self, camera: str) -> bool:
        return bool(self._parameters[f'{camera}.transport'] == 'compressed')

    def _topic(self, camera: str) -> str:
        topic = image_topic(camera, self._parameters[f'{camera}.topic'],
                            self._parameters['cameras'])
        return f'{topic}/compressed' if self._compressed(camera) else topic

    def _rules(self) -> ImageRules:
        return ImageRules(max_pixels=self._parameters['max_image_pixels'],
                          depth_range_m=self._parameters['depth_range_m'])

    def _pose_at(self, stamp_ns: int) -> Pose | None:
        return None if self._poses is None else self._poses.history.at(stamp_ns)
