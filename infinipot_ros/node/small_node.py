# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a small node needs: parameters that it reads once, and a main that ends in order."""
from __future__ import annotations

from collections.abc import Callable, Sequence
import signal
import threading
from typing import Any

from infinipot_ros.errors import ConfigError, InfinipotError
from infinipot_ros.node.parameter_table import Spec
from rcl_interfaces.msg import ParameterDescriptor
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

ROS_OWN_PARAMETERS = ('use_sim_time', 'qos_overrides.', 'start_type_description_service')
_SIGNAL_NOTICED_WITHIN_S = 0.5
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def fixed_parameters(node: Node, specs: Sequence[Spec]) -> dict[str, Any]:
    """
    Declare read-only parameters and return their values, each in the type of its `Spec`.

    :raises ConfigError: a value is not allowed.
    """
    values: dict[str, Any] = {}
    for spec in specs:
        # YAML and the command line write 4 for 4.0, so the type is checked by the Spec
        descriptor = ParameterDescriptor(
            description=spec.text, additional_constraints=spec.allowed(), read_only=True,
            dynamic_typing=True)
        value = node.declare_parameter(spec.name, spec.default, descriptor).value
        problem = spec.problem(value)
        if problem:
            raise ConfigError(problem)
        values[spec.name] = spec.typed(value)
    # ROS ignores a misspelt name without a word
    unknown = sorted(name for name in node._parameter_overrides
                     if name not in values and not name.startswith(ROS_OWN_PARAMETERS))
    if unknown:
        node.get_logger().warning(f"there is no parameter {', '.join(unknown)}; known are "
                                  f"{', '.join(values)}")
    return values


def run(make_node: Callable[[], Node], name: str, args: list[str] | None = None) -> int:
    """
    Spin a node until SIGINT, SIGTERM or a shutdown, and return the exit code of the process.

    :param make_node: its InfinipotError is logged, and the exit code is 1.
    """
    told_to_stop = threading.Event()
    for number in _STOP_SIGNALS:
        signal.signal(number, lambda *unused: told_to_stop.set())
    # our own handlers, because rclpy's take the context away from the callback at work
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        executor = SingleThreadedExecutor()
        executor.add_node(make_node())
        while rclpy.ok() and not told_to_stop.is_set():
            executor.spin_once(timeout_sec=_SIGNAL_NOTICED_WITHIN_S)
    except ExternalShutdownException:
        pass
    except InfinipotError as error:
        rclpy.logging.get_logger(name).fatal(str(error))
        return 1
    finally:
        # Ctrl-C under ros2 launch sends a second one, which must not disturb the end
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        rclpy.try_shutdown()
    return 0
