# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Give several robots a memory each, in one process with one copy of the model's weights."""
from infinipot_ros.launch_support import (
    fleet_parameters,
    known_robots,
    PACKAGE,
    write_parameters,
)
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchContext, LaunchDescription

FROM_FILE = "empty: what the robot's file says"


def arguments() -> list[DeclareLaunchArgument]:
    """Declare what this launch file accepts."""
    return [
        DeclareLaunchArgument(
            'namespaces', description='the robots, as robot1,robot2; each gets its own memory, '
            'topics and services below its namespace'),
        DeclareLaunchArgument(
            'robot', description='budget and model of each robot: '
            f"{', '.join(known_robots())}; or the path of a YAML file of your own"),
        DeclareLaunchArgument(
            'image_topic', default_value='',
            description="topic of each robot's only camera, without a first slash "
            f'({FROM_FILE})'),
        DeclareLaunchArgument(
            'cameras', default_value='',
            description='several cameras of each robot, as front=front/image_raw,'
            f'rear=rear/image_raw ({FROM_FILE})'),
        DeclareLaunchArgument(
            'pose_topic', default_value='',
            description="topic of each robot's pose, without a first slash "
            f'({FROM_FILE})'),
        DeclareLaunchArgument(
            'model', default_value='',
            description='Hugging Face model name or folder; its weights are loaded once '
            f'({FROM_FILE})'),
        DeclareLaunchArgument(
            'budget_mib', default_value='',
            description=f"MiB that each robot's memory may hold ({FROM_FILE})"),
        DeclareLaunchArgument(
            'autostart', default_value='',
            description='true: the nodes configure and activate themselves; false: a lifecycle '
            f'manager does ({FROM_FILE})'),
        DeclareLaunchArgument(
            'use_sim_time', default_value='',
            description=f'true: take the time from /clock ({FROM_FILE})'),
        DeclareLaunchArgument(
            'params_file', default_value='',
            description='a parameter file; entries for /robot1/infinipot and so on give each '
            'robot its own budget'),
        DeclareLaunchArgument(
            'log_level', default_value='info',
            choices=['debug', 'info', 'warn', 'error', 'fatal'],
            description='how much the nodes say'),
    ]


def start_process(context: LaunchContext) -> list[Node]:
    """Start one process for all robots."""
    names = [argument.name for argument in arguments()]
    given = {name: LaunchConfiguration(name).perform(context) for name in names}
    namespaces = [name.strip() for name in given.pop('namespaces').split(',') if name.strip()]
    path = write_parameters(fleet_parameters(namespaces, given))
    return [Node(
        package=PACKAGE, executable='video_memory_node', output='screen', emulate_tty=True,
        parameters=[str(path)],
        arguments=['--namespaces', ','.join(namespaces),
                   '--ros-args', '--log-level', given['log_level']])]


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    return LaunchDescription([*arguments(), OpaqueFunction(function=start_process)])
