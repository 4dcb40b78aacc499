# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The node as a process of its own: parameter files, signals, exit status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
import signal
import subprocess
import sys
import time

import pytest

rclpy = pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from dds_world import until, World  # noqa: E402, I100
from infinipot_ros.srv import VideoQA  # noqa: E402

FILE = """
/**:
  ros__parameters:
    budget_mib: 3
    sample_fps: 10
    checkpoint: {directory: %s, restore: true}
    qa: {max_new_tokens: 8, timeout_s: 20}
    mispelt_name: 1
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the node; it is gone after the test."""
    started: list[subprocess.Popen[str]] = []
    (tmp_path / 'robot.yaml').write_text(FILE % tmp_path)

    def start(*arguments: str) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(
            [sys.executable, '-m', 'infinipot_ros.node.video_memory_node', *arguments,
             '--params-file', str(tmp_path / 'robot.yaml')], cwd=tmp_path,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return started[-1]
    yield start
    for process in started:
        process.kill()
        process.wait()


def end(process: subprocess.Popen[str], number: int) -> str:
    """Send a signal; the process has to be gone in 5 s with status 0. Return what it said."""
    sent = time.monotonic()
    process.send_signal(number)
    said, _ = process.communicate(timeout=10.0)
    assert time.monotonic() - sent < 5.0
    assert process.returncode == 0, said
    assert 'Traceback' not in said, said
    return said


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_it_even_while_it_answers(
        world: World, start: Callable[..., subprocess.Popen[str]], tmp_path: Path,
        number: int) -> None:
    process = start('--ros-args', '-r', '__ns:=/fleet/robot1')
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
    process = start('--ros-args', '-p', 'autostart:=false')
    client = world.client()
    until(lambda: client.state() == 'unconfigured', 'the node is there')

    def loads() -> bool:
        """Begin to load, and say whether it was seen at it: the demo model takes 0.1 s."""
        configured = client.begin_change('configure')
        while (state := client.state()) == 'unconfigured':
            pass
        if state == 'configuring':
            return True
        assert configured().success and client.change('cleanup')
        return False
    until(loads, 'the model loads')
    end(process, signal.SIGTERM)


def test_a_fleet_in_one_process(world: World,
                                start: Callable[..., subprocess.Popen[str]]) -> None:
    process = start('--namespaces', 'robot1,robot2', '--ros-args')
    clients = [world.client('robot1'), world.client('robot2')]
    until(lambda: all(client.state() == 'active' for client in clients), 'both active')
    clients[1].drive_until_status(8)
    assert clients[0].ask('now ?').status == VideoQA.Response.EMPTY_MEMORY
    assert clients[1].ask('now ?').status == VideoQA.Response.ANSWERED
    end(process, signal.SIGINT)
