# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The commands that users type, with the real `ros2`: launch, param get, service call."""
from collections.abc import Callable, Iterator
import os
from pathlib import Path
import shutil
import signal
import subprocess
import time

import pytest

ROS2 = shutil.which('ros2')
pytestmark = [
    pytest.mark.skipif(ROS2 is None, reason="needs the command 'ros2', which a ROS 2 installation "
                       'has and its Python wheels have not'),
    pytest.mark.timeout(1200)]
START_S = 240.0
COMMAND_S = 60.0
END_S = 60.0
ANSWERED, EMPTY_MEMORY = 0, 1
Launch = Callable[..., subprocess.Popen[str]]


def ros2(*words: str) -> str:
    """Run a command and return what it says, or that it does not end."""
    try:
        done = subprocess.run(['ros2', *words], capture_output=True, text=True, timeout=COMMAND_S,
                              check=False)
    except subprocess.TimeoutExpired as hangs:
        return str(hangs)
    return done.stdout + done.stderr


def until(wanted: str, *words: str) -> str:
    """
    Repeat a command until its output holds `wanted`, and return the output.

    `ros2` asks a node that it has just discovered, and does not always hear its answer.
    """
    deadline = time.monotonic() + START_S
    while True:
        said = ros2(*words)
        if wanted in said:
            return said
        assert time.monotonic() < deadline, f"{' '.join(words)} says {said!r}, not {wanted!r}"
        time.sleep(0.5)


def until_answered(status: int, service: str) -> str:
    """Ask as the README says, until the answer has a status."""
    return until(f'status={status}', 'service', 'call', service, 'infinipot_ros/srv/VideoQA',
                 "{question: 'what do you see now ?'}")


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Start a launch file; it is gone after the test."""
    started: list[subprocess.Popen[str]] = []

    def launch(name: str, *arguments: str) -> subprocess.Popen[str]:
        log = (tmp_path / f'{name}.{len(started)}.log').open('w')
        started.append(subprocess.Popen(
            ['ros2', 'launch', 'infinipot_ros', name, *arguments], stdout=log,
            stderr=subprocess.STDOUT, text=True, cwd=tmp_path, start_new_session=True,
            env={**os.environ, 'PYTHONUNBUFFERED': '1'}))
        return started[-1]

    yield launch
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def test_a_robot_answers_and_the_argument_beats_both_files(launch: Launch, tmp_path: Path) -> None:
    """launch_ros#233: the file that names the node must not win over the command line."""
    own = tmp_path / 'own.yaml'
    own.write_text('/r1/infinipot: {ros__parameters: {budget_mib: 3.0, sample_fps: 2.0}}')
    process = launch('robot.launch.py', 'robot:=cpu_demo', 'namespace:=r1', 'budget_mib:=2.5',
                     f'params_file:={own}')
    until('active [3]', 'lifecycle', 'get', '/r1/infinipot')
    until('Double value is: 2.5', 'param', 'get', '/r1/infinipot', 'budget_mib')
    until('Double value is: 2.0', 'param', 'get', '/r1/infinipot', 'sample_fps')
    until('String value is: demo', 'param', 'get', '/r1/infinipot', 'model')
    until_answered(EMPTY_MEMORY, '/r1/video_qa')
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(END_S) == 0


def test_the_demo_world_is_seen_and_asked_about(launch: Launch) -> None:
    launch('demo.launch.py', 'fps:=10', 'seed:=3')
    until('active [3]', 'lifecycle', 'get', '/infinipot')
    said = until_answered(ANSWERED, '/video_qa')
    assert 'Evidence(' in said and "camera='camera'" in said
    assert 'has_pose=True' in said


def test_a_fleet_answers_each_below_its_name(launch: Launch) -> None:
    launch('fleet.launch.py', 'namespaces:=a,b', 'robot:=cpu_demo', 'image_topic:=image_raw')
    for name in ('a', 'b'):
        until('active [3]', 'lifecycle', 'get', f'/{name}/infinipot')
        until_answered(EMPTY_MEMORY, f'/{name}/video_qa')


@pytest.mark.parametrize(('arguments', 'message'), [
    (['robot:=r2d2'], "robot: 'r2d2' is not known. Known robots: cpu_demo, desktop_gpu_24"),
    ([], 'whose budget and model to use: cpu_demo, desktop_gpu_24'),
    (['robot:=cpu_demo', 'budget_mib:=lots'], "budget_mib: 'lots' is not a number"),
    (['robot:=cpu_demo', 'params_file:=/nowhere'], "cannot read '/nowhere'")])
def test_a_wrong_argument_is_told(launch: Launch, arguments: list[str], message: str) -> None:
    said = ros2('launch', 'infinipot_ros', 'robot.launch.py', *arguments)
    assert message in said


def test_without_nav2_its_launch_file_says_what_to_install_and_leaves_nothing_behind() -> None:
    if 'nav2_lifecycle_manager' in ros2('pkg', 'list').split():
        pytest.skip('Nav2 is installed')
    said = ros2('launch', 'infinipot_ros', 'nav2.launch.py', 'robot:=cpu_demo')
    assert 'nav2_lifecycle_manager is not installed' in said
    assert 'process started' not in said


def test_the_arguments_can_be_listed() -> None:
    said = ros2('launch', 'infinipot_ros', 'robot.launch.py', '--show-args')
    for name in ('robot', 'namespace', 'image_topic', 'budget_mib', 'params_file'):
        assert f"'{name}'" in said


@pytest.mark.parametrize(('name', 'field'), [
    ('srv/VideoQA', 'string question'), ('srv/MemoryFile', 'string path'),
    ('msg/Evidence', 'bool has_pose'), ('msg/MemoryStatus', 'uint64 held_bytes'),
    ('msg/SceneDescription', 'float32 novelty')])
def test_interfaces_can_be_shown(name: str, field: str) -> None:  # rosidl_python#141
    assert field in ros2('interface', 'show', f'infinipot_ros/{name}')
