# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the launch files share and that needs launch: their arguments, and typed parameters."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infinipot_ros.launch_support import known_robots, OVERRIDES
from launch import LaunchContext
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.parameter_descriptions import ParameterValue


def robot_argument() -> DeclareLaunchArgument:
    """Declare `robot`; it has no default, since no board's budget is right for another."""
    return DeclareLaunchArgument(
        'robot', description=f"whose budget and model to use: {', '.join(known_robots())}; or the "
        'path of a YAML file of your own')


def log_level_argument() -> DeclareLaunchArgument:
    """Declare `log_level`."""
    return DeclareLaunchArgument(
        'log_level', default_value='info', choices=['debug', 'info', 'warn', 'error', 'fatal'],
        description='how much the nodes say')


def override_arguments(topics_note: str = '') -> list[DeclareLaunchArgument]:
    """
    Declare what wins over the robot's file where it is given.

    :param topics_note: what else there is to say about a topic.
    """
    notes = dict.fromkeys(('image_topic', 'cameras', 'pose_topic'), topics_note)
    return [DeclareLaunchArgument(
        name, default_value='',
        description=f"{text}{notes.get(name, '')} (empty: what the robot's file says)")
        for name, text in OVERRIDES.items()]


def given(context: LaunchContext, arguments: Sequence[DeclareLaunchArgument]) -> dict[str, str]:
    """Return the values of arguments as text; an empty one was not given."""
    return {argument.name: LaunchConfiguration(argument.name).perform(context)
            for argument in arguments}


def typed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """
    Mark every text as a text.

    launch_ros reads plain texts as YAML: a model folder named 007 would become the number 7.
    """
    marked = dict(parameters)
    for name, value in parameters.items():
        if isinstance(value, str):
            marked[name] = ParameterValue(value, value_type=str)
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            marked[name] = ParameterValue(value, value_type=list[str])
    return marked
