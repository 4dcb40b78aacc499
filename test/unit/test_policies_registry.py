# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every policy keeps the protocol, and mistakes are answered with what is allowed."""

from dataclasses import replace
import importlib

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.policies import (
    get_policy,
    get_robot_policy,
    LayerView,
    POLICIES,
    Policy,
    register,
)
from policies_oracle import survivors
import pytest
import torch

DESIGN_NAMES = {
    'infinipot_v', 'tar', 'tar_frame', 'tar_reverse', 'van', 'van_pool', 'van_reverse', 'full',
    'sliding_window', 'recent_frames', 'uniform_frames', 'uniform_tokens', 'random', 'snapkv',
    'infinipot', 'infinipot_v_published', 'stc', 'ttm', 'fastv', 'rekv', 'rekv_no_offload',
    'infinipot_v_gated', 'tar_diverse', 'dscache_uniform',
}
# These answer a question with what was kept elsewhere; the others guard the present.
AT_A_QUESTION = {'fastv', 'rekv'}
EVICTING = sorted(DESIGN_NAMES - {'full'} | {'tar_diverse_later'})


def whole_view(**settings):
    """Six frames, heads that differ, two whole newest frames, every optional field filled in."""
    view = survivors(31, frames=6, keep=0.7, whole=2, recent_frames=2, **settings)
    rng = torch.Generator().manual_seed(5)
    return replace(
        view,
        attention=torch.rand(view.frame.shape, generator=rng),
        rotated_keys=view.keys.flip(-1),
        question=torch.randn(4, 3, view.keys.shape[-1], generator=rng),
    )


def test_every_policy_of_the_design_is_there():
    assert set(POLICIES) >= DESIGN_NAMES
    assert all(POLICIES[name].name == name and POLICIES[name].summary for name in POLICIES)


@pytest.mark.parametrize('name', EVICTING)
@pytest.mark.parametrize('budget', [1, 7, 12, 25, 40, 58])
def test_a_policy_returns_exactly_the_budget_rising_and_the_same_every_time(name, budget):
    view = whole_view()
    assert view.num_tokens == 58
    kept = POLICIES[name](view, budget)
    assert kept.dtype == torch.int64
    assert kept.shape == (view.num_heads, budget)
    assert (kept[:, 1:] > kept[:, :-1]).all()
    assert kept.min() >= 0 and kept.max() < view.num_tokens
    assert torch.equal(kept, POLICIES[name](whole_view(), budget))
    if name not in AT_A_QUESTION:
        newest = view.newest.gather(1, kept).sum(1)
        assert newest.tolist() == [min(budget, view.tokens_per_frame)] * view.num_heads


@pytest.mark.parametrize('name', ['infinipot_v', 'infinipot_v_gated', 'tar', 'tar_frame',
                                  'tar_reverse', 'tar_diverse', 'tar_diverse_later'])
def test_recent_frames_stay_whole_where_the_policy_compares_with_them(name):
    view = whole_view()
    kept = POLICIES[name](view, 30)
    assert view.recent.gather(1, kept).sum(1).tolist() == [24, 24]


@pytest.mark.parametrize('name', EVICTING)
def test_a_policy_survives_equal_and_zero_tensors(name):
    for fill in (0.0, 1.0):
        view = whole_view()
        flat = torch.full_like(view.keys, fill)
        view = replace(
            view, keys=flat, values=flat, rotated_keys=flat,
            attention=torch.full_like(view.attention, fill),
            question=torch.full_like(view.question, fill),
        )
        kept = POLICIES[name](view, 30)
        assert torch.equal(kept, POLICIES[name](view, 30))


@pytest.mark.parametrize('name', sorted(set(EVICTING) - AT_A_QUESTION))
def test_a_policy_works_on_one_frame_and_on_lower_precision(name):
    view = survivors(3, frames=1, grid=(2, 2))
    view = replace(
        view, keys=view.keys.bfloat16(), values=view.values.bfloat16(),
        attention=torch.rand(view.frame.shape),
    )
    assert POLICIES[name](view, 4).tolist() == [[0, 1, 2, 3]] * 2
    assert POLICIES[name](view, 1).shape == (2, 1)


@pytest.mark.parametrize('budget', [0, -1, 59, 2.5, 'all', None])
def test_a_budget_that_is_not_allowed_is_named_with_what_is(budget):
    with pytest.raises(ConfigError, match=r'budget must be.*' + str(budget)):
        POLICIES['infinipot_v'](whole_view(), budget)


def test_an_unknown_policy_is_answered_with_the_names_there_are():
    with pytest.raises(ConfigError, match=r'infinipotv.*infinipot_v, .*van_reverse'):
        POLICIES['infinipotv']
    assert 'infinipotv' not in POLICIES
    assert POLICIES.get('infinipotv') is None
    with pytest.raises(ConfigError, match='cannot import'):
        get_policy('no_such_module_here:mine')
    assert get_policy('infinipot_v') is POLICIES['infinipot_v']


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Return what makes a module of a policy of one's own, and leave no trace of it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = dict(POLICIES)

    def make(name, text):
        (tmp_path / f'{name}.py').write_text(text)
        importlib.invalidate_caches()
        return name

    yield make
    for name in set(POLICIES) - set(before):
        del POLICIES[name]


def test_a_policy_of_ones_own_is_named_by_module_and_name(own_module):
    module = own_module('own_policies_1', (
        'from infinipot_ros.memory.policies import POLICIES, register\n'
        "register('mine', 'as tar')(POLICIES['tar'].select)\n"
        "register('mine_offline', 'as tar', on_robot=False)(POLICIES['tar'].select)\n"))
    assert get_robot_policy(f'{module}:mine') is get_policy(f'{module}:mine') is POLICIES['mine']
    with pytest.raises(ConfigError, match=f'{module}.*registers no policy .yours.'):
        get_policy(f'{module}:yours')
    with pytest.raises(ConfigError, match='benchmarks only'):
        get_robot_policy(f'{module}:mine_offline')


@pytest.mark.parametrize('text', [
    'syntax error', '1 / 0', 'import no_such_module_here', 'raise SystemExit("Error")'])
def test_a_module_that_cannot_be_imported_is_named_with_the_cause(own_module, text):
    module = own_module('own_policies_2', text)
    for get in (get_policy, get_robot_policy):
        with pytest.raises(ConfigError, match=f'{module}.*Error'):
            get(f'{module}:mine')
    with pytest.raises(ConfigError, match='cannot import'):
        get_policy(':tar')


def test_a_module_that_is_nowhere_is_told_where_it_is_looked_for():
    with pytest.raises(ConfigError, match='PYTHONPATH'):
        get_policy('no_such_module_here.policies:mine')


def test_a_module_that_failed_half_way_can_be_mended_and_tried_again(own_module):
    text = ('from infinipot_ros.memory.policies import POLICIES, register\n'
            "register('mine_again', 'as tar')(POLICIES['tar'].select)\n")
    module = own_module('own_policies_3', text + '1 / 0\n')
    with pytest.raises(ConfigError, match='ZeroDivisionError'):
        get_policy(f'{module}:mine_again')
    assert 'mine_again' not in POLICIES
    own_module('own_policies_3', text + '# mended, so of another length\n')
    assert get_policy(f'{module}:mine_again') is POLICIES['mine_again']


@pytest.mark.parametrize('name', [
    'full', 'fastv', 'rekv', 'infinipot_ros.bench.oracle:label_oracle'])
def test_a_robot_is_refused_what_only_a_benchmark_can_use(name):
    with pytest.raises(ConfigError, match='benchmarks only') as told:
        get_robot_policy(name)
    allowed = str(told.value).split('a robot can use: ')[1].split(', ')
    assert 'infinipot_v' in allowed and not {'full', 'fastv', 'rekv'} & set(allowed)
    with pytest.raises(ConfigError, match=r'a robot can use: .*infinipot_v.*package\.module:name'):
        get_robot_policy('infinipotv')


def test_full_refuses_to_evict():
    view = whole_view()
    assert torch.equal(POLICIES['full'](view, 58)[0], torch.arange(58))
    with pytest.raises(ConfigError, match='never evicts'):
        POLICIES['full'](view, 57)
    assert not POLICIES['full'].on_robot


@pytest.mark.parametrize('name, field', [
    ('snapkv', 'attention'), ('infinipot', 'attention'), ('fastv', 'attention'),
    ('rekv', 'question'),
])
def test_a_missing_field_is_named(name, field):
    view = replace(whole_view(), **{field: None})
    with pytest.raises(ConfigError, match=f'{name} needs LayerView.{field}'):
        POLICIES[name](view, 30)


BROKEN = {
    'keys must be': {'keys': torch.zeros(2, 58)},
    'keys must be a floating': {'keys': torch.zeros(2, 58, 5, dtype=torch.int64)},
    'values has shape': {'values': torch.zeros(2, 57, 5)},
    'frame has shape': {'frame': torch.zeros(58, dtype=torch.int64)},
    'patch must be int64': {'patch': torch.zeros(2, 58, dtype=torch.int32)},
    'patch has values outside 0..11': {'patch': torch.full((2, 58), 12)},
    'time order': {'frame': torch.arange(58, 0, -1).repeat(2, 1)},
    'grid must be': {'grid': (0, 4)},
    'layer must be in 0..0': {'layer': 1},
    'recent_frames must be at least 1': {'recent_frames': 0},
    'alpha must be in 0..1': {'alpha': 1.5},
    'van_kernel must be odd': {'van_kernel': 4},
    'cv_thresholds must be three rising': {'cv_thresholds': (0.3, 0.2, 0.4)},
    'attention has shape': {'attention': torch.zeros(2, 3)},
    'fresh must be bool': {'fresh': torch.zeros(2, 58)},
}


@pytest.mark.parametrize('message', BROKEN)
def test_a_view_that_cannot_be_is_refused(message):
    with pytest.raises(ConfigError, match=message):
        replace(whole_view(), **BROKEN[message])


@pytest.mark.parametrize('kept', [
    [[0, 1, 2], [0, 1, 1]], [[2, 1, 0], [0, 1, 2]], [[0, 1, 58], [0, 1, 2]],
    [[-1, 1, 2], [0, 1, 2]], [[0, 1], [0, 1]], [[0.0, 1.0, 2.0]] * 2,
])
def test_indices_that_would_damage_a_memory_are_refused(kept):
    broken = Policy('broken', lambda view, budget: torch.tensor(kept), 'returns nonsense')
    with pytest.raises(ConfigError, match='policy broken'):
        broken(whole_view(), 3)


def test_a_name_is_registered_once():
    with pytest.raises(ConfigError, match='registered already'):
        register('tar', 'another')(lambda view, budget: view.frame)
    assert isinstance(whole_view(), LayerView)
