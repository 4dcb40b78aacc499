# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Small layers are shown to a policy together, and each keeps what it keeps alone."""

from dataclasses import replace

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory import cache_kernels
from infinipot_ros.memory.compression import Compression
from infinipot_ros.memory.policies import POLICIES
from memory_testing import digest, filled
from policies_oracle import survivors
import pytest
from tiny_models import tiny
import torch

TOGETHER = sorted(name for name, policy in POLICIES.items() if policy.many_layers)
BLOCK = 'infinipot_ros.memory.compression.BLOCK_ELEMENTS'


def one_by_one_and_together(**settings):
    """Return four layers' views, and one view of them all."""
    views = [
        survivors(seed, frames=7, whole=3, recent_frames=3, layer=seed, num_layers=4, **settings)
        for seed in range(4)
    ]
    together = replace(views[0], layers=4, state={}, **{
        name: torch.cat([getattr(view, name) for view in views])
        for name in ('keys', 'values', 'frame', 'patch')})
    return views, together


def test_the_policies_of_the_paper_take_many_layers():
    assert {'infinipot_v', 'infinipot_v_gated', 'tar', 'van_pool'} <= set(TOGETHER)


@pytest.mark.parametrize('name', TOGETHER)
@pytest.mark.parametrize('thresholds', [None, (0.28, 0.32, 0.36)])
@pytest.mark.parametrize('budget', [10, 50, 60])
def test_layers_together_keep_what_each_keeps_alone(name, thresholds, budget):
    views, together = one_by_one_and_together(cv_thresholds=thresholds)
    alone = torch.cat([POLICIES[name](view, budget) for view in views])
    assert torch.equal(POLICIES[name](together, budget), alone)
    assert together.state.keys() == views[0].state.keys()
    for key, tensor in together.state.items():
        assert torch.equal(tensor, torch.cat([view.state[key] for view in views]))


@pytest.mark.parametrize('name', TOGETHER)
def test_a_memory_is_the_same_whether_layers_go_together_or_alone(name, monkeypatch):
    settings = {'policy': name, 'max_memory_tokens': 12 * 16 + 7, 'recent_ratio': 0.25}
    sizes = []

    def noted(compression, camera):
        sizes.append(layers_at_once(compression, camera))
        return sizes[-1]

    layers_at_once = Compression.layers_at_once
    monkeypatch.setattr(cache_kernels, '_LIBRARY', None)
    monkeypatch.setattr(Compression, 'layers_at_once', noted)
    together = filled(tiny(), 40, **settings)
    assert set(sizes) == {tiny().shape.layers}
    monkeypatch.setattr(BLOCK, 1)
    assert digest(filled(tiny(), 40, **settings)) == digest(together)
    assert sizes[-1] == 1


def test_layers_whose_newest_frames_differ_go_alone():
    memory = filled(tiny(), 40, policy='tar', max_memory_tokens=12 * 16 + 7)
    compression, camera = memory._state.compression, memory._state.cameras[0]
    assert compression.layers_at_once(camera) > 1
    camera.past.frames[1, 0, -1] += 1
    assert compression.layers_at_once(camera) == 1


def test_a_policy_without_the_trait_sees_one_layer():
    memory = filled(tiny(), 40, policy='tar_frame', max_memory_tokens=12 * 16 + 7)
    assert memory._state.compression.layers_at_once(memory._state.cameras[0]) == 1


@pytest.mark.parametrize('field', ['attention', 'rotated_keys'])
@pytest.mark.parametrize('trait', ['required', 'optional'])
def test_a_policy_that_sees_what_was_observed_sees_one_layer(field, trait):
    memory = filled(tiny(), 40, policy='tar', max_memory_tokens=12 * 16 + 7)
    compression, camera = memory._state.compression, memory._state.cameras[0]
    assert compression.layers_at_once(camera) > 1
    compression.policy = replace(compression.policy, **{trait: (field,)})
    assert compression.layers_at_once(camera) == 1


def test_heads_are_those_of_whole_layers():
    with pytest.raises(ConfigError, match='2 heads'):
        survivors(0, layers=3)
