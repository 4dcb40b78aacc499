# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Drive through the demo world and remember it: ros2 launch infinipot_ros demo.launch.py."""
from infinipot_ros.launch_support import (
    demo_camera_parameters,
    NODE_NAME,
    node_parameters,
    PACKAGE,
    SETTINGS,
    typed,
)
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchContext, LaunchDescription

CAMERA_NAME = 'simulated_camera'


def arguments() -> list[DeclareLaunchArgument]:
    """Declare what this launch file accepts."""
    return [
        DeclareLaunchArgument(
            'setting', default_value='calm', choices=list(SETTINGS),
            description='which kind of drive; docs/how_it_works.md says what each one is for'),
        DeclareLaunchArgument('seed', default_value='0', description='which drive'),
        DeclareLaunchArgument('fps', default_value='4.0', description='pictures per second'),
        DeclareLaunchArgument(
            'scale', default_value='4', description='side of the picture, in 112 px'),
        DeclareLaunchArgument(
            'num_frames', default_value='300', description='length of the drive'),
        DeclareLaunchArgument(
            'loop', default_value='true', choices=['true', 'false'],
            description='true: drive again and again; false: stop the camera at the end'),
        DeclareLaunchArgument(
            'budget_mib', default_value='',
            description='memory that may be held, in MiB (empty: what cpu_demo.yaml says)'),
        DeclareLaunchArgument(
            'params_file', default_value='',
            description='a parameter file for the node, whose entries win over cpu_demo.yaml'),
        DeclareLaunchArgument(
            'namespace', default_value='', description='namespace of both nodes'),
        DeclareLaunchArgument(
            'log_level', default_value='info',
            choices=['debug', 'info', 'warn', 'error', 'fatal'],
            description='how much both nodes say'),
    ]


def start_nodes(context: LaunchContext) -> list[Node]:
    """Start the camera and the node."""
    names = [argument.name for argument in arguments()]
    given = {name: LaunchConfiguration(name).perform(context) for name in names}
    log_arguments = ['--ros-args', '--log-level', given['log_level']]
    memory = node_parameters({
        'robot': 'cpu_demo', 'image_topic': 'camera/image_raw', 'pose_topic': 'odom',
        'budget_mib': given['budget_mib'], 'params_file': given['params_file'],
        'namespace': given['namespace']})
    return [
        Node(package=PACKAGE, executable='simulated_camera', name=CAMERA_NAME,
             namespace=given['namespace'], output='screen', emulate_tty=True,
             parameters=[typed(demo_camera_parameters(given))], arguments=log_arguments),
        Node(package=PACKAGE, executable='video_memory_node', name=NODE_NAME,
             namespace=given['namespace'], output='screen', emulate_tty=True,
             parameters=[typed(memory)], arguments=log_arguments),
    ]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    return LaunchDescription([*arguments(), OpaqueFunction(function=start_nodes)])
