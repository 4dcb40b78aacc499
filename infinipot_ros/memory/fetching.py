# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A question that fetches frames from host memory, layer by layer (ReKV)."""

from collections.abc import Collection

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.attention import Piece
from infinipot_ros.memory.construction import Construction
from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.offload import HostStore
from infinipot_ros.memory.policies.registry import Policy
from infinipot_ros.memory.positions import Coordinates
import torch
from torch import Tensor


class Fetch:
    """
    Fills a room on the device with the frames that a question's first pass asks for.

    As the question's queries reach a layer, the stored frames are ranked by their mean keys; the
    best of them that fit are copied in time order, the least of those cut to fit. Every layer gets
    as many tokens and frames, so that positions after them do not wait for the choice.
    """

    def __init__(
        self,
        build: Construction,
        policy: Policy,
        store: HostStore,
        room: LayerCache,
        base: int,
        recent_frames: int,
        asked: Collection[int] | None = None,
    ) -> None:
        """
        Prepare for a store whose fetched frames stand at `base`.

        asked: the numbers of the frames asked about, among which it chooses; None is all.
        """
        places = [
            place for place, frame in enumerate(store.frames) if asked is None or frame in asked
        ]
        self._places = torch.tensor(places, dtype=torch.int64)
        self._all = asked is None
        size = store.tokens_per_frame
        self.tokens = min(room.capacity, len(places) * size)
        self._counts = [size] * (self.tokens // size)
        if self.tokens % size:
            self._counts.append(self.tokens % size)
        self._build, self._policy, self._store, self._room = build, policy, store, room
        self._base, self._recent = base, recent_frames
        self._done: set[int] = set()
        device = room.frame.device
        index = torch.arange(self.tokens, dtype=torch.int32, device=device)[None, None]
        plain, self.following = self._positions(index // size, index % size, None)
        shape = (len(room.keys), 1, self.tokens)
        axes = tuple(axis.expand(shape).contiguous() for axis in plain.axes)
        self.piece = Piece(room, 0, self.tokens, Coordinates(axes))

    @property
    def frames(self) -> Tensor:
        """Whose tokens were fetched, [L, H, tokens]."""
        return self._room.frame[:, :, : self.tokens]

    def _positions(
        self, frames: Tensor, patches: Tensor, top: int | None
    ) -> tuple[Coordinates, int]:
        build = self._build
        return build.scheme.past(
            frames, patches, self._base, build.rank_room, self._recent, top=top)

    def before(self, layer: int, query: Tensor) -> None:
        """Fetch a layer's frames by the question's queries."""
        if layer in self._done or not self.tokens:
            return
        self._done.add(layer)
        places, counts = self._choose(layer, query)
        self._store.fetch(layer, places, counts, self._room)
        part = slice(layer, layer + 1)
        room, one = self._room, slice(0, 1)
        coordinates, _ = self._positions(
            room.frame[part, one, : self.tokens], room.patch[part, one, : self.tokens],
            self.following)
        for axis, new in zip(self.piece.coordinates.axes, coordinates.axes, strict=True):
            axis[part] = new

    def after(
        self, layer: int, query: Tensor, keys: Tensor, scaling: float, mask: Tensor | None
    ) -> None:
        """Need nothing."""

    def _choose(self, layer: int, query: Tensor) -> tuple[list[int], list[int]]:
        """Return the places of the frames to fetch, rising, and the tokens of each."""
        rank = self._policy.ranks_frames
        assert rank is not None  # Or there would be no store.
        means = self._store.means(layer)
        scores = rank(means if self._all else means[self._places], query)
        if scores.shape != self._places.shape:
            raise ConfigError(
                f'policy {self._policy.name} ranked {list(scores.shape)} frames, and has to rank '
                f'{len(self._places)}')
        order = scores.argsort(descending=True, stable=True)[: len(self._counts)]
        best = self._places[order].tolist()
        fetched = sorted(zip(best, self._counts, strict=True))
        return [place for place, _ in fetched], [count for _, count in fetched]
