# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Give one robot a visual memory: ros2 launch infinipot_ros robot.launch.py robot:=NAME."""
from infinipot_ros.launch_support import known_robots, NODE_NAME, node_parameters, PACKAGE, typed
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchContext, LaunchDescription

FROM_FILE = "empty: what the robot's file says"


def arguments() -> list[DeclareLaunchArgument]:
    """Declare what this launch file accepts."""
    return [
        DeclareLaunchArgument(
            'robot', description=f"whose budget and model to use: {', '.join(known_robots())}; "
            'or the path of a YAML file of your own'),
        DeclareLaunchArgument(
            'namespace', default_value='',
            description='namespace of the node, its topics and its services'),
        DeclareLaunchArgument(
            'image_topic', default_value='',
            description='topic of the only camera; one that ends in /compressed is read as '
            f'CompressedImage ({FROM_FILE})'),
        DeclareLaunchArgument(
            'cameras', default_value='',
            description='several cameras, as front=/front/image_raw,rear=/rear/image_raw '
            f'({FROM_FILE})'),
        DeclareLaunchArgument(
            'pose_topic', default_value='',
            description='Odometry, PoseStamped or PoseWithCovarianceStamped topic of the robot '
            f'({FROM_FILE})'),
        DeclareLaunchArgument(
            'model', default_value='',
            description="Hugging Face model name or folder, or 'demo' for the embedded model of "
            f'the demo world ({FROM_FILE})'),
        DeclareLaunchArgument(
            'budget_mib', default_value='',
            description=f'memory that may be held, in MiB ({FROM_FILE})'),
        DeclareLaunchArgument(
            'autostart', default_value='',
            description='true: the node configures and activates itself; false: a lifecycle '
            f'manager does ({FROM_FILE})'),
        DeclareLaunchArgument(
            'use_sim_time', default_value='',
            description=f'true: take the time from /clock ({FROM_FILE})'),
        DeclareLaunchArgument(
            'params_file', default_value='',
            description="a parameter file whose entries win over the robot's file and lose "
            'against arguments given here'),
        DeclareLaunchArgument(
            'log_level', default_value='info',
            choices=['debug', 'info', 'warn', 'error', 'fatal'],
            description='how much the node says'),
    ]


def start_node(context: LaunchContext) -> list[Node]:
    """Start the node with the merged parameters."""
    names = [argument.name for argument in arguments()]
    given = {name: LaunchConfiguration(name).perform(context) for name in names}
    return [Node(
        package=PACKAGE, executable='video_memory_node', name=NODE_NAME,
        namespace=given['namespace'], output='screen', emulate_tty=True,
        parameters=[typed(node_parameters(given))],
        arguments=['--ros-args', '--log-level', given['log_level']])]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    return LaunchDescription([*arguments(), OpaqueFunction(function=start_node)])
