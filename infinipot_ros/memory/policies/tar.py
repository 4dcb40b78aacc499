# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Temporal-axis redundancy (TaR): how unlike the recent frames a past token is, at its own patch.

InfiniPot-V, Eq. 4: s(t, i, j) = -1/r sum_t' cos(K[t, i, j], K_recent[t', i, j]).
"""

from __future__ import annotations

from infinipot_ros.memory.policies.frame_means import frame_means
from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.rows import cosines_to_rows, unit_rows
from infinipot_ros.memory.policies.selection import keep_top
import torch
from torch import Tensor


def tar_scores(view: LayerView) -> Tensor:
    """
    Return TaR of every token, [H, N]; higher is less redundant, recent tokens get +inf.

    The mean of the cosines is one dot product with the mean of the normalised recent keys (Eq. 4
    in O(N D)). It runs over the recent tokens that are there: a patch without any scores 0, as
    does a zero key. Single precision, or double where the keys are double.
    """
    scores = -cosines_to_rows(view.keys, mean_recent_keys(view), view.patch)
    return scores.masked_fill(view.recent, torch.inf)


def mean_recent_keys(view: LayerView) -> Tensor:
    """Return the mean of the normalised recent keys at every patch, [H, P, D]; zero where none."""
    heads, patches = view.num_heads, view.tokens_per_frame
    head = torch.arange(heads, device=view.keys.device).unsqueeze(-1)
    dtype = torch.promote_types(view.keys.dtype, torch.float32)
    total = view.keys.new_zeros((heads, patches, view.keys.shape[-1]), dtype=dtype)
    count = view.keys.new_zeros((heads, patches, 1), dtype=dtype)
    for frame_id in view.frame_ids[-view.recent_frames:]:
        # A table of token numbers by patch: summing in this order is the same on every device.
        rows = torch.full((heads, patches + 1), -1, device=view.keys.device)
        of_frame = view.frame == frame_id
        spare = torch.where(of_frame, view.patch, patches)
        rows.scatter_(1, spare, torch.arange(view.num_tokens, device=rows.device).expand_as(spare))
        rows = rows[:, :patches]
        there = (rows >= 0).unsqueeze(-1)
        total += unit_rows(view.keys[head, rows.clamp_min(0)]) * there
        count += there
    return total / count.clamp_min(1)


def past_frame_scores(view: LayerView) -> Tensor:
    """Return each token's frame's mean TaR in its head, [H, N]; recent tokens get +inf."""
    scores = tar_scores(view).masked_fill(view.recent, 0.0)
    means = frame_means(view, scores.unsqueeze(-1)).squeeze(-1)
    place = torch.searchsorted(view.frame_ids, view.frame)
    return means.gather(1, place).masked_fill(view.recent, torch.inf)


@register('tar', 'recent frames, then the tokens least like them (Eq. 5)')
def select_tar(view: LayerView, budget: int) -> Tensor:
    """Keep the recent frames and the least redundant past tokens."""
    view = view.fitted(budget)
    return keep_top(tar_scores(view), budget, view.recent)


@register('tar_frame', 'TaR averaged over each frame: whole frames stay or go')
def select_tar_frame(view: LayerView, budget: int) -> Tensor:
    """Keep the recent frames and the frames that are least like them on the whole."""
    view = view.fitted(budget)
    return keep_top(past_frame_scores(view), budget, view.recent)


@register('tar_reverse', 'recent frames, then the tokens most like them')
def select_tar_reverse(view: LayerView, budget: int) -> Tensor:
    """Keep the recent frames and the most redundant past tokens (Table 4's control)."""
    view = view.fitted(budget)
    return keep_top(-tar_scores(view), budget, view.recent)
