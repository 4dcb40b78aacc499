# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Preallocated keys, values and provenance of every layer of one segment of a memory."""

from __future__ import annotations

from infinipot_ros.errors import BudgetError
from infinipot_ros.memory.cache_kernels import kernels_of
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
        self.kernels = kernels_of(self)
        self._parted = False

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
            # Made first, so that nothing is written where there is no memory for it.
            patches = patches.to(torch.int32)
            self.frame[:, :, start:stop] = frame
            self.patch[:, :, start:stop] = patches
        self.stored_tokens = stop

    @property
    def parted(self) -> bool:
        """Whether a `keep` can be undone; to be made False before it."""
        return self._parted if self.kernels is None else self.kernels.parted

    @parted.setter
    def parted(self, parted: bool) -> None:
        self._parted = parted
        if self.kernels is not None:
            self.kernels.parted = parted

    def keep(
        self, rows: Tensor, spare: Tensor, stash: LayerCache, room: int = 0
    ) -> None:
        """
        Forget all stored tokens but the rows [L, H, C] (ascending) of each layer and head.

        `put_back` can undo that as long as no label is written, nor more than `room` rows after
        those kept; rows that lose their place to these wait at the start of `stash`. spare:
        contiguous, as many elements as one layer's stored keys, room to move through.
        """
        count = rows.shape[2]
        waiting = min(room, self.stored_tokens - count)
        if self.kernels is not None and stash.kernels is not None:
            self.kernels.part(rows, self.stored_tokens, spare, stash.kernels, waiting)
        else:
            place = self._destinations(rows)
            index = torch.arange(self.stored_tokens, device=rows.device).expand_as(place)
            self._reorder(torch.empty_like(place).scatter_(2, place, index), spare)
            stash._copy_rows(0, self, count, waiting)
            self._parted = True
        self.stored_tokens = count

    def put_back(
        self, rows: Tensor, stored: int, spare: Tensor, stash: LayerCache, room: int
    ) -> None:
        """Undo a `keep` of these rows out of `stored`, if it came to move them."""
        count, self.stored_tokens = rows.shape[2], stored
        waiting = min(room, stored - count)
        if not self.parted:
            return
        if self.kernels is not None and stash.kernels is not None:
            self.kernels.join(rows, stored, spare, stash.kernels, waiting)
        else:
            self._copy_rows(count, stash, 0, waiting)
            self._reorder(self._destinations(rows), spare)
            self._parted = False

    def _copy_rows(self, at: int, source: LayerCache, start: int, count: int) -> None:
        to, of = self.prefix + at, source.prefix + start
        for tensors, others in ((self.keys, source.keys), (self.values, source.values)):
            for tensor, other in zip(tensors, others, strict=True):
                tensor[:, to:to + count] = other[:, of:of + count]

    def _destinations(self, rows: Tensor) -> Tensor:
        """Return where each stored row [L, H, N] comes to stand: those kept come first."""
        count, size = rows.shape[2], (*rows.shape[:2], self.stored_tokens)
        stays = torch.zeros(size, dtype=torch.bool, device=rows.device).scatter_(2, rows, True)
        before = stays.cumsum(2)
        index = torch.arange(self.stored_tokens, device=rows.device)
        return torch.where(stays, before - 1, count + index - before)

    def _reorder(self, order: Tensor, spare: Tensor) -> None:
        """Put row order[l, h, i] of the stored rows of each layer and head at i."""
        heads, count = order.shape[1:]
        width, size = self.shape.head_dim, self.keys[0].shape[1]
        if any(tensor.shape[1] != size for tensor in (*self.keys, *self.values)):
            raise BudgetError('a change of the budget ended halfway: make the memory anew')
        first = self.prefix + torch.arange(heads, device=order.device) * size
        places = (order + first[:, None]).flatten(1)
        room = spare.view(-1)[: heads * count * width].view(-1, width)
        # All that takes memory comes before the first row moves.
        labelled = [(labels, labels.gather(2, order)) for labels in (self.frame, self.patch)]
        for tensors in (self.keys, self.values):
            for tensor, place in zip(tensors, places.unbind(), strict=True):
                # Picking whole rows is many times faster than a gather over every element.
                torch.index_select(tensor.view(-1, width), 0, place, out=room)
                tensor[:, self.prefix:self.prefix + count] = room.view(heads, count, width)
        for labels, moved in labelled:
            labels[:, :, :count] = moved

    def count_tokens(self, frames: Tensor) -> Tensor:
        """Return how many tokens all layers and heads hold of these frames, int64 and rising."""
        ids = frames.to(self.frame.device)
        counts = torch.zeros_like(ids)
        if len(ids):
            stored = self.frames.flatten().long()
            place = torch.searchsorted(ids, stored).clamp_max_(len(ids) - 1)
            counts.index_add_(0, place, (ids[place] == stored).long())
        return counts.to(frames.device)

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
        # They know where the old tensors are.
        self.kernels = None
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
        self.kernels = kernels_of(self)
