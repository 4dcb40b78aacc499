# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Node `video_camera`: a video file or a rosbag2 bag as the picture of a camera."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import sys
import time

from infinipot_ros.errors import ConfigError
from infinipot_ros.node.parameter_table import Spec
from infinipot_ros.node.picture_publisher import NANOSECONDS, PicturePublisher
from infinipot_ros.node.recordings import open_recording, Picture, shrink
from infinipot_ros.node.small_node import fixed_parameters, run
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

IMAGE_TOPIC = 'camera/image_raw'


PARAMETERS = (
    Spec('video', 'string', '', 'A video file, or the folder or a file of a rosbag2 bag.',
         pattern=('.+', 'a video file or a rosbag2 bag')),
    Spec('topic', 'string', '', "A bag's image topic; empty: the only one there is."),
    Spec('rate', 'double', 1.0, '1 is as fast as recorded, 2 twice as fast.', low=0.01, high=100),
    Spec('loop', 'bool', False, 'Start again at the end, or stop the camera.'),
    Spec('max_side_px', 'int', 0, 'Longest side of a published picture; 0 is as recorded.',
         low=0, high=65_535),
    Spec('stamps', 'string', 'now', "Stamp with the time of publishing, or as 'recorded'.",
         choices=('now', 'recorded')),
    Spec('frame_id', 'string', 'camera_optical_frame',
         'Coordinate frame of the camera, where the recording names none.'),
    Spec('wait_for_subscribers', 'int', 0, 'Image subscriptions to wait for before playing.',
         low=0, high=100),
)


class VideoCamera(Node):
    """Publish the pictures of a recording in its own rhythm."""

    def __init__(self) -> None:
        """Open the recording and start it."""
        super().__init__('video_camera')
        given = fixed_parameters(self, PARAMETERS)
        self._rate = given['rate']
        self._loop = given['loop']
        self._max_side_px = given['max_side_px']
        self._recorded_stamps = given['stamps'] == 'recorded'
        self._awaited = given['wait_for_subscribers']
        self._recording = open_recording(Path(given['video']).expanduser(), given['topic'])
        if self._recorded_stamps and not self._recording.has_stamps:
            raise ConfigError(f'stamps: {self._recording.describe()} does not say when it was '
                              "recorded; use 'now'")
        self._publisher = PicturePublisher(self, IMAGE_TOPIC, given['frame_id'])
        self._start()
        self.get_logger().info(f'playing {self._recording.describe()}')
        # each call sets when the next one is due
        self._timer = self.create_timer(
            0.05, self._next_picture, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _start(self) -> None:
        self._pictures: Iterator[Picture] = self._recording.pictures()
        self._pending = next(self._pictures, None)
        if self._pending is None:
            raise ConfigError(f'video: none of the {self._recording.skipped} pictures of '
                              f'{self._recording.describe()} can be decoded')
        self._first_ns = self._pending.stamp_ns
        self._started_ns = time.monotonic_ns()

    def _next_picture(self) -> None:
        if self._awaited:
            if not self._publisher.ready(self._awaited):
                return
            self._awaited = 0
            self._started_ns = time.monotonic_ns()
        picture = self._pending
        if picture is None:
            return self._end_of_recording()
        stamp_ns = (picture.stamp_ns if self._recorded_stamps
                    else self.get_clock().now().nanoseconds)
        self._publisher.publish(
            shrink(picture.rgb, self._max_side_px), stamp_ns, picture.frame_id)
        self._pending = next(self._pictures, None)
        if self._pending is not None:
            due_ns = self._started_ns + (self._pending.stamp_ns - self._first_ns) / self._rate
            self._call_again_in(due_ns - time.monotonic_ns())

    def _end_of_recording(self) -> None:
        skipped = self._recording.skipped
        note = f'; {skipped} pictures could not be decoded' if skipped else ''
        if self._loop:
            self.get_logger().info(f'the recording starts again{note}')
            self._start()
        else:
            self._timer.cancel()
            self.get_logger().info(f'the recording is over; no more pictures{note}')

    def _call_again_in(self, period_ns: float) -> None:
        self._timer.timer_period_ns = max(round(period_ns), NANOSECONDS // 1000)
        self._timer.reset()


def main(args: list[str] | None = None) -> int:
    """Run the node until it is interrupted; return 1 if a parameter cannot be used."""
    return run(VideoCamera, 'video_camera', args)


if __name__ == '__main__':
    sys.exit(main())
