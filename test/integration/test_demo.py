# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo as a user runs it, after set-up; and nothing of it is left however it ends."""
from collections.abc import Iterator
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import time

import pytest
import yaml

pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from dds_world import NO_SHARED_MEMORY  # noqa: E402, I100

COMMAND = [sys.executable, '-m', 'infinipot_ros.demo.drive_demo']
RUN_S = 900.0
END_S = 60.0
pytestmark = pytest.mark.timeout(RUN_S + 3 * END_S)


def processes_with(text: str) -> list[int]:
    """Return the processes whose command line holds a text."""
    found = []
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        try:
            command = path.read_bytes().decode(errors='replace')
        except OSError:
            continue
        if text in command and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found


def until_gone(output: Path) -> None:
    """Wait until no process knows of a folder."""
    deadline = time.monotonic() + END_S
    while left := processes_with(str(output)):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Path]:
    """Return the output folder; no process may be left that knows of it."""
    output = tmp_path / 'demo'
    yield output
    until_gone(output)


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the demo to its end."""
    return subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=RUN_S,
                          check=False)


def test_a_drive_is_remembered_within_the_budget(output: Path) -> None:
    """At least five compressions, six questions, five right, and pictures to look at."""
    done = run('--output', str(output), '--fps', '20')
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert len(re.findall(r'^[1-6]  ', said, re.MULTILINE)) == 6, said
    right = re.search(r'(\d) of 6 answers are right, and the bytes held stayed within', said)
    assert right and int(right[1]) >= 5, said
    most, budget = re.search(r'Most bytes ever held: ([\d,]+) of ([\d,]+)', said).groups()
    assert int(most.replace(',', '')) <= int(budget.replace(',', ''))
    assert '\r' not in said and '\033' not in said, 'not on a terminal'
    drive = output / 'drive'
    camera = yaml.safe_load((drive / 'simulated_camera.yaml').read_text())['/**'][
        'ros__parameters']
    assert camera['qos_overrides./camera/image_raw.publisher.depth'] >= camera['end']
    assert len(list(drive.glob('question_*_evidence.jpg'))) == 6
    assert (drive / 'retained.jpg').stat().st_size > 10_000


def test_a_recorded_video_is_remembered_within_the_budget(output: Path) -> None:
    """Real pictures: compressions, cap, overlays; the words are said to mean nothing."""
    (output / 'drive').mkdir(parents=True)
    (output / 'drive' / 'retained.jpg').write_bytes(b'of the drive')
    done = run('--output', str(output), '--video')
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert 'mean nothing here' in said
    assert int(re.findall(r'(\d+) compressions', said)[-1]) >= 5
    assert (output / 'video' / 'retained.jpg').stat().st_size > 10_000
    assert (output / 'video' / 'evidence.jpg').stat().st_size > 10_000
    assert (output / 'drive' / 'retained.jpg').read_bytes() == b'of the drive'


@pytest.mark.parametrize(('options', 'message'), [
    (['--budget-mib', '0.5'], 'budget_mib is 0.5 and the least that works'),
    (['--video', '/nowhere.mp4'], "there is no file or folder '/nowhere.mp4'")])
def test_what_cannot_work_is_told(output: Path, options: list[str], message: str) -> None:
    done = run('--output', str(output), *options)
    assert done.returncode == 1
    assert message in done.stderr
    assert 'Traceback' not in done.stderr and 'works as on a robot' not in done.stdout


@pytest.mark.parametrize(('how', 'code'), [
    (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_nothing_is_left_running(output: Path, how: int, code: int) -> None:
    """Ctrl-C, a polite end, and a kill, while camera and node run."""
    transport = NO_SHARED_MEMORY if how == signal.SIGKILL else {}
    with subprocess.Popen([*COMMAND, '--output', str(output)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **transport}) as demo:
        deadline = time.monotonic() + RUN_S
        while not processes_with(str(output.resolve() / 'drive' / 'simulated_camera.yaml')):
            assert time.monotonic() < deadline and demo.poll() is None
            time.sleep(0.1)
        assert len(processes_with(str(output))) == 3
        demo.send_signal(how)
        said, _ = demo.communicate(timeout=END_S)
    assert demo.returncode == code
    assert 'Traceback' not in said
    until_gone(output)
