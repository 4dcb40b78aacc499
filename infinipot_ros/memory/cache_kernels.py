# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
What src/cache_kernels.c does to a cache in the CPU's memory, for all layers in one call.

The library is built with the ROS package. Without it, and for caches elsewhere, PyTorch does the
same layer by layer; in a small model its calls cost many times more than their arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import ctypes
import logging
from typing import Any, cast, NamedTuple, TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from infinipot_ros.memory.layer_cache import LayerCache

LIBRARY = 'libinfinipot_ros_cache_kernels.so'
_VERSION = 1
_SCORED = (torch.float32, torch.bfloat16)

logger = logging.getLogger(__name__)


class _Cache(ctypes.Structure):
    """The structure Cache of the library."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in (
            'layers', 'heads', 'prefix', 'capacity', 'width', 'element_bytes')),
        *((name, ctypes.c_void_p) for name in ('keys', 'values', 'frame', 'patch')),
        ('parted', ctypes.c_int64),
    )


class _Table(ctypes.Structure):
    """The structure Table of the library."""

    _fields_ = (('rows', ctypes.c_void_p), *((name, ctypes.c_int64) for name in (
        'count', 'bytes', 'frame', 'camera', 'kept', 'thumbnail')),
        ('freed', ctypes.c_void_p), ('freed_room', ctypes.c_int64),
        ('freed_count', ctypes.c_int64))


class Asked(NamedTuple):
    """What a compression asks of a kernel; see `LayerView` for what it means."""

    stored: int
    grid: tuple[int, int]
    recent_frames: int
    budget: int
    alpha: float
    options: Mapping[str, Any]


def load(name: str = LIBRARY) -> ctypes.CDLL | None:
    """Return the library as the dynamic linker finds it, or None where it is of no use."""
    try:
        library = ctypes.CDLL(name)
        version = library.infinipot_kernels_version()
    except (OSError, AttributeError) as error:
        logger.debug('no kernels in C, PyTorch does their work: %s', error)
        return None
    if version != _VERSION:
        logger.warning(
            '%s is of version %d and not %d, so PyTorch does its work: build the package again',
            name, version, _VERSION)
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.infinipot_part.argtypes = [
        pointer, number, pointer, number, pointer, pointer, number]
    library.infinipot_join.argtypes = [pointer, pointer, number, pointer, pointer, number]
    library.infinipot_retain.argtypes = [pointer, number, pointer, *[number] * 3]
    library.infinipot_choose.argtypes = [pointer, *[number] * 6, *[pointer] * 3]
    library.infinipot_join.restype = library.infinipot_retain.restype = None
    return library


_LIBRARY = load()


class CacheKernels:
    """The library's functions for one cache, which must not change its tensors for others."""

    def __init__(self, library: ctypes.CDLL, cache: LayerCache) -> None:
        """Look the addresses up."""
        shape = cache.shape
        self.library = library
        self.can_choose = shape.dtype in _SCORED
        self.layers_and_heads = (shape.layers, shape.kv_heads)
        self.capacity = cache.capacity
        # Of what moves through a spare room: keys and values, and labels.
        self._row_bytes = max(shape.head_dim * shape.dtype.itemsize, torch.int32.itemsize)
        pointers = ctypes.c_void_p * shape.layers
        # Held, because the structure has their addresses only.
        self._tables = tuple(
            pointers(*(tensor.data_ptr() for tensor in tensors))
            for tensors in (cache.keys, cache.values)
        )
        self._cache = _Cache(
            shape.layers, shape.kv_heads, cache.prefix, cache.capacity, shape.head_dim,
            shape.dtype.itemsize, *map(ctypes.addressof, self._tables),
            cache.frame.data_ptr(), cache.patch.data_ptr(), 0)
        self._address = ctypes.addressof(self._cache)

    def part(
        self, rows: Tensor, stored: int, spare: Tensor, stash: CacheKernels, room: int
    ) -> None:
        """
        Put rows [L, H, C] of `stored` first, and those between them behind these.

        Keys and values of the first `room` of the latter are then in `stash` as well. Raises
        ValueError, and does nothing, where rows do not rise within those stored.
        """
        self._check(rows, stored, spare, stash, room)
        if self.library.infinipot_part(
                self._address, stored, rows.data_ptr(), rows.shape[2], spare.data_ptr(),
                stash._address, room):
            raise ValueError(f'rows to keep have to rise within 0..{stored - 1}')

    @property
    def parted(self) -> bool:
        """Whether `part` has moved rows since this was last made False, and `join` has not."""
        return bool(self._cache.parted)

    @parted.setter
    def parted(self, parted: bool) -> None:
        self._cache.parted = parted

    def join(
        self, rows: Tensor, stored: int, spare: Tensor, stash: CacheKernels, room: int
    ) -> None:
        """Undo `part`, whatever was written to `room` rows behind those that it put first."""
        self._check(rows, stored, spare, stash, room)
        self.library.infinipot_join(
            self._address, rows.data_ptr(), rows.shape[2], spare.data_ptr(), stash._address, room)

    def _check(
        self, rows: Tensor, stored: int, spare: Tensor, stash: CacheKernels, room: int
    ) -> None:
        """Raise ValueError where the library would read or write what it must not."""
        count, heads = rows.shape[-1], self.layers_and_heads
        if not (
            rows.dtype == torch.int64
            and rows.shape == (*heads, count)
            and rows.is_contiguous()
            and 0 < count <= stored <= self.capacity
            and room <= stored - count
            and room <= stash.capacity
            and (stored - count) * self._row_bytes <= spare.nbytes
        ):
            raise ValueError(
                f'cannot move {list(rows.shape)} rows of {stored} through {spare.nbytes} bytes '
                f'with {room} of those that go in a stash of {stash.capacity}'
            )

    def retain(
        self, stored: int, table: TableRows, camera: int, whole_from: int, whole: int
    ) -> None:
        """
        Note in a camera's rows of a table how many of the `stored` tokens heads have, on average.

        From frame `whole_from` on it is `whole`. Rows with nothing left go.
        """
        self.library.infinipot_retain(
            self._address, stored, table.address, camera, whole_from, whole)

    def choose(
        self,
        asked: Asked,
        share: int = 0,
        pooling: Sequence[int] = (),
        thresholds: Sequence[float] = (),
    ) -> Tensor | None:
        """
        Return rows [L, H, budget]: recent frames, what is least like them, the largest values.

        TaR's tokens (InfiniPot-V, Eq. 5) alone, or up to `share` and for the rest VaN's (Alg. 2),
        pooled by a kernel for each layer or by g(CV)'s three thresholds. None where keys have a
        type that it does not read, or a case asks for more than this.
        """
        if not self.can_choose:
            return None
        rows = torch.empty((*self.layers_and_heads, asked.budget), dtype=torch.int64)
        failed = self.library.infinipot_choose(
            self._address, asked.stored, *asked.grid, asked.recent_frames, share, asked.budget,
            (ctypes.c_double * 3)(*thresholds) if thresholds else None,
            (ctypes.c_int64 * self.layers_and_heads[0])(*pooling) if pooling else None,
            rows.data_ptr())
        return None if failed else rows


class TableRows:
    """Where the library finds the rows of a frame table, which stay where they are."""

    def __init__(self, rows: npt.NDArray[np.void], thumbnails: int) -> None:
        """Look the address up, and where in a row its fields are."""
        fields: Any = rows.dtype.fields
        self._freed = (ctypes.c_int32 * thumbnails)()
        self._table = _Table(
            rows.ctypes.data, 0, rows.dtype.itemsize,
            *(fields[name][1] for name in ('frame', 'camera', 'kept', 'thumbnail')),
            ctypes.addressof(self._freed), thumbnails, 0)
        self.address = ctypes.addressof(self._table)

    @property
    def count(self) -> int:
        """Rows in use."""
        return cast(int, self._table.count)

    @count.setter
    def count(self, count: int) -> None:
        self._table.count = count

    @property
    def freed(self) -> list[int]:
        """Return the thumbnails of the rows that the last `retain` let go."""
        return self._freed[:self._table.freed_count]


def kernels_of(cache: LayerCache) -> CacheKernels | None:
    """Return the kernels for a cache, or None where PyTorch has to do their work."""
    if _LIBRARY is None or cache.shape.device.type != 'cpu':
        return None
    return CacheKernels(_LIBRARY, cache)
