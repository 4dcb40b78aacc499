# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the documents tell a user to type is there, and their figures are recomputed."""
import argparse
import os
from pathlib import Path
import re
import subprocess
import sys

from infinipot_ros.bench import retention_command
from infinipot_ros.launch_support import known_robots, OVERRIDES
from infinipot_ros.node.parameter_table import camera_parameters, NODE_PARAMETERS
import pytest
import robot_budgets

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / 'README.md', ROOT / 'docs' / 'on_a_robot.md', ROOT / 'docs' / 'troubleshooting.md']
ON_A_ROBOT = DOCUMENTS[1].read_text()
SOME_PARAMETERS = 'on_time_jump|sample_fps|depth_range_m|instant_frames|frame_width'


def launch_arguments(name: str) -> set[str]:
    """Return the arguments that a launch file declares, without launch."""
    text = (ROOT / 'launch' / name).read_text()
    declared = set(re.findall(r"DeclareLaunchArgument\(\s*'(\w+)'", text))
    for function, names in (('robot_argument', {'robot'}), ('log_level_argument', {'log_level'}),
                            ('override_arguments', set(OVERRIDES))):
        if f'{function}(' in text:
            declared |= names
    return declared


@pytest.mark.parametrize('document', DOCUMENTS, ids=lambda path: path.name)
def test_launch_commands_can_be_typed(document: Path) -> None:
    """The file exists, and so do its arguments and the robot."""
    commands = re.findall(r'ros2 launch infinipot_ros (\S+)([^\n`]*)', document.read_text())
    for name, rest in commands:
        assert (ROOT / 'launch' / name).is_file()
        for argument, value in re.findall(r'(\w+):=(\S+)', rest):
            assert argument in launch_arguments(name)
            assert argument != 'robot' or value == 'NAME' or value in known_robots()


def test_the_python_of_the_page_on_policies_runs_as_it_stands(tmp_path: Path) -> None:
    page = (ROOT / 'docs' / 'add_a_policy.md').read_text()
    policy, program = re.findall(r'```python\n(.*?)```', page, re.DOTALL)
    (tmp_path / 'my_robot').mkdir()
    (tmp_path / 'my_robot' / 'policies.py').write_text(policy)
    (tmp_path / 'program.py').write_text(program)
    paths = [str(tmp_path), str(ROOT), os.environ.get('PYTHONPATH', '')]
    done = subprocess.run(
        [sys.executable, 'program.py'], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(paths)}, timeout=300)
    assert done.returncode == 0, done.stderr
    first, *rows = done.stdout.splitlines()
    assert int(first.split()[0]) >= 1
    # The corners of the oldest frame are gone, its middle is there.
    assert rows[0].split()[0] == '[[0.' and rows[1].split()[1].strip('[') == '1.'


def test_the_page_on_policies_measures_the_policy_that_it_adds() -> None:
    """The command is one that the benchmark takes, and the policy the page's own."""
    page = (ROOT / 'docs' / 'add_a_policy.md').read_text()
    (line,) = re.findall(r'\$ infinipot bench retention (.*)', page)
    parser = argparse.ArgumentParser()
    retention_command.add_arguments(parser)
    options = parser.parse_args(line.split())
    name = options.policies.split(',')[0].removeprefix('my_robot.policies:')
    assert options.quick and f"@register('{name}'" in page


def test_the_table_of_boards_is_recomputed() -> None:
    assert robot_budgets.board_table() in ON_A_ROBOT


def test_every_launch_argument_is_in_the_table() -> None:
    rows = set(re.findall(r'^\| `(\w+)` \|', ON_A_ROBOT, re.MULTILINE))
    assert launch_arguments('robot.launch.py') <= rows


@pytest.mark.parametrize('document', DOCUMENTS, ids=lambda path: path.name)
def test_parameters_named_are_the_nodes(document: Path) -> None:
    """A dotted or underscored name in code that is followed by a value is a parameter."""
    known = {spec.name for spec in [*NODE_PARAMETERS, *camera_parameters(['camera'])]}
    text = document.read_text()
    named = set(re.findall(r'ros2 param [sg]et /\w+ ([\w.]+)', text))
    named |= set(re.findall(r'`((?:qa|checkpoint|describe)\.\w+)', text))
    named |= set(re.findall(r'^    ([\w.]+): ', text, re.MULTILINE))
    named |= set(re.findall(f'`({SOME_PARAMETERS})`', text))
    assert named <= known


@pytest.mark.parametrize('document', DOCUMENTS[1:], ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """Files and headings; what another document's author still writes is not ours to check."""
    for target in re.findall(r'\]\(([^)#]*)(?:#[\w-]*)?\)', document.read_text()):
        if target and not target.startswith('http'):
            assert (document.parent / target).exists(), target
    for target, heading in re.findall(r'\]\(([^)#]*)#([\w-]+)\)', document.read_text()):
        text = (document.parent / target if target else document).read_text()
        headings = {re.sub(r'[^\w -]', '', line.lstrip('# ')).lower().replace(' ', '-')
                    for line in text.splitlines() if line.startswith('#')}
        assert heading in headings, heading
