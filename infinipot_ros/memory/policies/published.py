# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
What the code published with InfiniPot-V does, to measure what true coordinates bring.

It takes slot k of the cache for patch k mod P of frame k // P. That is so until the first
compression; afterwards it compares and pools tokens of unrelated patches. Other differences from
the paper: r is a quarter of the frames, keys carry rotary positions, the kernel goes by depth (3-D
pooling in the first quarter, 2-D in the second, along the tokens in the third, none in the last)
and zero padding counts as content. `van_kernel=1` leaves the pooling out, as its released runs do.
"""

from __future__ import annotations

from dataclasses import replace

from infinipot_ros.memory.policies.infinipot_v import union
from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.rows import row_norms
from infinipot_ros.memory.policies.selection import keep_top
from infinipot_ros.memory.policies.tar import tar_scores
import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d, avg_pool2d, avg_pool3d

RECENT_RATIO = 0.25


@register(
    'infinipot_v_published',
    'as the published code: slot k is patch k mod P, r = 0.25, pooling by depth',
    optional=('rotated_keys',),
)
def select_published(view: LayerView, budget: int) -> Tensor:
    """
    Keep what the published code keeps, given whole frames or what is left of them.

    Where the tokens are no multiple of P, frames are counted from the newest token, so that at
    least the frames appended since the last compression are aligned.
    """
    view = as_slots(view).fitted(budget)
    van = _pooled_by_depth(view, row_norms(view.values))
    share = budget - round((1 - view.alpha) * budget)
    if share == 0:
        return keep_top(van, budget)
    return union(view, tar_scores(view), van, budget, share)


def as_slots(view: LayerView) -> LayerView:
    """Return the view with coordinates made up from the tokens' places, as published."""
    patches = view.tokens_per_frame
    slot = torch.arange(view.num_tokens, device=view.keys.device) + -view.num_tokens % patches
    whole_frames = view.num_tokens // patches
    return replace(
        view,
        keys=view.keys if view.rotated_keys is None else view.rotated_keys,
        frame=(slot // patches).repeat(view.num_heads, 1),
        patch=(slot % patches).repeat(view.num_heads, 1),
        recent_frames=max(1, int(whole_frames * RECENT_RATIO)),
    )


def _pooled_by_depth(view: LayerView, norms: Tensor) -> Tensor:
    quarter = min(3, view.layer // max(1, view.num_layers // 4))
    if quarter == 3 or view.van_kernel == 1:
        return norms
    if quarter == 2:
        return avg_pool1d(norms, 3, stride=1, padding=1)
    rows, columns = view.grid
    missing = -view.num_tokens % view.tokens_per_frame
    video = torch.nn.functional.pad(norms, (missing, 0)).view(view.num_heads, -1, rows, columns)
    # The kernel shrinks to the largest odd number that the video holds in every direction.
    kernel = min((7, 5)[quarter], *video.shape[1:])
    kernel -= 1 - kernel % 2
    pool = (avg_pool3d, avg_pool2d)[quarter]
    pooled: Tensor = pool(video, kernel, stride=1, padding=kernel // 2)
    return pooled.flatten(1)[:, missing:]
