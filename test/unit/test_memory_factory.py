# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From parameters to a memory: what a robot cannot use is refused before a model is loaded."""

from dataclasses import fields
import re
import sys

from infinipot_ros import models
from infinipot_ros.errors import BudgetError, ConfigError
from infinipot_ros.memory import MemoryConfig
from infinipot_ros.memory.policies import POLICIES
from infinipot_ros.models.calibration import FILE_NAME
from infinipot_ros.node.memory_factory import (
    acquire_model,
    check_budget,
    make_memory,
    memory_config,
)
from infinipot_ros.node.parameter_table import (
    camera_parameters,
    in_parameters,
    NODE_PARAMETERS,
    OTHER_NAMES,
)
from memory_testing import add
import pytest
from tiny_models import tiny

VALUES = {spec.name: spec.default for spec in [*NODE_PARAMETERS, *camera_parameters(['camera'])]}
POLICY = NODE_PARAMETERS[[spec.name for spec in NODE_PARAMETERS].index('policy')]


@pytest.fixture
def loaded(monkeypatch):
    """Note the models that are loaded, and load none."""
    calls = []

    def load(*arguments, **options):
        calls.append((*arguments, options['calibration']))
        return object()

    monkeypatch.setattr(models, 'load_model', load)
    return calls


@pytest.mark.parametrize('policy, words', [
    ('full', 'benchmarks only'), ('rekv', 'benchmarks only'), ('fastv', 'benchmarks only'),
    ('infinipot_ros.bench.oracle:label_oracle', 'benchmarks only'), ('nothing', 'no policy'),
    ('no_such_module:mine', 'cannot import'), ('math:mine', 'registers no policy')])
def test_a_policy_that_no_robot_can_use_is_refused_before_loading(policy, words, loaded):
    assert POLICY.problem(policy) == ''
    with pytest.raises(ConfigError, match=words) as told:
        acquire_model({**VALUES, 'policy': policy})
    assert policy in str(told.value) and str(told.value).count('infinipot_v_gated') == 1
    assert not loaded


def test_a_policy_of_ones_own_runs_on_the_node(tmp_path, monkeypatch):
    (tmp_path / 'my_policies.py').write_text(
        'from infinipot_ros.memory.policies import keep_top, register\n'
        "@register('newest_patches', 'patches of large number')\n"
        'def select(view, budget):\n'
        '    return keep_top(view.patch.float(), budget, first=view.newest)\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    name = 'my_policies:newest_patches'
    assert POLICY.problem(name) == ''
    try:
        memory = make_memory(tiny(), {**VALUES, 'policy': name, 'max_memory_tokens': 12 * 9})
        add(memory, 40)
        assert memory.status().policy == name and memory.status().compressions
        oldest = memory.retained(memory.frames()[0].frame)
        assert oldest[-1, -1] == 1.0 and oldest[0, 0] == 0.0
    finally:
        POLICIES.pop('newest_patches', None)
        sys.modules.pop('my_policies', None)


@pytest.mark.parametrize('name', ['a b', 'a:b:c', ':a', 'a.:b', '1a:b', 'a;b', '../a:b', ''])
def test_what_is_no_name_of_a_policy_is_never_imported(name):
    assert 'package.module:name' in POLICY.problem(name)


def test_models_with_different_calibrations_are_different_models(loaded):
    first, same, other = (acquire_model({**VALUES, 'device': 'cpu', 'calibration': calibration})
                          for calibration in ('', '', 'none'))
    assert first.model is same.model is not other.model
    assert loaded == [('demo', ''), ('demo', 'none')]
    for lease in (first, same, other):
        lease.release()


def test_a_calibration_is_one_however_it_is_named(loaded, tmp_path, monkeypatch):
    own, other = tmp_path / FILE_NAME, tmp_path / 'other.json'
    monkeypatch.chdir(tmp_path)
    for path in (own, other):
        path.write_text('{}')
    leases = [acquire_model({**VALUES, 'device': 'cpu', 'model': str(tmp_path),
                             'calibration': name})
              for name in ('', str(own), FILE_NAME, f'{tmp_path}/../{tmp_path.name}/{FILE_NAME}',
                           str(other))]
    assert len({id(lease.model) for lease in leases[:4]}) == 1
    assert loaded == [(str(tmp_path), str(own)), (str(tmp_path), str(other))]
    for lease in leases:
        lease.release()


def test_settings_with_other_names_are_settings_and_those_are_parameters():
    assert set(OTHER_NAMES) <= {field.name for field in fields(MemoryConfig)}
    named = re.findall(r'[\w.]+', ' '.join(OTHER_NAMES.values()).replace('<camera>', 'camera'))
    assert set(named) <= set(VALUES)


def test_errors_of_the_engine_name_parameters():
    with pytest.raises(BudgetError) as told:
        make_memory(tiny(), {**VALUES, 'qa.max_question_tokens': 4000})
    assert in_parameters(str(told.value)).endswith(
        'lower instant_frames (4), qa.max_question_tokens (4000), qa.max_new_tokens (64), '
        '(frame_height, frame_width) or the number of cameras')
    with pytest.raises(ConfigError) as told:
        make_memory(tiny(), {**VALUES, 'frame_height': 3, 'frame_width': 64})
    assert in_parameters(str(told.value)).startswith('(frame_height, frame_width) (3, 64) is ')
    assert in_parameters('my_max_new_tokens, qa.max_new_tokens') == (
        'my_max_new_tokens, qa.max_new_tokens')


def test_the_default_budget_is_one_that_the_default_model_can_use(caplog):
    assert VALUES['model'] == 'demo'
    make_memory(models.load_model('demo'), VALUES)
    assert not caplog.records


def test_a_budget_is_checked_without_touching_the_memory():
    memory = make_memory(tiny(), VALUES)
    check_budget(memory, 2.0)
    with pytest.raises(BudgetError, match='the least that works'):
        check_budget(memory, 0.01)
    assert memory.config == memory_config(VALUES)
