# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Attention of new tokens over pieces of a memory: keys are rotated here, at the moment of use.

Grouped queries are packed as [H, g Q, D], so that every key and value head is read once.
"""

from dataclasses import dataclass
from typing import Protocol

from infinipot_ros.memory.evidence import MassRecorder
from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.model import ModelShape
from infinipot_ros.memory.positions import Coordinates, rotate, Rotation
import torch
from torch import Tensor


@dataclass(frozen=True)
class Piece:
    """
    Rows `start` to `stop` of a segment's storage (prefix included) and where they stand.

    `hidden`: bool [L or 1, H or 1, n], tokens that are not to be attended to.
    """

    cache: LayerCache
    start: int
    stop: int
    coordinates: Coordinates
    hidden: Tensor | None = None

    @property
    def tokens(self) -> int:
        """Tokens in this piece."""
        return self.stop - self.start

    def keys(self, layer: int) -> Tensor:
        """Return the un-rotated keys [H, n, D] of one layer."""
        return self.cache.keys[layer][:, self.start:self.stop]


@dataclass(frozen=True)
class _Run:
    """Neighbouring rows of one storage."""

    cache: LayerCache
    start: int
    stop: int

    def values(self, layer: int) -> Tensor:
        return self.cache.values[layer][:, self.start:self.stop]


def _join(runs: list[_Run], run: _Run) -> None:
    """Append a run, or lengthen the last one where they are neighbours."""
    last = runs[-1] if runs else None
    if last is not None and last.cache is run.cache and last.stop == run.start:
        runs[-1] = _Run(run.cache, last.start, run.stop)
    else:
        runs.append(run)


class Workspace:
    """
    Room for rotated keys and joined values, allocated once and used by every pass.

    With `hold_all` there is room for the rotated keys of every layer, which an answer keeps from
    its first token to its last; without it one layer's, rotated anew for every pass.
    """

    def __init__(self, shape: ModelShape, tokens: int, hold_all: bool) -> None:
        """Allocate room for `tokens` tokens."""
        self.tokens = tokens
        self.hold_all = hold_all
        size = (shape.kv_heads, tokens, shape.head_dim)
        count = shape.layers if hold_all else 1
        self._keys = [
            torch.zeros(size, dtype=shape.dtype, device=shape.device) for _ in range(count)
        ]
        self.values = torch.zeros(size, dtype=shape.dtype, device=shape.device)

    @property
    def nbytes(self) -> int:
        """Bytes of storage held."""
        return sum(t.untyped_storage().nbytes() for t in (*self._keys, self.values))

    def keys(self, layer: int) -> Tensor:
        """Return the room for one layer's rotated keys, [H, tokens, D]."""
        return self._keys[layer if self.hold_all else 0]


class Watcher(Protocol):
    """What looks on while a pass goes through the layers."""

    def before(self, layer: int, query: Tensor) -> None:
        """See the un-rotated queries [query heads, Q, D] before a layer attends."""

    def after(
        self, layer: int, query: Tensor, keys: Tensor, scaling: float, mask: Tensor | None
    ) -> None:
        """See rotated queries [H, g Q, D] and keys [H, n, D], and which may see which."""


class Context:
    """
    The pieces that a run of passes attends to, followed by the tokens the passes add.

    Serves as the `AttentionStream` of those passes: `begin` one, hand it to the backbone, and
    `advance`. The new tokens' keys and values go to `target`, after what it has stored.
    """

    def __init__(
        self,
        pieces: list[Piece],
        target: LayerCache,
        rotation: Rotation,
        workspace: Workspace,
        hold: bool = False,
        recorder: MassRecorder | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """Take the pieces in the order in which they are to be read."""
        self.watcher = watcher
        self.pieces = [piece for piece in pieces if piece.tokens]
        self.target = target
        self.rotation = rotation
        self.workspace = workspace
        self.hold = hold and workspace.hold_all
        self.recorder = recorder
        self.context_tokens = sum(piece.tokens for piece in self.pieces)
        self.added = 0
        self._rotated: set[int] = set()
        self._added_axes: tuple[Tensor, ...] = ()
        self._new = 0
        self._new_axes: tuple[Tensor, ...] = ()
        self._turn: tuple[Tensor, Tensor] = (torch.empty(0), torch.empty(0))
        self._mask: Tensor | None = None
        self._hides = any(piece.hidden is not None for piece in self.pieces)
        self._runs: list[_Run] = []
        for piece in self.pieces:
            _join(self._runs, _Run(piece.cache, piece.start, piece.stop))

    def begin(self, coordinates: Coordinates, count: int) -> None:
        """Prepare a pass over `count` new tokens at `coordinates`, each seeing those before it."""
        if self.context_tokens + self.added + count > self.workspace.tokens:
            raise ValueError(
                f'{self.context_tokens + self.added + count} tokens do not fit a workspace of '
                f'{self.workspace.tokens}'
            )
        self._new = count
        self._new_axes = coordinates.of_layer(0)
        self._turn = self.rotation.cos_sin(self._new_axes)
        self._mask = None
        if count > 1:
            device = self.target.keys[0].device
            past = self.context_tokens + self.added
            self._mask = torch.ones(count, past + count, dtype=torch.bool, device=device)
            self._mask[:, past:].tril_()

    def advance(self) -> None:
        """Count the tokens of the pass that has ended among those read by the next."""
        axes = self._new_axes
        if self.added:
            pairs = zip(self._added_axes, axes, strict=True)
            axes = tuple(torch.cat(pair, dim=-1) for pair in pairs)
        self._added_axes = axes
        self.added += self._new
        self._new = 0

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float
    ) -> Tensor:
        """Store un-rotated key and value, rotate, and attend; see `AttentionStream`."""
        if self.watcher is not None:
            self.watcher.before(layer, query[0])
        cos, sin = self._turn
        self.target.write(layer, self.added, key[0], value[0])
        total = self.context_tokens + self.added + self._new
        keys = self.workspace.keys(layer)[:, :total]
        if layer not in self._rotated:
            self._rotate_context(layer, keys)
        rotate(key[0], cos, sin, out=keys[:, total - self._new:])
        heads, width = keys.shape[0], keys.shape[2]
        turned = rotate(query[0], cos, sin).reshape(heads, -1, width)
        if self.watcher is not None:
            mask = self._full_mask(layer, turned.shape[1] // self._new)
            self.watcher.after(layer, turned, keys, scaling, mask)
        if self._new == 1:
            out = self._attend_one(layer, turned, keys, scaling)
        else:
            out = torch.nn.functional.scaled_dot_product_attention(
                turned[None],
                keys[None],
                self._joined_values(layer, total)[None],
                attn_mask=self._full_mask(layer, turned.shape[1] // self._new),
                scale=scaling,
            )[0]
        return out.reshape(query.shape)

    def _rotate_context(self, layer: int, keys: Tensor) -> None:
        """Rotate every piece, and what earlier passes added, into `keys`."""
        at = 0
        for piece in self.pieces:
            cos, sin = self.rotation.cos_sin(piece.coordinates.of_layer(layer))
            rotate(piece.keys(layer), cos, sin, out=keys[:, at:at + piece.tokens])
            at += piece.tokens
        if self.added:
            start = self.target.prefix + self.target.stored_tokens
            cos, sin = self.rotation.cos_sin(self._added_axes)
            earlier = self.target.keys[layer][:, start:start + self.added]
            rotate(earlier, cos, sin, out=keys[:, at:at + self.added])
        if self.hold:
            self._rotated.add(layer)

    def _values(self, layer: int) -> list[Tensor]:
        """Return the values [H, n, D] to attend to, neighbours in one storage as one tensor."""
        runs = list(self._runs)
        start = self.target.prefix + self.target.stored_tokens
        _join(runs, _Run(self.target, start, start + self.added + self._new))
        return [run.values(layer) for run in runs]

    def _joined_values(self, layer: int, total: int) -> Tensor:
        values = self._values(layer)
        if len(values) == 1:
            return values[0]
        return torch.cat(values, dim=1, out=self.workspace.values[:, :total])

    def _hidden(self, layer: int) -> Tensor:
        """Return which tokens [H or 1, context + added + new] are not to be attended to."""
        heads = self.target.keys[layer].shape[0]
        device = self.target.keys[layer].device
        total = self.context_tokens + self.added + self._new
        hidden = torch.zeros(heads, total, dtype=torch.bool, device=device)
        at = 0
        for piece in self.pieces:
            if piece.hidden is not None:
                row = layer if piece.hidden.shape[0] > 1 else 0
                hidden[:, at:at + piece.tokens] = piece.hidden[row]
            at += piece.tokens
        return hidden

    def _full_mask(self, layer: int, groups: int) -> Tensor | None:
        """Return who may see whom, [g Q, total] or [1, H, g Q, total], for packed queries."""
        if self._mask is None:
            return None
        if self._mask.shape[0] == self._new:
            self._mask = self._mask.repeat(groups, 1)
        if self._hides:
            return (self._mask[None] & ~self._hidden(layer)[:, None])[None]
        return self._mask

    def _attend_one(self, layer: int, query: Tensor, keys: Tensor, scaling: float) -> Tensor:
        """Attend with one token's queries [H, g, D]: a matrix-vector product, its weights kept."""
        scores = torch.matmul(query, keys.transpose(1, 2)) * scaling
        if self._hides:
            scores.masked_fill_(self._hidden(layer)[:, None], float('-inf'))
        wide = torch.promote_types(scores.dtype, torch.float32)
        weights = torch.softmax(scores, dim=-1, dtype=wide)
        if self.recorder is not None:
            self.recorder.add(layer, weights)
        weights = weights.to(query.dtype)
        values = self._values(layer)
        at = values[0].shape[1]
        out = torch.matmul(weights[:, :, :at], values[0])
        for more in values[1:]:
            end = at + more.shape[1]
            out = torch.baddbmm(out, weights[:, :, at:end], more)
            at = end
        return out
