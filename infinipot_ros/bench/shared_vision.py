# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A model whose frames are encoded once, however many memories read them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
import time
from typing import Any

from infinipot_ros.memory.model import RgbImage, VisionLanguageModel
from torch import Tensor


class SharedVision:
    """
    A `VisionLanguageModel` that remembers the embeddings of the frames it has encoded.

    All else is the wrapped model's. `vision_s` adds up the time of the encodings that were run.
    """

    def __init__(self, model: VisionLanguageModel) -> None:
        """Wrap a model."""
        self._model = model
        self._known: dict[bytes, Tensor] = {}
        self.vision_s = 0.0
        self.encoded = 0

    def __getattr__(self, name: str) -> Any:
        """Give what the wrapped model gives."""
        return getattr(self._model, name)

    def encode(self, frames: Sequence[RgbImage], frame_size_px: tuple[int, int]) -> Tensor:
        """Return the embeddings of `frames`, from memory where they were encoded before."""
        digest = blake2b(repr(frame_size_px).encode(), digest_size=16)
        for frame in frames:
            digest.update(frame.tobytes())
        key = digest.digest()
        found = self._known.get(key)
        if found is None:
            start = time.perf_counter()
            found = self._model.encode(frames, frame_size_px)
            self.vision_s += time.perf_counter() - start
            self.encoded += 1
            self._known[key] = found
        return found
