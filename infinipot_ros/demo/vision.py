# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The vision tower over many frames at once; the stock forward loops over them one by one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from transformers.models.qwen2_vl.modeling_qwen2_vl import (
    apply_rotary_pos_emb_vision,
    Qwen2VisionTransformerPretrainedModel,
)
from transformers.vision_utils import get_vision_position_ids


def encode_frames(
    visual: Qwen2VisionTransformerPretrainedModel, patches: torch.Tensor,
) -> torch.Tensor:
    """
    Encode single frames with the tower's own weights; a test holds it to the stock forward.

    :param patches: float ``[n, 64, 588]``.
    :returns: ``[n, 16, hidden]``.
    """
    count, tokens, _ = patches.shape
    side = int(tokens ** 0.5)
    grid = torch.tensor([[1, side, side]])
    x = patches @ visual.patch_embed.proj.weight.flatten(1).T
    positions = get_vision_position_ids(grid, visual.spatial_merge_size, kwargs={})
    cos, sin = visual.rotary_pos_emb(x, positions)
    for block in visual.blocks:
        attention = block.attn
        qkv = attention.qkv(block.norm1(x)).view(count, tokens, 3, attention.num_heads, -1)
        q, k, v = qkv.unbind(2)
        q, k = apply_rotary_pos_emb_vision(q, k, cos, sin)
        mixed = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), scale=attention.scaling)
        x = x + attention.proj(mixed.transpose(1, 2).reshape(count, tokens, -1))
        x = x + block.mlp(block.norm2(x))
    merged: torch.Tensor = visual.merger(x.view(count * tokens, -1))
    return merged.view(count, tokens // visual.spatial_merge_size ** 2, -1)
