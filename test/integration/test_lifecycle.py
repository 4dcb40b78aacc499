# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The managed node: up and down, transitions that fail and are tried again, parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
import math
import os
from pathlib import Path
import shutil
import sys
import threading
import time
from typing import Any

import pytest

rclpy = pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from dds_world import (  # noqa: E402, I100
    Client,
    drive_past,
    own_threads,
    SECOND_NS,
    START_NS,
    until,
    until_seen,
    WAIT_S,
    World,
)
from infinipot_ros.errors import CheckpointError  # noqa: E402
from infinipot_ros.models import load_model  # noqa: E402
from infinipot_ros.models.calibration import Calibration, FILE_NAME  # noqa: E402
from infinipot_ros.models.loading import demo_folder  # noqa: E402
from infinipot_ros.node import surroundings, video_memory_node  # noqa: E402
from infinipot_ros.node.file_lock import FileLocks  # noqa: E402
from infinipot_ros.node.model_pool import MODELS  # noqa: E402
from infinipot_ros.node.surroundings import Surroundings  # noqa: E402
from infinipot_ros.srv import VideoQA  # noqa: E402
from nav_msgs.msg import Odometry  # noqa: E402
from rclpy.qos import ReliabilityPolicy  # noqa: E402

R = VideoQA.Response


def robot(world: World, state: str, **parameters: Any) -> tuple[Any, Client]:
    """Start a node and a client, and wait for a state."""
    node = world.memory_nodes(parameters)[0]
    client = world.client()
    until(lambda: node.state == state and (state != 'unconfigured' or node.reason
                                           or not parameters.get('autostart', True)), state)
    return node, client


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Have models load until this is set."""
    load, loaded = video_memory_node.acquire_model, threading.Event()

    def slowly(values: Any) -> Any:
        loaded.wait()
        return load(values)
    monkeypatch.setattr(video_memory_node, 'acquire_model', slowly)
    yield loaded
    loaded.set()


def test_up_and_down_again_and_again(world: World) -> None:
    node, client = robot(world, 'unconfigured', autostart=False)
    assert client.ask('now ?').status == R.NOT_ACTIVE
    subscriptions = len(list(node.subscriptions))
    threads = 0
    for _ in range(10):
        assert client.change('configure') and client.change('activate')
        assert client.state() == 'active'
        drive_past(client.camera(), range(3), START_NS, pause_s=0.002)
        until(lambda: node.engine.status.frames_seen >= 3, 'frames')
        assert client.ask('what do you see now ?').status == R.ANSWERED
        assert client.change('deactivate')
        response = client.ask('what do you see now ?')
        assert response.status == R.NOT_ACTIVE and 'inactive' in response.message
        assert response.frames_seen >= 3
        assert client.change('cleanup')
        assert client.state() == 'unconfigured'
        assert node.engine.memory is None and not MODELS._entries
        assert len(list(node.subscriptions)) == subscriptions
        threads = threads or own_threads()
        until(lambda most=threads: own_threads() <= most, 'no thread is left over')


def test_a_deactivated_memory_goes_on_where_it_was(world: World) -> None:
    node, client = robot(world, 'active')
    drive_past(client.camera(), range(10), START_NS, pause_s=0.005)
    until_seen(node, 10)
    assert client.change('deactivate') and client.change('activate')
    assert client.ask('what do you see now ?').frames_seen == 10


def test_transitions_that_the_state_does_not_allow_are_refused(world: World) -> None:
    _, client = robot(world, 'unconfigured', autostart=False)
    logged = client.log()
    for transition in ('activate', 'deactivate', 'cleanup'):
        assert not client.change(transition)
    assert client.change('configure')
    assert not client.change('configure')
    assert not client.change('deactivate')
    assert client.state() == 'inactive'
    until(lambda: any("'activate' is not possible, the node is unconfigured" in line.msg
                      for line in logged), 'the log says why')
    assert not any('rcl_lifecycle.c' in line.msg for line in logged)


@pytest.mark.parametrize(('parameters', 'state', 'next_one'), [
    ({}, 'inactive', 'activate'), ({'budget_mib': 0.05}, 'unconfigured', 'configure')])
def test_a_new_state_and_a_reason_are_told_only_once_the_transition_is_over(
        world: World, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any], state: str,
        next_one: str) -> None:
    node, client = robot(world, 'unconfigured', autostart=False, **parameters)
    transition, release = node._transition, threading.Event()

    def slow_to_return(*how: Any) -> Any:
        result = transition(*how)
        release.wait(WAIT_S)
        return result
    monkeypatch.setattr(node, '_transition', slow_to_return)
    configured = client.begin_change('configure')
    until(lambda: node._reason or node.engine.status, 'the work is done')
    assert (node.state, node.under_way, node.reason) == ('configuring', 'configure', '')
    entry = until(lambda: (t := client.task(': model')) and 'configuring' in t.message and t,
                  'diagnostics say that it goes on')
    assert entry.level == b'\x01'
    release.set()
    until(lambda: node.state == state and bool(node.reason) == bool(parameters), state)
    # refused only for a reason of its own
    assert client.change(next_one) == (not parameters)
    assert not parameters or 'the least that works' in node.reason
    assert configured().success == (not parameters)


def test_while_a_model_loads_the_node_says_so_to_all_who_ask(
        world: World, loaded: threading.Event) -> None:
    _, client = robot(world, 'unconfigured', autostart=False)
    configured = client.begin_change('configure')
    until(lambda: client.state() == 'configuring', 'configuring')
    response = client.ask('now ?')
    assert response.status == R.NOT_ACTIVE and 'about to configure' in response.message
    assert not client.change('configure')
    assert client.set(sample_fps=3.0) == ''
    loaded.set()
    assert configured().success and client.state() == 'inactive'


def test_a_parameter_set_while_the_model_loads_is_refused_or_has_effect(
        world: World, loaded: threading.Event) -> None:
    node, client = robot(world, 'unconfigured', autostart=False)
    configured = client.begin_change('configure')
    until(lambda: client.state() == 'configuring', 'configuring')
    until(lambda: client.describe('policy').read_only, 'the values are taken')
    for values, words in (({'policy': 'tar'}, 'read-only'), ({'cameras': ['a']}, 'read-only'),
                          ({'budget_mib': 1.8}, 'wait until it has'),
                          ({'checkpoint__directory': '/tmp'}, 'wait until it has')):
        assert words in client.set(**values), values
    loaded.set()
    assert configured().success and client.change('activate')
    assert node.engine.memory.config.budget_mib == 2.0 == node.parameters['budget_mib']
    assert node.engine.memory.config.policy == 'infinipot_v' == node.parameters['policy']
    assert client.set(budget_mib=1.8) == ''


def test_a_fixed_parameter_that_rclpy_let_through_too_late_is_refused(world: World) -> None:
    node, client = robot(world, 'active')
    node.describe_parameter('policy').read_only = False
    assert 'until the node is cleaned up' in client.set(policy='tar')
    assert client.set(policy='infinipot_v') == ''


def test_a_missing_model_folder_is_named_and_the_second_try_succeeds(
        world: World, tmp_path: Path) -> None:
    folder = tmp_path / 'my_model'
    node, client = robot(world, 'unconfigured', model=str(folder))
    assert str(folder) in node.reason
    response = client.ask('what do you see now ?')
    assert response.status == R.NOT_ACTIVE and str(folder) in response.message
    until(lambda: (t := client.task(': model')) and str(folder) in t.message, 'diagnostics')
    assert not client.change('configure')
    shutil.copytree(demo_folder(), folder)
    (folder / 'tokenizer.json').unlink()
    assert not client.change('configure') and 'tokenizer' in node.reason
    assert client.set(model='demo') == ''
    assert client.change('configure') and client.change('activate')
    assert client.ask('what do you see now ?').status == R.EMPTY_MEMORY
    for topic in ('infinipot/memory_status', '/diagnostics'):
        until(lambda topic=topic: client.node.count_publishers(topic) == 1, f'one on {topic}')


def test_a_calibration_in_the_models_folder_is_used_and_a_broken_one_named(
        world: World, tmp_path: Path) -> None:
    folder = shutil.copytree(demo_folder(), tmp_path / 'my_model')
    (folder / FILE_NAME).write_text('torn')
    node, client = robot(world, 'unconfigured', model=str(folder))
    assert FILE_NAME in node.reason and 'infinipot calibrate' in node.reason
    weights = load_model(folder, calibration='none').weights_sample
    Calibration('mine', 4, weights, 'a drive', (0.1, 0.2, 0.3)).write(folder / FILE_NAME)
    assert client.change('configure')
    until(lambda: (t := client.task(': memory')) and any(
        value.key == 'VaN pooling' and value.value == 'kernel by thresholds 0.1, 0.2, 0.3 of the '
        'model' for value in t.values), 'diagnostics')


@pytest.mark.parametrize(('parameters', 'words'), [
    ({'budget_mib': 0.05}, 'the least that works'),
    ({'policy': 'no_such_policy'}, 'infinipot_v'),
    ({'policy': 'full'}, 'benchmarks only'),
    ({'policy': 'no_such_module:mine'}, "cannot import the module 'no_such_module'"),
    ({'device': 'cuda:7'}, "'cpu'"),
    ({'alpha': 2.0}, 'alpha is 2.0; it has to be a number from 0 to 1'),
    ({'sample_fps': 'fast'}, 'sample_fps'),
    ({'cameras': ['a', 'a']}, 'cameras'),
    ({'recent_ratio': 0.5, 'keep_ratio': 0.3}, 'recent frames'),
    ({'checkpoint.restore': True}, 'checkpoint.directory'),
    ({'pose_topic': 'my odom'}, "pose_topic is 'my odom', which is no name of a topic: "),
    ({'camera.topic': '/a//b'}, "camera.topic is '/a//b', which is no name of a topic: "),
])
def test_what_cannot_work_is_refused_when_configuring_with_what_would(
        world: World, parameters: dict[str, Any], words: str) -> None:
    node, client = robot(world, 'unconfigured', **parameters)
    assert words in node.reason
    response = client.ask('now ?')
    assert response.status == R.NOT_ACTIVE and words in response.message
    mended = {'budget_mib': 2.0, 'policy': 'tar', 'device': 'cpu', 'alpha': 0.5, 'sample_fps': 2.0,
              'cameras': ['camera'], 'keep_ratio': 0.75, 'checkpoint.restore': False,
              'pose_topic': 'odom', 'camera.topic': '/a/b'}
    for name in parameters:
        if name == 'policy' and ':' not in parameters[name]:
            assert words in client.set(policy=parameters[name])
        if name != 'recent_ratio':
            assert client.set(**{name.replace('.', '__'): mended[name]}) == ''
    assert client.change('configure') and client.change('activate')


RELIABILITIES = "it has to be one of 'system_default', 'reliable', 'best_effort'"


@pytest.mark.parametrize(('name', 'value', 'words'), [
    ('/front.subscription.reliability', 'reliabel', f"is 'reliabel'; {RELIABILITIES}"),
    ('/front.subscription.reliability', 'unknown', RELIABILITIES),
    ('/front.subscription.reliability', 3, f'is 3, of type int; {RELIABILITIES}'),
    ('/front.subscription.history', 'keep_none', "'keep_last', 'keep_all'"),
    ('/front.subscription.depth', -1, 'is -1; it has to be a whole number from 0 to 2.14748e+09'),
    ('/odom.subscription.depth', '5', "is '5', of type str; it has to be a whole number"),
    ('/rear/image/compressed.subscription.reliability', '', RELIABILITIES)])
def test_a_qos_override_that_cannot_be_is_refused_by_name_when_configuring(
        world: World, name: str, value: Any, words: str) -> None:
    node, _ = robot(world, 'unconfigured', **{
        'cameras': ['front', 'rear'], 'front.topic': 'front', 'rear.transport': 'compressed',
        'pose_topic': 'odom', f'qos_overrides.{name}': value})
    assert node.reason.startswith(f'could not configure: qos_overrides.{name} is ')
    assert words in node.reason and 'mend it and start the node again' in node.reason


def test_qos_overrides_are_of_any_case_and_useless_ones_are_told(
        world: World, capfd: pytest.CaptureFixture[str]) -> None:
    node, _ = robot(world, 'active', **{
        'qos_overrides./image.subscription.reliability': 'Best_Effort',
        'qos_overrides./image.subscription.durability': 'volatile',
        'qos_overrides./other.subscription.reliability': 'bogus'})
    said = capfd.readouterr().err
    assert ("there is no parameter 'qos_overrides./image.subscription.durability'; it is ignored. "
            'There are reliability, history, depth') in said
    assert '/other' not in said
    profile = node.inputs.cameras[0]._subscription.qos_profile
    assert profile.reliability is ReliabilityPolicy.BEST_EFFORT


@pytest.mark.parametrize('culprit', ['camera.topic', 'pose_topic'])
def test_a_topic_that_is_of_another_type_in_this_process_is_named_when_activating(
        world: World, culprit: str) -> None:
    topic = 'scene_description'
    node, client = robot(world, 'unconfigured', **{'autostart': False, culprit: topic})
    with closing(World()) as elsewhere:
        elsewhere.client().node.create_publisher(Odometry, topic, 1)
        until(lambda: len(node.get_publishers_info_by_topic(f'/{topic}')) == 2, 'it is known')
        assert client.change('configure')
        timers = len(list(node.timers))
        assert not client.change('activate')
    assert f'cannot subscribe to /{topic}; look at {culprit}: ' in node.reason
    assert len(list(node.timers)) == timers


def test_parameters_are_refused_whole_with_what_is_allowed(world: World) -> None:
    node, client = robot(world, 'active')
    for values, words in (
            ({'sample_fps': 0.0}, 'Min: 0.01'), ({'sample_fps': math.nan}, 'sample_fps'),
            ({'sample_fps': 'x'}, 'a number from 0.01 to 60'), ({'sample_fps': True}, 'a number'),
            ({'qa__queue': -1}, 'Min: 0'), ({'on_time_jump': 'stop'}, "'continue', 'clear'"),
            ({'model': 'other'}, 'read-only'), ({'policy': 'tar'}, 'read-only'),
            ({'budget_mib': 100.0}, 'raised up to 2'), ({'budget_mib': 0.02}, 'least that works'),
            ({'checkpoint__period_s': 5.0}, 'checkpoint.directory'),
            ({'checkpoint__directory': 'memories'}, 'from / or ~ on'),
            ({'qa__timeout_s': 5.0, 'sample_fps': 1000.0}, 'sample_fps'),
            ({'no_such_parameter': 1}, 'undeclared')):
        assert words in client.set(**values), values
    assert node.parameters['qa.timeout_s'] == 30.0
    assert client.set(sample_fps=2, qa__queue=1) == ''
    assert node.parameters['sample_fps'] == 2.0 and node.engine.queue.max_questions == 1


def test_the_budget_can_be_lowered_while_running_and_raised_again(world: World) -> None:
    node, client = robot(world, 'active')
    drive_past(client.camera(), range(60), START_NS, pause_s=0.003)
    until_seen(node, 60)
    assert client.set(budget_mib=1.8) == ''
    until(lambda: node.engine.status.budget_bytes == int(1.8 * 2**20), 'lowered')
    assert node.engine.status.held_bytes <= 1.8 * 2**20
    assert client.ask('what do you see now ?').status == R.ANSWERED
    assert client.set(budget_mib=2) == ''
    until(lambda: node.engine.status.budget_bytes == 2 * 2**20, 'raised')
    too_low, too_high = client.set(budget_mib=0.1), client.set(budget_mib=3.0)
    assert 'the least that works' in too_low and 'clean up' not in too_low
    assert too_high.endswith('not to 3; to have more, clean up and configure again')
    assert client.ask('what do you see now ?').status == R.ANSWERED


def test_a_memory_loaded_after_the_budget_was_lowered_can_be_raised_again(
        world: World, tmp_path: Path) -> None:
    node, client = robot(world, 'active', **{'checkpoint.directory': str(tmp_path)})
    drive_past(client.camera(), range(20), START_NS, pause_s=0.003)
    until_seen(node, 20)
    assert client.file('save').success
    for _ in range(2):
        assert client.set(budget_mib=1.8) == ''
        loaded = client.file('load')
        assert loaded.success, loaded.message
        assert node.engine.status.budget_bytes == int(1.8 * 2**20)
        assert node.engine.status.held_bytes <= 1.8 * 2**20
    assert client.set(budget_mib=2.0) == ''
    until(lambda: node.engine.status.budget_bytes == 2 * 2**20, 'raised')
    assert client.file('load').success and node.engine.status.budget_bytes == 2 * 2**20
    assert client.set(budget_mib=2.5) != ''


def test_a_budget_that_cannot_be_changed_after_all_is_told(
        world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node, client = robot(world, 'active')

    def fail(budget_mib: float) -> None:
        raise RuntimeError('CUDA error: out of memory')
    monkeypatch.setattr(node.engine.memory, 'set_budget', fail)
    assert client.set(budget_mib=1.8) == ''
    words = 'budget_mib is still 2, and not 1.8: RuntimeError: CUDA error: out of memory'
    entry = until(lambda: (t := client.task(': model')) and words in t.message and t, 'told')
    assert entry.level == b'\x02'
    monkeypatch.undo()
    assert client.set(budget_mib=1.8) == ''
    until(lambda: node.engine.status.budget_bytes == int(1.8 * 2**20), 'lowered')


def test_what_the_engine_warns_of_is_in_the_log_of_the_node(world: World) -> None:
    _, client = robot(world, 'unconfigured', autostart=False, budget_mib=1000.0)
    logged = client.log()
    assert client.change('configure')
    until(lambda: [line for line in logged if 'stay unused' in line.msg
                   and line.name == 'infinipot'], 'the log says that the budget is too large')


def test_parameters_say_what_they_are(world: World) -> None:
    _, client = robot(world, 'active')
    alpha = client.describe('alpha')
    assert alpha.read_only and 'TaR' in alpha.description
    assert alpha.floating_point_range[0].to_value == 1.0
    assert not client.describe('sample_fps').read_only
    assert client.describe('qa.queue').integer_range[0].to_value == 64
    assert 'raw' in client.describe('camera.transport').additional_constraints
    assert client.change('deactivate') and client.change('cleanup')
    assert not client.describe('alpha').read_only


def test_a_question_under_way_is_cancelled_by_deactivating(
        world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node, client = robot(world, 'active')
    drive_past(client.camera(), range(3), START_NS, pause_s=0.01)
    until_seen(node, 3)
    ask, begun = node.engine.memory.ask, threading.Event()

    def slowly(question: str, **how: Any) -> Any:
        begun.set()
        while not how['cancel']():
            time.sleep(0.005)
        return ask(question, **how)
    monkeypatch.setattr(node.engine.memory, 'ask', slowly)
    request = VideoQA.Request(question='what do you see now ?')
    waiting = [client.begin(VideoQA, 'video_qa', request) for _ in range(2)]
    assert begun.wait(WAIT_S)
    until(lambda: node.engine.queue.waiting()[0] == 2, 'one answered, one waiting')
    assert client.change('deactivate')
    for wait in waiting:
        response = wait()
        assert response.status == R.CANCELLED and response.message
    assert client.change('cleanup')


def test_scene_descriptions_by_period_and_by_novelty(world: World) -> None:
    from infinipot_ros.msg import SceneDescription
    node, client = robot(world, 'active', **{'describe.period_s': 0.3})
    heard: list[SceneDescription] = []
    client.node.create_subscription(SceneDescription, 'scene_description', heard.append, 10)
    camera = client.camera()
    newest_ns = drive_past(camera, range(5), START_NS, pause_s=0.01)
    until(lambda: heard and heard[-1].header.stamp.nanosec == newest_ns % SECOND_NS,
          'a description of the newest frame')
    message = heard[-1]
    assert message.cameras == ['camera'] and message.header.frame_id == 'camera_optical_frame'
    assert message.header.stamp.sec == newest_ns // SECOND_NS
    described = len(heard)
    time.sleep(1.8)
    assert len(heard) <= described + 2, 'nothing is said again while no picture comes'
    assert client.set(describe__period_s=0.0, describe__novelty=0.0001) == ''
    engine = node.engine
    until(lambda: not engine.queue._describe and engine.busy_since is None
          and len(heard) == engine.counts['described'], 'all that was said is heard')
    heard.clear()
    time.sleep(0.5)
    assert not heard
    node.descriptions.last = 0.0
    drive_past(camera, range(50, 60), START_NS + 5 * SECOND_NS, pause_s=0.005)
    until(lambda: heard, 'a description of what is new')
    assert heard[0].novelty > 0.0001


def test_save_load_and_paths_stay_inside_the_directory(world: World, tmp_path: Path) -> None:
    directory = tmp_path / 'memories'
    node, client = robot(world, 'active')
    assert not client.file('save').success
    assert client.set(checkpoint__directory=str(directory)) == ''
    camera = client.camera()
    drive_past(camera, range(30), START_NS, pause_s=0.003)
    seen = until_seen(node, 30).frames_seen
    answer = client.ask('what do you see now ?').answer
    saved = client.file('save', 'kitchen')
    assert saved.success, saved.message
    assert Path(saved.path) == directory / 'kitchen'
    assert saved.bytes == Path(saved.path).stat().st_size
    for path in ('../outside', '/etc/passwd', 'a/../../b', '.'):
        refused = client.file('save', path)
        assert not refused.success and 'checkpoint.directory' in refused.message
    assert sorted(directory.iterdir()) == [directory / 'kitchen']
    for name in ('x' * 300, 'a/' + '\u2603' * 70):
        refused = client.file('save', name)
        assert not refused.success and 'at most 200 bytes' in refused.message
    missing = client.file('load', 'cellar')
    assert not missing.success and 'cellar' in missing.message
    (directory / 'torn').write_bytes((directory / 'kitchen').read_bytes()[:2000])
    torn = client.file('load', 'torn')
    assert not torn.success and 'torn' in torn.message
    assert client.ask('what do you see now ?').answer == answer
    assert client.reset().success
    assert client.ask('what do you see now ?').status == R.EMPTY_MEMORY
    assert client.file('load', 'kitchen').success
    response = client.ask('what do you see now ?')
    assert (response.answer, response.frames_seen) == (answer, seen)


def test_a_checkpoint_directory_that_leads_nowhere_is_refused_by_name(
        world: World, tmp_path: Path) -> None:
    node, client = robot(world, 'unconfigured', **{
        'checkpoint.directory': '~nosuchuser/x', 'checkpoint.restore': True})
    assert "checkpoint.directory is '~nosuchuser/x'" in node.reason
    assert node.engine.memory is None and not MODELS._entries
    assert "'~nosuchuser/y'" in client.set(checkpoint__directory='~nosuchuser/y')
    assert client.set(checkpoint__directory=str(tmp_path / 'loop')) == ''
    assert client.change('configure') and client.change('activate')
    for verb in ('save', 'load'):
        refused = client.file(verb, '/'.join(['x' * 100] * 45))
        assert not refused.success and 'at most 4000 bytes' in refused.message
        assert len(refused.message) < 200
    shutil.rmtree(tmp_path / 'loop')
    (tmp_path / 'loop').symlink_to(tmp_path / 'loop')
    refused = client.file('save')
    assert not refused.success and 'checkpoint.directory' in refused.message
    assert client.change('deactivate') and client.change('cleanup')


def test_a_save_that_fails_in_whatever_way_lets_the_node_be_cleaned_up(
        world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, client = robot(world, 'active', **{
        'checkpoint.directory': str(tmp_path), 'checkpoint.restore': True})

    def fail(path: Path) -> None:
        raise RuntimeError('the storage is gone')
    monkeypatch.setattr(node.engine.memory, 'save', fail)
    assert client.change('deactivate') and client.change('cleanup')
    assert node.engine.memory is None


def test_a_memory_outlives_its_process_and_a_torn_one_is_left_in_place(
        world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # how long the end of a process may take; cleaning up has more time than that
    monkeypatch.setattr(video_memory_node, 'SAVE_TIMEOUT_S', 0.05)
    keep = {'checkpoint.directory': str(tmp_path), 'checkpoint.restore': True}
    node, client = robot(world, 'active', **keep)
    drive_past(client.camera(), range(10), START_NS, pause_s=0.005)
    until_seen(node, 10)
    assert client.change('deactivate')
    node.engine.post(lambda: time.sleep(0.5))
    assert client.change('cleanup')
    file = tmp_path / 'infinipot.infinipot'
    assert file.is_file()
    assert client.change('configure')
    assert node.engine.status.frames_seen == 10
    assert client.change('cleanup')
    file.write_bytes(file.read_bytes()[:1000])
    assert client.change('configure') and client.change('activate')
    assert client.ask('what do you see now ?').status == R.EMPTY_MEMORY
    until(lambda: (t := client.task(': model')) and str(file) in t.message, 'diagnostics say so')
    assert client.change('deactivate') and client.change('cleanup')
    assert file.stat().st_size == 1000


def test_another_node_in_its_place_is_noticed(
        world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, 'RIVAL_AFTER_S', 0.0)
    node, _ = robot(world, 'unconfigured', autostart=False)
    around = Surroundings(node, 'video_qa')
    until(lambda: around.problem() == '', 'the nodes of other tests are gone')
    for name, words in (('infinipot', 'another node is called /infinipot too'),
                        ('second', 'another node serves /video_qa too')):
        world.nodes.append(rclpy.create_node(name, context=world.context,
                                             use_global_arguments=False))
        world.nodes[-1].create_service(VideoQA, 'video_qa', lambda request, response: response)
        assert words in until(around.problem, name)
        world.nodes.pop().destroy_node()
        until(lambda: around.problem() == '', f'{name} is gone')


def test_a_model_thread_that_has_ended_is_an_error(world: World) -> None:
    node, client = robot(world, 'active')
    assert node.engine.stop(WAIT_S)
    entry = until(lambda: (t := client.task(': model')) and 'has ended' in t.message and t, 'told')
    assert entry.level == b'\x02' and node.state == 'active'


def test_a_destroyed_node_leaves_the_graph_with_all_its_services(world: World) -> None:
    node, client = robot(world, 'active')
    assert client.ask('now ?').status == R.EMPTY_MEMORY and client.state() == 'active'
    name = node.get_name()
    node.close()
    node.executor.remove_node(node)
    world.nodes.remove(node)
    node.destroy_node()
    until(lambda: name not in client.node.get_node_names(), 'it is gone')
    until(lambda: not client.serves('infinipot/get_state'), 'so are its lifecycle services')
    until(lambda: not client.serves('video_qa'), 'and the others')


def test_a_node_destroyed_while_it_configures_does_not_take_the_process_along(
        world: World, loaded: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_memory_node, 'STOP_TIMEOUT_S', 0.8)
    node, client = robot(world, 'unconfigured', autostart=False)
    client.begin_change('configure')
    until(lambda: client.state() == 'configuring', 'configuring')
    world.nodes.remove(node)
    node.destroy_node()
    assert node.state == 'finalized'
    loaded.set()
    until(lambda: not node.engine.alive(), 'the load is over')
    time.sleep(0.3)  # rclpy's end of the transition, which cannot be seen from here
    assert not MODELS._entries


def test_a_policy_of_ones_own_is_imported_when_configuring_and_not_before(
        world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'policies_of_a_robot.py').write_text('')
    monkeypatch.syspath_prepend(str(tmp_path))
    node, client = robot(world, 'unconfigured', autostart=False)
    assert client.set(policy='policies_of_a_robot:mine') == ''
    assert 'policies_of_a_robot' not in sys.modules
    assert not client.change('configure') and 'registers no policy' in node.reason
    assert sys.modules.pop('policies_of_a_robot')


def test_one_file_has_one_writer(world: World, tmp_path: Path) -> None:
    keep = {'checkpoint.directory': str(tmp_path), 'checkpoint.restore': True}
    first, client = robot(world, 'active', **keep)
    file = tmp_path / 'infinipot.infinipot'
    others = FileLocks('/infinipot')
    with pytest.raises(CheckpointError, match=f'process {os.getpid()}, node /infinipot;'):
        others.claim(file)
    assert client.file('save').success, 'it is its own file'
    assert client.change('deactivate') and client.change('cleanup')
    assert others.claim(file)
    assert not client.change('configure')
    for words in ('could not configure', str(file), f'process {os.getpid()}'):
        assert words in first.reason
    assert not MODELS._entries, 'no model is loaded for nothing'
    others.release(file)
    assert client.change('configure')
    assert others.claim(tmp_path / 'kitchen')
    refused = client.file('save', 'kitchen')
    assert not refused.success and 'is in use by process' in refused.message


def test_a_checkpoint_that_cannot_be_written_in_time_is_told(
        world: World, tmp_path: Path) -> None:
    (tmp_path / 'infinipot.infinipot').mkdir()
    node, client = robot(world, 'active', **{
        'checkpoint.directory': str(tmp_path), 'checkpoint.period_s': 0.1})
    entry = until(lambda: (t := client.task(': model')) and t.level == b'\x02' and t, 'an error')
    assert 'checkpoint: ' in entry.message and 'cannot be written' in entry.message
    assert node.state == 'active'


def test_two_robots_in_one_process_share_the_weights_and_nothing_else(world: World) -> None:
    first, second = world.memory_nodes({'namespace': 'robot1'},
                                       {'namespace': 'fleet/robot2', 'budget_mib': 3.0})
    clients = [world.client('robot1'), world.client('fleet/robot2')]
    until(lambda: first.state == second.state == 'active', 'both active')
    assert len(MODELS._entries) == 1
    assert first.engine.memory.model is second.engine.memory.model
    drive_past(clients[0].camera(), range(10), START_NS, pause_s=0.005)
    until_seen(first, 10)
    assert clients[1].ask('what do you see now ?').status == R.EMPTY_MEMORY
    assert clients[0].ask('what do you see now ?').frames_seen == 10
    until(lambda: clients[1].status, 'a status')
    assert clients[1].status[-1].budget_bytes == 3 * 2**20

    def each_has_its_own() -> bool:
        topics = {name for name, _ in clients[0].node.get_topic_names_and_types()}
        return ({'/robot1/image', '/fleet/robot2/image', '/robot1/scene_description'} <= topics
                and not {'/image', '/scene_description'} & topics
                and {name for name in topics if 'memory_status' in name} == {
                    f'/{name}/infinipot/memory_status' for name in ('robot1', 'fleet/robot2')})
    until(each_has_its_own, 'topics below the names of the two, and no others')
