# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Say which parameter is at fault where a topic, its QoS or its subscription cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from infinipot_ros.errors import ConfigError
from infinipot_ros.node.guarding import describe
from infinipot_ros.node.parameter_table import Spec
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, ReliabilityPolicy

# what rclpy declares by default; it takes UNKNOWN too, and the middleware does not
_OVERRIDES = {
    **{name: Spec(name, 'string', '', '', choices=tuple(
        choice.lower() for choice in kind.__members__ if choice != 'UNKNOWN'))
       for name, kind in (('reliability', ReliabilityPolicy), ('history', HistoryPolicy))},
    'depth': Spec('depth', 'int', 0, '', low=0, high=2**31 - 1)}


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


def check_qos(node: Node, topic: str, end: str = 'subscription') -> None:
    """
    Look at the QoS overrides of a topic before it is used; warn of those that nothing reads.

    :param end: which end of the topic is here, 'subscription' or 'publisher'.
    :raises ConfigError: one has a value that can be none.
    """
    prefix = f'qos_overrides.{node.resolve_topic_name(topic)}.{end}.'
    for name, override in node._parameter_overrides.items():
        if not name.startswith(prefix):
            continue
        spec = _OVERRIDES.get(name.removeprefix(prefix))
        if spec is None:
            node.get_logger().warning(f"there is no parameter '{name}'; it is ignored. There are "
                                      f"{', '.join(_OVERRIDES)}")
            continue
        value = override.value.lower() if isinstance(override.value, str) else override.value
        problem = replace(spec, name=name).problem(value)
        if problem:
            raise ConfigError(f'{problem}; QoS is read at the start of a node only, so mend it '
                              'and start the node again')


@contextmanager
def subscribing(node: Node, parameter: str, topic: str) -> Iterator[None]:
    """
    Subscribe to a topic inside.

    :raises ConfigError: that fails; the parameter that gives the topic is named.
    """
    try:
        yield
    except Exception as error:  # rcl's, rclpy's or the middleware's
        raise ConfigError(f'cannot subscribe to {node.resolve_topic_name(topic)}; look at '
                          f'{parameter}: {describe(error)}') from error
