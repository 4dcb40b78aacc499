# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Drive through the demo world and remember it: ros2 launch infinipot_ros demo.launch.py."""
from infinipot_ros.launch_arguments import given, log_level_argument, typed
from infinipot_ros.launch_support import (
    demo_camera_parameters,
    full_node_name,
    NODE_NAME,
    node_parameters,
    PACKAGE,
    SETTINGS,
)
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch_ros.actions import Node

CAMERA_NAME, IMAGE_TOPIC = 'simulated_camera', 'camera/image_raw'
ARGUMENTS = [
    DeclareLaunchArgument(
        'setting', default_value='calm', choices=list(SETTINGS), description='kind of drive'),
    DeclareLaunchArgument('seed', default_value='0', description='which drive'),
    DeclareLaunchArgument('fps', default_value='4.0', description='pictures per second'),
    DeclareLaunchArgument(
        'scale', default_value='4', description='side of the picture in 112 px, 1 to 8'),
    DeclareLaunchArgument('num_frames', default_value='300', description='length of the drive'),
    DeclareLaunchArgument(
        'loop', default_value='true', choices=['true', 'false'],
        description='true: drive again and again; false: stop the camera at the end'),
    DeclareLaunchArgument(
        'budget_mib', default_value='',
        description='MiB that the memory may hold (empty: what cpu_demo.yaml says)'),
    DeclareLaunchArgument(
        'params_file', default_value='',
        description='a parameter file for the node, whose entries win over cpu_demo.yaml'),
    DeclareLaunchArgument(
        'namespace', default_value='', description='namespace of both nodes'),
    log_level_argument(),
]


def start_nodes(context: LaunchContext) -> list[Node]:
    """Start the camera and the node."""
    values = given(context, ARGUMENTS)
    memory = node_parameters({
        'robot': 'cpu_demo', 'image_topic': IMAGE_TOPIC, 'pose_topic': 'odom',
        'budget_mib': values['budget_mib'], 'params_file': values['params_file'],
        'namespace': values['namespace']})
    # of pictures as large as these best effort loses many, even within one machine
    topic = full_node_name(IMAGE_TOPIC, values['namespace'])
    memory = {f'qos_overrides.{topic}.subscription.reliability': 'reliable', **memory}
    nodes = ((CAMERA_NAME, CAMERA_NAME, demo_camera_parameters(values)),
             ('video_memory_node', NODE_NAME, memory))
    return [Node(package=PACKAGE, executable=executable, name=name, namespace=values['namespace'],
                 output='screen', emulate_tty=True, parameters=[typed(parameters)],
                 arguments=['--ros-args', '--log-level', values['log_level']])
            for executable, name, parameters in nodes]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start_nodes)])
