# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
TaR + VaN where a head's value norms agree with TaR, TaR alone where they do not (ours).

In some heads objects have smaller values than background, and VaN then spends its half of the
budget on walls. Whether a head is one of them shows without labels: correlate the log value norm
with TaR over fresh tokens.
"""

from __future__ import annotations

from infinipot_ros.memory.policies.infinipot_v import share_of, union
from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.rows import row_norms
from infinipot_ros.memory.policies.tar import tar_scores
from infinipot_ros.memory.policies.van import kernels_of, pool_on_grid
import torch
from torch import Tensor

#: Weight of what was known before, at each compression.
DECAY = 0.9
_LEAST_NORM = 1e-12


@register(
    'infinipot_v_gated',
    'infinipot_v, but VaN only in heads where it agrees with TaR',
    optional=('fresh',),
    many_layers=True,
    state_bytes=7 * 8,
)
def select_gated(view: LayerView, budget: int) -> Tensor:
    """
    Keep what infinipot_v keeps; in heads without a positive correlation what tar keeps.

    Reads and writes `view.state`: `gate_moments` [H, 6] and `gate_correlation` [H].
    """
    view = view.fitted(budget)
    tar, norms = tar_scores(view), row_norms(view.values)
    moments = _moments(view, tar, norms)
    if 'gate_moments' in view.state:
        moments = moments + DECAY * view.state['gate_moments']
    correlation = correlation_of(moments)
    view.state['gate_moments'] = moments
    view.state['gate_correlation'] = correlation
    share = torch.full_like(correlation, budget, dtype=torch.int64)
    share[correlation > 0] = share_of(view.alpha, budget)
    return union(view, tar, pool_on_grid(view, norms, kernels_of(view, norms)), budget, share)


def _moments(view: LayerView, tar: Tensor, norms: Tensor) -> Tensor:
    """Return n and the sums of x, y, x^2, y^2, x y over fresh past tokens, [H, 6] float64."""
    # Kept tokens were chosen by these very scores and would bias the correlation.
    counted = ~view.recent if view.fresh is None else view.fresh & ~view.recent
    x = tar.double().masked_fill(~counted, 0.0)
    y = norms.double().clamp_min(_LEAST_NORM).log().masked_fill(~counted, 0.0)
    return torch.stack([counted.double(), x, y, x * x, y * y, x * y], dim=-1).sum(dim=1)


def correlation_of(moments: Tensor) -> Tensor:
    """Return Pearson's correlation from `moments`, [H, 6] -> [H]; 0 where there is none."""
    count, x, y, xx, yy, xy = moments.unbind(-1)
    count = count.clamp_min(1.0)
    spread_x = (xx / count - (x / count) ** 2).clamp_min(0)
    spread_y = (yy / count - (y / count) ** 2).clamp_min(0)
    together = xy / count - x * y / count**2
    # Below this a spread is the rounding of equal numbers.
    known = (spread_x > 1e-12) & (spread_y > 1e-12)
    return torch.where(known, together / (spread_x * spread_y).sqrt().clamp_min(1e-12), 0.0)
