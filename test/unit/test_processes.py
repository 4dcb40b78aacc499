# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""No process of the demo outlives it, however it ends."""
import os
from pathlib import Path
import signal
import subprocess
import sys
import time

from infinipot_ros.demo.processes import ProcessDied, Processes
import pytest

PATIENCE_S = 60.0
SLEEP = [sys.executable, '-c', "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [sys.executable, '-c', (
    'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); '
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)")]


def wait_for_up(processes: Processes, name: str) -> None:
    """Wait until a child has said that it is up."""
    deadline = time.monotonic() + PATIENCE_S
    while 'up' not in processes.log(name).read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Say whether a process runs."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] != 'Z'
    except FileNotFoundError:
        return False


def test_processes_end_with_the_block(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in the block changes nothing."""
    monkeypatch.setattr('infinipot_ros.demo.processes._INTERRUPT_S', PATIENCE_S)
    with pytest.raises(RuntimeError, match='in the middle'), Processes(tmp_path) as processes:
        processes.start('a', SLEEP, os.environ)
        wait_for_up(processes, 'a')
        (process,) = processes._running.values()
        processes.check()
        raise RuntimeError('in the middle')
    assert process.poll() == -signal.SIGINT


def test_one_that_ignores_signals_is_killed(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGINT, SIGTERM, then SIGKILL."""
    monkeypatch.setattr('infinipot_ros.demo.processes._INTERRUPT_S', 0.2)
    monkeypatch.setattr('infinipot_ros.demo.processes._TERMINATE_S', 0.2)
    with Processes(tmp_path) as processes:
        processes.start('a', STUBBORN, os.environ)
        wait_for_up(processes, 'a')
        assert processes.stop() == {'a': -signal.SIGKILL}


def test_one_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    """The log is where the reason is."""
    with Processes(tmp_path) as processes:
        processes.start('node', [sys.executable, '-c', "print('no such model'); exit(3)"],
                        os.environ)
        deadline = time.monotonic() + PATIENCE_S
        with pytest.raises(ProcessDied, match=r'node ended with code 3(.|\n)*no such model'):
            while time.monotonic() < deadline:
                processes.check()
                time.sleep(0.01)


def test_killing_the_parent_ends_the_children(tmp_path: Path) -> None:
    """Even SIGKILL, which no handler sees."""
    script = (
        'import os, pathlib, sys, time\n'
        'from infinipot_ros.demo.processes import Processes\n'
        'processes = Processes(pathlib.Path(sys.argv[1]))\n'
        f"processes.start('a', {SLEEP!r}, os.environ)\n"
        "print(processes._running['a'].pid, flush=True)\n"
        'time.sleep(60)\n')
    with subprocess.Popen([sys.executable, '-c', script, str(tmp_path)], stdout=subprocess.PIPE,
                          cwd=Path(__file__).parents[2]) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
    deadline = time.monotonic() + PATIENCE_S
    while alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)
