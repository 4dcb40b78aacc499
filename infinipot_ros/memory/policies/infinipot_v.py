# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""InfiniPot-V: TaR's choice first, then VaN's, with true coordinates (Alg. 1, Alg. 2)."""

from __future__ import annotations

import math

from infinipot_ros.memory.cache_kernels import Asked, CacheKernels
from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.selection import keep_top, top_mask
from infinipot_ros.memory.policies.tar import tar_scores
from infinipot_ros.memory.policies.van import kernel_by_depth, van_scores
import torch
from torch import Tensor


def choose_in_c(kernels: CacheKernels, asked: Asked) -> Tensor | None:
    """Return what `select_infinipot_v` keeps, of all layers, or None where it has to choose."""
    kernel, taus = (asked.options.get(name) for name in ('van_kernel', 'cv_thresholds'))
    share, layers = share_of(asked.alpha, asked.budget), kernels.layers_and_heads[0]
    if kernel is None and taus is not None:
        return kernels.choose(asked, share, thresholds=taus)
    pooling = [kernel or kernel_by_depth(layer, layers) for layer in range(layers)]
    return kernels.choose(asked, share, pooling)


@register(
    'infinipot_v',
    'recent frames and TaR for alpha, pooled VaN for the rest (Alg. 2)',
    many_layers=True,
    kernel=choose_in_c,
)
def select_infinipot_v(view: LayerView, budget: int) -> Tensor:
    """Keep recent frames and TaR's best in alpha of the budget, then VaN's best."""
    view = view.fitted(budget)
    share = share_of(view.alpha, budget)
    return union(view, tar_scores(view), van_scores(view), budget, share)


def share_of(alpha: float, budget: int) -> int:
    """Return alpha of the budget in whole tokens, rounded down."""
    # The small term undoes what binary fractions lose: 0.29 * 100 is 28.999...
    return min(budget, math.floor(alpha * budget + 1e-9))


def union(view: LayerView, tar: Tensor, van: Tensor, budget: int, share: int | Tensor) -> Tensor:
    """
    Return TaR's tokens and then VaN's best, [H, budget] (Alg. 2 lines 14, 26, 27).

    tar, van: [H, N]. share: tokens for TaR, recent ones included, or [H] of them. Recent frames
    stay whole even where they are more than the share; VaN then gets less.
    """
    left = (share - view.recent.sum(-1)).clamp_min(0)
    past = tar.masked_fill(view.recent, -torch.inf)
    chosen = view.recent | top_mask(past, left)
    return keep_top(van, budget, chosen)
