# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The robots' files: every figure in them is recomputed, every parameter is one of the node's."""
from pathlib import Path
import re

from infinipot_ros.launch_support import known_robots
from infinipot_ros.memory.budget import kv_bytes, MIB
from infinipot_ros.memory.policies import POLICIES
from infinipot_ros.models.loading import ADAPTERS
from infinipot_ros.node.parameter_table import camera_parameters, NODE_PARAMETERS
import pytest
import robot_budgets as budgets
import yaml

ROBOTS = [*budgets.BOARDS, budgets.DEMO]
# number of weights, and bytes of keys and values of a token in bfloat16
PUBLISHED = {'Qwen/Qwen2-VL-2B-Instruct': (2_208_985_600, 28_672),
             'Qwen/Qwen2-VL-7B-Instruct': (8_291_375_616, 57_344),
             'Qwen/Qwen2.5-VL-3B-Instruct': (3_754_622_976, 36_864)}


def test_every_robot_has_a_file_and_every_file_a_robot() -> None:
    """A new file needs its arithmetic."""
    assert known_robots() == sorted(ROBOTS)


@pytest.mark.parametrize('robot', ROBOTS)
def test_every_figure_is_recomputed(robot: str) -> None:
    """The comment is what `python test/unit/robot_budgets.py` prints, and holds every figure."""
    text = (budgets.ROBOTS / f'{robot}.yaml').read_text()
    comment = budgets.comment(robot)
    assert comment in text
    licence, rest = text.split('#\n', 1)
    assert rest.startswith(comment)
    assert licence.count('\n') == 2
    assert '#' not in rest[len(comment):]


def test_the_comparison_notices_a_wrong_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) \
        -> None:
    """Another budget gives another comment."""
    text = (budgets.ROBOTS / 'jetson_orin_nano.yaml').read_text()
    before = budgets.comment('jetson_orin_nano')
    monkeypatch.setattr(budgets, 'ROBOTS', tmp_path)
    changed = re.sub('budget_mib: .*', 'budget_mib: 400.0', text)
    (tmp_path / 'jetson_orin_nano.yaml').write_text(changed)
    assert budgets.comment('jetson_orin_nano') != before


@pytest.mark.parametrize('robot', ROBOTS)
def test_parameters_are_the_nodes(robot: str) -> None:
    """Names, types and ranges; ROS ignores a misspelt name without a word."""
    document = yaml.safe_load((budgets.ROBOTS / f'{robot}.yaml').read_text())
    assert list(document) == ['/**']
    assert list(document['/**']) == ['ros__parameters']
    given = document['/**']['ros__parameters']
    specs = {spec.name: spec for spec in [*NODE_PARAMETERS, *camera_parameters(['camera'])]}
    for name, value in given.items():
        assert name in specs
        assert specs[name].problem(value) == ''
        assert type(value) is type(specs[name].default), f'{name}: {value!r}'
    assert given['policy'] in POLICIES
    for name in ('model', 'dtype', 'device', 'budget_mib', 'sample_fps'):
        assert name in given
    assert given['describe.period_s'] > 0, 'scene_description is published'


@pytest.mark.parametrize('robot', budgets.BOARDS)
def test_weights_budget_and_work_fit_the_board(robot: str) -> None:
    """With at least a tenth of the board's free memory to spare."""
    given, board = budgets.parameters(robot), budgets.BOARDS[robot]
    weights = budgets.weights_bytes(given['model'], given['dtype'], given['quantization'])
    needed_mib = weights / MIB + given['budget_mib'] + board.work_mib
    assert needed_mib <= 0.9 * board.free_mib
    _, spent = budgets.plan(given)
    assert spent.total_bytes <= given['budget_mib'] * MIB
    assert spent.total_bytes > 0.95 * given['budget_mib'] * MIB, 'a part of the budget is unused'


def test_the_smallest_board_needs_int8() -> None:
    """In bfloat16 the same model would leave nothing for a navigation stack."""
    given, board = budgets.parameters('jetson_orin_nano'), budgets.BOARDS['jetson_orin_nano']
    weights = budgets.weights_bytes(given['model'], given['dtype'], '')
    assert weights / MIB + given['budget_mib'] + board.work_mib > board.free_mib


@pytest.mark.parametrize('name', PUBLISHED)
def test_shapes_are_the_published_ones(name: str) -> None:
    """Parameters and bytes per token agree with what is published of each model."""
    model = budgets.build_on_meta(name)
    assert model.config.model_type in ADAPTERS
    found = (sum(p.numel() for p in model.parameters()),
             kv_bytes(budgets.model_shape(name, 'bfloat16')))
    assert found == PUBLISHED[name]
