# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The published behaviour: exact at the first compression, wrong coordinates at the second."""

from dataclasses import replace

from infinipot_ros.memory.policies import POLICIES
from policies_oracle import best, norms_by_hand, survivors, tar_by_hand
import pytest
import torch
from torch.nn.functional import avg_pool3d


def cycle(view, kept, frames, seed):
    """Return the kept tokens followed by `frames` new whole frames."""
    rows = torch.arange(view.num_heads).unsqueeze(1)
    new = survivors(seed, heads=view.num_heads, frames=frames, grid=view.grid, keep=1.0)
    return replace(
        view,
        keys=torch.cat([view.keys[rows, kept], new.keys], 1),
        values=torch.cat([view.values[rows, kept], new.values], 1),
        frame=torch.cat([view.frame[rows, kept], new.frame + 1000], 1),
        patch=torch.cat([view.patch[rows, kept], new.patch], 1),
    )


def test_first_compression_of_whole_frames_equals_the_exact_policy_with_the_same_r_and_kernel():
    view = survivors(1, frames=8, keep=1.0, recent_frames=2, van_kernel=1)
    budget = 6 * view.tokens_per_frame
    first = POLICIES['infinipot_v_published'](view, budget)
    assert torch.equal(first, POLICIES['infinipot_v'](view, budget))


def test_second_compression_differs_because_slots_are_no_patches_any_more():
    view = survivors(1, frames=8, keep=1.0, recent_frames=2, van_kernel=1)
    budget = 6 * view.tokens_per_frame
    view = cycle(view, POLICIES['infinipot_v'](view, budget), frames=2, seed=9)
    exact = POLICIES['infinipot_v'](view, budget)
    published = POLICIES['infinipot_v_published'](view, budget)
    assert not torch.equal(exact, published)
    # The recent frames are aligned in both, so the difference lies in the past alone.
    for kept in (exact, published):
        assert view.recent.gather(1, kept).sum(1).tolist() == [2 * view.tokens_per_frame] * 2


def test_control_r_and_pooling_are_its_documented_differences():
    view = survivors(3, frames=8, keep=1.0, recent_frames=1, van_kernel=1)
    budget = 6 * view.tokens_per_frame
    assert not torch.equal(
        POLICIES['infinipot_v_published'](view, budget), POLICIES['infinipot_v'](view, budget)
    )
    view = replace(view, recent_frames=2, van_kernel=None)
    assert not torch.equal(
        POLICIES['infinipot_v_published'](view, budget), POLICIES['infinipot_v'](view, budget)
    )


@pytest.mark.parametrize('tokens', [96, 90])
def test_slots_are_taken_for_patches_by_hand(tokens):
    view = survivors(5, frames=8, keep=1.0, van_kernel=1)
    tail = {
        name: getattr(view, name)[:, -tokens:] for name in ('keys', 'values', 'frame', 'patch')
    }
    scrambled = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    view = replace(view, **tail)
    view = replace(view, patch=scrambled[view.patch])
    budget, per_frame = 48, view.tokens_per_frame
    late = torch.arange(tokens) + (-tokens % per_frame)
    by_slot = replace(
        view,
        frame=(late // per_frame).repeat(2, 1),
        patch=(late % per_frame).repeat(2, 1),
        recent_frames=int(tokens // per_frame * 0.25),
    )
    tar, van = tar_by_hand(by_slot), norms_by_hand(by_slot)
    kept = POLICIES['infinipot_v_published'](view, budget)
    for head in range(2):
        recent = set(range(tokens - by_slot.recent_frames * per_frame, tokens))
        past = set(range(tokens)) - recent
        chosen = recent | best(tar[head].tolist(), budget // 2 - len(recent), past)
        rest = set(range(tokens)) - chosen
        chosen |= best(van[head], budget - len(chosen), rest)
        assert kept[head].tolist() == sorted(chosen)


def test_rotated_keys_are_compared_where_there_are_any():
    view = survivors(7, frames=8, keep=1.0, van_kernel=1)
    rotated = torch.randn_like(view.keys)
    kept = POLICIES['infinipot_v_published'](replace(view, rotated_keys=rotated), 72)
    assert torch.equal(kept, POLICIES['infinipot_v_published'](replace(view, keys=rotated), 72))
    assert not torch.equal(kept, POLICIES['infinipot_v_published'](view, 72))


def test_zero_padding_pushes_border_patches_out():
    view = survivors(9, frames=8, grid=(7, 7), keep=1.0, alpha=0.0)
    view = replace(view, values=torch.ones_like(view.values))
    kept = POLICIES['infinipot_v_published'](view, 120)
    flat = torch.ones(2, 8, 7, 7, dtype=torch.float64)
    pooled = avg_pool3d(flat, 7, stride=1, padding=3).flatten(1)
    inside = pooled.gather(1, kept).min()
    assert inside > pooled[:, [0]].max()
    corners = torch.isin(view.patch.gather(1, kept), torch.tensor([0, 6, 42, 48]))
    assert not corners.any()


@pytest.mark.parametrize('num_layers', [4, 5, 30])
def test_any_number_of_layers_has_a_pooling(num_layers):
    view = survivors(11, frames=8, keep=1.0)
    kept = [
        POLICIES['infinipot_v_published'](replace(view, layer=i, num_layers=num_layers), 48)
        for i in range(num_layers)
    ]
    no_pooling = POLICIES['infinipot_v_published'](replace(view, van_kernel=1), 48)
    assert torch.equal(kept[-1], no_pooling)
    assert not torch.equal(kept[0], no_pooling)
