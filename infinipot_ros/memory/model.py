# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The small protocol through which the memory sees a vision-language model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

RgbImage = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ModelShape:
    """
    The sizes of a text backbone and what it was trained to read.

    `hidden` is the width of one embedding handed to `backbone` (deep features included),
    `max_rank` the number of distinct frame times (0: the model has no time axis).
    """

    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    dtype: torch.dtype
    device: torch.device
    max_context_tokens: int
    max_rank: int


@dataclass(frozen=True)
class RotaryTable:
    """
    cos and sin of every position a memory may use.

    cos, sin: [positions, head_dim / 2]; `axes`: for every column which of a token's coordinates
    (time, row, column) turns it, or None for one-dimensional positions.
    """

    cos: Tensor
    sin: Tensor
    axes: tuple[int, ...] | None


class AttentionStream(Protocol):
    """What stands behind the attention of every layer during one forward pass."""

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float
    ) -> Tensor:
        """Return [1, query heads, Q, D] for un-rotated query (of that shape), key and value."""


class VisionLanguageModel(Protocol):
    """What a model adapter offers; it holds weights and no state of any video."""

    name: str
    fingerprint: str
    shape: ModelShape
    eos_ids: frozenset[int]
    frames_per_step: int
    default_frame_size_px: tuple[int, int]
    describe_prompt: str
    #: (tau1, tau2, tau3) of g(CV) measured on this model; None: VaN's kernel goes by depth.
    cv_thresholds: tuple[float, float, float] | None

    def rank_step(self, seconds_per_step: float | None) -> float:
        """Return the distance in time of neighbouring ranks (None: the rate is unknown)."""

    def picture_size_px(self, frame_size_px: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) at which a frame of that size is really encoded."""

    def prepare(self, rgb: RgbImage, frame_size_px: tuple[int, int]) -> RgbImage:
        """Return a picture at `picture_size_px`, resized with the model's own filter."""

    def grid(self, frame_size_px: tuple[int, int]) -> tuple[int, int]:
        """Return (rows, columns) of tokens that a frame of (height, width) px becomes."""

    def encode(self, frames: Sequence[RgbImage], frame_size_px: tuple[int, int]) -> Tensor:
        """Return the embeddings [rows x columns, hidden] of one camera's frame or pair."""

    def prefix_ids(self) -> list[int]:
        """Return the token ids of the prompt up to the video: the attention sinks."""

    def suffix_ids(self, question: str, history: Sequence[tuple[str, str]] = ()) -> list[int]:
        """Return the token ids from the end of the video to where the answer starts."""

    def question_tokens(self, text: str) -> int:
        """Return how many tokens a text typed by a user becomes, as plain text."""

    def unknown_words(self, text: str) -> list[str]:
        """Return the words of a user's text that mean nothing to the model."""

    def nothing_understood(self, text: str) -> str:
        """Say why no word of a user's text means anything to the model, and how to ask, or ''."""

    def embed(self, ids: Sequence[int]) -> Tensor:
        """Return the embeddings [n, hidden] of token ids."""

    def backbone(self, embeddings: Tensor, stream: AttentionStream) -> Tensor:
        """Run all layers over [n, hidden] with `stream` as attention; return final states."""

    def logits(self, states: Tensor) -> Tensor:
        """Return [n, vocabulary] for final states [n, hidden]."""

    def rotary_table(self, positions: int) -> RotaryTable:
        """Return the model's own rotation for the positions 0 to positions - 1."""

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of generated token ids, without control tokens."""
