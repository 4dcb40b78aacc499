# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/setup and scripts/env.sh say what is missing, and what to do about it."""

from __future__ import annotations

import os
from pathlib import Path
import shutil
import subprocess

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ('setup', 'env.sh', 'test', 'demo')
# What scripts/setup calls before it makes anything.
TOOLS = ('bash', 'cat', 'dirname', 'uname', 'env', 'apt-get')

pytestmark = pytest.mark.skipif(shutil.which('bash') is None, reason='needs bash')


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of what scripts/setup reads, in a folder whose name has a space."""
    copy = tmp_path / 'my robot'
    for folder in ('scripts', 'requirements', 'cmake', 'msg', 'srv'):
        shutil.copytree(ROOT / folder, copy / folder)
    return copy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a folder with all the commands that there are: no Python, no compiler."""
    commands = tmp_path / 'bin'
    commands.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found is not None:
            (commands / tool).symlink_to(found)
    return commands


def command(path: Path, name: str, text: str) -> None:
    """Put a command of our own on the path."""
    (path / name).write_text(f'#!/usr/bin/env bash\n{text}\n')
    (path / name).chmod(0o755)


def fake_python(path: Path, headers: Path | None, modules: bool = True) -> None:
    """Put a Python on the path that is new enough, and may lack modules or headers."""
    command(path, 'python3', f"""
        case "$*" in
            *ensurepip*) exit {0 if modules else 1} ;;
            *sysconfig*) echo "{headers}" ;;
            *realpath*) echo "{path}/python3" ;;
            --version) echo Python 3.11.0 ;;
        esac""")


def setup(checkout: Path, path: Path, *arguments: str,
          **variables: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/setup with nothing but the given commands and variables."""
    program = [str(path / 'bash'), str(checkout / 'scripts' / 'setup'), *arguments]
    return subprocess.run(program, env={'PATH': str(path), **variables},
                          capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize('name', SCRIPTS)
def test_script_is_valid_bash(name: str) -> None:
    subprocess.run(['bash', '-n', str(ROOT / 'scripts' / name)], check=True)
    assert name == 'env.sh' or os.access(ROOT / 'scripts' / name, os.X_OK)


def test_setup_without_a_usable_python(checkout: Path, path: Path) -> None:
    command(path, 'python3', 'if [ "$1" = --version ]; then echo Python 3.8.10; else exit 1; fi')
    ended = setup(checkout, path)
    assert ended.returncode == 1
    assert 'needs Python 3.10 to 3.13, found Python 3.8.10' in ended.stderr
    assert 'INFINIPOT_PYTHON=' in ended.stderr


def test_setup_without_the_venv_module(checkout: Path, path: Path) -> None:
    fake_python(path, None, modules=False)
    ended = setup(checkout, path)
    assert ended.returncode == 1
    assert 'cannot make virtual environments' in ended.stderr


def test_setup_without_python_headers(checkout: Path, path: Path, tmp_path: Path) -> None:
    fake_python(path, tmp_path)
    ended = setup(checkout, path)
    assert ended.returncode == 1
    assert f"{tmp_path}/Python.h, which is not there: install Python's headers" in ended.stderr


def test_setup_without_a_compiler(checkout: Path, path: Path, tmp_path: Path) -> None:
    (tmp_path / 'Python.h').touch()
    fake_python(path, tmp_path)
    ended = setup(checkout, path)
    assert ended.returncode == 1
    assert 'need a C++ compiler' in ended.stderr
    command(path, 'c++', 'true')
    assert 'need make' in setup(checkout, path).stderr


def test_setup_on_another_processor(checkout: Path, path: Path, tmp_path: Path) -> None:
    (tmp_path / 'Python.h').touch()
    fake_python(path, tmp_path)
    for name in ('c++', 'make'):
        command(path, name, 'true')
    (path / 'uname').unlink()
    command(path, 'uname', 'echo Linux aarch64')
    ended = setup(checkout, path)
    assert ended.returncode == 1
    assert 'wheels for Linux x86_64 only, this is Linux aarch64' in ended.stderr
    assert 'Install ROS 2' in ended.stderr


def test_setup_takes_the_sourced_ros_and_needs_its_colcon(
        checkout: Path, path: Path, tmp_path: Path) -> None:
    (tmp_path / 'Python.h').touch()
    fake_python(path, tmp_path)
    for name in ('c++', 'make', 'ros2'):
        command(path, name, 'true')
    ended = setup(checkout, path, ROS_DISTRO='humble')
    assert ended.returncode == 1
    assert 'needs colcon' in ended.stderr


def test_setup_of_a_distribution_without_wheels(checkout: Path, path: Path) -> None:
    ended = setup(checkout, path, '--distro', 'humble')
    assert ended.returncode == 1
    assert "wheels of jazzy and kilted, not of 'humble'" in ended.stderr


def test_setup_refuses_a_slip(checkout: Path, path: Path) -> None:
    ended = setup(checkout, path, '--forse')
    assert ended.returncode == 1
    assert "what is '--forse'?" in ended.stderr
    assert 'Usage:' in ended.stderr


@pytest.mark.parametrize('options', ['', 'set -u; '])
def test_env_before_setup_says_so_and_leaves_the_shell_alive(checkout: Path, options: str) -> None:
    script = (f'{options}source "{checkout}/scripts/env.sh"; echo "status $?, alive"; '
              'set | grep ^_infinipot_')
    ended = subprocess.run(['bash', '-c', script], capture_output=True, text=True, timeout=60)
    assert ended.stdout == 'status 1, alive\n'
    assert f"run '{checkout}/scripts/setup' first" in ended.stderr
