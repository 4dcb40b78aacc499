# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Value norm (VaN): how large a token's value is, pooled over its neighbours in its own frame.

InfiniPot-V, Sec. 3.2 and Alg. 2 lines 15-24.
"""

from __future__ import annotations

from itertools import pairwise

from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.rows import row_norms
from infinipot_ros.memory.policies.selection import keep_top
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

KERNELS = (7, 5, 3, 1)
#: Grid cells pooled at once: old frames with few tokens left must not swell the workspace.
_BLOCK_CELLS = 1 << 17


def van_scores(view: LayerView) -> Tensor:
    """
    Return the pooled value norm of every token, [H, N], in at least single precision.

    The mean runs over the kernel's cells that hold a token of the same frame and head: evicted
    cells and cells outside the picture do not count.
    """
    norms = row_norms(view.values)
    return pool_on_grid(view, norms, kernels_of(view, norms))


def coefficient_of_variation(norms: Tensor) -> float:
    """Return std / mean of a layer's value norms, over all heads (Alg. 2 lines 18-20)."""
    mean = float(norms.mean())
    return float(norms.std(correction=0)) / mean if mean > 0.0 else 0.0


def kernels_of(view: LayerView, norms: Tensor) -> list[int]:
    """
    Return each layer's pooling kernel: the view's own, or g(CV), or by depth.

    g(CV) is 7, 5, 3 or 1 for a CV below tau1, tau2, tau3 or above (Alg. 2 line 23). Without
    thresholds the quarters of the depth stand in for it, 7 in the first.
    """
    if view.van_kernel is not None:
        return [view.van_kernel] * view.layers
    if (taus := view.cv_thresholds) is None:
        layers = range(view.layer, view.layer + view.layers)
        return [kernel_by_depth(layer, view.num_layers) for layer in layers]
    variations = [coefficient_of_variation(part) for part in norms.chunk(view.layers)]
    return [KERNELS[sum(variation >= tau for tau in taus)] for variation in variations]


def kernel_by_depth(layer: int, num_layers: int) -> int:
    """Return the pooling kernel of a layer's quarter of the depth, 7 in the first."""
    return KERNELS[layer * len(KERNELS) // num_layers]


def pool_on_grid(view: LayerView, scores: Tensor, kernels: list[int]) -> Tensor:
    """
    Return the mean of `scores` over each token's neighbours in its own frame, [H, N].

    These are kernel x kernel cells, by the kernel of the token's layer; 1 leaves scores alone.
    """
    parts = [tensor.chunk(view.layers) for tensor in (view.frame, view.patch, scores)]
    return torch.cat([
        part if kernel == 1 else _pooled(frame, patch, part, kernel, view.grid)
        for frame, patch, part, kernel in zip(*parts, kernels, strict=True)
    ])


def _pooled(
    frame: Tensor, patch: Tensor, scores: Tensor, kernel: int, grid: tuple[int, int]
) -> Tensor:
    rows, columns = grid
    cells = rows * columns
    # One grid for each frame that a head still holds; tokens stand in the order of these grids.
    starts = torch.ones_like(frame, dtype=torch.bool)
    torch.ne(frame[:, 1:], frame[:, :-1], out=starts[:, 1:])
    grid_of = starts.flatten().cumsum(0) - 1
    cell, flat = patch.flatten(), scores.flatten()
    pooled = torch.empty_like(flat)
    num_grids = int(grid_of[-1]) + 1
    grids_at_once = max(1, _BLOCK_CELLS // cells)
    edges = torch.arange(0, num_grids + grids_at_once, grids_at_once, device=cell.device)
    bounds = torch.searchsorted(grid_of, edges).tolist()
    for block, (begin, end) in enumerate(pairwise(bounds)):
        first = block * grids_at_once
        size = min(grids_at_once, num_grids - first)
        # Grids as channels, innermost: pooling is many times faster than with cells innermost.
        summed = cell[begin:end] * (2 * size) + (grid_of[begin:end] - first)
        counted = summed + size
        grids = flat.new_zeros(cells * 2 * size)
        grids.scatter_(0, summed, flat[begin:end]).scatter_(0, counted, 1.0)
        # divisor_override turns the mean into a sum, so padding and holes add nothing.
        sums = avg_pool2d(
            grids.view(1, rows, columns, 2 * size).permute(0, 3, 1, 2),
            kernel,
            stride=1,
            padding=kernel // 2,
            divisor_override=1,
        ).permute(0, 2, 3, 1).flatten()
        pooled[begin:end] = sums.index_select(0, summed) / sums.index_select(0, counted)
    return pooled.view_as(scores)


@register('van', 'largest value norms', many_layers=True)
def select_van(view: LayerView, budget: int) -> Tensor:
    """Keep the newest frame and the largest value norms."""
    return keep_top(row_norms(view.values), budget, view.newest)


@register('van_pool', 'largest value norms, pooled on the grid (Eq. 7)', many_layers=True)
def select_van_pool(view: LayerView, budget: int) -> Tensor:
    """Keep the newest frame and the largest pooled value norms."""
    return keep_top(van_scores(view), budget, view.newest)


@register('van_reverse', 'smallest value norms', many_layers=True)
def select_van_reverse(view: LayerView, budget: int) -> Tensor:
    """Keep the newest frame and the smallest value norms (Table 4's control)."""
    return keep_top(-row_norms(view.values), budget, view.newest)
