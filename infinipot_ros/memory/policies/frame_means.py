# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Means over the tokens of a frame that a head still holds."""

from __future__ import annotations

from infinipot_ros.memory.policies.layer_view import LayerView
import torch
from torch import Tensor

_BLOCK_FRAMES = 64


def frame_means(view: LayerView, rows: Tensor) -> Tensor:
    """
    Return the mean row of every frame, [H, N, C] -> [H, F, C]; zero where a head has none.

    F counts `view.frame_ids`. In at least single precision, summed in the same order every time.
    """
    dtype = torch.promote_types(rows.dtype, torch.float32)
    means = []
    for ids in view.frame_ids.split(_BLOCK_FRAMES):  # type: ignore[no-untyped-call]
        edges = torch.stack([ids[0], ids[-1] + 1]).repeat(view.num_heads, 1)
        found = torch.searchsorted(view.frame, edges)
        part = slice(int(found[:, 0].min()), int(found[:, 1].max()))
        member = (view.frame[:, None, part] == ids[:, None]).to(dtype)
        total = member @ rows[:, part].to(dtype)
        means.append(total / member.sum(-1, keepdim=True).clamp_min(1))
    return torch.cat(means, dim=1)
