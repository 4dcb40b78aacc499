# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Policies that look at time alone: the newest tokens, and nothing lost at all."""

from __future__ import annotations

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
import torch
from torch import Tensor

#: Frames of SimpleStream's window: no memory, just what is in front of the camera.
SIMPLE_STREAM_FRAMES = 4
#: l_U of DSCache: its cumulative cache, beside l_I = 4 frames in the instant cache.
DSCACHE_FRAMES = 28


@register('sliding_window', 'sinks and the newest tokens', frees_one_frame=True)
def select_newest(view: LayerView, budget: int) -> Tensor:
    """Keep the newest tokens."""
    newest = torch.arange(view.num_tokens - budget, view.num_tokens, device=view.keys.device)
    return newest.repeat(view.num_heads, 1)


register(
    'recent_frames',
    'the newest frames only, no memory (SimpleStream)',
    max_frames=SIMPLE_STREAM_FRAMES,
    frees_one_frame=True,
)(select_newest)

register(
    'dscache_uniform',
    'first in, first out over 28 frames, beside 4 instant frames (DSCache)',
    max_frames=DSCACHE_FRAMES,
    frees_one_frame=True,
)(select_newest)


@register('full', 'keeps everything, whatever it costs', on_robot=False, evicts=False)
def select_all(view: LayerView, budget: int) -> Tensor:
    """Keep every token. Raises `ConfigError` when the budget asks for fewer."""
    if budget < view.num_tokens:
        raise ConfigError(
            f'policy full never evicts, and budget {budget} is below the {view.num_tokens} tokens '
            f'held: give it a larger budget or choose another policy'
        )
    return select_newest(view, budget)
