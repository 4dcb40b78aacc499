# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The policy in docs/add_a_policy.md works as printed, and its tables name what there is."""

from pathlib import Path
import re
import sys

from infinipot_ros.memory.policies import get_policy, LayerView, POLICIES, Policy
from policies_oracle import survivors
import pytest
import torch

DOCS = Path(__file__).parents[2] / 'docs' / 'add_a_policy.md'


def code_blocks():
    return re.findall(r'```python\n(.*?)```', DOCS.read_text(encoding='utf-8'), re.DOTALL)


@pytest.fixture
def my_robot(tmp_path, monkeypatch):
    """Make a package my_robot with the documented policy, and leave no trace of it."""
    package = tmp_path / 'my_robot'
    package.mkdir()
    (package / '__init__.py').touch()
    (package / 'policies.py').write_text(code_blocks()[0], encoding='utf-8')
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    POLICIES.pop('middle_first', None)
    for name in ('my_robot', 'my_robot.policies'):
        sys.modules.pop(name, None)


def test_the_documented_policy_is_ten_lines_and_keeps_the_middle(my_robot):
    view = survivors(1, frames=6, grid=(3, 5), keep=1.0)
    budget = 15 + 2 * 5
    kept = get_policy('my_robot.policies:middle_first')(view, budget)
    past = view.patch.gather(1, kept)[:, :-15]
    # One middle patch in each of the five past frames, then the four around it, oldest first.
    assert (past == 7).sum(1).tolist() == [5, 5]
    assert set(past.flatten().tolist()) <= {2, 6, 7, 8, 12}
    assert view.newest.gather(1, kept).sum(1).tolist() == [15, 15]
    assert len([line for line in code_blocks()[0].splitlines() if line.strip()]) <= 10


def test_every_policy_is_in_the_table():
    rows = re.findall(r'^\| (`.*?) \|', DOCS.read_text(encoding='utf-8'), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r'`([^`]+)`', row)}
    # Benchmarks and other tests may have registered policies of their own.
    home = 'infinipot_ros.memory.policies.'
    assert named >= {n for n, p in POLICIES.items() if p.select.__module__.startswith(home)}
    assert 'infinipot_v' in named


def test_every_field_and_trait_is_in_the_tables():
    text = DOCS.read_text(encoding='utf-8')
    fields = set(LayerView.__dataclass_fields__)
    traits = set(Policy.__dataclass_fields__) - {'name', 'select', 'summary'}
    for name in fields | traits | {'newest', 'recent', 'frame_ids'}:
        assert re.search(rf'`{name}(=False)?`', text), name
    assert isinstance(survivors(1).newest, torch.Tensor)
