# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo's progress is one line on a terminal, and plain lines anywhere else."""
import os
import sys

import pytest

pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from infinipot_ros.demo.drive_demo import _Progress  # noqa: E402, I100


def test_elsewhere_than_on_a_terminal_lines_are_plain_and_none_comes_twice(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Progress, '_PERIOD_S', 0.0)
    progress = _Progress()
    for text in ('loads', 'loads', '1 of 2', '2 of 2'):
        progress.show(text)
    progress.close()
    assert capsys.readouterr().out == 'loads\n1 of 2\n2 of 2\n'


@pytest.mark.parametrize(('term', 'begins'), [('xterm', '\r\033[K'), ('dumb', '')])
def test_on_a_terminal_a_line_is_written_over_and_never_wraps(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, term: str,
        begins: str) -> None:
    monkeypatch.setattr(sys.stdout, 'isatty', lambda: True)
    monkeypatch.setenv('TERM', term)
    monkeypatch.setattr('shutil.get_terminal_size', lambda: os.terminal_size((40, 24)))
    progress = _Progress()
    progress.show('x' * 100)
    said = capsys.readouterr().out
    assert said == (begins + 'x' * 39 if begins else 'x' * 100 + '\n')
