# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Decide which parameters a launch file hands to the node.

Everything here is plain Python, so that it can be tested without a ROS installation. The launch
files hand over one merged set of parameters instead of a list of files: ROS orders parameter
files by the node names written in them, not by their place in the list, so a launch argument
would lose against a file that names the node (ros2/launch_ros#233).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
import os
from pathlib import Path
import re
import tempfile
from typing import Any

from infinipot_ros.errors import ConfigError
from infinipot_ros.node.parameter_table import image_topic
import yaml

PACKAGE = 'infinipot_ros'
NODE_NAME = 'infinipot'
SETTINGS = ('calm', 'still', 'crowd', 'screen', 'vivid')  # of the demo world, without its imports
OVERRIDES = {
    'image_topic': 'topic of the only camera; one that ends in /compressed is read as '
                   'CompressedImage',
    'cameras': 'several cameras, as front=front/image_raw,rear=rear/image_raw',
    'pose_topic': 'Odometry, PoseStamped or PoseWithCovarianceStamped topic of the robot',
    'model': "Hugging Face model name or folder, or 'demo' for the embedded model of the demo "
             'world',
    'budget_mib': "MiB that a robot's memory may hold",
    'autostart': 'true: the node configures and activates itself; false: a lifecycle manager does',
    'use_sim_time': 'true: take the time from /clock',
    'params_file': "a parameter file whose entries win over the robot's file and lose against "
                   'arguments given here',
}
COMPRESSED_SUFFIX = '/compressed'

_PARAMETERS_KEY = 'ros__parameters'
_TRUE_WORDS = ('true', '1', 'yes', 'on')
_FALSE_WORDS = ('false', '0', 'no', 'off')
_CAMERA_NAME = re.compile(r'[A-Za-z][A-Za-z0-9_]*')


def robots_directory() -> Path:
    """Return the folder with one parameter file per robot, of this source tree or install."""
    beside_source = Path(__file__).resolve().parents[1] / 'config' / 'robots'
    if beside_source.is_dir():
        return beside_source
    from ament_index_python.packages import get_package_share_directory
    return Path(get_package_share_directory(PACKAGE)) / 'config' / 'robots'


def known_robots(directory: Path | None = None) -> list[str]:
    """Return the names that `robot` accepts, sorted."""
    return sorted(path.stem for path in (directory or robots_directory()).glob('*.yaml'))


def robot_file(robot: str, directory: Path | None = None) -> Path:
    """
    Return the parameter file of a robot.

    :param robot: a name from `known_robots`, or the path of a YAML file of one's own.
    :raises ConfigError: there is no such robot; the message lists the known ones.
    """
    directory = directory or robots_directory()
    if robot.endswith(('.yaml', '.yml')):
        own_file = Path(robot).expanduser()
        if own_file.is_file():
            return own_file
        raise ConfigError(f"robot: there is no file '{robot}'. {_known(directory)}")
    if robot in known_robots(directory):
        return directory / f'{robot}.yaml'
    raise ConfigError(f"robot: '{robot}' is not known. {_known(directory)}")


def read_parameters(path: Path, node_name: str = NODE_NAME, namespace: str = '') -> dict[str, Any]:
    """
    Read what a ROS parameter file says for one node, with dots for nesting.

    Entries for more specific node names win over wildcards, as in ROS.

    :raises ConfigError: the file is missing, is no YAML, or is no ROS parameter file.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding='utf-8'))
    except OSError as error:
        raise ConfigError(f"params_file: cannot read '{path}': {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"params_file: '{path}' is not valid YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(
            f"params_file: '{path}' holds a {type(document).__name__}, not a mapping of node "
            f"names; start it with '/**:' and '  {_PARAMETERS_KEY}:'")
    entries = list(_entries('', document))
    if not entries:
        raise ConfigError(
            f"params_file: '{path}' has no '{_PARAMETERS_KEY}:'; write the parameters below "
            f"'/**:' and '  {_PARAMETERS_KEY}:'")
    full_name = full_node_name(node_name, namespace)
    matching = [(pattern, values) for pattern, values in entries if _matches(pattern, full_name)]
    matching.sort(key=lambda entry: -entry[0].count('*'))
    merged: dict[str, Any] = {}
    for _, values in matching:
        merged.update(flatten(values))
    return merged


def full_node_name(node_name: str, namespace: str) -> str:
    """Return `/namespace/node_name` with single slashes."""
    return '/' + '/'.join(part for part in f'{namespace}/{node_name}'.split('/') if part)


def flatten(values: Mapping[str, Any], prefix: str = '') -> dict[str, Any]:
    """Turn nested mappings into dotted names: {'qa': {'queue': 2}} -> {'qa.queue': 2}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f'{prefix}{key}.'))
        else:
            flat[f'{prefix}{key}'] = value
    return flat


def parse_bool(name: str, text: str) -> bool:
    """
    Read a launch argument that is true or false, however it is capitalised.

    :raises ConfigError: it is neither.
    """
    word = text.strip().lower()
    if word in _TRUE_WORDS:
        return True
    if word in _FALSE_WORDS:
        return False
    raise ConfigError(f"{name}: '{text}' is neither true nor false")


def parse_number(name: str, text: str) -> float:
    """
    Read a launch argument that is a number.

    :raises ConfigError: it is not one.
    """
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name}: '{text}' is not a number; write for instance "
                          f'{name}:=256') from None


def parse_cameras(text: str) -> dict[str, str]:
    """
    Read the launch argument `cameras`: 'front=/front/image_raw,rear=/rear/image_raw'.

    :returns: topic by camera name, in the order written.
    :raises ConfigError: an entry has no topic, or a name is no ROS name or written twice.
    """
    topics: dict[str, str] = {}
    for entry in text.split(','):
        name, equals, topic = (part.strip() for part in entry.partition('='))
        if not (equals and topic and _CAMERA_NAME.fullmatch(name)):
            raise ConfigError(
                f"cameras: '{entry.strip()}' is not NAME=TOPIC; write for instance "
                'cameras:=front=/front/image_raw,rear=/rear/image_raw')
        if name in topics:
            raise ConfigError(f"cameras: '{name}' is there twice; give each camera its own name")
        topics[name] = topic
    return topics


def camera_parameters(topics: Mapping[str, str]) -> dict[str, Any]:
    """Turn topic by camera name into node parameters; '.../compressed' selects that transport."""
    parameters: dict[str, Any] = {'cameras': list(topics)}
    for name, topic in topics.items():
        compressed = topic.endswith(COMPRESSED_SUFFIX)
        parameters[f'{name}.topic'] = topic.removesuffix(COMPRESSED_SUFFIX)
        parameters[f'{name}.transport'] = 'compressed' if compressed else 'raw'
    return parameters


def node_parameters(arguments: Mapping[str, str]) -> dict[str, Any]:
    """
    Merge the robot's file, `params_file` and the launch arguments, the later ones winning.

    :param arguments: launch arguments as text; an empty one was not given. Read are `robot`,
        `namespace` and those in `OVERRIDES`.
    :raises ConfigError: an argument cannot be used; the message names it.
    """
    given = {name: text.strip() for name, text in arguments.items() if text.strip()}
    namespace = given.get('namespace', '')
    parameters = read_parameters(robot_file(given.get('robot', '')), namespace=namespace)
    if 'params_file' in given:
        own_file = Path(given['params_file']).expanduser()
        parameters.update(read_parameters(own_file, namespace=namespace))
    parameters.update(_overrides(given, parameters))
    return parameters


def _overrides(given: Mapping[str, str], parameters: Mapping[str, Any]) -> dict[str, Any]:
    overrides: dict[str, Any] = {}
    if 'cameras' in given and 'image_topic' in given:
        raise ConfigError('cameras and image_topic are both given; image_topic is for a single '
                          'camera, so name it in cameras instead')
    if 'cameras' in given:
        overrides.update(camera_parameters(parse_cameras(given['cameras'])))
    if 'image_topic' in given:
        names = parameters.get('cameras') or ['camera']
        if len(names) > 1:
            raise ConfigError('image_topic is for a single camera, but the robot has '
                              f"{', '.join(names)}; use cameras:={names[0]}=TOPIC,...")
        overrides.update(camera_parameters({names[0]: given['image_topic']}))
    for name in ('pose_topic', 'model'):
        if name in given:
            overrides[name] = given[name]
    if 'budget_mib' in given:
        overrides['budget_mib'] = parse_number('budget_mib', given['budget_mib'])
    for name in ('autostart', 'use_sim_time'):
        if name in given:
            overrides[name] = parse_bool(name, given[name])
    return overrides


def demo_camera_parameters(arguments: Mapping[str, str]) -> dict[str, Any]:
    """
    Read the launch arguments of the simulated camera.

    :raises ConfigError: a number is none, or is not whole where it has to be.
    """
    parameters: dict[str, Any] = {
        'setting': arguments['setting'], 'fps': parse_number('fps', arguments['fps']),
        'loop': parse_bool('loop', arguments['loop'])}
    for name in ('seed', 'scale', 'num_frames'):
        number = parse_number(name, arguments[name])
        if not number.is_integer():
            raise ConfigError(f"{name}: '{arguments[name]}' is not a whole number")
        parameters[name] = int(number)
    return parameters


def fleet_parameters(
        namespaces: Sequence[str], arguments: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """
    Return the parameters of every robot of a fleet, by full node name.

    :raises ConfigError: no robot is named, or one twice.
    """
    if not namespaces:
        raise ConfigError('namespaces: name at least one robot, for instance '
                          'namespaces:=robot1,robot2')
    topics = [arguments.get(name, '') for name in ('image_topic', 'pose_topic')]
    topics += parse_cameras(arguments['cameras']).values() if arguments.get('cameras') else []
    absolute = [topic for topic in topics if topic.startswith('/')]
    if absolute and len(namespaces) > 1:
        raise ConfigError(f"'{absolute[0]}' is one topic for all robots; leave out the first "
                          'slash, then each robot has its own below its namespace')
    fleet: dict[str, dict[str, Any]] = {}
    for namespace in namespaces:
        name = full_node_name(NODE_NAME, namespace)
        if name in fleet:
            raise ConfigError(f"namespaces: '{namespace}' is there twice; robots with one name "
                              "would answer each other's questions")
        fleet[name] = node_parameters({**arguments, 'namespace': namespace})
    return fleet


def unnamed_topics(parameters: Mapping[str, Any], namespace: str) -> list[str]:
    """Return the full topics of the cameras for which neither a file nor an argument names one."""
    names = parameters.get('cameras') or ['camera']
    compressed = {name: parameters.get(f'{name}.transport') == 'compressed' for name in names}
    return [full_node_name(image_topic(name, '', names), namespace)
            + COMPRESSED_SUFFIX * compressed[name]
            for name in names if not parameters.get(f'{name}.topic')]


def require_package(name: str) -> None:
    """
    Make sure that a ROS package which not every robot has is installed.

    :raises ConfigError: it is not; the message says how to install it.
    """
    from ament_index_python.packages import get_package_prefix, PackageNotFoundError
    try:
        get_package_prefix(name)
    except PackageNotFoundError:
        distro = os.environ.get('ROS_DISTRO', '$ROS_DISTRO')
        raise ConfigError(
            f'the package {name} is not installed, and nothing has been started: '
            f"sudo apt install ros-{distro}-{name.replace('_', '-')}") from None


def write_parameters(parameters: Mapping[str, Mapping[str, Any]]) -> Path:
    """
    Write a ROS parameter file for several nodes, by full node name, and return its path.

    It is a temporary file; nodes read it when they start.
    """
    document = {name: {_PARAMETERS_KEY: dict(values)} for name, values in parameters.items()}
    with tempfile.NamedTemporaryFile(
            'w', prefix='infinipot_', suffix='.yaml', delete=False, encoding='utf-8') as file:
        yaml.safe_dump(document, file)
    return Path(file.name)


def _known(directory: Path) -> str:
    return (f"Known robots: {', '.join(known_robots(directory))}. For a robot of your own give "
            'the path of its YAML file: robot:=/path/to/my_robot.yaml')


def _entries(prefix: str, document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (node name pattern, parameters) for each entry; namespaces may be nested keys."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for key, value in document.items():
        if not isinstance(value, Mapping):
            continue
        if key == _PARAMETERS_KEY:
            found.append((prefix, value))
        else:
            found.extend(_entries(f"{prefix}/{str(key).strip('/')}", value))
    return found


def _matches(pattern: str, full_name: str) -> bool:
    """Say whether a node name with `*` (one part) and `**` (any number) means this node."""
    expression = ''
    for part in pattern.strip('/').split('/'):
        expression += {'**': '(/[^/]+)*', '*': '/[^/]+'}.get(part, '/' + re.escape(part))
    return re.fullmatch(expression, full_name) is not None
