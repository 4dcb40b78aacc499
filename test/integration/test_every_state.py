# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every transition from every state, names that are remapped, and what goes on for very long."""

from __future__ import annotations

import gc
from typing import Any

import pytest

rclpy = pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from dds_world import (  # noqa: E402, I100
    Client,
    DEFAULTS,
    DRIVE,
    drive_past,
    image,
    own_threads,
    SECOND_NS,
    START_NS,
    TRANSITIONS,
    until,
    until_seen,
    World,
)
from infinipot_ros.node import diagnostics, video_memory_node  # noqa: E402
from infinipot_ros.node.composition import compose  # noqa: E402
from infinipot_ros.node.model_pool import MODELS  # noqa: E402
from infinipot_ros.srv import VideoQA  # noqa: E402
from lifecycle_msgs.srv import ChangeState  # noqa: E402
from rcl_interfaces.msg import Parameter as ParameterMessage  # noqa: E402
from rcl_interfaces.msg import ParameterType, ParameterValue  # noqa: E402
from rcl_interfaces.srv import GetParameters, SetParameters  # noqa: E402
from rclpy.callback_groups import ReentrantCallbackGroup  # noqa: E402
from rclpy.executors import MultiThreadedExecutor  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402

R = VideoQA.Response
SHUTDOWNS = {'unconfigured': 5, 'inactive': 6, 'active': 7}
WAY = {'unconfigured': (), 'inactive': ('configure',), 'active': ('configure', 'activate')}


def robot(world: World, **parameters: Any) -> tuple[Any, Client]:
    """Start a node that waits to be configured, and a client."""
    node = world.memory_nodes({'autostart': False, **parameters})[0]
    return node, world.client()


def change(client: Client, number: int) -> bool:
    """Ask for a transition by its number; return its success."""
    request = ChangeState.Request()
    request.transition.id = number
    response = client.call(ChangeState, 'infinipot/change_state', request)
    return bool(response.success)


def with_words(world: World, *words: str) -> tuple[Any, Client]:
    """Start a node with words of a command line, in a process that goes on."""
    executor = MultiThreadedExecutor(num_threads=32, context=world.context)
    node = compose(executor, [{
        'context': world.context, 'use_global_arguments': False,
        'cli_args': ['--ros-args', *words], 'parameter_overrides': [
            Parameter(name, value=value) for name, value in DEFAULTS.items()]}])[0]
    world.nodes.append(node)
    world.run(executor)
    return node, world.client()


@pytest.mark.parametrize('state', WAY)
def test_every_transition_from_a_state_is_made_or_refused_and_it_ends_finalized(
        world: World, state: str) -> None:
    node, client = robot(world)
    for transition in WAY[state]:
        assert client.change(transition)
    allowed = {'unconfigured': {'configure'}, 'inactive': {'activate', 'cleanup'},
               'active': {'deactivate'}}[state]
    for transition in set(TRANSITIONS) - allowed:
        assert not client.change(transition)
        assert node.state == state
    for number in {0, 8, 99, *SHUTDOWNS.values()} - {SHUTDOWNS[state]}:
        assert not change(client, number)
    assert client.state() == state
    assert change(client, SHUTDOWNS[state])
    assert client.state() == 'finalized'
    response = client.ask('what do you see now ?')
    assert response.status == R.NOT_ACTIVE and 'shut down' in response.message
    for number in range(1, 8):
        assert not change(client, number)
    until(lambda: not MODELS._entries, 'the model is given back')
    assert not client.reset().success
    assert not client.file('save').success


def test_fifty_times_up_and_down_leaves_nothing_behind(world: World) -> None:
    node, client = robot(world)
    threads = 0
    for _ in range(50):
        for transition in ('configure', 'activate', 'deactivate', 'cleanup'):
            assert client.change(transition)
        assert not MODELS._entries and node.engine.memory is None
        threads = threads or own_threads()
    until(lambda: own_threads() <= threads, 'no thread is left over')
    until(lambda: client.node.count_publishers('/diagnostics') == 1, 'one publisher')
    until(lambda: client.node.count_services('/video_qa') == 1, 'one service')
    assert client.change('configure') and client.change('activate')
    drive_past(client.camera(), range(3), START_NS)
    until_seen(node, 3)
    assert client.ask('what do you see now ?').status == R.ANSWERED


def test_hundreds_of_calls_leave_nothing_behind(world: World) -> None:
    """A leak of one thing in two calls is seen."""
    node, client = robot(world)
    names = GetParameters.Request(names=['budget_mib'])
    asker = rclpy.create_node('asker', context=world.context, use_global_arguments=False)
    world.nodes.append(asker)
    quiet = Client(asker)
    executor = rclpy.executors.SingleThreadedExecutor(context=world.context)
    executor.add_node(asker)
    world.run(executor)

    def call(calls: int) -> None:
        for _ in range(calls):
            quiet.call(GetParameters, 'infinipot/get_parameters', names)
            assert quiet.ask('?').status == R.NOT_ACTIVE

    def alive() -> int:
        quiet.diagnostics.clear()
        quiet.status.clear()
        client.diagnostics.clear()
        gc.collect()
        return len(gc.get_objects())
    call(150)
    before = min(alive() for _ in range(3))
    call(250)
    # what the node says every second may come while it is counted
    until(lambda: alive() < before + 250, 'nothing is left of the calls')
    assert node.questions.open == 0


def test_a_question_from_a_callback_in_the_same_executor_is_answered(world: World) -> None:
    node, client = robot(world)  # rclpy#1398
    assert client.change('configure') and client.change('activate')
    user = rclpy.create_node('user', context=world.context, use_global_arguments=False)
    world.nodes.append(user)
    group = ReentrantCallbackGroup()
    asks = user.create_client(VideoQA, 'video_qa', callback_group=group)
    answers: list[VideoQA.Response] = []

    def ask() -> None:
        timer.cancel()
        assert asks.wait_for_service(60.0)
        answers.append(asks.call(VideoQA.Request(question='what do you see now ?')))
    timer = user.create_timer(0.01, ask, callback_group=group)
    executor = node.executor
    executor.add_node(user)
    for count in range(3):
        if count:
            timer.reset()
        until(lambda count=count: len(answers) > count, 'an answer')
        assert answers[-1].status == R.EMPTY_MEMORY
    assert node.executor is executor and {node, user} <= set(executor.get_nodes())
    client.diagnostics.clear()
    until(lambda: client.diagnostics, 'its timers go on')


def test_topics_and_service_may_be_remapped(world: World) -> None:
    node, client = with_words(
        world, '-r', 'image:=/front/camera/color', '-r', 'video_qa:=ask/the_memory',
        '-p', 'qos_overrides./front/camera/color.subscription.reliability:=reliable')
    until(lambda: node.state == 'active', 'active')
    assert node.inputs.cameras[0].topic == '/front/camera/color'
    camera = client.camera('/front/camera/color')
    camera.publish(image(DRIVE.frame(0).rgb, START_NS))
    until_seen(node, 1)
    request = VideoQA.Request(question='what do you see now ?')
    assert client.call(VideoQA, 'ask/the_memory', request).status == R.ANSWERED


def test_an_empty_list_of_cameras_is_refused_in_words_and_two_names_are_accepted(
        world: World) -> None:
    node, client = with_words(world, '-p', 'cameras:=[]')  # rclpy#912
    until(lambda: node.reason, 'a reason')
    assert 'cameras is empty; it has to be one or more' in node.reason
    assert client.set(cameras=['front', 'rear'], budget_mib=4.0) == ''
    empty = ParameterMessage(name='cameras', value=ParameterValue(
        type=ParameterType.PARAMETER_STRING_ARRAY))
    result = client.call(SetParameters, 'infinipot/set_parameters',
                         SetParameters.Request(parameters=[empty])).results[0]
    assert not result.successful and 'one or more different names' in result.reason
    assert client.change('configure') and client.change('activate')
    assert [camera.topic for camera in node.inputs.cameras] == ['/front/image', '/rear/image']


def test_an_answer_without_words_and_one_of_nan_are_told_and_the_next_is_right(
        world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, 'RECENT_S', 1000.0)
    node, client = robot(world)
    assert client.change('configure') and client.change('activate')
    drive_past(client.camera(), range(10), START_NS)
    until_seen(node, 10)
    question, model = 'what do you see now ?', node.engine.memory.model
    right = client.ask(question).answer
    with monkeypatch.context() as patch:
        patch.setattr(model, 'eos_ids', frozenset(range(10_000)))
        response = client.ask(question)
        assert (response.status, response.answer) == (R.ANSWERED, '')
        assert 'ended its answer at once' in response.message
    with monkeypatch.context() as patch:
        logits = model.logits
        patch.setattr(model, 'logits', lambda states: logits(states) * float('nan'))
        response = client.ask(question)
        assert (response.status, response.answer) == (R.FAILED, '')
        assert 'NaN' in response.message and 'float32' in response.message
        until(lambda: (t := client.task(': model')) and 'NaN' in t.message, 'diagnostics')
    with monkeypatch.context() as patch:  # one that never ends
        patch.setattr(model, 'eos_ids', frozenset())
        assert client.ask(question, max_new_tokens=8).status == R.ANSWERED
    assert client.ask(question).answer == right
    assert node.engine.status.frames_seen == 10


def test_out_of_memory_while_loading_and_in_a_frame_costs_no_more_than_that(
        world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*unused: Any, **also_unused: Any) -> None:
        raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')
    monkeypatch.setattr(diagnostics, 'RECENT_S', 1000.0)
    node, client = robot(world)
    with monkeypatch.context() as patch:
        patch.setattr(video_memory_node, 'acquire_model', full)
        assert not client.change('configure')
    assert 'out of memory' in node.reason and 'lower budget_mib' in node.reason
    with monkeypatch.context() as patch:
        patch.setattr(video_memory_node, 'make_memory', full)
        assert not client.change('configure')
    assert not MODELS._entries, 'the weights are freed'
    assert client.set(budget_mib=1.8) == ''
    assert client.change('configure') and client.change('activate')
    camera = client.camera()
    drive_past(camera, range(5), START_NS)
    until_seen(node, 5)
    with monkeypatch.context() as patch:
        patch.setattr(node.engine.memory, 'add_frame', full)
        drive_past(camera, [5], START_NS + SECOND_NS)
        until(lambda: node.engine.dropped['model failed'] == 1, 'the frame is lost')
        entry = until(lambda: (t := client.task(': model')) and t.level == b'\x02' and t, 'error')
    assert entry.message.startswith('frame: ') and 'lower budget_mib' in entry.message
    drive_past(camera, range(6, 9), START_NS + 2 * SECOND_NS)
    until_seen(node, 8)
    assert client.ask('what do you see now ?').frames_seen == 8
