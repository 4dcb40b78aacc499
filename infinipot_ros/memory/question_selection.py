# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
A question that reads only part of the past: retrieval (ReKV), pruning (FastV), subsampling.

Tokens that are not read stay where they are, hidden; the others get the positions of a shorter
past.
"""

from collections.abc import Sequence
from dataclasses import replace

from infinipot_ros.memory.attention import Piece, Watcher
from infinipot_ros.memory.camera_memory import CameraMemory
from infinipot_ros.memory.compression import Compression
from infinipot_ros.memory.construction import Construction
from infinipot_ros.memory.observation import attention_weights
from infinipot_ros.memory.policies import LayerView
from infinipot_ros.memory.policies.observed import FASTV_LAYER
from infinipot_ros.memory.policies.registry import Policy
from infinipot_ros.memory.positions import Coordinates
import torch
from torch import Tensor


class Selection:
    """
    Chooses, during a question's first pass, what of one camera's past is read.

    A policy that needs the question chooses in every layer as the question gets there; one that
    needs attention takes that of the pass's last token at layer FASTV_LAYER for all layers after
    it; any other chooses at once.
    """

    def __init__(
        self,
        build: Construction,
        compression: Compression,
        policy: Policy,
        camera: CameraMemory,
        base: int,
        first: int,
        attended: Tensor | None = None,
    ) -> None:
        """
        Prepare for a camera whose past stands at `base` and starts at token `first`.

        attended: bool [L, H, n], the tokens asked about, among which it chooses; None is all.
        """
        past, device = camera.past, camera.past.frame.device
        recent = compression.recent_frames(camera)
        plain, self.following = build.past_piece(
            camera, base, recent, attended=attended)
        size = past.frames.shape
        axes = tuple(
            axis.expand(size).to(torch.int32).contiguous() for axis in plain.coordinates.axes
        )
        hidden = torch.zeros(size, dtype=torch.bool, device=device)
        if attended is not None:
            hidden |= ~attended
        self.piece = Piece(past, plain.start, plain.stop, Coordinates(axes), hidden=hidden)
        self.tokens = min(compression.config.question_tokens, past.stored_tokens)
        self._build, self._compression, self._policy = build, compression, policy
        self._camera, self._base, self._first = camera, base, first
        self._recent, self._attended = recent, attended
        self._done: set[int] = set()
        if not {'question', 'attention'} & set(policy.required):
            for layer in range(size[0]):
                self._choose(layer)

    def before(self, layer: int, query: Tensor) -> None:
        """Choose a layer's tokens by the question's queries."""
        if 'question' in self._policy.required and layer not in self._done:
            self._choose(layer, question=query)

    def after(
        self, layer: int, query: Tensor, keys: Tensor, scaling: float, mask: Tensor | None
    ) -> None:
        """Choose for all later layers by the attention of the last token."""
        if 'attention' not in self._policy.required or layer != FASTV_LAYER or self._done:
            return
        weights = attention_weights(query, keys, scaling, mask)
        groups = self._build.model.shape.query_heads // weights.shape[0]
        last = weights.view(weights.shape[0], groups, -1, weights.shape[2])[:, :, -1].sum(1)
        drawn = last[:, self._first:self._first + self.piece.tokens]
        for later in range(layer + 1, self._build.model.shape.layers):
            self._choose(later, attention=drawn)

    def _choose(self, layer: int, **observed: Tensor) -> None:
        self._done.add(layer)
        camera, hidden = self._camera, self.piece.hidden
        if not self.tokens or hidden is None:
            return
        view = self._compression.view(camera, layer, {}, **observed)
        inside = None if self._attended is None else self._attended[layer]
        hidden[layer] = ~chosen_mask(self._policy, view, self.tokens, inside)
        part = slice(layer, layer + 1)
        coordinates, _ = self._build.scheme.past(
            camera.past.frames[part],
            camera.past.patches[part],
            self._base,
            self._build.rank_room,
            self._recent,
            attended=~hidden[part],
            top=self.following,
        )
        for axis, new in zip(self.piece.coordinates.axes, coordinates.axes, strict=True):
            axis[part] = new


def chosen_mask(policy: Policy, view: LayerView, tokens: int, inside: Tensor | None) -> Tensor:
    """
    Return what a policy picks of a layer, at most `tokens` a head, bool [H, N].

    inside: bool [H, N], the only tokens that it sees and picks; None is all. Heads that hold
    equally many of those choose together, others each for itself.
    """
    kept = torch.zeros_like(view.frame, dtype=torch.bool)
    if inside is None:
        return kept.scatter_(1, policy(view, tokens), True)
    counts = inside.sum(-1).tolist()
    heads = range(len(counts))
    groups = [slice(None)] if len(set(counts)) == 1 else [slice(h, h + 1) for h in heads]
    for group in groups:
        count = counts[group][0]
        if count:
            columns = inside[group].nonzero()[:, 1].view(-1, count)
            rows = policy(_part(view, group, columns), min(tokens, count))
            kept[group].scatter_(1, columns.gather(1, rows), True)
    return kept


def _part(view: LayerView, heads: slice, columns: Tensor) -> LayerView:
    """Return the view of some heads and, in each of them, of the tokens `columns` [h, n]."""

    def pick(tensor: Tensor) -> Tensor:
        part = tensor[heads]
        index = columns if part.dim() == 2 else columns[..., None].expand(-1, -1, part.shape[2])
        return part.gather(1, index)

    question = view.question
    if question is not None:
        grouped = question.reshape(view.num_heads, -1, *question.shape[1:])
        question = grouped[heads].flatten(0, 1)
    return replace(
        view,
        keys=pick(view.keys),
        values=pick(view.values),
        frame=pick(view.frame),
        patch=pick(view.patch),
        fresh=None if view.fresh is None else pick(view.fresh),
        attention=None if view.attention is None else pick(view.attention),
        question=question,
    )


class Watchers:
    """What looks on for several cameras as one watcher."""

    def __init__(self, each: Sequence[Watcher]) -> None:
        """Watch for all of them."""
        self.each = each

    def before(self, layer: int, query: Tensor) -> None:
        """See `Watcher.before`."""
        for one in self.each:
            one.before(layer, query)

    def after(
        self, layer: int, query: Tensor, keys: Tensor, scaling: float, mask: Tensor | None
    ) -> None:
        """See `Watcher.after`."""
        for one in self.each:
            one.after(layer, query, keys, scaling, mask)
