# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Run the node under a Nav2 lifecycle manager of its own, beside a Nav2 bring-up.

Of its own, so that loading a model does not hold up the start of navigation, and a node of ours
that fails does not stop the robot. Arguments are those of robot.launch.py without autostart.
"""
from pathlib import Path

from infinipot_ros.launch_arguments import (
    given,
    log_level_argument,
    override_arguments,
    robot_argument,
)
from infinipot_ros.launch_support import NODE_NAME, parse_bool, require_package
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

MANAGER_PACKAGE = 'nav2_lifecycle_manager'
MANAGER_NAME = 'lifecycle_manager_infinipot'
# a large model takes minutes to load from a slow disk
TRANSITION_TIMEOUT_S = 600.0
ARGUMENTS = [
    robot_argument(),
    DeclareLaunchArgument('namespace', default_value='',
                          description='namespace of node and manager, topics and services'),
    *(argument for argument in override_arguments() if argument.name != 'autostart'),
    log_level_argument(),
]


def start_manager(context: LaunchContext) -> list[Node]:
    """Start the manager in the namespace of the node."""
    values = given(context, ARGUMENTS)
    parameters = {
        'node_names': [NODE_NAME], 'autostart': True,
        # a Python node has no bond with the manager
        'bond_timeout': 0.0,
        'service_timeout': TRANSITION_TIMEOUT_S,
    }
    if values['use_sim_time']:
        parameters['use_sim_time'] = parse_bool('use_sim_time', values['use_sim_time'])
    return [Node(
        package=MANAGER_PACKAGE, executable='lifecycle_manager', name=MANAGER_NAME,
        namespace=values['namespace'], output='screen', parameters=[parameters],
        arguments=['--ros-args', '--log-level', values['log_level']])]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    robot_launch = Path(__file__).parent / 'robot.launch.py'
    passed_on = {argument.name: LaunchConfiguration(argument.name) for argument in ARGUMENTS}
    return LaunchDescription([
        *ARGUMENTS,
        # before the node, which launch would leave behind
        OpaqueFunction(function=lambda context: require_package(MANAGER_PACKAGE)),
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(str(robot_launch)),
            launch_arguments={**passed_on, 'autostart': 'false'}.items()),
        OpaqueFunction(function=start_manager),
    ])
