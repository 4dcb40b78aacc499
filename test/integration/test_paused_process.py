# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A node whose process is paused goes on as if nothing was, and one that is killed has saved."""

from __future__ import annotations

from pathlib import Path
import signal
import subprocess
import sys

import pytest

rclpy = pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from dds_world import drive_past, SECOND_NS, until, World  # noqa: E402, I100
from infinipot_ros.memory import VideoMemory  # noqa: E402
from infinipot_ros.models import load_model  # noqa: E402
from infinipot_ros.node.file_lock import FileLocks  # noqa: E402
from infinipot_ros.srv import VideoQA  # noqa: E402

PARAMETERS = {'budget_mib': '3.0', 'sample_fps': '10.0', 'qa.max_new_tokens': '8',
              'checkpoint.restore': 'true', 'checkpoint.period_s': '0.2'}


def test_a_pause_is_survived_without_a_replay_and_a_kill_with_the_last_file(
        world: World, tmp_path: Path) -> None:
    words = [word for name, value in {**PARAMETERS, 'checkpoint.directory': tmp_path}.items()
             for word in ('-p', f'{name}:={value}')]
    file = tmp_path / 'infinipot.infinipot'
    with subprocess.Popen([sys.executable, '-m', 'infinipot_ros.node.video_memory_node',
                           '--ros-args', *words], cwd=tmp_path, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        try:
            client = world.client()
            before = client.drive_until_status(20)
            question = VideoQA.Request(question='what do you see now ?')
            assert client.call_again(VideoQA, 'video_qa', question).status == 0
            camera = client.camera()
            process.send_signal(signal.SIGSTOP)
            missed_ns = drive_past(camera, range(200), before.newest_stamp.sec * SECOND_NS
                                   + 100 * SECOND_NS)
            process.send_signal(signal.SIGCONT)
            stamp_ns = missed_ns

            def sees_what_is_new() -> bool:
                nonlocal stamp_ns
                stamp_ns = drive_past(camera, range(10), stamp_ns + SECOND_NS // 10, pause_s=0.02)
                newest = client.status[-1].newest_stamp
                return bool(newest.sec * SECOND_NS + newest.nanosec > missed_ns)
            until(sees_what_is_new, 'it goes on with what is new')
            assert client.call_again(VideoQA, 'video_qa', question).status == 0

            def is_well() -> bool:
                nonlocal stamp_ns
                stamp_ns = drive_past(camera, range(10), stamp_ns + SECOND_NS // 10, pause_s=0.02)
                entry = client.task('camera camera')
                return bool(entry and entry.level == b'\x00')
            client.diagnostics.clear()
            until(is_well, 'diagnostics say that all is well')
            sent = 200 + (stamp_ns - missed_ns) * 10 // SECOND_NS
            assert client.status[-1].frames_seen < before.frames_seen + sent - 100
            until(file.is_file, 'a checkpoint')
        finally:
            process.kill()
    assert FileLocks('/another').claim(file)
    memory = VideoMemory.load(file, load_model('demo'))
    assert memory.status().frames_seen >= 1
    assert memory.ask('what do you see now ?').status.name == 'ANSWERED'
