# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Qwen2-VL and Qwen2.5-VL: M-RoPE, patches merged 2 x 2, one grid for one or two frames."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.model import AttentionStream, ModelShape, RgbImage, RotaryTable
from infinipot_ros.models.hf_attention import STREAM_ATTENTION, TextBackbone
from infinipot_ros.models.pixels import normalised, PixelSettings, resized
from infinipot_ros.models.prompt import ChatPrompt

# What Qwen2-VL was trained to read: 768 frames of video, two to a time step; 32 K tokens.
TRAINED_RANKS = 384
TRAINED_TOKENS = 32_768
DEFAULT_FRAME_SIZE_PX = (336, 448)


class QwenVL:
    """A `VisionLanguageModel` around Qwen2VLForConditionalGeneration or its 2.5 successor."""

    def __init__(
        self, model: Any, tokenizer: Any, image_processor: Any, name: str, fingerprint: str
    ) -> None:
        """Take a loaded model and switch its text attention to streams."""
        config, text, vision = model.config, model.config.text_config, model.config.vision_config
        model.set_attn_implementation({'text_config': STREAM_ATTENTION})
        self._model = model
        self._visual = model.model.visual
        self._embedding = model.model.language_model.embed_tokens
        self._head = model.lm_head
        head_dim = getattr(text, 'head_dim', None) or text.hidden_size // text.num_attention_heads
        self._backbone = TextBackbone(model.model.language_model, head_dim)
        video_token = tokenizer.convert_ids_to_tokens(config.video_token_id)
        self._prompt = ChatPrompt(tokenizer, video_token)
        own: dict[str, Any] = getattr(config, 'infinipot', None) or {}
        self.name = name
        self.fingerprint = fingerprint
        weight: Tensor = self._embedding.weight
        self.shape = ModelShape(
            layers=text.num_hidden_layers,
            query_heads=text.num_attention_heads,
            kv_heads=text.num_key_value_heads,
            head_dim=head_dim,
            hidden=text.hidden_size,
            dtype=weight.dtype,
            device=weight.device,
            max_context_tokens=int(
                own.get('max_context_tokens', min(text.max_position_embeddings, TRAINED_TOKENS))
            ),
            max_rank=int(own.get('max_rank', TRAINED_RANKS)),
        )
        self.eos_ids = end_ids(model, tokenizer)
        self.frames_per_step = int(vision.temporal_patch_size)
        self.rank_step = 1.0
        self._patch_px = int(vision.patch_size)
        self._merge = int(vision.spatial_merge_size)
        height, width = own.get('frame_size_px', DEFAULT_FRAME_SIZE_PX)
        self.default_frame_size_px = (int(height), int(width))
        self._pixels = PixelSettings(
            resample=int(image_processor.resample),
            scale=float(image_processor.rescale_factor),
            mean=tuple(image_processor.image_mean),
            std=tuple(image_processor.image_std),
        )

    def grid(self, frame_size_px: tuple[int, int]) -> tuple[int, int]:
        """Return (rows, columns) of tokens; the sides round to whole merged patches."""
        cell = self._patch_px * self._merge
        height, width = (round(side / cell) for side in frame_size_px)
        if height < 1 or width < 1:
            raise ConfigError(
                f'frame_size_px {frame_size_px} is under one token of {cell} x {cell} px'
            )
        return height, width

    def picture_size_px(self, frame_size_px: tuple[int, int]) -> tuple[int, int]:
        """Return whole merged patches."""
        rows, columns = self.grid(frame_size_px)
        cell = self._patch_px * self._merge
        return rows * cell, columns * cell

    def prepare(self, rgb: RgbImage, frame_size_px: tuple[int, int]) -> RgbImage:
        """Return the picture at `picture_size_px`."""
        return resized(rgb, self.picture_size_px(frame_size_px), self._pixels.resample)

    def encode(self, frames: Sequence[RgbImage], frame_size_px: tuple[int, int]) -> Tensor:
        """Return [rows x columns, hidden] for one grid; the last frame repeats where one lacks."""
        rows, columns = self.grid(frame_size_px)
        arrays = [normalised(self.prepare(rgb, frame_size_px), self._pixels) for rgb in frames]
        arrays.extend(arrays[-1:] * (self.frames_per_step - len(arrays)))
        # [time, channel, row, merged row, y, column, merged column, x], as its processor has it.
        patches = np.stack(arrays).reshape(
            self.frames_per_step,
            3,
            rows,
            self._merge,
            self._patch_px,
            columns,
            self._merge,
            self._patch_px,
        )
        flat = patches.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(
            rows * columns * self._merge**2, -1
        )
        shape = self.shape
        pixels = torch.from_numpy(np.ascontiguousarray(flat)).to(shape.device, shape.dtype)
        grid = torch.tensor(
            [[1, rows * self._merge, columns * self._merge]], device=shape.device
        )
        embeddings: Tensor = self._visual(pixels, grid_thw=grid).pooler_output
        return embeddings.to(shape.dtype)

    def prefix_ids(self) -> list[int]:
        """Return the system prompt up to and with the token that opens a video."""
        return self._prompt.prefix_ids

    def suffix_ids(self, question: str, history: Sequence[tuple[str, str]] = ()) -> list[int]:
        """Return the ids from the token that closes the video to where the answer starts."""
        return self._prompt.suffix_ids(question, history)

    def question_tokens(self, text: str) -> int:
        """Return how many tokens a user's text becomes."""
        return len(self._prompt.plain_ids(text))

    def embed(self, ids: Sequence[int]) -> Tensor:
        """Return [n, hidden]."""
        found: Tensor = self._embedding(torch.tensor(ids, device=self.shape.device))
        return found

    def backbone(self, embeddings: Tensor, stream: AttentionStream) -> Tensor:
        """Return the final states [n, hidden]."""
        return self._backbone(embeddings, stream)

    def logits(self, states: Tensor) -> Tensor:
        """Return [n, vocabulary]."""
        found: Tensor = self._head(states)
        return found

    def rotary_table(self, positions: int) -> RotaryTable:
        """Return the rotation with its columns split by time, row and column."""
        return self._backbone.rotary_table(positions, has_axes=True)

    def text(self, ids: Sequence[int]) -> str:
        """Return generated ids as text."""
        return self._prompt.text(ids)


def end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the ids that end an answer, from the generation settings and the tokenizer."""
    found: set[int] = set()
    for source in (getattr(model, 'generation_config', None), tokenizer):
        ends = getattr(source, 'eos_token_id', None)
        if isinstance(ends, int):
            found.add(ends)
        elif ends is not None:
            found.update(int(end) for end in ends)
    return frozenset(found)
