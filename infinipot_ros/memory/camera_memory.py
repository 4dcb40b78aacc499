# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept for one camera: the cumulative cache, the feature buffer, the instant cache."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.model import ModelShape


class FeatureBuffer:
    """The embeddings [P, hidden] of the newest frames, first in, first out (DSCache's B)."""

    def __init__(self, shape: ModelShape, frames: int, tokens_per_frame: int) -> None:
        """Allocate room for `frames` frames."""
        self.capacity = frames
        self.features = torch.zeros(
            frames, tokens_per_frame, shape.hidden, dtype=shape.dtype, device=shape.device
        )
        self.frame_ids: list[int] = []
        self._first = 0

    @property
    def nbytes(self) -> int:
        """Bytes of storage held."""
        return self.features.untyped_storage().nbytes()

    @property
    def full(self) -> bool:
        """Whether the next frame pushes one out."""
        return len(self.frame_ids) == self.capacity

    def oldest(self) -> tuple[int, Tensor]:
        """Return the frame that the next push would lose, and its embeddings."""
        return self.frame_ids[0], self.features[self._first]

    def push(self, frame: int, embeddings: Tensor) -> None:
        """Put a frame in, in place of the oldest where the buffer is full."""
        if self.capacity == 0:
            return
        slot = (self._first + len(self.frame_ids)) % self.capacity
        self.features[slot].copy_(embeddings)
        if self.full:
            self.frame_ids.pop(0)
            self._first = (self._first + 1) % self.capacity
        self.frame_ids.append(frame)

    def ordered(self) -> Tensor:
        """Return all embeddings, oldest first, as [frames x P, hidden]."""
        order = [(self._first + i) % self.capacity for i in range(len(self.frame_ids))]
        return self.features[order].flatten(0, 1)

    def clear(self) -> None:
        """Forget all frames."""
        self.frame_ids = []
        self._first = 0


@dataclass
class CameraMemory:
    """One camera's caches and counters.

    `instant_valid` tells whether the instant cache is that of the buffer as it is; `judged_until` is the
    newest frame that a compression has seen; `policy_state` is what a policy remembers, per layer.
    """

    index: int
    name: str
    past: LayerCache
    buffer: FeatureBuffer
    instant: LayerCache
    instant_valid: bool = False
    frames_seen: int = 0
    compressions: int = 0
    judged_until: int = -1
    newest_stamp_ns: int | None = None
    last_features: Tensor | None = None
    policy_state: list[dict[str, Tensor]] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything but the sinks."""
        self.past.crop(0)
        self.instant.crop(0)
        self.buffer.clear()
        self.instant_valid = False
        self.frames_seen = 0
        self.compressions = 0
        self.judged_until = -1
        self.newest_stamp_ns = None
        self.last_features = None
        self.policy_state = [{} for _ in self.policy_state]
