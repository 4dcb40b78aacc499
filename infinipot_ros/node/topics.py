# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Say which parameter is at fault where rcl only says what is wrong with a topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from infinipot_ros.errors import ConfigError
from infinipot_ros.node.guarding import describe
from rclpy.node import Node


def check_topic(node: Node, parameter: str, topic: str) -> None:
    """
    Look at the name of a topic before anything subscribes to it.

    :raises ConfigError: it can be none; the parameter that gives it is named.
    """
    try:
        node.resolve_topic_name(topic)
    except Exception as error:  # rcl's own
        why = str(error).removeprefix('failed to resolve name: ').split(', at ')[0]
        raise ConfigError(f'{parameter} is {topic!r}, which is no name of a topic: {why}'
                          ) from error


@contextmanager
def subscribing(node: Node, parameter: str, topic: str) -> Iterator[None]:
    """
    Subscribe to a topic inside.

    :raises ConfigError: that fails; the parameters that decide on it are named.
    """
    try:
        yield
    except Exception as error:  # rcl's, rclpy's or the middleware's
        whole = node.resolve_topic_name(topic)
        raise ConfigError(
            f'cannot subscribe to {whole}; look at {parameter} and at qos_overrides.{whole}.'
            f'subscription (reliability, history, depth): {describe(error)}') from error
