# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Hand the attention of a Hugging Face text backbone to an `AttentionStream`.

The backbone's layers are called with cos = 1, sin = 0, so that un-rotated queries and keys reach
the
function registered here, together with the stream given to that very call: no state is shared
between two memories on one model.
"""

from typing import Any

from infinipot_ros.memory.model import AttentionStream, RotaryTable
import torch
from torch import nn, Tensor
from transformers import AttentionInterface

STREAM_ATTENTION = 'infinipot_stream'


def _stream_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    stream: AttentionStream,
    **_: Any,
) -> tuple[Tensor, None]:
    """Return [1, Q, heads, D] as transformers expects it."""
    layer: int = module.layer_idx  # type: ignore[assignment]
    return stream.attend(layer, query, key, value, scaling).transpose(1, 2), None


AttentionInterface.register(STREAM_ATTENTION, _stream_attention)


class TextBackbone:
    """The decoder layers of a text model, run over one sequence without a cache of its own."""

    def __init__(self, text_model: nn.Module, head_dim: int) -> None:
        """Take a text model whose attention implementation is `STREAM_ATTENTION`."""
        self.layers: list[nn.Module] = list(text_model.layers)  # type: ignore[arg-type]
        self.norm: nn.Module = text_model.norm  # type: ignore[assignment]
        self.rotary: nn.Module = text_model.rotary_emb  # type: ignore[assignment]
        weight: Tensor = self.norm.weight  # type: ignore[assignment]
        self._unrotated = (
            torch.ones(1, 1, head_dim, dtype=weight.dtype, device=weight.device),
            torch.zeros(1, 1, head_dim, dtype=weight.dtype, device=weight.device),
        )

    def __call__(self, embeddings: Tensor, stream: AttentionStream) -> Tensor:
        """Return the normalised final states [n, hidden] for embeddings [n, hidden]."""
        states = embeddings[None]
        for layer in self.layers:
            states = layer(
                states,
                attention_mask=None,
                position_embeddings=self._unrotated,
                use_cache=False,
                stream=stream,
            )
        normalised: Tensor = self.norm(states)
        return normalised[0]

    def rotary_table(self, positions: int, has_axes: bool) -> RotaryTable:
        """
        Return what the model's own rotary module gives for 0 to positions - 1.

        With `has_axes` the columns of time, row and column are found by turning one at a time.
        """
        like = self._unrotated[0]
        index = torch.arange(positions, device=like.device)[None]
        half = like.shape[-1] // 2
        if not has_axes:
            cos, sin = self.rotary(like, index)
            return RotaryTable(cos[0, :, :half].clone(), sin[0, :, :half].clone(), None)
        cos, sin = self.rotary(like, index[None].expand(3, 1, -1))
        axes = [0] * half
        for axis in range(3):
            probe = torch.zeros(3, 1, 1, dtype=torch.long, device=like.device)
            probe[axis] = 1
            turned = self.rotary(like, probe)[1][0, 0, :half] != 0
            for column in torch.nonzero(turned).flatten().tolist():
                axes[column] = axis
        return RotaryTable(cos[0, :, :half].clone(), sin[0, :, :half].clone(), tuple(axes))
