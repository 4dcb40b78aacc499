# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What other caches and video models were caught at, each by its smallest input."""

from dataclasses import replace
from pathlib import Path

from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.policies import POLICIES
from infinipot_ros.models import load_model
from memory_testing import add, digest, filled, Spy
from policies_oracle import survivors
import pytest
from tiny_models import pictures, save, tiny
import torch


@pytest.mark.parametrize('family', ['qwen2_vl', 'qwen2_5_vl', 'llava_onevision'])
def test_a_long_memory_leaves_nothing_in_the_model(tmp_path: Path, family):  # transformers#43952
    save(tmp_path, family)

    def logits(model):
        spy = Spy(model)
        memory._state.model = spy
        memory.ask('what?', max_new_tokens=4)
        return torch.stack(spy.seen)

    used = load_model(tmp_path)
    memory = filled(used, 60, scene=1, max_memory_tokens=108)
    logits(used)
    memory.reset()
    add(memory, 3, scene=2)
    after = logits(used)
    fresh = load_model(tmp_path)
    memory = filled(fresh, 3, scene=2, max_memory_tokens=108)
    assert torch.equal(after, logits(fresh))


def test_an_odd_frame_waits_for_its_second_and_is_not_lost():  # transformers#35412
    model = tiny(temporal=2)
    memory = filled(model, 0)
    drive = pictures(4, 7)
    for rgb in drive[:3]:
        memory.add_frame(rgb, stamp=float(memory.status().frames_seen))
    before = digest(memory)
    assert memory.ask('what?', max_new_tokens=2).frames_seen == 3
    assert digest(memory) == before
    memory.add_frame(drive[3], stamp=3.0)
    assert memory.status().frames_seen == 4
    with torch.inference_mode():
        pairs = torch.stack([model.encode(drive[first:first + 2], (24, 32)) for first in (0, 2)])
    assert torch.equal(memory._state.cameras[0].buffer.ordered(), pairs)


def test_a_cache_is_rolled_back_to_exactly_what_is_asked():  # transformers#47433
    cache = LayerCache(tiny().shape, 8, 2, provenance=True)
    rows = torch.arange(3.0)[:, None].expand(cache.keys[0].shape[0], 3, tiny().shape.head_dim)
    for layer in range(tiny().shape.layers):
        cache.write(layer, 0, rows, rows)
    cache.commit(3, 5, torch.arange(3))
    for beyond in (4, -2, -5):
        with pytest.raises(ValueError, match='3 stored tokens'):
            cache.crop(beyond)
        assert cache.stored_tokens == 3
    cache.crop(3)
    assert cache.patches[0, 0].tolist() == [0, 1, 2]
    cache.crop(1)
    assert cache.patches[0, 0].tolist() == [0] and cache.frames.shape[2] == 1
    cache.crop(0)
    assert cache.stored_tokens == 0 and cache.frames.shape[2] == 0


@pytest.mark.parametrize('name', sorted(
    name for name, policy in POLICIES.items() if policy.on_robot and policy.evicts))
@pytest.mark.parametrize('tokens', [1, 2])
def test_a_policy_keeps_one_of_one_or_two_tokens(name, tokens):  # kvpress#264
    view = survivors(1, frames=tokens, grid=(1, 1), keep=1.0)
    view = replace(view, attention=torch.ones(view.frame.shape))
    kept = POLICIES[name](view, 1)
    assert kept.shape == (view.num_heads, 1) and kept.max() < tokens
