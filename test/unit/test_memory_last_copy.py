# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A full disk and a process killed at any moment leave the last whole copy of a memory."""

import os
from pathlib import Path
import resource
import subprocess
import sys

from infinipot_ros.errors import CheckpointError
from infinipot_ros.memory import VideoMemory
from memory_testing import add, digest, filled
import pytest
from tiny_models import tiny

KILLED = """
import os
from pathlib import Path
import random
import signal
import sys
import time
from infinipot_ros.memory import VideoMemory
from memory_testing import add, digest, filled
from tiny_models import tiny

memory, path = filled(tiny(), 15), Path(sys.argv[1])
memory.save(path)
kept, moments = {digest(memory)}, random.Random(1)
for attempt in range(12):
    add(memory, 1, scene=attempt)
    kept.add(digest(memory))
    begun, begins = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(begins, b'.')
        while True:
            memory.save(path)
    os.read(begun, 1)
    time.sleep(0.01 * moments.random())  # any moment
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(begun)
    os.close(begins)
    assert digest(VideoMemory.load(path, tiny())) in kept, attempt
print('whole every time')
"""


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path):
    memory, path = filled(tiny(), 30), tmp_path / 'm'
    memory.save(path)
    before, old = digest(memory), path.read_bytes()
    add(memory, 5)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        # no file of this process grows beyond it: what a full disk does to a write
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(old) // 2, limits[1]))
        with pytest.raises(CheckpointError, match='has room') as told:
            memory.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(path) in str(told.value)
    assert path.read_bytes() == old and os.listdir(tmp_path) == ['m']
    assert digest(VideoMemory.load(path, tiny())) == before
    memory.save(path)
    assert VideoMemory.load(path, tiny()).status().frames_seen == 35


def test_a_process_killed_while_it_saves_leaves_a_whole_file(tmp_path):
    done = subprocess.run(
        [sys.executable, '-c', KILLED, str(tmp_path / 'm')], capture_output=True, text=True,
        check=False, env={**os.environ, 'PYTHONPATH': os.pathsep.join(
            [str(Path(__file__).parent), str(Path(__file__).parents[2]),
             os.environ.get('PYTHONPATH', '')]), 'OMP_NUM_THREADS': '1'})
    assert done.stdout.endswith('whole every time\n'), done.stderr


def test_a_save_clears_away_what_a_killed_one_left(tmp_path, monkeypatch):
    memory, path = filled(tiny(), 10), tmp_path / 'm'
    drafts, replace = [], os.replace
    monkeypatch.setattr(
        os, 'replace', lambda draft, to: (drafts.append(Path(draft).name), replace(draft, to)))
    memory.save(path)
    ended = subprocess.Popen([sys.executable, '-c', ''])
    ended.wait()
    left, living, strange = (
        drafts[0].replace(str(os.getpid()), process) for process in (
            str(ended.pid), str(os.getppid()), 'x'))
    for name in (left, living, strange, '.other.part'):
        (tmp_path / name).write_bytes(b'half')
    memory.save(path)
    assert sorted(os.listdir(tmp_path)) == sorted(['m', living, strange, '.other.part'])
