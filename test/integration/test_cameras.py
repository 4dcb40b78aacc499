# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The two cameras as processes of their own, heard over real DDS."""
from collections.abc import Callable, Iterator
from itertools import pairwise
import json
import math
import os
from pathlib import Path
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from infinipot_ros.demo.world import Drive  # noqa: E402, I100
from infinipot_ros.node.compressed_images import compressed_to_rgb  # noqa: E402
from infinipot_ros.node.images import image_to_rgb  # noqa: E402
from infinipot_ros.node.recordings import VideoFile  # noqa: E402
from infinipot_ros.node.simulated_camera import SimulatedCamera  # noqa: E402
from nav_msgs.msg import Odometry  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.qos import (  # noqa: E402
    DurabilityPolicy,
    qos_profile_sensor_data,
    QoSProfile,
    ReliabilityPolicy,
)
from sensor_msgs.msg import CompressedImage, Image  # noqa: E402
from std_msgs.msg import String  # noqa: E402

CLIP = Path(__file__).parents[1] / 'data' / 'vtest_clip.mp4'
DEADLINE_S = 100.0
END_S = 20.0
BAG_START_NS = 5_000_000_000
# with a reliable subscription: no picture is lost on the way, however busy the machine is
KEEPS_ALL = {'qos_overrides./camera/image_raw.publisher.depth': 1000}


class Listener:
    """A node that keeps what it hears on the topics of a camera."""

    def __init__(self, pictures: ReliabilityPolicy) -> None:
        """Subscribe to everything, to the truth as a late joiner."""
        self.context = rclpy.Context()
        self.context.init()
        self.node = rclpy.create_node('listener', context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.heard: dict[str, list[Any]] = {}
        latched = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        sensor = QoSProfile(depth=1000, reliability=pictures)
        for kind, topic, qos in (
                (Image, 'camera/image_raw', sensor),
                (CompressedImage, 'camera/image_raw/compressed', sensor),
                (Odometry, 'odom', 1000), (String, 'simulated_camera/truth', latched)):
            self.heard[topic] = []
            self.node.create_subscription(kind, topic, self.heard[topic].append, qos)

    def wait(self, done: Callable[[], bool]) -> None:
        """Listen until `done`, or fail at the deadline."""
        deadline = time.monotonic() + DEADLINE_S
        while not done():
            counts = {topic: len(messages) for topic, messages in self.heard.items()}
            assert time.monotonic() < deadline, f'heard only {counts}'
            self.executor.spin_once(timeout_sec=0.1)

    def close(self) -> None:
        """Free the node."""
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.shutdown()


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Listen with a context of its own, to pictures as sensor data."""
    listener = Listener(qos_profile_sensor_data.reliability)
    yield listener
    listener.close()


@pytest.fixture
def exact_listener() -> Iterator[Listener]:
    """Hear every picture."""
    listener = Listener(ReliabilityPolicy.RELIABLE)
    yield listener
    listener.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a camera with parameters; it is gone after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(module: str, **parameters: Any) -> subprocess.Popen[str]:
        given = [text for name, value in parameters.items()
                 for text in ('-p', f'{name}:={json.dumps(value)}')]
        # not in the source tree, which has no messages
        started.append(subprocess.Popen(
            [sys.executable, '-m', f'infinipot_ros.node.{module}', '--ros-args', *given],
            cwd=tmp_path, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True))
        return started[-1]

    yield start
    for process in started:
        # one that is killed would be announced for 20 s more, in the next tests too
        process.terminate()
        try:
            process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def stamp_ns(message: Any) -> int:
    """Return the stamp of a message's header."""
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


# one entry for each picture: truth, picture, JPEG, pose
Lap = list[tuple[dict[str, Any], Any, Any, Any]]


def whole_laps(listener: Listener, frames: int) -> list[Lap]:
    """Return the laps of which everything was heard; sensor data may be lost on the way."""
    truths = [json.loads(message.data) for message in listener.heard['simulated_camera/truth']]
    at_stamp = [{stamp_ns(message): message for message in listener.heard[topic]}
                for topic in ('camera/image_raw', 'camera/image_raw/compressed', 'odom')]
    laps: dict[int, Lap] = {}
    for truth in truths:
        if all(truth['stamp_ns'] in messages for messages in at_stamp):
            image, compressed, odometry = (m[truth['stamp_ns']] for m in at_stamp)
            laps.setdefault(truth['lap'], []).append((truth, image, compressed, odometry))
    return [lap for lap in laps.values() if len(lap) == frames]


def test_a_drive_with_pose_and_truth(listener: Listener, start: Any) -> None:
    """Every picture is the drive's, stamped when taken; pose and truth carry the same stamp."""
    before_ns = time.time_ns()
    start('simulated_camera', seed=7, num_frames=30, start=4, end=16, fps=20, scale=2,
          loop=True, wait_for_subscribers=2)
    listener.wait(lambda: bool(whole_laps(listener, 12)))
    lap = whole_laps(listener, 12)[0]
    drive = Drive(7, num_frames=30, scale=2)
    stamps = [truth['stamp_ns'] for truth, *_ in lap]
    assert before_ns < stamps[0] and stamps[-1] < time.time_ns()
    assert all(earlier < later for earlier, later in pairwise(stamps))
    for number, (truth, image, compressed, odometry) in enumerate(lap):
        index = number + 4
        expected = drive.frame(index)
        np.testing.assert_array_equal(image_to_rgb(image), expected.rgb)
        assert np.abs(compressed_to_rgb(compressed).astype(int) - expected.rgb).mean() < 8
        assert image.header.frame_id == 'camera_optical_frame'
        assert stamp_ns(image) == stamp_ns(odometry) == stamp_ns(compressed) == truth['stamp_ns']
        assert odometry.pose.pose.position.x == pytest.approx(expected.pose[0])
        assert (truth['frame'], truth['num_frames']) == (index, 30)
        assert [(v['thing'], v['colour'], v['shape'], v['fraction']) for v in truth['visible']] \
            == [(v.thing.index, v.thing.colour, v.thing.shape, v.fraction)
                for v in expected.visible]
        for seen, item in zip(truth['visible'], expected.visible):
            assert seen['box_px'] == pytest.approx([2 * edge for edge in item.box])


def test_a_drive_that_loops_goes_on_in_time(listener: Listener, start: Any) -> None:
    """The second lap shows the first frame again, with a later stamp."""
    start('simulated_camera', num_frames=5, fps=50, loop=True, wait_for_subscribers=2)
    heard = listener.heard['simulated_camera/truth']

    def numbers() -> list[int]:
        truths = [json.loads(message.data) for message in heard]
        assert all(t['frame'] < 5 for t in truths)
        assert all(a['stamp_ns'] < b['stamp_ns'] for a, b in pairwise(truths))
        return [5 * t['lap'] + t['frame'] for t in truths]
    listener.wait(lambda: any(b - a == 10 for a, b in zip(numbers(), numbers()[10:])))
    assert all(a < b for a, b in pairwise(numbers()))


def test_a_video_plays_in_its_own_rhythm(exact_listener: Listener, start: Any) -> None:
    """180 pictures, 100 ms apart, at ten times the speed; then it says that it is over."""
    process = start('video_camera', video=str(CLIP), rate=10, max_side_px=192,
                    wait_for_subscribers=2, **KEEPS_ALL)
    images = exact_listener.heard['camera/image_raw']
    exact_listener.wait(lambda: len(images) >= 180)
    expected = [picture.rgb for picture in VideoFile(CLIP).pictures()]
    shown = image_to_rgb(images[90])
    assert shown.shape == (144, 192, 3)
    assert np.abs(shown.astype(int).mean() - expected[90].mean()) < 2
    seconds = (stamp_ns(images[-1]) - stamp_ns(images[0])) / 1e9
    assert seconds > 1.6, 'a busy machine may be late, but never early'
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert 'the recording is over' in output
    assert process.returncode == 0


def test_a_bag_plays_with_its_own_stamps_or_new_ones(
        exact_listener: Listener, start: Any, tmp_path: Path) -> None:
    """A picture that cannot be decoded is left out and counted."""
    write_bag(tmp_path / 'bag', '/cam/image_raw', [10, None, 30])
    images = exact_listener.heard['camera/image_raw']
    process = start('video_camera', video=str(tmp_path / 'bag'), stamps='recorded',
                    wait_for_subscribers=2)
    exact_listener.wait(lambda: len(images) >= 2)
    assert [(int(image_to_rgb(image).max()), stamp_ns(image), image.header.frame_id)
            for image in images] == [(10, BAG_START_NS, 'lens'),
                                     (30, BAG_START_NS + 200_000_000, 'lens')]
    last = next(line for line in process.stdout if 'the recording is over' in line)
    assert '1 pictures could not be decoded' in last
    before_ns = time.time_ns()
    start('video_camera', video=str(tmp_path / 'bag'), wait_for_subscribers=2)
    exact_listener.wait(lambda: len(images) >= 4)
    assert before_ns < stamp_ns(images[2]) < stamp_ns(images[3])


def write_bag(folder: Path, topic: str, levels: list[int | None]) -> None:
    """Write grey pictures of 12 x 16 px, 100 ms apart; None is one without its pixels."""
    rosbag2 = pytest.importorskip('rosbags.rosbag2', reason='needs the package rosbags')
    from rosbags.typesys import get_typestore, Stores
    store = get_typestore(Stores.ROS2_JAZZY)
    kind = 'sensor_msgs/msg/Image'
    with rosbag2.Writer(folder, version=9) as writer:
        connection = writer.add_connection(topic, kind, typestore=store)
        for number, level in enumerate(levels):
            taken_ns = BAG_START_NS + number * 100_000_000
            header = store.types['std_msgs/msg/Header'](
                store.types['builtin_interfaces/msg/Time'](*divmod(taken_ns, 10**9)), 'lens')
            pixels = np.full(0 if level is None else 12 * 16 * 3, level or 0, np.uint8)
            message = store.types[kind](header, 12, 16, 'rgb8', 0, 48, pixels)
            writer.write(connection, taken_ns, store.serialize_cdr(message, kind))


@pytest.mark.parametrize(('how', 'again_s'), [
    (signal.SIGINT, ()), (signal.SIGTERM, ()), (signal.SIGINT, (0.01, 0.05, 0.1))])
def test_a_signal_ends_a_camera_in_order(
        listener: Listener, start: Any, how: int, again_s: tuple[float, ...]) -> None:
    """Exit code 0 and no traceback, in the middle of a recording; so do several, as of launch."""
    process = start('video_camera', video=str(CLIP), loop=True)
    listener.wait(lambda: bool(listener.heard['camera/image_raw']))
    process.send_signal(how)
    for pause_s in again_s:
        time.sleep(pause_s)
        process.send_signal(how)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, output
    assert 'Traceback' not in output


@pytest.mark.parametrize(('module', 'parameters', 'message'), [
    ('video_camera', {'video': '/nowhere.mp4'}, "there is no file or folder '/nowhere.mp4'"),
    ('video_camera', {}, "video is ''; it has to be a video file or a rosbag2 bag"),
    ('video_camera', {'video': str(CLIP), 'stamps': 'recorded'}, 'does not say when it was'),
    ('video_camera', {'video': str(CLIP), 'rate': 0}, 'rate is 0; it has to be a number from'),
    ('simulated_camera', {'setting': 'wild'}, "setting is 'wild'; it has to be one of 'calm'"),
    ('simulated_camera', {'end': 301}, 'end at most num_frames, which is 300'),
    ('simulated_camera', {'qos_overrides./camera/image_raw.publisher.reliability': 'reliabel'},
     "publisher.reliability is 'reliabel'; it has to be one of 'system_default'")])
def test_a_wrong_parameter_ends_with_the_reason(
        start: Any, module: str, parameters: dict[str, Any], message: str) -> None:
    """Exit code 1, one line, no traceback."""
    process = start(module, **parameters)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert message in output
    assert 'Traceback' not in output


def test_a_misspelt_parameter_is_noticed(listener: Listener, start: Any) -> None:
    """ROS itself ignores it without a word."""
    process = start('simulated_camera', sede=3)
    listener.wait(lambda: bool(listener.heard['simulated_camera/truth']))
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert 'there is no parameter sede; known are setting, seed' in output


def test_after_a_late_picture_the_next_one_comes_later() -> None:
    """Two at once would be one to those who sample by stamps."""
    rclpy.init()
    try:
        camera = SimulatedCamera()
        camera._take_picture()
        camera._taken = math.inf
        camera._take_picture()
        assert camera._index == 1
        camera._taken = -math.inf
        camera._take_picture()
        assert camera._index == 2
        camera.destroy_node()
    finally:
        rclpy.shutdown()
