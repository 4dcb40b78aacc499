# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""infinipot_v_gated uses VaN in a head only while its value norms agree with TaR."""

from dataclasses import replace
import math

from infinipot_ros.memory.policies import POLICIES, tar_scores
from policies_oracle import norms_by_hand, survivors, tar_by_hand
import pytest
import torch


def pearson(pairs, weights):
    total = sum(weights)
    x = sum(w * a for (a, _), w in zip(pairs, weights, strict=True)) / total
    y = sum(w * b for (_, b), w in zip(pairs, weights, strict=True)) / total
    xy = sum(w * (a - x) * (b - y) for (a, b), w in zip(pairs, weights, strict=True))
    xx = sum(w * (a - x) ** 2 for (a, _), w in zip(pairs, weights, strict=True))
    yy = sum(w * (b - y) ** 2 for (_, b), w in zip(pairs, weights, strict=True))
    return xy / math.sqrt(xx * yy)


def agreeing(seed, signs, **settings):
    """Give each head value norms that rise (+1) or fall (-1) with its TaR scores."""
    view = survivors(seed, heads=len(signs), frames=6, recent_frames=1, **settings)
    tar = tar_scores(view).masked_fill(view.recent, 0.0)
    factor = (2.0 * tar * torch.tensor(signs).unsqueeze(1)).exp().unsqueeze(-1)
    return replace(view, values=torch.ones_like(view.values) * factor, van_kernel=1)


def samples(view, head):
    tar, norms = tar_by_hand(view)[head].tolist(), norms_by_hand(view)[head]
    return [
        (tar[n], math.log(norms[n]))
        for n in range(view.num_tokens)
        if not view.recent[head, n] and (view.fresh is None or view.fresh[head, n])
    ]


def test_a_head_with_inverted_norms_falls_back_to_tar():
    view = agreeing(1, [1.0, -1.0])
    budget = view.num_tokens // 2
    kept = POLICIES['infinipot_v_gated'](view, budget)
    assert view.state['gate_correlation'].tolist() == pytest.approx([1.0, -1.0])
    assert torch.equal(kept[0], POLICIES['infinipot_v'](view, budget)[0])
    assert torch.equal(kept[1], POLICIES['tar'](view, budget)[1])
    assert not torch.equal(kept[1], POLICIES['infinipot_v'](view, budget)[1])


def test_the_correlation_runs_over_fresh_past_tokens_and_older_ones_fade():
    fresh = torch.arange(48) % 3 > 0
    first = survivors(3, frames=6, recent_frames=1)
    first = replace(first, fresh=fresh.repeat(2, 1))
    second = replace(survivors(4, frames=6, recent_frames=1), state=first.state)
    POLICIES['infinipot_v_gated'](first, 30)
    for head in range(2):
        pairs = samples(first, head)
        expected = pearson(pairs, [1.0] * len(pairs))
        assert float(first.state['gate_correlation'][head]) == pytest.approx(expected, abs=1e-9)
    POLICIES['infinipot_v_gated'](second, 30)
    for head in range(2):
        old, new = samples(first, head), samples(second, head)
        expected = pearson(old + new, [0.9] * len(old) + [1.0] * len(new))
        assert float(second.state['gate_correlation'][head]) == pytest.approx(expected, abs=1e-9)


def test_control_kept_tokens_or_the_recent_ones_would_change_the_correlation():
    view = survivors(5, frames=6, recent_frames=1)
    POLICIES['infinipot_v_gated'](view, 30)
    partly = replace(view, state={}, fresh=torch.arange(48).repeat(2, 1) % 3 > 0)
    POLICIES['infinipot_v_gated'](partly, 30)
    difference = view.state['gate_correlation'] - partly.state['gate_correlation']
    assert difference.abs().max() > 1e-3


def test_nothing_to_correlate_means_tar_alone():
    view = survivors(7, frames=6, recent_frames=1, van_kernel=1)
    for changed in (
        replace(view, state={}, values=torch.ones_like(view.values)),
        replace(view, state={}, fresh=torch.zeros_like(view.recent)),
    ):
        kept = POLICIES['infinipot_v_gated'](changed, 30)
        assert torch.equal(kept, POLICIES['tar'](changed, 30))
        assert changed.state['gate_correlation'].tolist() == [0.0, 0.0]


def test_a_shallow_copy_of_the_state_undoes_a_compression():
    view = agreeing(9, [1.0, -1.0])
    POLICIES['infinipot_v_gated'](view, 30)
    before = dict(view.state)
    numbers = {name: tensor.clone() for name, tensor in before.items()}
    POLICIES['infinipot_v_gated'](view, 30)
    assert not torch.equal(view.state['gate_moments'], before['gate_moments'])
    assert all(torch.equal(before[name], numbers[name]) for name in before)


def test_other_policies_leave_the_state_alone():
    view = survivors(11, frames=6)
    for name in ('infinipot_v', 'tar', 'van_pool', 'tar_diverse', 'random'):
        POLICIES[name](view, 30)
    assert view.state == {}
