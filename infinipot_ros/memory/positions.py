# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From provenance to positions: what every token's key is rotated by, at the moment of use.

Keys are stored un-rotated, so positions depend only on what is in the cache. One-dimensional RoPE:
a token's index. M-RoPE: (S0 + rank, S0 + row, S0 + col); row and col are the token's own for ever, rank
is its frame's place among the frames that its head still keeps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from infinipot_ros.memory.model import RotaryTable


@dataclass(frozen=True)
class Coordinates:
    """Positions of n tokens: per axis an integer tensor [L or 1, H or 1, n]."""

    axes: tuple[Tensor, ...]

    def of_layer(self, layer: int) -> tuple[Tensor, ...]:
        """Return the axes of one layer, each [H or 1, n]."""
        return tuple(axis[layer if axis.shape[0] > 1 else 0] for axis in self.axes)


def aligned_ranks(frame: Tensor, max_rank: int, recent_frames: int) -> tuple[Tensor, int]:
    """Return the rank of every token's frame [L, H, n] and the next free rank.

    frame: int [L, H, n], ascending along n. Ranks are dense per head and right-aligned: the newest frame
    has the same rank for all heads and layers. Where a head keeps more than `max_rank` frames, those older
    than its `recent_frames` newest share ranks evenly, so that no rank reaches `max_rank`.
    """
    if frame.shape[-1] == 0:
        return frame.to(torch.int32), 0
    dense = torch.zeros_like(frame, dtype=torch.int32)
    torch.cumsum(frame[..., 1:] != frame[..., :-1], dim=-1, dtype=torch.int32, out=dense[..., 1:])
    count = dense[..., -1:] + 1
    age = count - 1 - dense
    top = int(count.max())
    if top > max_rank:
        recent = min(recent_frames, max_rank - 1)
        crowd = (count - recent).clamp_min(1)
        squeezed = recent + (age - recent) * (max_rank - recent) // crowd
        age = torch.where((count > max_rank) & (age >= recent), squeezed, age)
        top = max_rank
    return top - 1 - age, top


class PositionScheme:
    """The positions of one kind of model for frames of one grid.

    `grid` is (rows, columns) of a frame; `max_rank` = 0 means one-dimensional positions; `rank_step` is
    the distance in time between neighbouring ranks.
    """

    def __init__(
        self,
        grid: tuple[int, int],
        max_rank: int,
        rank_step: float,
        device: torch.device,
    ) -> None:
        """Remember the scheme; nothing is allocated that grows."""
        self.grid = grid
        self.max_rank = max_rank
        self.rank_step = rank_step
        self.device = device

    @property
    def one_dimensional(self) -> bool:
        """Whether a token's position is its index."""
        return self.max_rank == 0

    def last_position(self, sinks: int, segments: Sequence[int], text_tokens: int) -> int:
        """Return the largest position of sinks, segments of so many tokens and a text after them."""
        if self.one_dimensional:
            return sinks + sum(segments) + text_tokens
        widest = max(self._time(self.max_rank - 1) + 1, *self.grid)
        return sinks + len(segments) * widest + text_tokens

    def _time(self, rank: int) -> int:
        return int(rank * self.rank_step)

    def _times(self, ranks: Tensor) -> Tensor:
        if self.rank_step == 1.0:
            return ranks
        return (ranks * self.rank_step).to(torch.int32)

    def text(self, count: int, base: int) -> Coordinates:
        """Return the positions of `count` tokens of text (or sinks) from `base` on."""
        index = torch.arange(base, base + count, dtype=torch.int32, device=self.device)[None, None]
        return Coordinates((index,) if self.one_dimensional else (index, index, index))

    def past(
        self, frame: Tensor, patch: Tensor, base: int, room: int, recent_frames: int
    ) -> tuple[Coordinates, int]:
        """Return the positions of a cumulative cache, and the next rank (M-RoPE) or index (1-D).

        frame, patch: int [L, H, n]; `room` is the number of ranks to leave free for newer frames.
        """
        if self.one_dimensional:
            count = frame.shape[-1]
            return self.text(count, base), count
        ranks, next_rank = aligned_ranks(frame, max(2, self.max_rank - room), recent_frames)
        columns = self.grid[1]
        row = torch.div(patch, columns, rounding_mode='floor')
        column = patch - row * columns
        axes = (base + self._times(ranks), base + row, base + column)
        return Coordinates(axes), next_rank

    def frames(self, count: int, base: int, first: int) -> Coordinates:
        """Return the positions of `count` whole frames that follow rank or index `first`."""
        rows, columns = self.grid
        if self.one_dimensional:
            return self.text(count * rows * columns, base + first)
        device = self.device
        rank = torch.arange(first, first + count, dtype=torch.int32, device=device)
        time = self._times(rank)[:, None, None].expand(count, rows, columns)
        row = torch.arange(rows, dtype=torch.int32, device=device)[None, :, None]
        column = torch.arange(columns, dtype=torch.int32, device=device)[None, None, :]
        axes = (time, row.expand(count, rows, columns), column.expand(count, rows, columns))
        return Coordinates(tuple(base + axis.reshape(1, 1, -1) for axis in axes))

    def following(self, first: int, count: int) -> int:
        """Return the rank or index after `count` whole frames that begin at `first`."""
        return first + count * (self.grid[0] * self.grid[1] if self.one_dimensional else 1)

    def end(self, base: int, following: int) -> int:
        """Return the first position after a segment whose next rank or index is `following`."""
        if self.one_dimensional:
            return base + following
        if following == 0:
            return base
        return base + max(self._time(following - 1) + 1, *self.grid)


class Rotation:
    """Looks up a model's rotation for coordinates and applies it.

    Rotated = (x1 c - x2 s, x2 c + x1 s) for the halves x1, x2 of the head dimension.
    """

    def __init__(self, table: RotaryTable) -> None:
        """Split the table by axis; the tables together are as large as the given one."""
        columns = table.cos.shape[1]
        axes = table.axes or (0,) * columns
        groups = [
            [column for column in range(columns) if axes[column] == axis]
            for axis in range(3 if table.axes else 1)
        ]
        self.tables = [
            torch.cat([table.cos[:, group], table.sin[:, group]], dim=1).contiguous()
            for group in groups
        ]
        order = [column for group in groups for column in group]
        self._order: Tensor | None = None
        if order != sorted(order):
            back = [order.index(column) for column in range(columns)]
            self._order = torch.tensor(back, device=table.cos.device)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return sum(table.untyped_storage().nbytes() for table in self.tables)

    @property
    def positions(self) -> int:
        """Number of positions in the tables."""
        return self.tables[0].shape[0]

    def cos_sin(self, axes: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Return cos and sin, each [H or 1, n, D / 2], for one layer's coordinates."""
        if len(axes) > 1:
            axes = torch.broadcast_tensors(*axes)
        found = [
            torch.nn.functional.embedding(axis, table).unflatten(-1, (2, -1))
            for axis, table in zip(axes, self.tables, strict=True)
        ]
        both = found[0] if len(found) == 1 else torch.cat(found, dim=-1)
        if self._order is not None:
            both = both[..., self._order]
        return both[..., 0, :], both[..., 1, :]


def rotate(source: Tensor, cos: Tensor, sin: Tensor, out: Tensor | None = None) -> Tensor:
    """Rotate [..., n, D] by cos, sin [..., n, D / 2] into `out` (another tensor than `source`)."""
    half = source.shape[-1] // 2
    first, second = source[..., :half], source[..., half:]
    if out is None:
        out = torch.empty_like(source)
    torch.mul(first, cos, out=out[..., :half])
    out[..., :half] -= second * sin
    torch.mul(second, cos, out=out[..., half:])
    out[..., half:] += first * sin
    return out
