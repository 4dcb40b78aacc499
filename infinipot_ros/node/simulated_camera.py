# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Node `simulated_camera`: the camera and the odometry of a robot in the demo world."""
from __future__ import annotations

import json
import math
import sys
import time

from geometry_msgs.msg import Point, Pose, Quaternion
from infinipot_ros.demo.world import Drive, Frame, SETTINGS
from infinipot_ros.errors import ConfigError
from infinipot_ros.node.parameter_table import Spec
from infinipot_ros.node.picture_publisher import PicturePublisher, to_time
from infinipot_ros.node.small_node import fixed_parameters, run
from nav_msgs.msg import Odometry
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

IMAGE_TOPIC = 'camera/image_raw'
ODOMETRY_TOPIC = 'odom'
FRAME_ID = 'camera_optical_frame'


PARAMETERS = (
    Spec('setting', 'string', SETTINGS[0], 'Kind of drive.', choices=SETTINGS),
    Spec('seed', 'int', 0, 'Which drive.', low=0, high=1_000_000),
    Spec('num_frames', 'int', 300, 'Length of the drive.', low=1, high=100_000),
    Spec('start', 'int', 0, 'First frame to show.', low=0, high=99_999),
    Spec('end', 'int', 0, 'Frame to stop before; 0 is the end of the drive.', low=0, high=100_000),
    Spec('fps', 'double', 4.0, 'Pictures per second.', low=0.1, high=120.0),
    Spec('scale', 'int', 1, 'Side of the picture in 112 px.', low=1, high=8),
    Spec('loop', 'bool', False, 'Drive again and again, or stop at the end.'),
    Spec('wait_for_subscribers', 'int', 0, 'Image subscriptions to wait for before driving.',
         low=0, high=100),
)


class SimulatedCamera(Node):
    """Publish a drive, picture by picture, with the pose and with the truth as JSON."""

    def __init__(self) -> None:
        """Draw the drive and start it."""
        super().__init__('simulated_camera')
        given = fixed_parameters(self, PARAMETERS)
        self._drive = Drive(given['seed'], setting=given['setting'],
                            num_frames=given['num_frames'], scale=given['scale'])
        self._start = given['start']
        self._end = given['end'] or self._drive.num_frames
        if not self._start < self._end <= self._drive.num_frames:
            raise ConfigError(f'start is {self._start} and end is {self._end}; start has to be '
                              f'less than end, and end at most num_frames, '
                              f'which is {self._drive.num_frames}')
        self._index = self._start
        self._loop = given['loop']
        self._awaited = given['wait_for_subscribers']
        self._lap = 0
        self._period_s = 1.0 / given['fps']
        self._taken = -math.inf
        self._pictures = PicturePublisher(self, IMAGE_TOPIC, FRAME_ID)
        self._odometry = self.create_publisher(Odometry, ODOMETRY_TOPIC, 10)
        self._truth = self.create_publisher(String, '~/truth', QoSProfile(
            depth=self._end - self._start, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        # a paused /clock must not stop the camera, only its stamps
        self._timer = self.create_timer(
            self._period_s, self._take_picture,
            clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _take_picture(self) -> None:
        if self._awaited:
            if not self._pictures.ready(self._awaited):
                return
            self._awaited = 0
        if time.monotonic() - self._taken < self._period_s / 2:
            return  # the last one was late; who samples would take two at once for one
        stamp_ns = self.get_clock().now().nanoseconds
        self._taken = time.monotonic()
        frame = self._drive.frame(self._index)
        self._odometry.publish(_odometry(frame, stamp_ns))
        self._truth.publish(String(data=json.dumps(self._truth_of(frame, stamp_ns))))
        self._pictures.publish(frame.rgb, stamp_ns)
        self._index += 1
        if self._index == self._end:
            self._end_of_drive()

    def _end_of_drive(self) -> None:
        self._index = self._start
        self._lap += 1
        if not self._loop:
            self._timer.cancel()
            self.get_logger().info('the drive is over; no more pictures (loop is false)')

    def _truth_of(self, frame: Frame, stamp_ns: int) -> dict[str, object]:
        scale = self._drive.scale
        return {
            'lap': self._lap, 'frame': self._index, 'num_frames': self._drive.num_frames,
            'stamp_ns': stamp_ns, 'pose': dict(zip(('x_m', 'y_m', 'heading_rad'), frame.pose)),
            'visible': [{
                'thing': item.thing.index, 'colour': item.thing.colour,
                'shape': item.thing.shape, 'box_px': [edge * scale for edge in item.box],
                'fraction': item.fraction} for item in frame.visible]}


def _odometry(frame: Frame, stamp_ns: int) -> Odometry:
    x_m, y_m, heading_rad = frame.pose
    message = Odometry(child_frame_id='base_link')
    message.header.stamp = to_time(stamp_ns)
    message.header.frame_id = 'odom'
    message.pose.pose = Pose(
        position=Point(x=x_m, y=y_m, z=0.0),
        orientation=Quaternion(z=math.sin(heading_rad / 2), w=math.cos(heading_rad / 2)))
    return message


def main(args: list[str] | None = None) -> int:
    """Run the node until it is interrupted; return 1 if a parameter cannot be used."""
    return run(SimulatedCamera, 'simulated_camera', args)


if __name__ == '__main__':
    sys.exit(main())
