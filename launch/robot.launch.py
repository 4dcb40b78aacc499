# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Give one robot a visual memory: ros2 launch infinipot_ros robot.launch.py robot:=NAME."""
from infinipot_ros.launch_arguments import (
    given,
    log_level_argument,
    override_arguments,
    robot_argument,
    typed,
)
from infinipot_ros.launch_support import NODE_NAME, node_parameters, PACKAGE
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch_ros.actions import Node

ARGUMENTS = [
    robot_argument(),
    DeclareLaunchArgument('namespace', default_value='',
                          description='namespace of the node, its topics and its services'),
    *override_arguments(),
    log_level_argument(),
]


def start_node(context: LaunchContext) -> list[Node]:
    """Start the node with the merged parameters."""
    values = given(context, ARGUMENTS)
    return [Node(
        package=PACKAGE, executable='video_memory_node', name=NODE_NAME,
        namespace=values['namespace'], output='screen', emulate_tty=True,
        parameters=[typed(node_parameters(values))],
        arguments=['--ros-args', '--log-level', values['log_level']])]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start_node)])
