# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Baselines that thin out vision embeddings before the language model sees them: STC and TTM.

What they leave goes into a sliding window (InfiniPot-V, Table 2).
"""

from __future__ import annotations

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.windows import select_newest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

STC_FRAMES = 8
TTM_FRAMES = 4
SIMILARITY = 0.8


class _GroupFilter:
    """
    Drop patches that look like the same patch of an earlier frame of their group.

    `references` are the frames of a group that those after them are compared with.
    """

    group_frames: int
    references: tuple[int, ...]

    def __init__(self, similarity: float = SIMILARITY) -> None:
        """Drop what is more similar than `similarity`, a cosine in -1..1."""
        if not -1.0 <= similarity <= 1.0:
            raise ConfigError(f'similarity must be a cosine in -1..1, not {similarity}')
        self._similarity = similarity
        self._number = 0
        self._reference: Tensor | None = None

    def keep(self, embeddings: Tensor) -> Tensor:
        """Take a frame's embeddings [P, C]; return which patches go on, [P] bool, at least one."""
        reference = self._reference
        if reference is not None and (
            (reference.shape, reference.dtype) != (embeddings.shape, embeddings.dtype)
        ):
            raise ConfigError(
                f'a frame has embeddings {embeddings.dtype} {list(embeddings.shape)} after '
                f'{reference.dtype} {list(reference.shape)}'
            )
        if self._number == 0 or reference is None:
            kept = torch.ones(len(embeddings), dtype=torch.bool, device=embeddings.device)
        else:
            cosines = cosine_similarity(embeddings.float(), reference.float(), dim=-1)
            kept = cosines <= self._similarity
            # A frame without any token would have no place in time.
            kept[cosines.argmin()] = True
        if self._number in self.references:
            self._reference = embeddings.clone()
        self._number = (self._number + 1) % self.group_frames
        return kept

    def state(self) -> dict[str, Tensor]:
        """Return the frame that the next is compared with, and the next one's number."""
        if self._reference is None:
            return {}
        return {'reference': self._reference, 'number': torch.tensor(self._number)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on where `state` was asked for; raise ConfigError for what it never returns."""
        if not state:
            self._reference, self._number = None, 0
            return
        if set(state) != {'reference', 'number'}:
            raise ConfigError(f'a token filter holds reference and number, not {sorted(state)}')
        number = state['number']
        if number.dtype != torch.int64 or number.dim() or not 0 <= number < self.group_frames:
            raise ConfigError(f'number is {number}, not one of 0..{self.group_frames - 1}')
        self._reference, self._number = state['reference'], int(number)


class StcFilter(_GroupFilter):
    """LongVU's spatial token compression: compare with the first of every 8 frames."""

    group_frames = STC_FRAMES
    references = (0,)


class TtmFilter(_GroupFilter):
    """DyCoke's temporal merging: of every 4 frames, compare 2 with 1, 4 with 3 and 3 with 1."""

    group_frames = TTM_FRAMES
    references = (0, 2)


register(
    'stc',
    'patches unlike the first of their 8 frames, then a sliding window (LongVU)',
    frees_one_frame=True,
    token_filter=StcFilter,
)(select_newest)

register(
    'ttm',
    'patches unlike the frame before in groups of 4, then a sliding window (DyCoke)',
    frees_one_frame=True,
    token_filter=TtmFilter,
)(select_newest)
