# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every launch file as launch reads it: described arguments, and what it would start."""
from itertools import pairwise
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip('launch_ros', reason='needs launch and launch_ros, which a ROS 2 installation '
                    'has and its Python wheels have not')

from infinipot_ros.errors import ConfigError  # noqa: E402, I100
from launch import LaunchContext  # noqa: E402
from launch.actions import (  # noqa: E402
    DeclareLaunchArgument,
    IncludeLaunchDescription,
    LogInfo,
    OpaqueFunction,
)
from launch.launch_description_sources import (  # noqa: E402
    get_launch_description_from_python_launch_file as load,
)
from launch_ros.actions import Node  # noqa: E402

LAUNCH = Path(__file__).parents[2] / 'launch'
FILES = sorted(path.name for path in LAUNCH.glob('*.launch.py'))
ROBOT_ARGUMENTS = {
    'robot', 'namespace', 'image_topic', 'cameras', 'pose_topic', 'model', 'budget_mib',
    'autostart', 'use_sim_time', 'params_file', 'log_level'}


def describe(name: str) -> Any:
    """Load a launch file."""
    return load(str(LAUNCH / name))


def start(name: str, **arguments: str) -> list[Node]:
    """Return the nodes that a launch file starts with these arguments."""
    context = LaunchContext()
    context.launch_configurations.update(arguments)
    return visit(describe(name).entities, context)


def said(name: str, **arguments: str) -> list[str]:
    """Return the lines that a launch file itself logs."""
    context = LaunchContext()
    context.launch_configurations.update(arguments)
    found = [entity for action in describe(name).entities if isinstance(action, OpaqueFunction)
             for entity in action.execute(context) or () if isinstance(entity, LogInfo)]
    return [''.join(part.perform(context) for part in entity.msg) for entity in found]


def visit(entities: Any, context: LaunchContext) -> list[Node]:
    nodes = []
    for entity in entities or []:
        if isinstance(entity, Node):
            nodes.append(entity)
        elif isinstance(entity, DeclareLaunchArgument | OpaqueFunction | IncludeLaunchDescription):
            nodes += visit(entity.execute(context), context)
        else:
            nodes += visit(entity.visit(context), context)
    return nodes


def command(node: Node) -> list[str]:
    """Return the command line of a node, without looking for its executable."""
    context = LaunchContext()
    node._perform_substitutions(context)
    context.extend_locals({'ros_specific_arguments': {
        'name': f'__node:={node.node_name}', 'ns': f'__ns:={node.expanded_node_namespace}'}})
    return [''.join(part.perform(context) for part in word) for word in node.cmd[1:]]


def parameters(node: Node) -> dict[str, Any]:
    """Return the parameters that a node would get."""
    merged: dict[str, Any] = {}
    words = command(node)
    for flag, value in pairwise(words):
        if flag == '--params-file':
            # launch_ros writes a list of texts as a Python tuple
            for entry in yaml.full_load(Path(value).read_text()).values():
                merged.update(entry['ros__parameters'])
    return merged


def test_there_are_the_four_files() -> None:
    assert FILES == ['demo.launch.py', 'fleet.launch.py', 'nav2.launch.py', 'robot.launch.py']


@pytest.mark.parametrize('name', FILES)
def test_every_argument_is_described(name: str) -> None:
    arguments = describe(name).get_launch_arguments()
    assert arguments
    for argument in arguments:
        assert argument.description not in ('', 'no description given'), argument.name


def test_a_robot_and_nav2_take_the_same_arguments() -> None:
    """But for the lifecycle, which Nav2's manager has in hand."""
    own = {name: {argument.name for argument in describe(name).entities
                  if isinstance(argument, DeclareLaunchArgument)}
           for name in ('robot.launch.py', 'nav2.launch.py')}
    assert own['robot.launch.py'] == ROBOT_ARGUMENTS
    assert own['nav2.launch.py'] == ROBOT_ARGUMENTS - {'autostart'}


def test_a_robot_is_started_with_its_file() -> None:
    (node,) = start('robot.launch.py', robot='cpu_demo')
    given = parameters(node)
    assert given['model'] == 'demo'
    assert given['budget_mib'] == 2.0
    assert 'use_sim_time' not in given


def test_a_topic_that_was_not_given_is_told() -> None:
    given = dict.fromkeys(ROBOT_ARGUMENTS, '') | {'robot': 'cpu_demo', 'namespace': 'r1'}
    assert said('robot.launch.py', **given) == [
        'neither image_topic nor cameras is given: listening to /r1/image']
    assert said('robot.launch.py', **given | {'image_topic': 'cam'}) == []


def test_texts_stay_texts_and_numbers_numbers(tmp_path: Path) -> None:
    """launch_ros reads a plain text as YAML: a folder named 007 would become the number 7."""
    (node,) = start('robot.launch.py', robot='cpu_demo', model='007', budget_mib='3',
                    use_sim_time='True', cameras='on=/a/image_raw,rear=/b/image_raw/compressed')
    given = parameters(node)
    assert given['model'] == '007'
    assert given['budget_mib'] == 3.0 and isinstance(given['budget_mib'], float)
    assert given['use_sim_time'] is True
    assert given['cameras'] == ['on', 'rear']
    assert given['rear.transport'] == 'compressed'


def test_an_unknown_robot_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"robot: 'r2d2' is not known. Known robots: cpu_demo, "):
        start('robot.launch.py', robot='r2d2')


def test_the_demo_starts_camera_and_node() -> None:
    camera, node = start('demo.launch.py', setting='crowd', seed='5')
    assert parameters(camera) == {'setting': 'crowd', 'seed': 5, 'fps': 4.0, 'scale': 4,
                                  'num_frames': 300, 'loop': True}
    given = parameters(node)
    assert given['camera.topic'] == 'camera/image_raw'
    assert given['pose_topic'] == 'odom'
    assert given['qos_overrides./camera/image_raw.subscription.reliability'] == 'reliable'


def test_the_demo_loses_no_picture_in_a_namespace_and_a_file_of_ones_own_wins(
        tmp_path: Path) -> None:
    own = tmp_path / 'own.yaml'
    name = 'qos_overrides./r1/camera/image_raw.subscription.reliability'
    for text, wanted in (('{}', 'reliable'), (f'{{{name}: best_effort}}', 'best_effort')):
        own.write_text(f'/**: {{ros__parameters: {text}}}')
        _, node = start('demo.launch.py', namespace='r1', params_file=str(own))
        assert parameters(node)[name] == wanted


def test_a_fleet_is_one_process_with_a_budget_each(tmp_path: Path) -> None:
    own = tmp_path / 'own.yaml'
    own.write_text('/b/infinipot: {ros__parameters: {budget_mib: 3.5}}')
    (process,) = start('fleet.launch.py', namespaces='a,b', robot='cpu_demo',
                       image_topic='camera/image_raw', params_file=str(own))
    words = command(process)
    assert words[words.index('--namespaces') + 1] == 'a,b'
    document = yaml.safe_load(Path(words[words.index('--params-file') + 1]).read_text())
    budgets = {name: entry['ros__parameters']['budget_mib'] for name, entry in document.items()}
    assert budgets == {'/a/infinipot': 2.0, '/b/infinipot': 3.5}
    assert not any('__node' in word or '__ns' in word for word in words)


def test_without_nav2_nothing_is_started(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch would leave the node behind."""
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(tmp_path))
    context = LaunchContext()
    context.launch_configurations['robot'] = 'cpu_demo'
    for entity in describe('nav2.launch.py').entities:
        assert isinstance(entity, DeclareLaunchArgument | OpaqueFunction), 'comes first'
        try:
            entity.execute(context)
        except ConfigError as error:
            assert 'nav2_lifecycle_manager is not installed' in str(error)
            break
    else:
        pytest.fail('nothing is said')


def test_nav2_gets_a_manager_without_a_bond(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / 'share' / 'ament_index' / 'resource_index' / 'packages'
    index.mkdir(parents=True)
    (index / 'nav2_lifecycle_manager').touch()
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(tmp_path), prepend=os.pathsep)
    node, manager = start('nav2.launch.py', robot='cpu_demo', namespace='r1', use_sim_time='true')
    assert parameters(node)['autostart'] is False
    given = parameters(manager)
    assert list(given['node_names']) == ['infinipot']
    assert given['bond_timeout'] == 0.0
    assert given['use_sim_time'] is True
    words = command(manager)
    assert '__ns:=/r1' in words
