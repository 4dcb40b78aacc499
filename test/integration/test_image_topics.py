# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Camera topics as robots have them: any QoS, any encoding, broken images, jumps of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import io
import subprocess
import sys
import threading
import time
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
    SECOND_NS,
    START_NS,
    until,
    until_seen,
    WAIT_S,
    World,
)
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped  # noqa: E402
from infinipot_ros.node import diagnostics, publishers  # noqa: E402
from infinipot_ros.node.compressed_images import compressed_to_rgb, rgb_to_jpeg  # noqa: E402
from infinipot_ros.node.diagnostics import silence  # noqa: E402
from infinipot_ros.srv import VideoQA  # noqa: E402
from nav_msgs.msg import Odometry  # noqa: E402
from PIL import Image as Pillow  # noqa: E402
from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: E402
from rosgraph_msgs.msg import Clock  # noqa: E402
from sensor_msgs.msg import CompressedImage, Image, PointCloud2  # noqa: E402
from std_msgs.msg import String  # noqa: E402

SENSOR_DATA = {'qos_overrides./image.subscription.reliability': 'best_effort',
               'qos_overrides./image.subscription.depth': 5}
BEST_EFFORT = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have diagnostics speak of what was, however late, and not of silence since then."""
    monkeypatch.setattr(diagnostics, 'SILENT_AFTER_S', 1000.0)
    monkeypatch.setattr(diagnostics, 'RECENT_S', 1000.0)


@pytest.mark.parametrize('qos', [BEST_EFFORT, QoSProfile(depth=50)],
                         ids=['best effort', 'reliable'])
def test_publishers_of_both_reliabilities_are_heard(world: World, qos: QoSProfile) -> None:
    node, client = world.robot(**SENSOR_DATA)
    camera, newest_ns = client.camera(qos=qos), START_NS

    def heard() -> bool:
        nonlocal newest_ns
        newest_ns = drive_past(camera, range(20), newest_ns + SECOND_NS, pause_s=0.03)
        return bool(node.engine.status.frames_seen >= 5)
    until(heard, 'five frames seen, of as many as it takes')


def test_an_incompatible_publisher_is_named_with_the_remedy(world: World) -> None:
    _, client = world.robot()
    publisher = client.node.create_publisher(image(PICTURE, 0).__class__, 'image', BEST_EFFORT)
    entry = until(lambda: (task := client.task(': camera camera')) and task.level == b'\x02'
                  and 'incompatible' in task.message and task, 'diagnostics name the QoS')
    assert 'RELIABILITY' in entry.message
    publisher.publish(image(PICTURE, START_NS))
    assert client.ask('what ?').status == VideoQA.Response.EMPTY_MEMORY


def test_a_node_says_once_what_it_listens_to_what_comes_and_where_to_ask(
        world: World, capfd: pytest.CaptureFixture[str]) -> None:
    best_effort = {'qos_overrides./r1/cam.subscription.reliability': 'best_effort'}
    (node,) = world.memory_nodes({'namespace': 'r1', 'camera.topic': 'cam', **best_effort})
    camera = world.client('r1').camera('cam')
    newest_ns = START_NS

    def seen() -> bool:
        nonlocal newest_ns
        newest_ns = drive_past(camera, range(10), newest_ns + SECOND_NS // 10, pause_s=0.02)
        return bool(node.engine.status.frames_seen >= 2)
    until(seen, 'two frames seen, of as many as it takes')
    said = capfd.readouterr().err
    for line in ("camera 'camera': listening to /r1/cam (best effort)",
                 "camera 'camera': first picture, 112x112 rgb8",
                 'questions are answered at /r1/video_qa'):
        assert said.count(line) == 1, line


def test_bad_images_cost_themselves_only_and_are_counted(
        world: World, patient: None, capfd: pytest.CaptureFixture[str]) -> None:
    node, client = world.robot()
    camera = client.camera()
    good = image(PICTURE, START_NS)
    bad: list[Any] = []
    for change in ({'encoding': 'foo'}, {'encoding': ''}, {'encoding': 'h264' * 1000},
                   {'data': bytes(10)}, {'data': b''}, {'data': good.data.tobytes() + b'x'},
                   {'width': 0}, {'height': 70000, 'width': 70000}, {'step': 2**32 - 1},
                   {'step': 0}, {'encoding': '16UC1'}, {'encoding': '32FC1'}):
        message = image(PICTURE, START_NS + (len(bad) + 1) * SECOND_NS)
        for name, value in change.items():
            setattr(message, name, value)
        bad.append(message)
    for message in (good, *bad):
        camera.publish(message)
        time.sleep(0.005)
    camera.publish(image(DRIVE.frame(1).rgb, START_NS + 100 * SECOND_NS))
    status = until_seen(node, 2)
    assert status.frames_seen == 2
    health = node.inputs.cameras[0].health
    assert health.dropped == {'bad image': len(bad)}
    words = f'{len(bad)} images could not be read'
    entry = until(lambda: (t := client.task(': camera camera')) and words in t.message and t,
                  'diagnostics warn')
    assert entry.level == b'\x01'
    said = capfd.readouterr().err
    for kind in ('data has 10 bytes', 'too small', 'is larger than', 'step is 0', 'depth image'):
        assert kind in said
    assert client.ask('what do you see now ?').status == VideoQA.Response.ANSWERED


def test_size_and_encoding_may_change_in_mid_stream(world: World) -> None:
    node, client = world.robot()
    camera = client.camera()
    frames = [np.asarray(Pillow.fromarray(PICTURE).resize(size)) for size in (
        (16, 16), (112, 112), (337, 1023), (640, 480), (1920, 1080))]
    stamp_ns = START_NS
    for rgb in frames:
        for encoding, pixels in (('rgb8', rgb), ('bgr8', rgb[..., ::-1]), ('mono8', rgb[..., :1]),
                                 ('8UC3', rgb[..., ::-1])):
            stamp_ns += SECOND_NS
            camera.publish(image(pixels, stamp_ns, encoding))
            time.sleep(0.02)
    until_seen(node, 18)
    assert client.ask('what do you see now ?').status == VideoQA.Response.ANSWERED


def test_compressed_images_and_what_only_calls_itself_so(world: World) -> None:
    node, client = world.robot(**{'camera.transport': 'compressed',
                                  'camera.topic': '/front/image',
                                  **exact('/front/image/compressed')})
    camera = client.camera('/front/image/compressed', kind=CompressedImage)
    jpeg = rgb_to_jpeg(PICTURE)
    stream = io.BytesIO()
    Pillow.fromarray(PICTURE).save(stream, 'PNG')
    for count, (label, data) in enumerate((
            ('jpeg', jpeg), ('jpeg', jpeg[:len(jpeg) // 2]), ('jpeg', b''), ('jpeg', bytes(5000)),
            ('rgb8; png compressed ', stream.getvalue()), ('h264', b'\0\0\0\1' + bytes(100)),
            ('16UC1; compressedDepth png', bytes(12) + stream.getvalue()), ('jpeg', jpeg))):
        message = CompressedImage(format=label, data=data)
        message.header = image(PICTURE, START_NS + count * SECOND_NS).header
        camera.publish(message)
        time.sleep(0.01)
    until_seen(node, 3)
    until(lambda: node.inputs.cameras[0].health.dropped['bad image'] == 5, 'five are refused')
    assert node.engine.status.frames_seen == 3


def test_a_burst_while_the_model_is_busy_keeps_the_newest_and_counts_the_rest(
        world: World, patient: None) -> None:
    node, client = world.robot(frame_queue=4, sample_fps=60.0)
    camera = client.camera()
    release = threading.Event()
    node.engine.post(lambda: release.wait(WAIT_S))
    newest_ns = drive_past(camera, range(100), START_NS, fps=20.0, pause_s=0.004)
    until(lambda: node.engine.dropped['model busy'] == 96, 'all but four are dropped')
    assert node.engine.queue.waiting() == (0, 4)
    release.set()
    status = until_seen(node, 4)
    assert status.frames_seen == 4
    assert node.engine.dropped['model busy'] == 96
    assert node.inputs.cameras[0].health.taken == 100
    assert status.newest_stamp_ns == newest_ns
    until(lambda: 'frames dropped, model busy' in str(client.task(': memory')),
          'diagnostics count the drops')
    until(lambda: 'lower sample_fps' in client.task(': memory').message,
          'diagnostics warn of them')


@pytest.mark.parametrize('what', ['continue', 'clear'])
def test_a_bag_that_loops(world: World, what: str) -> None:
    node, client = world.robot(on_time_jump=what)
    camera = client.camera()
    drive_past(camera, range(20), START_NS, pause_s=0.01)
    until_seen(node, 20)
    drive_past(camera, range(10), START_NS - 500 * SECOND_NS, pause_s=0.01)
    expected = 30 if what == 'continue' else 10
    until(lambda: node.engine.status.frames_seen == expected, f'{expected} frames')
    if what == 'continue':
        assert node.engine.status.stamps_gone_back == 1


def test_stamps_that_are_zero_or_in_the_future_are_replaced(world: World) -> None:
    node, client = world.robot()
    camera = client.camera()
    for index, stamp_ns in enumerate((0, 0, time.time_ns() + 10**6 * SECOND_NS)):
        before_ns = time.time_ns()
        camera.publish(image(DRIVE.frame(index).rgb, stamp_ns))
        assert before_ns <= until_seen(node, index + 1).newest_stamp_ns <= time.time_ns()
        time.sleep(0.2)  # so that the next one is due


def test_simulated_time_that_never_begins_does_not_hold_anything_up(world: World) -> None:
    node, client = world.robot(use_sim_time=True)
    drive_past(client.camera(), range(5), 50 * SECOND_NS, pause_s=0.01)
    until_seen(node, 5)
    assert client.ask('what do you see now ?').status == VideoQA.Response.ANSWERED
    until(lambda: (t := client.task(': model')) and t.level == b'\x01' and '/clock' in t.message,
          'diagnostics say that there is no clock')
    assert client.set(use_sim_time=False) == ''
    until(lambda: (t := client.task(': model')) and t.level == b'\x00', 'and that all is well')


def test_a_camera_that_is_silent_is_named_and_the_other_one_goes_on(world: World) -> None:
    node, client = world.robot(cameras=['front', 'rear'], budget_mib=4.0,
                               **exact('/front/image'))
    drive_past(client.camera('front/image'), range(10), START_NS, pause_s=0.01)
    until_seen(node, 10)
    node.inputs.cameras[1].health.started -= 6.0
    entry = until(lambda: (t := client.task('camera rear')) and t.level == b'\x02' and t, 'silent')
    assert 'no one publishes on /rear/image' in entry.message
    both = client.ask('what do you see now ?')
    assert both.status == VideoQA.Response.ANSWERED
    assert both.message == 'no frame was seen yet by rear'
    rear = client.ask('what do you see now ?', cameras=['rear'])
    assert rear.status == VideoQA.Response.EMPTY_MEMORY and 'rear' in rear.message


@pytest.fixture
def others() -> Iterator[Callable[[Any, str], None]]:
    """Publish from another process's place: one has one type of message on a topic."""
    made: list[tuple[Any, Any]] = []

    def leave() -> None:
        while made:
            context, node = made.pop()
            node.destroy_node()
            context.shutdown()

    def publish(kind: Any, topic: str) -> None:
        leave()
        context = rclpy.Context()
        context.init()
        made.append((context, rclpy.create_node('other', context=context,
                                                use_global_arguments=False)))
        made[0][1].create_publisher(kind, topic, 1)
    yield publish
    leave()


def test_a_camera_on_the_wrong_topic_is_told_where_pictures_are(
        world: World, others: Callable[[Any, str], None]) -> None:
    node, client = world.robot(**{'camera.topic': '/front/compressed'})
    client.node.create_publisher(Image, '/rear', 1)
    client.node.create_publisher(Odometry, '/odom', 1)
    node.inputs.cameras[0].health.started -= 6.0

    def told(words: str) -> Any:
        return until(lambda: (t := client.task('camera camera')) and words in t.message and t,
                     words).message
    assert told('pictures are on').endswith(
        'no one publishes on /front/compressed; set camera.topic (at launch image_topic:= or '
        'cameras:=), or start the camera; pictures are on /rear')
    for kind, words in (
            (Odometry, 'nav_msgs/msg/Odometry is published on /front/compressed, and '
             "sensor_msgs/msg/Image is read; set camera.topic to a camera's"),
            (CompressedImage, "sensor_msgs/msg/Image is read; set camera.topic to '/front' and "
             "camera.transport to 'compressed'"),
            (Image, '/front/compressed is published by /other: is the camera stopped, or its QoS '
             'another?')):
        others(kind, '/front/compressed')
        told(words)


def test_pictures_lost_on_the_way_are_counted_and_named_with_the_remedy(world: World) -> None:
    node, client = world.robot()
    client.camera()
    camera = node.inputs.cameras[0]
    until(lambda: camera.publishers.names(), 'the publisher is known')
    # 2^31 - 1 is what Fast DDS told after one picture of 20 MB
    for change in (3, 2**31 - 1):
        camera._on_lost(SimpleNamespace(total_count_change=change))
    assert camera.health.dropped['lost on the way'] == 4
    for words in ('4 were lost on the way', '/compressed', 'qos_overrides./image.'):
        assert words in silence(camera)


def test_a_stuck_camera_is_named_and_does_not_fill_the_memory(
        world: World, patient: None) -> None:
    node, client = world.robot()
    camera = client.camera()
    drive_past(camera, [0] * 20, START_NS, pause_s=0.005)
    until(lambda: node.engine.dropped['stuck'] == 19, 'all but the first are left out')
    assert node.engine.status.frames_seen == 1
    health = node.inputs.cameras[0].health
    health.changed -= 7.0
    entry = until(lambda: (t := client.task('camera camera')) and t.level == b'\x01' and t,
                  'diagnostics warn')
    for words in ('/image has sent the same picture, bit by bit, for ', 'driver hangs',
                  'simulator without noise'):
        assert words in entry.message
    counted = {value.key: value.value for value in client.task(': memory').values}
    assert counted['frames dropped, stuck'] == '19'
    assert client.reset().success
    drive_past(camera, [0, 0], START_NS + 10 * SECOND_NS, pause_s=0.005)
    until_seen(node, 1)
    drive_past(camera, [1], START_NS + 20 * SECOND_NS)
    until_seen(node, 2)
    assert health.stuck_s() == 0.0
    assert node.engine.dropped['stuck'] == 20


def test_a_picture_that_does_not_change_in_a_simulator_is_no_warning(
        world: World, patient: None) -> None:
    node, client = world.robot(use_sim_time=True)
    clock = client.node.create_publisher(Clock, '/clock', 1)
    camera = client.camera()
    until(clock.get_subscription_count, 'someone listens to /clock')
    clock.publish(Clock(clock=image(PICTURE, START_NS).header.stamp))
    drive_past(camera, [0] * 5, START_NS, pause_s=0.005)
    until(lambda: node.engine.dropped['stuck'] == 4, 'all but the first are left out')
    node.inputs.cameras[0].health.changed -= 7.0
    entry = until(lambda: (t := client.task('camera camera')) and 'all the same' in t.message
                  and t, 'diagnostics say so')
    assert entry.level == b'\x00' and 'nothing moves, or the camera hangs' in entry.message


def test_two_publishers_on_one_topic_are_named(
        world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishers, 'SEVERAL_AFTER_S', 0.5)
    node, client = world.robot()
    driver = client.camera()
    other = rclpy.create_node('second_driver', namespace='left', context=world.context,
                              use_global_arguments=False)
    world.nodes.append(other)
    other.create_publisher(Image, '/image', BEST_EFFORT)
    drive_past(driver, range(3), START_NS, pause_s=0.01)

    def warned() -> Any:
        node.inputs.cameras[0].health.arrived = time.monotonic()
        entry = client.task('camera camera')
        return entry if entry and 'publishers' in entry.message else None
    entry = until(warned, 'diagnostics warn')
    assert entry.level == b'\x01'
    assert '/image has 2 publishers, /client and /left/second_driver' in entry.message
    world.nodes.remove(other)
    other.destroy_node()
    until(lambda: not warned(), 'it is gone')


def stamp_ns(message: Any) -> int:
    return message.header.stamp.sec * SECOND_NS + message.header.stamp.nanosec


def _odometry(x: float) -> Any:
    message = Odometry()
    message.pose.pose.position.x = x
    message.pose.pose.orientation.w = 1.0
    return message


def _pose(x: float) -> Any:
    message = PoseStamped()
    message.pose.position.x = x
    message.pose.orientation.w = 1.0
    return message


def _with_covariance(x: float) -> Any:
    message = PoseWithCovarianceStamped()
    message.pose.pose = _pose(x).pose
    return message


@pytest.mark.parametrize('make', [_odometry, _pose, _with_covariance])
def test_frames_carry_the_pose_at_their_stamp(world: World, make: Any) -> None:
    node, client = world.robot(pose_topic='odom', **exact('/odom'))
    clouds: list[PointCloud2] = []
    client.node.create_subscription(PointCloud2, 'infinipot/memory_map', clouds.append, 1)
    poses = client.node.create_publisher(type(make(0.0)), 'odom', 50)
    until(poses.get_subscription_count, 'someone listens to odom')
    camera = client.camera()
    for count in range(21):
        message = make(count / 10)
        message.header = image(PICTURE, START_NS + count * SECOND_NS // 10).header
        message.header.frame_id = 'map'
        poses.publish(message)
    until(lambda: node.inputs._poses.received == 21, 'poses arrive')
    drive_past(camera, range(20), START_NS, pause_s=0.005)
    until_seen(node, 20)
    response = client.ask('what do you see now ?')
    assert response.evidence and all(evidence.has_pose for evidence in response.evidence)
    for evidence in response.evidence:
        stamp = evidence.header.stamp
        age_s = stamp.sec + stamp.nanosec / SECOND_NS - START_NS / SECOND_NS
        assert evidence.pose.header.frame_id == 'map'
        assert evidence.pose.pose.position.x == pytest.approx(age_s, abs=0.01)
    until(lambda: node.outputs._map.get_subscription_count(), 'the map has a subscriber')
    drive_past(camera, [20], START_NS + 2 * SECOND_NS)
    kept = until_seen(node, 21).frames_kept

    def newest() -> Any:
        if not clouds:
            return None
        points = np.frombuffer(bytes(clouds[-1].data), '<f4').reshape(-1, 4)
        return points if points[:, 0].max() == pytest.approx(2.0, abs=0.01) else None
    until(lambda: newest() is not None, 'a map up to the newest frame')
    points = newest()
    assert len(points) == clouds[-1].width == kept and (points[:, 3] > 0).all()
    assert clouds[-1].header.frame_id == 'map'


def test_a_pose_topic_of_another_type_is_no_pose_and_no_crash(world: World) -> None:
    node, client = world.robot(pose_topic='odom')
    client.node.create_publisher(String, 'odom', 1)
    drive_past(client.camera(), range(5), START_NS, pause_s=0.01)
    until_seen(node, 5)
    assert not client.ask('what do you see now ?').evidence[0].has_pose
    assert node.state == 'active'


def test_the_pictures_show_what_is_kept_and_what_an_answer_rests_on(
        world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node, client = world.robot()
    sheets: dict[str, list[CompressedImage]] = {'retained': [], 'evidence/image/compressed': []}
    for name, heard in sheets.items():
        client.node.create_subscription(CompressedImage, f'infinipot/{name}', heard.append, 1)
    until(lambda: node.outputs._retained.get_subscription_count()
          and node.outputs._evidence.get_subscription_count(), 'subscribers')
    camera = client.camera()
    drive_past(camera, range(60), START_NS, pause_s=0.005)
    until_seen(node, 60)
    newest_ns = drive_past(camera, [60], START_NS + 6 * SECOND_NS)
    assert client.ask('what do you see now ?').status == VideoQA.Response.ANSWERED
    until(lambda: (heard := sheets['retained']) and stamp_ns(heard[-1]) == newest_ns,
          'drawn after the last frame')
    for name, heard in sheets.items():
        picture = compressed_to_rgb(until(lambda heard=heard: heard, name)[-1])
        assert picture.shape[0] > 200 and picture.shape[1] > 400
        assert picture.std() > 20
    draw, drawn = node.outputs._publish_retained, []
    monkeypatch.setattr(node.outputs, '_publish_retained',
                        lambda memory: drawn.append(memory) or draw(memory))
    told = len(client.diagnostics)
    until(lambda: len(client.diagnostics) >= told + 3, 'two seconds have gone by for the node')
    node.engine.call(lambda: None, WAIT_S)
    assert not drawn, 'nothing is drawn while nothing changes'
    late: list[CompressedImage] = []
    client.node.create_subscription(CompressedImage, 'infinipot/retained', late.append, 1)
    until(lambda: late, 'who comes after the last frame sees it too')
    assert client.reset().success
    until(lambda: stamp_ns(late[-1]) > newest_ns, 'an empty sheet for an empty memory')
    assert compressed_to_rgb(late[-1]).shape[0] < 120


def test_the_node_can_be_imported_where_rclpy_is_that_of_humble() -> None:
    """There the events of a subscription are in another module."""
    humble = ('import sys, types; from rclpy import event_handler as now, lifecycle; '
              "then = types.ModuleType('rclpy.qos_event'); "
              'then.__dict__.update({name: vars(now)[name] for name in '
              "('SubscriptionEventCallbacks', 'UnsupportedEventTypeError')}); "
              "sys.modules.update({'rclpy.qos_event': then, 'rclpy.event_handler': None}); "
              'import infinipot_ros.node.camera')
    subprocess.run([sys.executable, '-c', humble], check=True)
