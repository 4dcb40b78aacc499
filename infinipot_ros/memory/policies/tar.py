# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Temporal-axis redundancy (TaR): how unlike the recent frames a past token is, at its own patch.

InfiniPot-V, Eq. 4: s(t, i, j) = -1/r sum_t' cos(K[t, i, j], K_recent[t', i, j]).
"""

from __future__ import annotations

from infinipot_ros.memory.cache_kernels import CacheKernels
from infinipot_ros.memory.policies.frame_means import frame_means
from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.rows import BLOCK_ELEMENTS, cosines_to_rows, unit_rows
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
    heads, patches, width = view.num_heads, view.tokens_per_frame, view.keys.shape[-1]
    rows = _recent_rows(view)
    there = (rows >= 0).unsqueeze(-1)
    dtype = torch.promote_types(view.keys.dtype, torch.float32)
    total = view.keys.new_zeros((heads, patches, width), dtype=dtype)
    head = torch.arange(heads, device=rows.device)[:, None, None]
    frames_at_once = max(1, BLOCK_ELEMENTS // total.numel())
    for start in range(0, rows.shape[1], frames_at_once):
        block = slice(start, start + frames_at_once)
        unit = unit_rows(view.keys[head, rows[:, block].clamp_min(0)]).mul_(there[:, block])
        # One frame after the other: a sum in this order is the same on every device.
        for frame in unit.unbind(1):
            total += frame
    return total / there.sum(1).clamp_min(1)


def _recent_rows(view: LayerView) -> Tensor:
    """Return the token of every patch of every recent frame, [H, frames, P]; -1 where none."""
    frames, patches = len(view.recent_ids), view.tokens_per_frame
    start = max(0, view.num_tokens - frames * patches)
    frame = view.frame[:, start:].contiguous()
    # Older tokens fall before the first recent frame, and are cut off.
    place = torch.searchsorted(view.recent_ids, frame, right=True) * patches
    place += view.patch[:, start:]
    rows = place.new_full((view.num_heads, (frames + 1) * patches), -1)
    token = torch.arange(start, view.num_tokens, device=place.device)
    rows.scatter_(1, place, token.expand_as(place))
    return rows[:, patches:].view(view.num_heads, frames, patches)


def past_frame_scores(view: LayerView) -> Tensor:
    """Return each token's frame's mean TaR in its head, [H, N]; recent tokens get +inf."""
    scores = tar_scores(view).masked_fill(view.recent, 0.0)
    means = frame_means(view, scores.unsqueeze(-1)).squeeze(-1)
    place = torch.searchsorted(view.frame_ids, view.frame)
    return means.gather(1, place).masked_fill(view.recent, torch.inf)


@register(
    'tar',
    'recent frames, then the tokens least like them (Eq. 5)',
    many_layers=True,
    kernel=CacheKernels.choose,
)
def select_tar(view: LayerView, budget: int) -> Tensor:
    """Keep the recent frames and the least redundant past tokens."""
    view = view.fitted(budget)
    return keep_top(tar_scores(view), budget, view.recent)


@register('tar_frame', 'TaR averaged over each frame: whole frames stay or go')
def select_tar_frame(view: LayerView, budget: int) -> Tensor:
    """Keep the recent frames and the frames that are least like them on the whole."""
    view = view.fitted(budget)
    return keep_top(past_frame_scores(view), budget, view.recent)


@register('tar_reverse', 'recent frames, then the tokens most like them', many_layers=True)
def select_tar_reverse(view: LayerView, budget: int) -> Tensor:
    """Keep the recent frames and the most redundant past tokens (Table 4's control)."""
    view = view.fitted(budget)
    return keep_top(-tar_scores(view), budget, view.recent)
