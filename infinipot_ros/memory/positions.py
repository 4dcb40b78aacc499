# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
From provenance to positions: what every token's key is rotated by, at the moment of use.

Keys are stored un-rotated, so positions depend only on what is in the cache. One-dimensional RoPE:
a token's index. M-RoPE: (S0 + rank, S0 + row, S0 + col); row and col are the token's own for ever,
rank is its frame's place among the frames that its head still keeps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from infinipot_ros.memory.model import RotaryTable
import torch
from torch import Tensor


@dataclass(frozen=True)
class Coordinates:
    """Positions of n tokens: per axis an integer tensor [L or 1, H or 1, n]."""

    axes: tuple[Tensor, ...]

    def pick(self, kept: Tensor) -> 'Coordinates':
        """Return those of the tokens [n] that are marked."""
        return Coordinates(tuple(axis[..., kept] for axis in self.axes))

    def of_layer(self, layer: int) -> tuple[Tensor, ...]:
        """Return the axes of one layer, each [H or 1, n]."""
        return tuple(axis[layer if axis.shape[0] > 1 else 0] for axis in self.axes)


def joined(parts: Sequence[Coordinates]) -> Coordinates:
    """Return the coordinates of all parts, one after the other."""
    return Coordinates(
        tuple(torch.cat(axes, dim=-1) for axes in zip(*(p.axes for p in parts), strict=True))
    )


def aligned_ranks(
    frame: Tensor,
    max_rank: int,
    recent_frames: int,
    attended: Tensor | None = None,
    top: int | None = None,
) -> tuple[Tensor, int]:
    """
    Return the rank of every token's frame [L, H, n] and the next free rank.

    frame: int [L, H, n], ascending along n. Ranks are dense per head and right-aligned: the newest
    frame has the same rank for all heads and layers, one below `top` (None: as many as the richest
    head has frames). Where a head keeps more than `max_rank` frames, those older than its
    `recent_frames` newest share ranks evenly, so that no rank reaches `max_rank`. attended: bool
    [L, H, n]; other tokens do not count, and their ranks mean nothing.
    """
    if frame.shape[-1] == 0:
        return frame.to(torch.int32), top or 0
    first = torch.ones_like(frame, dtype=torch.bool)
    torch.ne(frame[..., 1:], frame[..., :-1], out=first[..., 1:])
    if attended is not None:
        first &= attended
    dense = torch.cumsum(first, dim=-1, dtype=torch.int32)
    count = dense[..., -1:]
    age = count - dense
    if top is None:
        top = int(count.max())
    # A `top` that was given is one that was lowered already.
    if top >= max_rank:
        recent = min(recent_frames, max_rank - 1)
        crowd = (count - recent).clamp_min(1)
        squeezed = recent + (age - recent) * (max_rank - recent) // crowd
        age = torch.where((count > max_rank) & (age >= recent), squeezed, age)
        top = max_rank
    return (top - 1 - age).clamp_min_(0), top


class PositionScheme:
    """
    The positions of one kind of model.

    `grid` is (rows, columns) of a frame; `max_rank` = 0 means one-dimensional positions;
    `rank_step` is the distance in time between neighbouring ranks. `following` in the methods
    below is the next free rank (M-RoPE) or index (one-dimensional), counted from a base.
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

    def last_position(
        self, sinks: int, segments: Sequence[int], text_tokens: int, widest_grid: tuple[int, int]
    ) -> int:
        """Return the largest position of sinks, segments of so many tokens and a text."""
        if self.one_dimensional:
            return sinks + sum(segments) + text_tokens
        return sinks + len(segments) * self.end(0, self.max_rank, widest_grid) + text_tokens

    def _times(self, ranks: Tensor) -> Tensor:
        if self.rank_step == 1.0:
            return ranks
        return (ranks * self.rank_step).to(torch.int32)

    def text(self, count: int, base: int) -> Coordinates:
        """Return the positions of `count` tokens from `base` on: of text, or of sinks."""
        index = torch.arange(base, base + count, dtype=torch.int32, device=self.device)[None, None]
        return Coordinates((index,) if self.one_dimensional else (index, index, index))

    def past(
        self,
        frame: Tensor,
        patch: Tensor,
        base: int,
        room: int,
        recent_frames: int,
        attended: Tensor | None = None,
        top: int | None = None,
    ) -> tuple[Coordinates, int]:
        """
        Return the positions of a cumulative cache and what follows it.

        frame, patch: int [L, H, n]; `room` is the number of ranks to leave free for newer frames;
        attended, top: see `aligned_ranks`.
        """
        if self.one_dimensional:
            if attended is None:
                return self.text(frame.shape[-1], base), frame.shape[-1]
            counted = torch.cumsum(attended, dim=-1, dtype=torch.int32)
            most = counted[..., -1:]
            top = int(most.max()) if top is None else top
            return Coordinates(((base + top - 1 - most + counted).clamp_min_(0),)), top
        most_ranks = max(2, self.max_rank - room)
        ranks, top = aligned_ranks(frame, most_ranks, recent_frames, attended, top)
        columns = self.grid[1]
        row = torch.div(patch, columns, rounding_mode='floor')
        column = patch - row * columns
        return Coordinates((base + self._times(ranks), base + row, base + column)), top

    def frame(self, grid: tuple[int, int], base: int, following: int) -> Coordinates:
        """Return the positions of one whole frame."""
        rows, columns = grid
        if self.one_dimensional:
            return self.text(rows * columns, base + following)
        size, device = (rows, columns), self.device
        time = base + int(following * self.rank_step)
        axes = (
            torch.full(size, time, dtype=torch.int32, device=device),
            base + torch.arange(rows, dtype=torch.int32, device=device)[:, None].expand(size),
            base + torch.arange(columns, dtype=torch.int32, device=device).expand(size),
        )
        return Coordinates(tuple(axis.reshape(1, 1, -1) for axis in axes))

    def after(self, following: int, grid: tuple[int, int]) -> int:
        """Return what follows one more frame."""
        return following + (grid[0] * grid[1] if self.one_dimensional else 1)

    def end(
        self, base: int, following: int, widest_grid: tuple[int, int] | None = None
    ) -> int:
        """Return the first position after a segment; its widest frame may be a larger one."""
        if self.one_dimensional:
            return base + following
        if following == 0:
            return base
        last = int((following - 1) * self.rank_step)
        return base + max(last + 1, *(widest_grid or self.grid))


class Rotation:
    """
    Looks up a model's rotation for coordinates and applies it.

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
        """Return the number of positions in the tables."""
        return self.tables[0].shape[0]

    def cos_sin(self, axes: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Return cos and sin, each [H or 1, n, D / 2], for one layer's coordinates."""
        heads = max(axis.shape[0] for axis in axes)
        size = (heads, axes[0].shape[1])
        found = [
            torch.nn.functional.embedding(axis.expand(size), table).view(*size, 2, -1)
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
    # Named, because `out[...] -= x` writes the result a second time.
    turned_first, turned_second = out[..., :half], out[..., half:]
    torch.mul(first, cos, out=turned_first)
    turned_first -= second * sin
    torch.mul(second, cos, out=turned_second)
    turned_second += first * sin
    return out
