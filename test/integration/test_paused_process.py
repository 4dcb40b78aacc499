# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A node whose process is paused goes on as if nothing was, and one that is killed has saved."""

from __future__ import annotations

from collections.abc import Callable
import os
from pathlib import Path
import signal
import subprocess
import sys

import pytest

rclpy = pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from dds_world import (  # noqa: E402, I100
    drive_past,
    NO_SHARED_MEMORY,
    SECOND_NS,
    START_NS,
    until,
    World,
)
from infinipot_ros.memory import VideoMemory  # noqa: E402
from infinipot_ros.models import load_model  # noqa: E402
from infinipot_ros.msg import MemoryStatus  # noqa: E402
from infinipot_ros.node.file_lock import FileLocks  # noqa: E402
from infinipot_ros.srv import VideoQA  # noqa: E402

PARAMETERS = {'budget_mib': '3.0', 'sample_fps': '5.0', 'qa.max_new_tokens': '8',
              'checkpoint.restore': 'true', 'checkpoint.period_s': '0.2'}


def newest_ns(status: MemoryStatus) -> int:
    return status.newest_stamp.sec * SECOND_NS + status.newest_stamp.nanosec


def test_a_pause_is_survived_without_a_replay_and_a_kill_with_the_last_file(
        world: World, tmp_path: Path) -> None:
    words = [word for name, value in {**PARAMETERS, 'checkpoint.directory': tmp_path}.items()
             for word in ('-p', f'{name}:={value}')]
    file = tmp_path / 'infinipot.infinipot'
    with subprocess.Popen([sys.executable, '-m', 'infinipot_ros.node.video_memory_node',
                           '--ros-args', *words], cwd=tmp_path, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL,
                          env={**os.environ, **NO_SHARED_MEMORY}) as process:
        try:
            client = world.client()
            question = VideoQA.Request(question='what do you see now ?')
            camera, stamp_ns = client.camera(), START_NS

            def show(true: Callable[[], bool]) -> bool:
                """Show ten pictures in two seconds of the camera, and say whether it is true."""
                nonlocal stamp_ns
                stamp_ns = drive_past(camera, range(10), stamp_ns + SECOND_NS // 5, 5.0, 0.02)
                return bool(client.status) and true()
            until(lambda: show(lambda: client.status[-1].frames_seen >= 20), 'frames are seen')
            assert client.call_again(VideoQA, 'video_qa', question).status == 0
            before = client.status[-1].frames_seen
            process.send_signal(signal.SIGSTOP)
            resumed_ns = stamp_ns = drive_past(camera, range(200), stamp_ns + SECOND_NS, 5.0)
            process.send_signal(signal.SIGCONT)
            until(lambda: show(lambda: newest_ns(client.status[-1]) > resumed_ns), 'what is new')
            assert client.call_again(VideoQA, 'video_qa', question).status == 0
            client.diagnostics.clear()
            until(lambda: show(lambda: bool((entry := client.task('camera camera'))
                                            and entry.level == b'\x00')), 'all is well')
            sent = 200 + (stamp_ns - resumed_ns) * 5 // SECOND_NS
            assert client.status[-1].frames_seen < before + sent - 100, 'nothing is played again'
            until(file.is_file, 'a checkpoint')
        finally:
            process.kill()
    assert FileLocks('/another').claim(file)
    memory = VideoMemory.load(file, load_model('demo'))
    assert memory.status().frames_seen >= 1
    assert memory.ask('what do you see now ?').status.name == 'ANSWERED'
