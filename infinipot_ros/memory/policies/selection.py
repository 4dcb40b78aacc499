# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From scores to the tokens that stay: exact counts, and the same choice in every run."""

from __future__ import annotations

import torch
from torch import Tensor


def top_mask(scores: Tensor, count: int | Tensor) -> Tensor:
    """
    Mark the `count` highest scores of each row; among equals the earlier token wins.

    scores: [H, N]; count: one number, or [H] int64, each in 0..N. Returns [H, N] bool with exactly
    `count` marks a row. NaN ranks last. No sort order of a device enters: only values decide.
    """
    scores = scores.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    if isinstance(count, Tensor):
        fewest, most = (int(edge) for edge in count.aminmax())
        if fewest == most:
            return top_mask(scores, most)
        count = count.unsqueeze(-1)
        falling = scores.sort(dim=-1, descending=True).values
        least = falling.gather(-1, (count - 1).clamp_min(0))
    elif count == 0:
        return torch.zeros_like(scores, dtype=torch.bool)
    else:
        least = scores.kthvalue(scores.shape[-1] - count + 1, dim=-1, keepdim=True).values
    kept = scores >= least
    if not bool((kept.sum(-1, keepdim=True) != count).any()):
        return kept
    above = scores > least
    ties = scores == least
    # A row that wants nothing has its maximum as `least`: no room, so none of these ties.
    room = count - above.sum(-1, keepdim=True)
    return above | (ties & (ties.cumsum(-1) <= room))


def keep_top(scores: Tensor, budget: int, first: Tensor | None = None) -> Tensor:
    """
    Return the `budget` tokens of each head with the highest scores, in time order.

    scores: [H, N]; first: [H, N] bool, tokens that come before all others (the newest frame, what
    another score chose). Where `first` alone is more than the budget, scores decide among them.
    Equal scores: the earlier token wins. Returns [H, budget] int64, rising.
    """
    if first is None:
        return to_indices(top_mask(scores, budget))
    # Finite, so that the infinities below mean "not eligible" and "first", and nothing else.
    scores = scores.nan_to_num(nan=torch.finfo(scores.dtype).min)
    size = first.sum(-1)
    if int(size.max()) > budget:
        first = top_mask(scores.masked_fill(~first, -torch.inf), size.clamp_max(budget))
    return to_indices(top_mask(scores.masked_fill(first, torch.inf), budget))


def to_indices(kept: Tensor) -> Tensor:
    """
    Return the marked columns of each row, rising: [H, N] bool -> [H, budget] int64.

    Every row has to have the same number of marks.
    """
    return kept.nonzero()[:, 1].view(kept.shape[0], -1)
