# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept for one camera: the cumulative cache, the feature buffer, the instant cache."""

from dataclasses import dataclass

from infinipot_ros.memory.budget import Sizes
from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.model import ModelShape, RgbImage
from infinipot_ros.memory.offload import HostStore
from infinipot_ros.memory.policies.registry import TokenFilter
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


class FeatureBuffer:
    """
    The embeddings [P, hidden] of the newest frames, first in, first out (DSCache's B).

    It holds one frame more than take part, so that the newest is there even where none does.
    """

    def __init__(self, shape: ModelShape, frames: int, tokens_per_frame: int) -> None:
        """Allocate room for `frames` frames and the newest."""
        self.capacity = frames
        self.features = torch.zeros(
            frames + 1, tokens_per_frame, shape.hidden, dtype=shape.dtype, device=shape.device
        )
        self.frame_ids: list[int] = []
        self._first = 0
        self._last: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of storage held."""
        return self.features.untyped_storage().nbytes()

    @property
    def full(self) -> bool:
        """Whether the next frame pushes one out."""
        return len(self.frame_ids) == self.capacity

    @property
    def newest(self) -> Tensor | None:
        """Return the embeddings of the newest frame seen, or None."""
        return None if self._last is None else self.features[self._last]

    def oldest(self) -> tuple[int, Tensor]:
        """Return the frame that the next push would lose, and its embeddings."""
        return self.frame_ids[0], self.features[self._first]

    def push(self, frame: int, embeddings: Tensor) -> None:
        """Put a frame in; where the buffer is full its oldest frame is no longer part of it."""
        slots = self.capacity + 1
        slot = (self._first + len(self.frame_ids)) % slots
        self.features[slot].copy_(embeddings)
        self.frame_ids.append(frame)
        self._last = slot
        if len(self.frame_ids) > self.capacity:
            self.frame_ids.pop(0)
            self._first = (self._first + 1) % slots

    def ordered(self) -> Tensor:
        """Return all embeddings, oldest first, as [frames, P, hidden]."""
        order = [(self._first + i) % (self.capacity + 1) for i in range(len(self.frame_ids))]
        return self.features[order]

    def restore(self, frame_ids: list[int], features: Tensor, newest: Tensor | None) -> None:
        """Fill the buffer as it was saved."""
        self.clear()
        if newest is not None and not frame_ids:
            self.features[0].copy_(newest)
            self._last = 0
        for frame, embeddings in zip(frame_ids, features, strict=True):
            self.push(frame, embeddings)

    def clear(self) -> None:
        """Forget all frames."""
        self.frame_ids = []
        self._first = 0
        self._last = None


@dataclass(frozen=True)
class InstantFrame:
    """One frame of the instant cache: whose tokens they are and on which grid."""

    frame: int
    grid: tuple[int, int]

    @property
    def tokens(self) -> int:
        """Tokens of the frame."""
        return self.grid[0] * self.grid[1]


class CameraMemory:
    """
    One camera's caches, pictures and counters.

    `instant_frames` says what is in the instant cache; None that it has to be built again.
    `pending` is the first frame of a pair whose second has not come. `judged_until` is the newest
    frame that a compression has seen; `policy_state` what a policy remembers, per layer. Where the
    policy offloads, `store` has every frame that was in the cumulative cache, and `fetched` is the
    room for what a question reads of it; nothing stays in that room.
    """

    def __init__(
        self, index: int, name: str, tokens: int, sizes: Sizes, token_filter: TokenFilter | None
    ) -> None:
        """Allocate everything for a cumulative cache of `tokens` tokens."""
        shape = sizes.shape
        self.index = index
        self.name = name
        self.past = LayerCache(shape, tokens, prefix=sizes.sink_tokens, provenance=True)
        self.store = HostStore(shape, sizes.tokens_per_frame) if sizes.fetched_tokens else None
        self.fetched = LayerCache(shape, sizes.fetched_tokens, provenance=True)
        self.buffer = FeatureBuffer(shape, sizes.config.instant_frames, sizes.tokens_per_frame)
        self.instant = LayerCache(shape, sizes.instant_tokens)
        self.window: list[Tensor] = [
            torch.zeros(
                shape.query_heads,
                sizes.window_queries,
                shape.head_dim,
                dtype=shape.dtype,
                device=shape.device,
            )
            for _ in range(shape.layers if sizes.window_queries else 0)
        ]
        paired, sharp = sizes.frames_per_step > 1, sizes.config.newest_scale > 1
        self.pending_picture = _picture(sizes.picture_px if paired else (0, 0))
        self.newest_picture = _picture(sizes.newest_picture_px if sharp else (0, 0))
        self.token_filter = token_filter
        self._layers = shape.layers
        self.clear()

    def clear(self) -> None:
        """Forget everything but the sinks."""
        self.past.crop(0)
        if self.store is not None:
            self.store.clear()
        self.instant.crop(0)
        self.buffer.clear()
        self.instant_frames: tuple[InstantFrame, ...] | None = None
        self.pending: int | None = None
        self.frames_seen = 0
        self.compressions = 0
        self.judged_until = -1
        self.newest_stamp_ns: int | None = None
        self.policy_state: list[dict[str, Tensor]] = [{} for _ in range(self._layers)]
        for queries in self.window:
            queries.zero_()

    @property
    def picture_nbytes(self) -> int:
        """Bytes of the pictures held."""
        return self.pending_picture.nbytes + self.newest_picture.nbytes

    @property
    def window_nbytes(self) -> int:
        """Bytes of the queries held for a policy that observes attention."""
        return sum(queries.untyped_storage().nbytes() for queries in self.window)

    @property
    def filter_nbytes(self) -> int:
        """Bytes of the embeddings that a policy's token filter holds."""
        held = {} if self.token_filter is None else self.token_filter.state()
        return sum(tensor.untyped_storage().nbytes() for tensor in held.values())

    @property
    def state_nbytes(self) -> int:
        """Bytes of what a policy remembers; layers may share a storage and count their part."""
        return sum(tensor.nbytes for state in self.policy_state for tensor in state.values())

    def whole_frames(self) -> list[int]:
        """Return the frames that are held outside the cumulative cache, oldest first."""
        return self.buffer.frame_ids + ([] if self.pending is None else [self.pending])


def _picture(size_px: tuple[int, int]) -> npt.NDArray[np.uint8]:
    return np.zeros((*size_px, 3), np.uint8)


def put_picture(place: RgbImage, rgb: RgbImage) -> None:
    """Copy a picture into its place, where there is one."""
    if place.size:
        place[:] = rgb
