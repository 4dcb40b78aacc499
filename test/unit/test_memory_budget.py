# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Invariant 1: bytes held never exceed the budget, and every part costs what the plan says."""

import re

from infinipot_ros.errors import BudgetError, ConfigError
from infinipot_ros.memory import MemoryConfig, VideoMemory
from infinipot_ros.memory.budget import MIB
from infinipot_ros.memory.policies import POLICIES
from infinipot_ros.memory.policies.registry import Policy
from memory_testing import add, digest, filled
import pytest
from tiny_models import pictures, tiny
import torch

SETTINGS = [
    {},
    {'instant_frames': 0},
    {'cameras': ('front', 'rear', 'arm'), 'camera_shares': (2.0, 1.0, 1.0)},
    {'newest_scale': 2},
    {'hold_rotated_keys': False, 'evidence_layers': (1,)},
    {'policy': 'snapkv'},
    {'thumbnail_px': 16},
]


@pytest.mark.parametrize('settings', SETTINGS, ids=lambda s: ','.join(s) or 'default')
@pytest.mark.parametrize('family', ['qwen2_vl', 'llava_onevision'])
def test_every_part_costs_what_the_plan_says(family, settings):
    memory = VideoMemory(tiny(family), MemoryConfig(
        **{'budget_mib': 1.5, 'thumbnail_px': 0, **settings}))
    status = memory.status()
    assert status.bytes_by_part == memory.plan.bytes_by_part
    assert status.held_bytes == memory.plan.total_bytes <= status.budget_bytes


def test_pictures_of_a_pair_are_paid_for():
    memory = VideoMemory(tiny(temporal=2), MemoryConfig(budget_mib=1.5, newest_scale=2))
    assert memory.status().bytes_by_part['pictures'] == 24 * 32 * 3 + 48 * 64 * 3
    assert memory.status().bytes_by_part == memory.plan.bytes_by_part


@pytest.mark.parametrize('policy', ['infinipot_v', 'tar', 'sliding_window', 'uniform_frames',
                                    'recent_frames', 'snapkv', 'infinipot', 'stc', 'ttm',
                                    'infinipot_v_gated'])
def test_held_bytes_stay_within_the_budget(policy):
    memory = filled(tiny(), 0, policy=policy, max_memory_tokens=12 * 9, instant_frames=1)
    budget, frame = memory.status().budget_bytes, memory.status().tokens_per_frame
    for index, rgb in enumerate(pictures(40)):
        memory.add_frame(rgb, stamp=float(index))
        status = memory.status()
        assert status.held_bytes <= budget
        planned = memory.plan.bytes_by_part
        assert all(size <= planned[part] for part, size in status.bytes_by_part.items())
        assert status.held_tokens <= 12 * 9 + frame
        if index % 10 == 9:
            memory.ask('what?', max_new_tokens=2)
            assert memory.status() == status
    assert status.compressions >= 3
    # One frame's embeddings, float32 of 48 channels, and the frame's number.
    held = 12 * 48 * 4 + 8 if policy in ('stc', 'ttm') else 0
    assert status.bytes_by_part['filter'] == held
    # Three layers of two heads: six moments and a correlation each, in double precision.
    state = 3 * 2 * 7 * 8 if policy == 'infinipot_v_gated' else 0
    assert status.bytes_by_part['policy_state'] == state


def test_the_error_names_the_least_budget_that_works():
    model = tiny()
    with pytest.raises(BudgetError) as told:
        VideoMemory(model, MemoryConfig(budget_mib=0.01))
    least = float(re.search(r'is (\d+\.\d+)$', str(told.value)).group(1))
    memory = VideoMemory(model, MemoryConfig(budget_mib=least))
    assert memory.plan.camera_tokens[0] >= 8 * 12
    assert memory.status().held_bytes <= least * MIB
    with pytest.raises(BudgetError):
        VideoMemory(model, MemoryConfig(budget_mib=least - 0.02))


@pytest.mark.parametrize('keep_ratio', [0.1, 0.11, 0.124, 0.13, 0.3, 0.95])
@pytest.mark.parametrize('policy', ['infinipot_v', 'tar', 'snapkv', 'sliding_window', 'full',
                                    'fastv', 'recent_frames', 'rekv', 'stc'])
def test_the_least_budget_works_whatever_a_compression_leaves(policy, keep_ratio):
    model = tiny()

    def made(budget):
        return VideoMemory(model, MemoryConfig(
            budget_mib=budget, policy=policy, keep_ratio=keep_ratio, recent_ratio=0.0,
            question_tokens=30, thumbnail_px=16))

    with pytest.raises(BudgetError) as told:
        made(0.01)
    least = float(re.search(r'is (\d+\.\d+)$', str(told.value)).group(1))
    memory = made(least)
    if POLICIES[policy].evicts:
        add(memory, memory.plan.camera_tokens[0] // 12 + 8)
    assert memory.status().held_bytes <= least * MIB
    with pytest.raises(BudgetError, match=re.escape(str(told.value)[20:])):
        made(least - 0.01)


def test_a_policy_that_never_compresses_needs_no_room_for_it():
    model = tiny()
    for policy in ('full', 'fastv'):
        VideoMemory(model, MemoryConfig(
            budget_mib=4.0, policy=policy, keep_ratio=0.1, recent_ratio=0.0, question_tokens=30,
            max_memory_tokens=8 * 12))


def test_tokens_stop_at_what_the_model_reads(caplog):
    model = tiny(max_context_tokens=600)
    memory = VideoMemory(model, MemoryConfig(budget_mib=64.0))
    sizes = memory._state.sizes
    read = (sizes.sink_tokens + memory.plan.camera_tokens[0] + sizes.instant_tokens
            + sizes.text_tokens)
    assert read == 600
    assert 'stay unused' in caplog.text
    with pytest.raises(BudgetError, match='max_question_tokens'):
        VideoMemory(model, MemoryConfig(budget_mib=64.0, max_question_tokens=500))


def test_no_warning_where_the_user_set_the_cap(caplog):
    VideoMemory(tiny(), MemoryConfig(budget_mib=64.0, max_memory_tokens=200))
    assert 'stay unused' not in caplog.text


@pytest.mark.parametrize('settings', [
    {'budget_mib': 0}, {'budget_mib': -1.0}, {'budget_mib': float('nan')}, {'alpha': 1.5},
    {'cameras': ()}, {'cameras': ('a', 'a')}, {'camera_shares': (1.0, 2.0)},
    {'instant_frames': -1}, {'newest_scale': 2, 'instant_frames': 0}, {'keep_ratio': 1.0},
    {'question_policy': 'rekv'}, {'frame_size_px': (0, 10)},
    {'recent_ratio': 0.5, 'keep_ratio': 0.5},
    {'max_memory_tokens': 128.5}, {'max_memory_tokens': 128.0}, {'instant_frames': 1.5},
    {'instant_frames': True}, {'max_new_tokens': 1.5}, {'max_question_tokens': 9.5},
    {'frame_size_px': (56.5, 56)}, {'frame_size_px': 5}, {'frame_size_px': (True, 5)},
    {'newest_scale': 1.5}, {'max_evidence': 1.5}, {'thumbnail_px': 1.5},
    {'question_tokens': 1.5}, {'policy': None}, {'question_policy': 5}, {'policy_options': 5},
    {'policy_options': {'van_kernel': 2}}, {'policy_options': {'van_kernel': 2**63 + 1}},
    {'policy_options': {'cv_thresholds': (0.1, 0.2, 10**400)}},
    {'policy_options': {1: 2}}, {'evidence_layers': ('x',)}, {'evidence_layers': (0.5,)},
    {'evidence_layers': 5}, {'cameras': 'ab'}, {'cameras': (1,)}, {'camera_shares': 'x'},
    {'decouple': 'no'}, {'budget_mib': 10**400}, {'budget_mib': 1e300}, {'alpha': 10**400},
    {'alpha': None},
])
def test_a_bad_setting_is_named(settings):
    name = 'cameras' if settings == {'cameras': ()} else next(iter(settings))
    with pytest.raises(ConfigError, match=name):
        MemoryConfig(**{'budget_mib': 4.0, **settings})


def test_a_compression_that_would_cut_the_newest_frame_is_refused():
    settings = {'budget_mib': 4.0, 'keep_ratio': 0.12, 'recent_ratio': 0.0}
    with pytest.raises(BudgetError, match='less than a frame of 12; raise keep_ratio'):
        VideoMemory(tiny(), MemoryConfig(max_memory_tokens=8 * 12, **settings))
    memory = filled(tiny(), 40, max_memory_tokens=9 * 12, **settings)
    assert memory.status().compressions
    newest = memory._state.cameras[0].past.frames.max()
    assert memory.retained(int(newest)).min() == 1.0


def test_an_unknown_policy_lists_the_known_ones():
    with pytest.raises(ConfigError, match='infinipot_v'):
        VideoMemory(tiny(), MemoryConfig(budget_mib=4.0, policy='magic'))


def test_a_lower_budget_compresses_at_once_and_gives_storage_back():
    memory = filled(tiny(), 60, budget_mib=3.0, thumbnail_px=16)
    before = memory.status()
    memory.set_budget(0.7)
    after = memory.status()
    assert after.budget_bytes == int(0.7 * MIB)
    assert after.held_bytes <= after.budget_bytes < before.held_bytes
    assert after.held_tokens <= after.capacity_tokens < before.held_tokens
    assert after.bytes_by_part == memory.plan.bytes_by_part
    assert memory.ask('what?', max_new_tokens=2).tokens
    add(memory, 30)
    assert memory.status().held_bytes <= after.budget_bytes


def test_a_budget_can_be_raised_up_to_what_it_was():
    memory = filled(tiny(), 60, budget_mib=3.0)
    memory.set_budget(0.7)
    kept = memory.status().held_tokens
    memory.set_budget(3.0)
    assert memory.status().held_tokens == kept
    add(memory, 5)
    assert memory.status().held_tokens == kept + 5 * 12
    with pytest.raises(BudgetError, match='up to 3'):
        memory.set_budget(3.1)


def test_a_budget_that_is_too_low_changes_nothing():
    memory = filled(tiny(), 60, budget_mib=3.0)
    before = digest(memory)
    with pytest.raises(BudgetError):
        memory.set_budget(0.1)
    assert digest(memory) == before
    assert memory.config.budget_mib == 3.0


def test_shares_divide_the_tokens():
    memory = filled(tiny(), 0, cameras=('front', 'rear'), camera_shares=(3.0, 1.0))
    front, rear = memory.plan.camera_tokens
    assert front == pytest.approx(3 * rear, abs=4)


@pytest.mark.parametrize('many_layers', [False, True])
@pytest.mark.parametrize('words, registered, kept', [
    ('800000 bytes a head .*registered state_bytes=0', 0, lambda h: torch.zeros(h, 200_000)),
    ('12 bytes a head .*(notes).*state_bytes=8', 8, lambda h: torch.zeros(h, 3)),
    ('list', 8, lambda h: [1.0] * h), ('int', 8, lambda h: 5),
])
def test_a_policy_is_held_to_what_it_registered(
        monkeypatch, words, registered, kept, many_layers):
    def select(view, budget):
        view.state['notes'] = kept(view.num_heads) if fails else torch.zeros(view.num_heads, 2)
        return POLICIES['sliding_window'](view, budget)

    fails = True
    monkeypatch.setitem(POLICIES, 'noted', Policy(
        'noted', select, '', state_bytes=registered, many_layers=many_layers))
    memory = filled(tiny(), 13, policy='noted', max_memory_tokens=12 * 9)
    before, status = digest(memory), memory.status()
    with pytest.raises(ConfigError, match=f'policy noted put {words}'):
        memory.add_frame(pictures(1)[0], stamp=13.0)
    assert digest(memory) == before and memory.status() == status
    fails = False
    if registered:
        add(memory, 20)
        held = memory.status().bytes_by_part['policy_state']
        assert held == memory.plan.bytes_by_part['policy_state']


def test_a_slice_in_the_state_does_not_hold_what_it_was_cut_from(monkeypatch):
    def select(view, budget):
        view.state['notes'] = torch.zeros(view.num_heads, 2, 1000)[..., 0]
        return POLICIES['sliding_window'](view, budget)

    monkeypatch.setitem(POLICIES, 'noted', Policy('noted', select, '', state_bytes=8))
    memory = filled(tiny(), 20, policy='noted', max_memory_tokens=12 * 9)
    for state in memory._state.cameras[0].policy_state:
        assert state['notes'].untyped_storage().nbytes() == state['notes'].nbytes == 2 * 8
