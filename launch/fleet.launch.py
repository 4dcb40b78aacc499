# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Give several robots a memory each, in one process with one copy of the model's weights."""
from infinipot_ros.launch_arguments import (
    given,
    log_level_argument,
    override_arguments,
    robot_argument,
)
from infinipot_ros.launch_support import fleet_parameters, PACKAGE, write_parameters
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch_ros.actions import Node

ARGUMENTS = [
    DeclareLaunchArgument(
        'namespaces', description='the robots, as robot1,robot2; each gets its own memory, topics '
        'and services below its namespace'),
    robot_argument(),
    *override_arguments(topics_note=', without a first slash, so that each robot has its own'),
    log_level_argument(),
]


def start_process(context: LaunchContext) -> list[Node]:
    """Start one process for all robots."""
    values = given(context, ARGUMENTS)
    namespaces = [name.strip() for name in values['namespaces'].split(',') if name.strip()]
    path = write_parameters(fleet_parameters(namespaces, values))
    return [Node(
        package=PACKAGE, executable='video_memory_node', output='screen', emulate_tty=True,
        parameters=[str(path)],
        arguments=['--namespaces', ','.join(namespaces),
                   '--ros-args', '--log-level', values['log_level']])]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start_process)])
