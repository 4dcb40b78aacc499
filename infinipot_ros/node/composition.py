# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Run one robot's node, or those of several in one process, and end in time when told to."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
import os
import signal
import sys
import threading
import time
from typing import Any, NoReturn

from infinipot_ros.node.guarding import describe, Throttle
from infinipot_ros.node.video_memory_node import VideoMemoryNode
import rclpy
from rclpy.exceptions import InvalidHandle
from rclpy.executors import Executor, ExternalShutdownException, MultiThreadedExecutor
from rclpy.logging import get_logger
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args

# beside the questions: a camera, timers, parameters, lifecycle, memory files
SPARE_THREADS = 6
REPLY_TIMEOUT_S = 0.3


def compose(executor: Executor,
            robots: Sequence[VideoMemoryNode | Mapping[str, Any]]) -> list[VideoMemoryNode]:
    """
    Put the nodes of several robots into one executor; they share the weights of their model.

    :param robots: nodes, or the arguments to make them of (namespace, parameter_overrides, ...).
    """
    nodes = [robot if isinstance(robot, VideoMemoryNode) else VideoMemoryNode(**robot)
             for robot in robots]
    wanted = sum(threads_of(node) for node in nodes)
    pool = getattr(executor, '_executor', None)
    threads = getattr(pool, '_max_workers', 1)
    if threads < wanted:
        get_logger('infinipot').warning(
            f'the executor has {threads} thread(s); with fewer than {wanted}, waiting questions '
            f'hold up images and parameters: MultiThreadedExecutor(num_threads={wanted})')
    for node in nodes:
        executor.add_node(node)
    return nodes


def threads_of(node: VideoMemoryNode) -> int:
    """Return how many threads a node can make use of at once."""
    return int(node.parameters['qa.queue']) + 1 + len(node.parameters['cameras']) + SPARE_THREADS


def run(arguments: list[str] | None = None) -> NoReturn:
    """
    Run until SIGINT or SIGTERM, then answer who still waits, save, and end the process within 5 s.

    Our own handlers, because rclpy's take the context down first, and with it every answer.
    """
    arguments = sys.argv if arguments is None else arguments
    parser = argparse.ArgumentParser(prog='video_memory_node', description=(
        'The visual memory of a robot. Parameters: --ros-args --params-file FILE, '
        'or --ros-args -p NAME:=VALUE.'))
    parser.add_argument('--namespaces', default='', metavar='A,B,...',
                        help='one node for each of these robots, in this process')
    parsed = parser.parse_args(remove_ros_args(arguments)[1:])
    namespaces = [name for name in parsed.namespaces.split(',') if name]
    told_to_stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *unused: told_to_stop.set())
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    nodes = [VideoMemoryNode(namespace=name) for name in namespaces] or [VideoMemoryNode()]
    executor = MultiThreadedExecutor(num_threads=sum(map(threads_of, nodes)))
    compose(executor, nodes)
    spinning = threading.Thread(target=spin, args=(executor,), daemon=True)
    spinning.start()
    while not told_to_stop.wait(0.5):
        if not spinning.is_alive():
            break
    stop(executor, nodes)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python's own end waits for a model that is at work, and takes seconds to unload torch
    os._exit(0)


def spin(executor: Executor) -> None:
    """Spin until the executor is shut down, whatever a callback raises."""
    report = Throttle(get_logger('infinipot'), 'error')
    while executor.context.ok() and not executor._is_shutdown:
        try:
            executor.spin_once(timeout_sec=1.0)
        except ExternalShutdownException:
            return
        except InvalidHandle:
            pass  # a camera was closed just as its message was about to be taken
        except Exception as error:  # see guarding.py
            if executor._is_shutdown:
                return
            report(type(error).__name__, f'executor: {describe(error)}')


def stop(executor: Executor, nodes: Sequence[VideoMemoryNode]) -> None:
    """Close nodes and executor; a model that does not come back does not hold up the end."""
    closing = [threading.Thread(target=node.close) for node in nodes]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join()
    end = time.monotonic() + REPLY_TIMEOUT_S
    while any(node.questions.open for node in nodes) and time.monotonic() < end:
        time.sleep(0.01)
    try:
        # Kilted's waits for its threads, however long they take
        executor.shutdown(timeout_sec=REPLY_TIMEOUT_S, wait_for_threads=False)
    except TypeError:  # Jazzy and before have no such threads to wait for
        executor.shutdown(timeout_sec=REPLY_TIMEOUT_S)
    if not any(node.engine.alive() for node in nodes):
        for node in nodes:
            node.destroy_node()
    rclpy.try_shutdown()
