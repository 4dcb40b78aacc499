# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Launch logic: whose value wins, and what a wrong argument is told."""
from pathlib import Path
import subprocess
import sys

from infinipot_ros import launch_support as support
from infinipot_ros.errors import ConfigError
import pytest

ROBOT = """
/**:
  ros__parameters:
    budget_mib: 100.0
    model: big
    cameras: [camera]
    camera.topic: /image
    qa:
      queue: 3
"""


@pytest.fixture
def robot(tmp_path: Path) -> str:
    """Write a robot file and return its path."""
    path = tmp_path / 'my_robot.yaml'
    path.write_text(ROBOT)
    return str(path)


def write(path: Path, text: str) -> str:
    """Write a file and return its path."""
    path.write_text(text)
    return str(path)


def test_what_is_not_given_comes_from_the_robots_file(robot: str) -> None:
    """An empty argument was not given."""
    assert support.node_parameters({'robot': robot, 'budget_mib': '', 'model': ''}) == {
        'budget_mib': 100.0, 'model': 'big', 'cameras': ['camera'], 'camera.topic': '/image',
        'qa.queue': 3}


@pytest.mark.parametrize('key', [
    'infinipot', '/robot1/infinipot', '/*/infinipot', '/**/infinipot', '/**'])
def test_a_launch_argument_beats_files_however_they_name_the_node(
        robot: str, tmp_path: Path, key: str) -> None:
    """launch_ros#233: an entry for the node's own name beat a later wildcard entry."""
    namespace = '' if key == 'infinipot' else 'robot1'
    params_file = write(tmp_path / 'p.yaml', f'{key}:\n  ros__parameters: {{budget_mib: 50.0}}\n')
    given = {'robot': robot, 'params_file': params_file, 'namespace': namespace}
    assert support.node_parameters(given)['budget_mib'] == 50.0
    assert support.node_parameters({**given, 'budget_mib': '7'})['budget_mib'] == 7.0


def test_entries_of_other_nodes_are_left_alone(tmp_path: Path) -> None:
    """Nav2's parameter files hold many nodes; only ours counts, and its own name beats `/**`."""
    path = Path(write(tmp_path / 'nav2.yaml', """
robot1:
  infinipot: {ros__parameters: {alpha: 0.4}}
  controller_server: {ros__parameters: {alpha: 9.0}}
/other/infinipot: {ros__parameters: {alpha: 8.0}}
infinipot: {ros__parameters: {alpha: 7.0}}
/**: {ros__parameters: {alpha: 0.1, use_sim_time: true}}
"""))
    read = support.read_parameters(path, namespace='robot1')
    assert read == {'alpha': 0.4, 'use_sim_time': True}
    assert support.read_parameters(path)['alpha'] == 7.0


@pytest.mark.parametrize(('pattern', 'name', 'matches'), [
    ('/**', '/infinipot', True), ('/**', '/a/b/infinipot', True),
    ('/*/infinipot', '/a/infinipot', True), ('/*/infinipot', '/infinipot', False),
    ('/*/infinipot', '/a/b/infinipot', False), ('/**/infinipot', '/infinipot', True),
    ('/infinipot', '/a/infinipot', False), ('/infinipo.', '/infinipot', False)])
def test_node_name_patterns(pattern: str, name: str, matches: bool) -> None:
    """`*` is one part of a name, `**` any number, and nothing else is special."""
    assert support._matches(pattern, name) is matches


def test_an_unknown_robot_lists_the_known_ones() -> None:
    """The message is enough to type the right name."""
    with pytest.raises(ConfigError) as error:
        support.robot_file('jetson_nano')
    assert "'jetson_nano'" in str(error.value)
    assert support.known_robots()
    for robot in support.known_robots():
        assert robot in str(error.value)
    with pytest.raises(ConfigError, match=r"robot: '' is not known. Known robots: .*cpu_demo"):
        support.node_parameters({'robot': ''})
    with pytest.raises(ConfigError, match=r'no file.*Known robots'):
        support.robot_file('/nowhere/mine.yaml')


@pytest.mark.parametrize(('name', 'text', 'message'), [
    ('budget_mib', 'lots', "budget_mib: 'lots' is not a number"),
    ('autostart', 'maybe', "autostart: 'maybe' is neither true nor false"),
    ('cameras', 'front', "cameras: 'front' is not NAME=TOPIC"),
    ('cameras', 'front=/a,front=/b', "cameras: 'front' is there twice"),
    ('cameras', '1st=/a', "cameras: '1st=/a' is not NAME=TOPIC"),
    ('cameras', 'front=/a,', "cameras: '' is not NAME=TOPIC"),
    ('params_file', '/nowhere.yaml', "params_file: cannot read '/nowhere.yaml': No such file")])
def test_a_wrong_argument_is_named(robot: str, name: str, text: str, message: str) -> None:
    """Each error says which argument, what was seen, and what is allowed."""
    with pytest.raises(ConfigError) as error:
        support.node_parameters({'robot': robot, name: text})
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(('text', 'message'), [
    ('a: [', 'is not valid YAML'), ('- 1', 'holds a list'), ('budget_mib: 3', 'ros__parameters'),
    ('/**: {budget_mib: 3}', 'ros__parameters')])
def test_a_file_that_is_no_parameter_file_is_refused(
        tmp_path: Path, text: str, message: str) -> None:
    """A file whose entries would be ignored without a word is an error."""
    with pytest.raises(ConfigError, match=message):
        support.read_parameters(Path(write(tmp_path / 'bad.yaml', text)))


def test_image_topic_names_the_only_camera(robot: str, tmp_path: Path) -> None:
    """A topic that ends in /compressed selects that transport."""
    raw = support.node_parameters({'robot': robot, 'image_topic': '/cam/image_raw'})
    assert (raw['camera.topic'], raw['camera.transport']) == ('/cam/image_raw', 'raw')
    compressed = support.node_parameters({'robot': robot, 'image_topic': '/cam/i/compressed'})
    assert (compressed['camera.topic'], compressed['camera.transport']) == ('/cam/i', 'compressed')
    two = write(tmp_path / 'two.yaml', '/**: {ros__parameters: {cameras: [front, rear]}}')
    with pytest.raises(ConfigError, match='the robot has front, rear; use cameras:='):
        support.node_parameters({'robot': two, 'image_topic': '/cam/image_raw'})
    with pytest.raises(ConfigError, match='both given'):
        support.node_parameters({'robot': robot, 'image_topic': '/a', 'cameras': 'front=/b'})


def test_a_topic_that_no_one_has_named_is_told_in_full(robot: str, tmp_path: Path) -> None:
    """The node would wait on its default without a word."""
    assert support.unnamed_topics(support.node_parameters({'robot': robot}), '') == []
    bare = {'robot': write(tmp_path / 'bare.yaml', '/**: {ros__parameters: {model: big}}')}
    assert support.unnamed_topics(support.node_parameters(bare), '') == ['/image']
    assert support.unnamed_topics(support.node_parameters(bare), 'r1') == ['/r1/image']
    named = support.node_parameters({**bare, 'image_topic': 'cam'})
    assert support.unnamed_topics(named, '') == []
    two = write(tmp_path / 'two.yaml',
                '/**: {ros__parameters: {cameras: [a, b, c], b.topic: /b, '
                'c.transport: compressed}}')
    read = support.node_parameters({**bare, 'params_file': two})
    assert support.unnamed_topics(read, '') == ['/a/image', '/c/image/compressed']


def test_a_package_that_is_missing_is_named_with_how_to_install_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is installed, nothing is said."""
    pytest.importorskip('ament_index_python')
    monkeypatch.setenv('AMENT_PREFIX_PATH', str(tmp_path))
    monkeypatch.setenv('ROS_DISTRO', 'jazzy')
    with pytest.raises(ConfigError) as error:
        support.require_package('nav2_lifecycle_manager')
    assert str(error.value).startswith('the package nav2_lifecycle_manager is not installed')
    assert str(error.value).endswith('sudo apt install ros-jazzy-nav2-lifecycle-manager')
    index = tmp_path / 'share' / 'ament_index' / 'resource_index' / 'packages'
    index.mkdir(parents=True)
    (index / 'nav2_lifecycle_manager').touch()
    support.require_package('nav2_lifecycle_manager')


def test_cameras_replace_those_of_the_file(robot: str) -> None:
    """Names keep the order in which they are written."""
    read = support.node_parameters({
        'robot': robot, 'cameras': 'rear=/rear/image_raw/compressed, front=/front/image_raw'})
    assert read['cameras'] == ['rear', 'front']
    assert (read['rear.topic'], read['rear.transport']) == ('/rear/image_raw', 'compressed')
    assert (read['front.topic'], read['front.transport']) == ('/front/image_raw', 'raw')


@pytest.mark.parametrize(('text', 'value'), [
    ('true', True), ('True', True), ('1', True), ('false', False), ('FALSE', False), ('0', False)])
def test_true_and_false_however_they_are_written(robot: str, text: str, value: bool) -> None:
    """`True` from another launch file and `true` from a shell mean the same."""
    assert support.node_parameters({'robot': robot, 'autostart': text})['autostart'] is value


def test_a_fleet_has_one_set_of_parameters_per_robot(robot: str, tmp_path: Path) -> None:
    """A parameter file can give each robot its own budget."""
    params_file = write(tmp_path / 'f.yaml', '/b/infinipot: {ros__parameters: {budget_mib: 9.0}}')
    fleet = support.fleet_parameters(['a', 'b'], {'robot': robot, 'params_file': params_file})
    assert {name: p['budget_mib'] for name, p in fleet.items()} == {
        '/a/infinipot': 100.0, '/b/infinipot': 9.0}
    with pytest.raises(ConfigError, match="namespaces: '/a' is there twice"):
        support.fleet_parameters(['a', '/a'], {'robot': robot})
    with pytest.raises(ConfigError, match='name at least one robot'):
        support.fleet_parameters([], {'robot': robot})


@pytest.mark.parametrize('given', [
    {'image_topic': '/cam/image_raw'}, {'pose_topic': '/odom'}, {'cameras': 'a=/cam/image_raw'}])
def test_robots_of_a_fleet_do_not_share_a_topic(robot: str, given: dict[str, str]) -> None:
    """An absolute topic would show every robot the same camera."""
    with pytest.raises(ConfigError, match='one topic for all robots; leave out the first slash'):
        support.fleet_parameters(['a', 'b'], {'robot': robot, **given})
    assert support.fleet_parameters(['a'], {'robot': robot, **given})


def test_a_written_parameter_file_is_read_back_the_same() -> None:
    """Texts that look like numbers stay texts."""
    parameters = {'/a/infinipot': {'model': '007', 'budget_mib': 2.0, 'cameras': ['front']},
                  '/b/infinipot': {'model': 'on', 'budget_mib': 3.0, 'cameras': ['rear']}}
    path = support.write_parameters(parameters)
    try:
        assert support.read_parameters(path, namespace='a') == parameters['/a/infinipot']
        assert support.read_parameters(path, namespace='b') == parameters['/b/infinipot']
    finally:
        path.unlink()


def test_the_cameras_settings_are_those_of_the_world() -> None:
    """The launch file offers what the simulated camera accepts."""
    from infinipot_ros.demo.world import SETTINGS
    assert support.SETTINGS == SETTINGS


def test_numbers_of_the_simulated_camera() -> None:
    """Whole numbers stay whole; a fraction of a frame is an error."""
    given = {'setting': 'calm', 'fps': '4', 'loop': 'true', 'seed': '3', 'scale': '2',
             'num_frames': '10'}
    assert support.demo_camera_parameters(given) == {
        'setting': 'calm', 'fps': 4.0, 'loop': True, 'seed': 3, 'scale': 2, 'num_frames': 10}
    with pytest.raises(ConfigError, match=r"seed: '1.5' is not a whole number"):
        support.demo_camera_parameters({**given, 'seed': '1.5'})


def test_launch_logic_imports_nothing_heavy() -> None:
    """`ros2 launch --show-args` has to answer at once."""
    code = ('import infinipot_ros.launch_support, sys; '
            "print([m for m in ('torch', 'transformers', 'cv2', 'rclpy', 'numpy') "
            'if m in sys.modules])')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == '[]'
