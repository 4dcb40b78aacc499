# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A benchmark's own processes have their own threads, and do not run the command again."""

import os
from pathlib import Path
import runpy

from infinipot_ros.bench.in_process import in_process
import pytest
import torch

TEMPLATE = Path(__file__).parents[2] / 'cmake' / 'executable.py.in'


def where_and_how():
    return os.getpid(), torch.get_num_threads()


def test_work_runs_in_another_process_with_its_number_of_threads():
    process, threads = in_process(1, where_and_how)
    assert process != os.getpid()
    assert threads == 1


def test_an_installed_command_runs_once(tmp_path, monkeypatch):
    script = tmp_path / 'infinipot'
    script.write_text(TEMPLATE.read_text(encoding='utf-8').replace('@module@', 'cli'))
    monkeypatch.setattr('sys.argv', ['infinipot', '--help'])
    with pytest.raises(SystemExit):
        runpy.run_path(str(script), run_name='__main__')
    # The name under which multiprocessing imports the script in a process that it starts.
    runpy.run_path(str(script), run_name='__mp_main__')
