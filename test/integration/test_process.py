# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The node as a process of its own: parameter files, signals, exit status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
import signal
import subprocess
import sys

import pytest

rclpy = pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from dds_world import END_WAITS_S, until, World  # noqa: E402, I100
from infinipot_ros.node.composition import REPLY_TIMEOUT_S  # noqa: E402
from infinipot_ros.srv import VideoQA  # noqa: E402

R = VideoQA.Response
FILE = """
/**:
  ros__parameters:
    budget_mib: 3
    sample_fps: 10
    checkpoint: {directory: %s, restore: true}
    qa: {max_new_tokens: 8, timeout_s: 90}
    mispelt_name: 1
"""
NODE = ('-m', 'infinipot_ros.node.video_memory_node')
NODE_WITH_TIME_TO_SAVE = ('-c', """
from infinipot_ros.node import video_memory_node
video_memory_node.SAVE_TIMEOUT_S = 60.0
video_memory_node.main()
""")
NODE_THAT_LOADS_FOR_EVER = ('-c', """
import threading
from infinipot_ros.node import video_memory_node
video_memory_node.acquire_model = lambda values: threading.Event().wait()
video_memory_node.main()
""")
# 5 s are promised; what is told apart here is an end from waiting for a model or an answer
END_S = 60.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the node; it is gone after the test."""
    started: list[subprocess.Popen[str]] = []
    (tmp_path / 'robot.yaml').write_text(FILE % tmp_path)

    def start(*arguments: str, how: tuple[str, str] = NODE) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(
            [sys.executable, *how, *arguments, '--params-file', str(tmp_path / 'robot.yaml')],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return started[-1]
    yield start
    for process in started:
        process.kill()
        process.wait()


def end(process: subprocess.Popen[str], number: int) -> str:
    """Send a signal; the process has to be gone soon with status 0. Return what it said."""
    process.send_signal(number)
    said, _ = process.communicate(timeout=END_S)
    assert process.returncode == 0, said
    assert 'Traceback' not in said, said
    return said


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_it_even_while_it_answers(
        world: World, start: Callable[..., subprocess.Popen[str]], tmp_path: Path,
        number: int) -> None:
    process = start('--ros-args', '-r', '__ns:=/fleet/robot1', how=NODE_WITH_TIME_TO_SAVE)
    client = world.client('fleet/robot1')
    status = client.drive_until_status(20)
    assert status.budget_bytes == 3 * 2**20
    request = VideoQA.Request(question='what do you see now ?')
    for _ in range(4):
        client.begin(VideoQA, 'video_qa', request)
    said = end(process, number)
    assert "there is no parameter 'mispelt_name'" in said
    assert (tmp_path / 'fleet.robot1.infinipot.infinipot').is_file()


def test_a_signal_while_the_model_loads_ends_it_too(
        world: World, start: Callable[..., subprocess.Popen[str]]) -> None:
    process = start('--ros-args', how=NODE_THAT_LOADS_FOR_EVER)
    client = world.client()
    until(lambda: client.state() == 'configuring', 'the model loads')
    end(process, signal.SIGTERM)


def test_what_may_hold_up_the_end_is_over_in_5_s() -> None:
    assert sum(END_WAITS_S) + 2 * REPLY_TIMEOUT_S < 5.0


def test_a_fleet_in_one_process(world: World,
                                start: Callable[..., subprocess.Popen[str]]) -> None:
    process = start('--namespaces', 'robot1,robot2', '--ros-args')
    clients = [world.client('robot1'), world.client('robot2')]
    until(lambda: all(client.state() == 'active' for client in clients), 'both active')
    clients[1].drive_until_status(8)
    question = VideoQA.Request(question='what do you see now ?')
    for client, status in zip(clients, (R.EMPTY_MEMORY, R.ANSWERED)):
        assert client.call_again(VideoQA, 'video_qa', question).status == status
    end(process, signal.SIGINT)
