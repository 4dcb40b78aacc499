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
from infinipot_ros.launch_support import NODE_NAME, node_parameters, PACKAGE, unnamed_topics
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction
from launch_ros.actions import Node

ARGUMENTS = [
    robot_argument(),
    DeclareLaunchArgument('namespace', default_value='',
                          description='namespace of the node, its topics and its services'),
    *override_arguments(),
    log_level_argument(),
]


def start_node(context: LaunchContext) -> list[LogInfo | Node]:
    """Start the node with the merged parameters."""
    values = given(context, ARGUMENTS)
    parameters = node_parameters(values)
    notes = [LogInfo(msg=f'neither image_topic nor cameras is given: listening to {topic}')
             for topic in unnamed_topics(parameters, values['namespace'])]
    return [*notes, Node(
        package=PACKAGE, executable='video_memory_node', name=NODE_NAME,
        namespace=values['namespace'], output='screen', emulate_tty=True,
        parameters=[typed(parameters)],
        arguments=['--ros-args', '--log-level', values['log_level']])]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start_node)])
