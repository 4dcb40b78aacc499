# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The programs of the README run as they stand."""

from __future__ import annotations

import os
from pathlib import Path
import re
import subprocess
import sys

import pytest

rclpy = pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from dds_world import drive_past, SECOND_NS, START_NS, until, until_seen, World  # noqa: E402, I100

ROOT = Path(__file__).parents[2]
PROGRAMS = re.findall(r'```python\n(.*?)```', (ROOT / 'README.md').read_text(), re.DOTALL)
RUN_S, ASK_S = 300.0, 60.0
pytestmark = pytest.mark.timeout(1200)


def run(program: str, folder: Path, timeout_s: float = RUN_S) -> str:
    """Run a program in a folder, and return what it says."""
    paths = [str(ROOT), os.environ.get('PYTHONPATH', '')]
    done = subprocess.run(
        [sys.executable, '-c', program], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(paths)}, timeout=timeout_s)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(program: str, folder: Path) -> str:
    """Run a program that asks, again where it hears nothing; see Client.call_again."""
    for _ in range(5):
        try:
            return run(program, folder, ASK_S)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError('the program hears no answer')


def test_a_program_asks_the_node(world: World, tmp_path: Path) -> None:
    (program,) = (program for program in PROGRAMS if 'rclpy' in program)
    node = world.memory_nodes({})[0]
    until(lambda: node.state == 'active', 'active')
    assert asked(program, tmp_path).startswith(
        'no answer: no frame was seen yet by camera\n[]')
    drive_past(world.client().camera(), range(10), START_NS, pause_s=0.01)
    until_seen(node, 10)
    answer, evidence = asked(program, tmp_path).splitlines()
    assert answer and 'camera' in evidence and str(START_NS // SECOND_NS) in evidence


def test_a_program_remembers_without_ros(tmp_path: Path) -> None:
    (program,) = (program for program in PROGRAMS if 'rclpy' not in program)
    said, evidence = run(program, tmp_path).splitlines()
    assert re.match(r'red [01]\.\d{1,3} $', said)
    assert re.match(r'\[\(\d+\.\d, 0\.\d{1,3}\)', evidence)
    # as cpu_demo.yaml, so that the same budget holds as much
    assert 'max_question_tokens=64' in program and 'VideoMemory.load(' in program
    assert (tmp_path / 'kitchen.safetensors').is_file()
