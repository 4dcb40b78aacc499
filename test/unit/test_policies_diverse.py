# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""tar_diverse adds what TaR cannot see: distance to the mean key, and newer copies elsewhere."""

from dataclasses import replace
import math

from infinipot_ros.memory.policies import POLICIES
from infinipot_ros.memory.policies.diverse import (
    likeness_to_later,
    likeness_to_mean,
    standardised,
)
from policies_oracle import best, cosine, survivors, tar_by_hand
import pytest
import torch


def mean_by_hand(view, head):
    keys = view.keys[head].tolist()
    lengths = [math.sqrt(sum(x * x for x in key)) for key in keys]
    mean = [
        sum(key[d] / length for key, length in zip(keys, lengths, strict=True))
        for d in range(view.keys.shape[-1])
    ]
    return [cosine(key, mean) for key in keys]


def later_by_hand(view, head):
    keys, frames = view.keys[head].tolist(), view.frame[head].tolist()
    return [
        max(
            (cosine(keys[n], keys[m]) for m in range(len(keys)) if frames[m] > frames[n]),
            default=-1.0,
        )
        for n in range(len(keys))
    ]


def z(scores, past):
    mean = sum(scores[n] for n in past) / len(past)
    spread = math.sqrt(sum((scores[n] - mean) ** 2 for n in past) / len(past))
    return {n: (scores[n] - mean) / spread for n in past}


@pytest.mark.parametrize('name, later', [('tar_diverse', False), ('tar_diverse_later', True)])
def test_tar_diverse_keeps_what_the_brute_force_keeps(name, later):
    for seed in range(8):
        view = survivors(seed, frames=5, recent_frames=1)
        budget = 25
        tar = tar_by_hand(view)
        kept = POLICIES[name](view, budget)
        for head in range(2):
            past = [n for n in range(view.num_tokens) if not view.recent[head, n]]
            parts = [z(tar[head].tolist(), past)]
            parts.append(z([-c for c in mean_by_hand(view, head)], past))
            if later:
                parts.append(z([-c for c in later_by_hand(view, head)], past))
            total = {n: sum(part[n] for part in parts) for n in past}
            recent = set(range(view.num_tokens)) - set(past)
            expected = recent | best(total, budget - len(recent), past)
            assert kept[head].tolist() == sorted(expected)


def test_cosines_with_mean_and_later_keys_equal_the_brute_force(monkeypatch):
    monkeypatch.setattr('infinipot_ros.memory.policies.diverse._BLOCK_TOKENS', 7)
    view = survivors(9, frames=5)
    for head in range(2):
        assert likeness_to_mean(view)[head].tolist() == pytest.approx(mean_by_hand(view, head))
        assert likeness_to_later(view)[head].tolist() == pytest.approx(later_by_hand(view, head))


def test_the_option_turns_on_the_comparison_with_later_tokens():
    view = survivors(11, frames=6)
    with_option = POLICIES['tar_diverse'](replace(view, options={'later_duplicates': True}), 25)
    assert torch.equal(with_option, POLICIES['tar_diverse_later'](view, 25))
    assert not torch.equal(with_option, POLICIES['tar_diverse'](view, 25))


def test_of_two_copies_at_different_patches_the_newer_one_stays():
    keys = torch.eye(6, dtype=torch.float64)[[0, 1, 2, 0, 3, 4]].unsqueeze(0)
    keys = torch.cat([keys, -torch.ones(1, 2, 6, dtype=torch.float64)], 1)
    view = survivors(13, heads=1, frames=4, grid=(1, 2), size=6, keep=1.0)
    # Frame 0 patch 0 comes back as frame 1 patch 1; the newest frame is like nothing.
    view = replace(view, keys=keys, values=keys)
    kept = POLICIES['tar_diverse_later'](view, 7)[0].tolist()
    assert kept == [1, 2, 3, 4, 5, 6, 7]


def test_equal_scores_standardise_to_zero():
    scores = torch.tensor([[3.0, 3.0, 3.0, math.inf]])
    among = torch.tensor([[True, True, True, False]])
    assert standardised(scores, among).tolist() == [[0.0] * 4]
    assert standardised(scores, torch.zeros_like(among)).tolist() == [[0.0] * 4]
