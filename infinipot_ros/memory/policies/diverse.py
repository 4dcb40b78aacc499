# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
TaR plus how unlike everything else a key is (ours, experimental).

TaR measures against the recent frames only: a memory full of copies of one thing satisfies it.
"""

from __future__ import annotations

from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.rows import cosines_to_rows, unit_rows
from infinipot_ros.memory.policies.selection import keep_top
from infinipot_ros.memory.policies.tar import tar_scores
import torch
from torch import Tensor

#: Tokens of one block of the pairwise comparison: H x 512 x 512 cosines at a time.
_BLOCK_TOKENS = 512


@register('tar_diverse', 'TaR plus distance to the mean key; option later_duplicates')
def select_tar_diverse(view: LayerView, budget: int) -> Tensor:
    """
    Keep recent frames, then the highest z(TaR) + z(-cos to the mean key).

    With `options['later_duplicates']` true, as `tar_diverse_later`.
    """
    if view.options.get('later_duplicates', False):
        return select_tar_diverse_later(view, budget)
    view = view.fitted(budget)
    return keep_top(_distinct(view), budget, view.recent)


@register('tar_diverse_later', 'tar_diverse, and tokens with a newer copy count less; O(N^2 D)')
def select_tar_diverse_later(view: LayerView, budget: int) -> Tensor:
    """Keep recent frames, then the highest tar_diverse + z(-max cos to any later token)."""
    view = view.fitted(budget)
    scores = _distinct(view) + standardised(-likeness_to_later(view), ~view.recent)
    return keep_top(scores, budget, view.recent)


def _distinct(view: LayerView) -> Tensor:
    past = ~view.recent
    return standardised(tar_scores(view), past) + standardised(-likeness_to_mean(view), past)


def likeness_to_mean(view: LayerView) -> Tensor:
    """Return each key's cosine with the mean of its head's unit keys, [H, N] (KeyDiff)."""
    dtype = torch.promote_types(view.keys.dtype, torch.float32)
    total = view.keys.new_zeros((view.num_heads, 1, view.keys.shape[-1]), dtype=dtype)
    for start in range(0, view.num_tokens, _BLOCK_TOKENS):
        block = view.keys[:, start:start + _BLOCK_TOKENS]
        total += unit_rows(block).sum(1, keepdim=True)
    return cosines_to_rows(view.keys, unit_rows(total), torch.zeros_like(view.patch))


def likeness_to_later(view: LayerView) -> Tensor:
    """
    Return each key's largest cosine with a key of a later frame of its head, [H, N].

    Where there is none: -1. O(N^2 D) time, in blocks: the workspace does not grow with N.
    """
    result = []
    for start in range(0, view.num_tokens, _BLOCK_TOKENS):
        block = slice(start, start + _BLOCK_TOKENS)
        unit, frame = unit_rows(view.keys[:, block]), view.frame[:, block].unsqueeze(2)
        highest = unit.new_full(unit.shape[:2], -1.0)
        for later_start in range(start, view.num_tokens, _BLOCK_TOKENS):
            later = slice(later_start, later_start + _BLOCK_TOKENS)
            cosines = unit @ unit_rows(view.keys[:, later]).transpose(1, 2)
            cosines.masked_fill_(view.frame[:, later].unsqueeze(1) <= frame, -1.0)
            highest = torch.maximum(highest, cosines.amax(-1))
        result.append(highest)
    return torch.cat(result, dim=1)


def standardised(scores: Tensor, among: Tensor) -> Tensor:
    """Return z-scores with mean and spread over `among`, [H, N]; others and equal scores get 0."""
    scores = scores.masked_fill(~among, 0.0)
    count = among.sum(-1, keepdim=True).clamp_min(1)
    centred = (scores - scores.sum(-1, keepdim=True) / count).masked_fill(~among, 0.0)
    spread = (centred.square().sum(-1, keepdim=True) / count).sqrt()
    # A spread this small is the rounding of equal scores.
    return torch.where(spread > 1e-6, centred / spread.clamp_min(1e-6), 0.0)
