# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Qwen2-VL and Qwen2.5-VL: M-RoPE, patches merged 2 x 2, one grid for one or two frames."""

from collections.abc import Sequence
from typing import Any

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.model import RgbImage
from infinipot_ros.models.base import HuggingFaceModel
from infinipot_ros.models.pixels import normalised, resized
import numpy as np
import torch
from torch import Tensor

# What Qwen2-VL was trained to read: 768 frames of video, two to a time step; 32 K tokens.
TRAINED_RANKS = 384
TRAINED_TOKENS = 32_768
DEFAULT_FRAME_SIZE_PX = (336, 448)


class QwenVL(HuggingFaceModel):
    """A `VisionLanguageModel` around Qwen2VLForConditionalGeneration or its 2.5 successor."""

    def __init__(
        self, model: Any, tokenizer: Any, image_processor: Any, name: str, fingerprint: str
    ) -> None:
        """Take a loaded model."""
        super().__init__(
            model,
            tokenizer,
            image_processor,
            name,
            fingerprint,
            trained_tokens=TRAINED_TOKENS,
            trained_ranks=TRAINED_RANKS,
        )
        vision = model.config.vision_config
        self._visual = model.model.visual
        self._tokens_per_second = getattr(vision, 'tokens_per_second', None)
        self.frames_per_step = int(vision.temporal_patch_size)
        self._patch_px = int(vision.patch_size)
        self._merge = int(vision.spatial_merge_size)
        height, width = self.own.get('frame_size_px', DEFAULT_FRAME_SIZE_PX)
        self.default_frame_size_px = (int(height), int(width))

    def rank_step(self, seconds_per_step: float | None) -> float:
        """
        Return the distance in time of neighbouring grids; Qwen2.5-VL counts seconds.

        Where the camera's rate is not known, a grid is taken to last a second, as the stock model
        does.
        """
        if self._tokens_per_second is None:
            return 1.0
        return float(self._tokens_per_second) * (seconds_per_step or 1.0)

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
        return resized(rgb, self.picture_size_px(frame_size_px), self.pixels.resample)

    def encode(self, frames: Sequence[RgbImage], frame_size_px: tuple[int, int]) -> Tensor:
        """Return [rows x columns, hidden] for one grid; the last frame repeats where one lacks."""
        rows, columns = self.grid(frame_size_px)
        arrays = [normalised(self.prepare(rgb, frame_size_px), self.pixels) for rgb in frames]
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
