# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Two nodes with one file: the second is told who has it, and gets it once that one is gone."""

from __future__ import annotations

import errno
import os
from pathlib import Path
import signal
import subprocess
import sys

from infinipot_ros.errors import CheckpointError
from infinipot_ros.node.file_lock import FileLocks
import pytest

HOLD = """
from pathlib import Path
import sys, time
from infinipot_ros.node.file_lock import FileLocks
FileLocks('/other').claim(Path(sys.argv[1]))
print('held', flush=True)
time.sleep(60)
"""


def test_another_process_is_named_and_its_end_frees_the_file(tmp_path: Path) -> None:
    path = tmp_path / 'memories' / 'robot'
    with subprocess.Popen([sys.executable, '-c', HOLD, str(path)], stdout=subprocess.PIPE,
                          text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == 'held\n'
        ours = FileLocks('/robot')
        with pytest.raises(CheckpointError) as refused:
            ours.claim(path)
        for words in (str(path), f'process {other.pid}, node /other', 'checkpoint.directory'):
            assert words in str(refused.value)
        other.send_signal(signal.SIGKILL)
        other.wait(60.0)
        assert ours.claim(path)


def test_two_nodes_of_one_process_are_two(tmp_path: Path) -> None:
    path = tmp_path / 'robot'
    first, second = FileLocks('/a_node_with_quite_a_long_name'), FileLocks('/second')
    assert first.claim(path)
    assert not first.claim(path)
    with pytest.raises(CheckpointError, match='/a_node_with_quite_a_long_name;'):
        second.claim(path)
    assert second.claim(tmp_path / 'another')
    first.release_all()
    assert list(tmp_path.iterdir()) == [tmp_path / '.another.lock'], 'nothing is left behind'
    assert second.claim(path)
    with pytest.raises(CheckpointError, match='node /second;'):
        first.claim(path)
    second.release(path)
    second.release(path)
    assert first.claim(path)


def test_a_full_disk_costs_the_name_and_not_the_lock(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*unused: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, 'pwrite', full)
    assert FileLocks('/first').claim(tmp_path / 'robot')
    with pytest.raises(CheckpointError, match='in use by another process;'):
        FileLocks('/second').claim(tmp_path / 'robot')


def test_a_folder_that_cannot_be_made_is_no_fault_of_the_lock(tmp_path: Path) -> None:
    (tmp_path / 'file').write_bytes(b'')
    assert not FileLocks('/robot').claim(tmp_path / 'file' / 'robot')
