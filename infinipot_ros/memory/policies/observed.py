# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Baselines that go by the attention that tokens drew: SnapKV, InfiniPot's CaP, FastV.

Each needs `LayerView.attention`; `Policy.observe_tokens` or `Policy.observe_prompt` says whose
attention the memory has to record.
"""

from __future__ import annotations

from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.selection import keep_top
from infinipot_ros.memory.policies.windows import select_newest
import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d, pad

SNAPKV_WINDOW_TOKENS = 32
SNAPKV_POOL_TOKENS = 7
CAP_PROMPT = 'Provide a detailed description of this video.'
#: FastV prunes from this layer on, by this layer's attention, in every layer after it.
FASTV_LAYER = 2


def _attention(view: LayerView) -> Tensor:
    assert view.attention is not None  # Policy.required saw to it.
    return view.attention.to(torch.promote_types(view.attention.dtype, torch.float32))


@register(
    'snapkv',
    'attention of the last 32 tokens, pooled over 7 (SnapKV)',
    required=('attention',),
    observe_tokens=SNAPKV_WINDOW_TOKENS,
)
def select_snapkv(view: LayerView, budget: int) -> Tensor:
    """Keep the window, the newest frame, and what the window looks at, with its neighbours."""
    window = min(SNAPKV_WINDOW_TOKENS, view.num_tokens)
    seen = _attention(view)[:, : view.num_tokens - window]
    if not seen.shape[1]:
        return select_newest(view, budget)
    seen = avg_pool1d(seen, SNAPKV_POOL_TOKENS, stride=1, padding=SNAPKV_POOL_TOKENS // 2)
    scores = pad(seen, (0, window))
    # The window stays, and where it does not fit, its newest tokens do.
    scores[:, -window:] = seen.amax() + torch.arange(1, window + 1, device=seen.device)
    return keep_top(scores, budget, view.newest)


@register(
    'infinipot',
    'attention of a fixed prompt (InfiniPot, CaP)',
    required=('attention',),
    observe_prompt=CAP_PROMPT,
)
def select_infinipot(view: LayerView, budget: int) -> Tensor:
    """Keep the newest frame and what the proxy prompt looks at."""
    return keep_top(_attention(view), budget, view.newest)


@register(
    'fastv',
    'attention of the question at layer 2; offline (FastV)',
    required=('attention',),
    on_robot=False,
    evicts=False,
)
def select_fastv(view: LayerView, budget: int) -> Tensor:
    """
    Keep what the question's last token looks at, the same tokens in every head.

    `attention` is layer `FASTV_LAYER`'s for every layer after it; layers up to it are left alone.
    """
    shared = _attention(view).mean(0, keepdim=True)
    return keep_top(shared, budget).repeat(view.num_heads, 1)
