# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Preallocated keys, values and provenance of every layer of one segment of a memory."""

from infinipot_ros.errors import BudgetError
from infinipot_ros.memory.model import ModelShape
import torch
from torch import Tensor


class LayerCache:
    """
    Un-rotated K and V of one segment, for all layers, with the frame and patch of each token.

    Per layer: keys, values [H, prefix + capacity, D]. The first `prefix` rows are the attention
    sinks (or nothing); they are written once and no operation here touches them. `stored_tokens`
    counts the rows after them and is the same for all heads and layers. frame, patch: int32 [L, H,
    capacity].

    Nothing here allocates after construction except `resize`. Rows beyond `stored_tokens` are free
    space: a pass may write there, and only `commit` makes them part of the cache, so that a pass
    which fails leaves the cache as it was.
    """

    def __init__(
        self, shape: ModelShape, capacity: int, prefix: int = 0, provenance: bool = False
    ) -> None:
        """Allocate everything this segment will ever hold."""
        self.shape = shape
        self.capacity = capacity
        self.prefix = prefix
        self.stored_tokens = 0
        self.keys = [self._rows(prefix + capacity) for _ in range(shape.layers)]
        self.values = [self._rows(prefix + capacity) for _ in range(shape.layers)]
        slots = capacity if provenance else 0
        self.frame = self._labels(slots)
        self.patch = self._labels(slots)

    def _rows(self, count: int) -> Tensor:
        shape = self.shape
        return torch.zeros(
            shape.kv_heads, count, shape.head_dim, dtype=shape.dtype, device=shape.device
        )

    def _labels(self, count: int) -> Tensor:
        shape = self.shape
        return torch.full(
            (shape.layers, shape.kv_heads, count), -1, dtype=torch.int32, device=shape.device
        )

    @property
    def nbytes(self) -> int:
        """Bytes of storage held, used or not."""
        tensors = [*self.keys, *self.values, self.frame, self.patch]
        return sum(tensor.untyped_storage().nbytes() for tensor in tensors)

    @property
    def frames(self) -> Tensor:
        """Frame ids of the stored tokens, [L, H, stored]."""
        return self.frame[:, :, : self.stored_tokens]

    @property
    def patches(self) -> Tensor:
        """Patch indices (row x columns + column) of the stored tokens, [L, H, stored]."""
        return self.patch[:, :, : self.stored_tokens]

    def write(self, layer: int, offset: int, keys: Tensor, values: Tensor) -> None:
        """Put keys, values [H, n, D] into the free rows after `stored_tokens + offset`."""
        start = self.prefix + self.stored_tokens + offset
        stop = start + keys.shape[1]
        if stop > self.prefix + self.capacity:
            raise BudgetError(
                f'{stop - self.prefix} tokens do not fit a segment of {self.capacity}: '
                'compress it first'
            )
        self.keys[layer][:, start:stop].copy_(keys)
        self.values[layer][:, start:stop].copy_(values)

    def write_prefix(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Put the attention sinks' keys, values [H, prefix, D] in front."""
        self.keys[layer][:, : self.prefix].copy_(keys)
        self.values[layer][:, : self.prefix].copy_(values)

    def commit(self, count: int, frame: int | None = None, patches: Tensor | None = None) -> None:
        """Make `count` written rows part of the cache, as `patches` [count] of `frame`."""
        start, stop = self.stored_tokens, self.stored_tokens + count
        if stop > self.capacity:
            raise BudgetError(f'{stop} tokens do not fit a segment of {self.capacity}')
        if frame is not None and patches is not None:
            self.frame[:, :, start:stop] = frame
            self.patch[:, :, start:stop] = patches.to(torch.int32)
        self.stored_tokens = stop

    def keep(self, rows: list[Tensor], spare: Tensor) -> None:
        """
        Forget all stored tokens but the rows [H, C] (ascending) of each layer.

        spare: contiguous, at least as many elements as [H, C, D], room to move through.
        """
        index = torch.stack(rows)
        count, width = index.shape[2], self.shape.head_dim
        places = flat_rows(index, self.prefix, self.prefix + self.capacity).flatten(1)
        room = spare.view(-1)[: places.shape[1] * width].view(-1, width)
        for tensors in (self.keys, self.values):
            for tensor, place in zip(tensors, places.unbind(), strict=True):
                torch.index_select(tensor.view(-1, width), 0, place, out=room)
                tensor[:, self.prefix:self.prefix + count] = room.view(-1, count, width)
        for labels in (self.frame, self.patch):
            labels[:, :, :count] = labels.gather(2, index)
        self.crop(count)

    def crop(self, count: int) -> None:
        """Forget all but the first `count` stored tokens."""
        if not 0 <= count <= self.stored_tokens:
            raise ValueError(f'cannot crop {self.stored_tokens} stored tokens to {count}')
        self.stored_tokens = count

    def resize(self, capacity: int) -> None:
        """Change the capacity, a layer at a time, keeping what is stored."""
        if capacity < self.stored_tokens:
            raise BudgetError(
                f'{self.stored_tokens} stored tokens do not fit {capacity}: compress first'
            )
        used = self.prefix + self.stored_tokens
        for tensors in (self.keys, self.values):
            for layer, old in enumerate(tensors):
                new = self._rows(self.prefix + capacity)
                new[:, :used].copy_(old[:, :used])
                tensors[layer] = new
        if self.frame.shape[2]:
            frame, patch = self.frames, self.patches
            self.frame, self.patch = self._labels(capacity), self._labels(capacity)
            self.frame[:, :, : self.stored_tokens] = frame
            self.patch[:, :, : self.stored_tokens] = patch
        self.capacity = capacity


def flat_rows(rows: Tensor, first: int, size: int) -> Tensor:
    """
    Return rows [..., H, n] as those of a storage [H, size, D] laid flat; they count from `first`.

    Picking whole rows by these is many times faster than a gather over every element.
    """
    heads = torch.arange(rows.shape[-2], device=rows.device)
    return rows + (first + size * heads).unsqueeze(-1)
