# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Policies that look at no content: evenly spaced frames or tokens, and chance."""

from __future__ import annotations

from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.selection import keep_top
import torch
from torch import Tensor


@register('uniform_frames', 'whole frames at regular intervals (Uniform Select)')
def select_uniform_frames(view: LayerView, budget: int) -> Tensor:
    """Keep evenly spaced frames, the newest among them, and fill up with the oldest others."""
    scores = torch.zeros_like(view.frame, dtype=torch.float32)
    num_frames = len(view.frame_ids)
    # As many as the budget holds of frames of mean size; keep_top settles what is left over.
    wanted = min(num_frames, max(1, budget * num_frames // view.num_tokens))
    gaps = max(1, wanted - 1)
    number = torch.arange(wanted, device=view.frame.device)
    # Whole-number rounding, so that no device rounds a half its own way.
    spread = (2 * number * (num_frames - 1) + gaps) // (2 * gaps)
    scores[torch.isin(view.frame, view.frame_ids[spread])] = 1.0
    return keep_top(scores, budget, view.newest)


@register('uniform_tokens', 'tokens at regular intervals (the official code)')
def select_uniform_tokens(view: LayerView, budget: int) -> Tensor:
    """Keep the newest frame and evenly spaced older tokens."""
    older = view.num_tokens - int(view.newest.sum(-1).max())
    left = max(0, budget - (view.num_tokens - older))
    scores = torch.zeros_like(view.frame, dtype=torch.float32)
    picked = torch.arange(left, device=view.frame.device) * older // max(1, left)
    scores[:, picked] = 1.0
    return keep_top(scores, budget, view.newest)


@register('random', 'chance, the same in every run')
def select_random(view: LayerView, budget: int) -> Tensor:
    """Keep the newest frame and older tokens drawn by `seed`, layer and newest frame."""
    draw = (view.seed * 1_000_003 + view.layer) * 1_000_003 + int(view.frame_ids[-1])
    # Drawn on the CPU: accelerators have generators of their own.
    generator = torch.Generator().manual_seed(draw % (1 << 63))
    scores = torch.rand(view.num_heads, view.num_tokens, generator=generator)
    return keep_top(scores.to(view.keys.device), budget, view.newest)
