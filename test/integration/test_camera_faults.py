# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Cameras that fail in every word there is for it: told, counted, and nothing else is lost."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from dds_world import (  # noqa: E402, I100
    DRIVE,
    drive_past,
    exact,
    image,
    PICTURE,
    RELIABLE,
    SECOND_NS,
    START_NS,
    until,
    until_seen,
    WAIT_S,
    World,
)
from infinipot_ros.memory import checkpoint, checkpoint_file  # noqa: E402
from infinipot_ros.node import guarding  # noqa: E402
from infinipot_ros.node.camera import LONGEST_SIDE_PX  # noqa: E402
from infinipot_ros.node.compressed_images import rgb_to_jpeg  # noqa: E402
from infinipot_ros.srv import VideoQA  # noqa: E402
from rclpy.clock import ClockType  # noqa: E402
from rclpy.serialization import serialize_message  # noqa: E402
from rosgraph_msgs.msg import Clock  # noqa: E402
from sensor_msgs.msg import CompressedImage  # noqa: E402


def jpeg(rgb: np.ndarray, stamp_ns: int, label: str = 'jpeg') -> CompressedImage:
    """Return a picture as a driver with image_transport publishes it."""
    message = CompressedImage(format=label, data=rgb_to_jpeg(rgb))
    message.header = image(PICTURE, stamp_ns).header
    return message


def digest(node: Any) -> str:
    """Return a digest of all that a memory holds, taken in its own thread."""
    state = node.engine.memory._state
    return str(node.engine.call(lambda: checkpoint_file.digest(
        checkpoint.facts_text(state), dict(checkpoint.named_tensors(state))), WAIT_S))


def test_what_is_wrong_with_images_is_logged_once_and_leaves_the_memory(
        world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, 'time', SimpleNamespace(monotonic=lambda: 100.0))
    node, client = world.robot()
    logged = client.log()
    camera = client.camera()
    drive_past(camera, range(10), START_NS)
    until_seen(node, 10)
    question = 'what do you see now ?'
    before, answer = digest(node), client.ask(question).answer
    bad = [{'encoding': 'foo'}, {'encoding': 'h264' * 1000}, {'encoding': ''}, {'data': bytes(10)},
           {'encoding': '32FC1'}, {'width': 3, 'step': 9}, {'height': 70000, 'width': 70000}]
    stamp_ns = START_NS + 10 * SECOND_NS
    for _ in range(3):
        for change in bad:
            stamp_ns += SECOND_NS
            message = image(PICTURE, stamp_ns)
            for name, value in change.items():
                setattr(message, name, value)
            camera.publish(message)
    health = node.inputs.cameras[0].health
    until(lambda: health.dropped['bad image'] == 21, 'all are refused')
    assert digest(node) == before
    assert client.ask(question).answer == answer
    for index in range(3):  # good ones, in an encoding that says too little
        camera.publish(image(DRIVE.frame(index).rgb[..., :1], stamp_ns + (index + 1) * SECOND_NS,
                             '8UC1'))
    until_seen(node, 13)
    node.get_logger().info('that was all')
    until(lambda: any(line.msg == 'that was all' for line in logged), 'the log')

    def told(words: str) -> int:
        return sum(words in line.msg for line in logged)
    for words in ("encoding '' cannot be read; supported are mono8, ",
                  "encoding 'foo' cannot be read; supported are mono8, ", '(4000 characters)',
                  'data has 10 bytes, expected 37632 (112 rows of step 336)', 'set depth_range_m',
                  'image of 3x112 px is too small', 'image of 70000x70000 px is larger than the',
                  "'8UC1' does not name its colours and is read as mono8",
                  'images changed from 112x112 rgb8 to 112x112 8UC1'):
        assert told(words) == 1, words


def test_messages_that_are_cut_off_are_counted(world: World) -> None:
    node, client = world.robot()
    camera = client.camera()
    for count, length in enumerate((0, 4, 11, 12, 20, 60, 1000)):
        stamp_ns = START_NS + count * SECOND_NS
        camera.publish(serialize_message(image(PICTURE, stamp_ns))[:length])
    no_text = serialize_message(image(PICTURE, START_NS + 8 * SECOND_NS))
    camera.publish(no_text.replace(b'rgb8', b'\xff\xfe\xfd8'))
    camera.publish(image(PICTURE, START_NS + 9 * SECOND_NS))
    until_seen(node, 1)
    health = node.inputs.cameras[0].health
    assert health.dropped == {'bad image': 8}
    assert health.taken == 1 and node.engine.status.frames_seen == 1


def test_4k_pictures_that_wait_are_bounded_in_number_and_size(world: World) -> None:
    topic = '/image/compressed'
    node, client = world.robot(**{'camera.transport': 'compressed', 'frame_queue': 3,
                                  **exact(topic)})
    camera = client.camera(topic, kind=CompressedImage)
    release = threading.Event()
    node.engine.post(lambda: release.wait(WAIT_S))
    large = np.zeros((2160, 3840, 3), np.uint8)
    for count in range(8):
        large[:] = 20 * count
        camera.publish(jpeg(large, START_NS + count * SECOND_NS))
    until(lambda: node.engine.dropped['model busy'] == 5 and node.engine.queue.waiting() == (0, 3),
          'all but three are dropped')
    waiting = list(node.engine.queue._frames)
    assert [frame.stamp_ns for frame in waiting] == [
        START_NS + count * SECOND_NS for count in (5, 6, 7)]
    assert {frame.rgb.shape for frame in waiting} == {(720, LONGEST_SIDE_PX, 3)}
    release.set()
    until_seen(node, 3)
    assert client.ask('what do you see now ?').status == VideoQA.Response.ANSWERED


@pytest.mark.parametrize('asking', [False, True], ids=['idle', 'asking'])
@pytest.mark.parametrize('transport', ['raw', 'compressed'])
def test_a_camera_in_every_bad_state_leaves_another_one_alone(
        world: World, transport: str, asking: bool) -> None:
    suffix = '' if transport == 'raw' else '/compressed'
    node, client = world.robot(**{
        'cameras': ['known', 'failing'], 'budget_mib': 4.0, 'failing.transport': transport,
        **exact('/known/image'), **exact(f'/failing/image{suffix}')})
    kind, make = (CompressedImage, jpeg) if suffix else (image(PICTURE, 0).__class__, image)
    known = client.camera('known/image')
    failing = client.camera(f'failing/image{suffix}', RELIABLE, kind)
    drive_past(known, range(30), START_NS)
    until_seen(node, 30)
    request = VideoQA.Request(question='what do you see now ?', cameras=['known'],
                              timeout_s=WAIT_S)
    right = client.call(VideoQA, 'video_qa', request).answer
    release = threading.Event()
    if asking:
        node.engine.post(lambda: release.wait(WAIT_S))
    waiting = client.begin(VideoQA, 'video_qa', request)
    noise, stamp_ns = np.random.default_rng(3), START_NS

    def show(rgb: np.ndarray, later_s: float = 1.0) -> Any:
        nonlocal stamp_ns
        stamp_ns += int(later_s * SECOND_NS)
        message = make(rgb, stamp_ns)
        failing.publish(message)
        return message
    for _ in range(6):  # stuck
        show(PICTURE)
    for _ in range(3):  # garbage: noise, and what is no picture
        show(noise.integers(0, 256, PICTURE.shape, np.uint8))
        message = make(PICTURE, stamp_ns + SECOND_NS // 2)
        message.data = bytes(noise.integers(0, 256, 500, np.uint8))
        failing.publish(message)
    show(DRIVE.frame(1).rgb)
    failing.publish(make(DRIVE.frame(2).rgb, stamp_ns - SECOND_NS // 2))  # late
    show(DRIVE.frame(3).rgb, 100.0)  # intermittent
    show(DRIVE.frame(4).rgb, 100.0)
    health = node.inputs.cameras[1].health
    until(lambda: health.taken == 12, f'all that can be taken, {health}')
    release.set()
    assert waiting().answer == right
    until_seen(node, 30 + 7)
    until(lambda: node.engine.queue.waiting() == (0, 0) and node.engine.busy_since is None,
          'it rests')
    assert node.engine.status.frames_seen == 30 + 7
    assert node.engine.dropped == {'stuck': 5}
    assert health.dropped == {'bad image': 3, 'late': 1}
    assert client.call(VideoQA, 'video_qa', request).answer == right
    if asking:
        return
    health.arrived -= 7.0  # off
    entry = until(lambda: (t := client.task('camera failing')) and t.message.startswith('no image')
                  and t, 'diagnostics')
    assert entry.level == b'\x01'
    counted = {pair.key: pair.value for pair in entry.values}
    assert float(counted['age s']) > 5 and float(counted['fps in']) >= 0
    assert counted['dropped, bad image'] == '3' and counted['dropped, late'] == '1'
    until(lambda: show(DRIVE.frame(5).rgb)
          and not client.task('camera failing').message.startswith('no image'), 'on again')


def test_a_clock_that_jumps_back_stops_no_timer(world: World) -> None:
    node, client = world.robot(use_sim_time=True)  # rclpy#1490
    assert {timer.clock.clock_type for timer in node.timers} == {ClockType.STEADY_TIME}
    clock = client.node.create_publisher(Clock, '/clock', 1)
    until(clock.get_subscription_count, 'someone listens to /clock')
    for seconds in (105, 45):
        now = image(PICTURE, seconds * SECOND_NS).header.stamp
        until(lambda now=now: clock.publish(Clock(clock=now))
              or node.get_clock().now().to_msg() == now, 'the clock is set')
        client.diagnostics.clear()
        until(lambda now=now: client.diagnostics and client.diagnostics[-1].header.stamp == now,
              'diagnostics come with the new time')
    drive_past(client.camera(), range(3), 45 * SECOND_NS - SECOND_NS // 2)
    until_seen(node, 3)
    assert client.ask('what do you see now ?').status == VideoQA.Response.ANSWERED


def test_an_empty_frame_id_and_a_pose_too_old_give_an_answer_without_pose(world: World) -> None:
    from nav_msgs.msg import Odometry
    node, client = world.robot(pose_topic='odom', **exact('/odom'))
    poses = client.node.create_publisher(Odometry, 'odom', 50)
    until(poses.get_subscription_count, 'someone listens to odom')
    old = Odometry(header=image(PICTURE, START_NS - 60 * SECOND_NS).header)
    old.pose.pose.orientation.w = 1.0
    poses.publish(old)
    until(lambda: node.inputs._poses.received == 1, 'a pose arrives')
    camera = client.camera()
    for index in range(3):
        message = image(DRIVE.frame(index).rgb, START_NS + index * SECOND_NS)
        message.header.frame_id = ''
        camera.publish(message)
    until_seen(node, 3)
    response = client.ask('what do you see now ?')
    assert response.status == VideoQA.Response.ANSWERED and response.evidence
    for evidence in response.evidence:
        assert not evidence.has_pose and evidence.header.frame_id == ''
