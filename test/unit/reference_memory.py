# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
A memory written for clarity alone: lists of tokens, explicit coordinates, every head by itself.

It computes what the engine must compute, in double precision, and shares no code with it but the
model's own weight matrices. The policy is TaR alone (Eq. 5), by brute force over true coordinates.
"""

from dataclasses import dataclass
import math
from typing import Any

import torch
from torch import Tensor


@dataclass
class Token:
    """One kept token of one head."""

    frame: int
    row: int
    column: int
    key: Tensor
    value: Tensor


class ReferenceMemory:
    """Sinks, cumulative cache, buffer and instant cache of one camera."""

    def __init__(self, model: Any, grid: tuple[int, int], capacity: int, instant_frames: int,
                 recent_ratio: float = 0.125, keep_ratio: float = 0.75, theta: float = 100.0,
                 sections: tuple[int, ...] = (2, 1, 1)) -> None:
        self.model, self.grid, self.capacity = model, grid, capacity
        self.instant_frames = instant_frames
        self.patches = grid[0] * grid[1]
        frames = capacity / self.patches
        self.recent = max(1, round(recent_ratio * frames))
        self.kept = min(capacity - self.patches, int(keep_ratio * capacity))
        self.theta, self.sections = theta, sections
        shape = model.shape
        self.one_dimensional = shape.max_rank == 0
        self.layers, self.heads, self.width = shape.layers, shape.kv_heads, shape.head_dim
        self.groups = shape.query_heads // shape.kv_heads
        self.past: list[list[list[Token]]] = [
            [[] for _ in range(self.heads)] for _ in range(self.layers)]
        self.buffer: list[tuple[int, Tensor]] = []
        self.compressions = 0
        ids = model.prefix_ids()
        self.sink_count = len(ids)
        text = [self._text_position(i) for i in range(len(ids))]
        _, self.sinks = self._run(model.embed(ids), text, self._nothing())

    def _nothing(self) -> list[list[list[tuple[Any, Tensor, Tensor]]]]:
        return [[[] for _ in range(self.heads)] for _ in range(self.layers)]

    def _text_position(self, index: int) -> tuple[int, ...]:
        return (index,) if self.one_dimensional else (index, index, index)

    def _turn(self, vectors: Tensor, positions: list[tuple[int, ...]]) -> Tensor:
        """Rotate vectors [n, D] by their positions; angles in single precision, as models do."""
        axis_of = [0 if self.one_dimensional else axis
                   for axis, count in enumerate(self.sections) for _ in range(count)]
        places = torch.tensor([[p[axis] for axis in axis_of] for p in positions]).float()
        speeds = 1.0 / self.theta ** (torch.arange(0, self.width, 2).float() / self.width)
        cos, sin = (places * speeds).cos().double(), (places * speeds).sin().double()
        a, b = vectors.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def _run(self, states: Tensor, positions: list[tuple[int, ...]], context: Any) -> Any:
        """Run all layers; context[layer][head] is a list of (position, key, value)."""
        added = []
        count = len(states)
        for number, layer in enumerate(self.model._backbone.layers):
            attention = layer.self_attn
            normed = layer.input_layernorm(states)
            query = attention.q_proj(normed).view(count, -1, self.width)
            key = attention.k_proj(normed).view(count, self.heads, self.width)
            value = attention.v_proj(normed).view(count, self.heads, self.width)
            added.append((key, value))
            out = torch.zeros_like(query)
            for head in range(self.heads):
                old = context[number][head]
                keys = torch.stack([k for _, k, _ in old] + list(key[:, head]))
                values = torch.stack([v for _, _, v in old] + list(value[:, head]))
                keys = self._turn(keys, [p for p, _, _ in old] + positions)
                for group in range(self.groups):
                    one = head * self.groups + group
                    turned = self._turn(query[:, one], positions)
                    for i in range(count):
                        seen = len(old) + i + 1
                        scores = keys[:seen] @ turned[i] / math.sqrt(self.width)
                        out[i, one] = torch.softmax(scores, 0) @ values[:seen]
            states = states + attention.o_proj(out.flatten(1))
            states = states + layer.mlp(layer.post_attention_layernorm(states))
        return self.model._backbone.norm(states), added

    def _sink_context(self) -> Any:
        return [[[(self._text_position(i), keys[i, head], values[i, head])
                  for i in range(self.sink_count)] for head in range(self.heads)]
                for keys, values in self.sinks]

    def _past_context(self) -> tuple[Any, int]:
        """Return the cumulative cache with positions, and the next rank or index."""
        frames = [[sorted({t.frame for t in head}) for head in layer] for layer in self.past]
        top = max(len(head) for layer in frames for head in layer)
        context = self._nothing()
        start = self.sink_count
        for number, layer in enumerate(self.past):
            for head, tokens in enumerate(layer):
                mine = frames[number][head]
                for index, token in enumerate(tokens):
                    rank = top - len(mine) + mine.index(token.frame)
                    position: tuple[int, ...] = (
                        start + rank, start + token.row, start + token.column)
                    if self.one_dimensional:
                        position = (start + index,)
                    context[number][head].append((position, token.key, token.value))
        return context, (len(self.past[0][0]) if self.one_dimensional else top)

    def _frame_positions(self, following: int) -> list[tuple[int, ...]]:
        start = self.sink_count
        places = [(r, c) for r in range(self.grid[0]) for c in range(self.grid[1])]
        if self.one_dimensional:
            return [(start + following + index,) for index in range(len(places))]
        return [(start + following, start + r, start + c) for r, c in places]

    def add(self, frame: int, embeddings: Tensor) -> None:
        """Take a frame in."""
        self.buffer.append((frame, embeddings))
        if len(self.buffer) > self.instant_frames:
            self._remember(*self.buffer.pop(0))

    def _remember(self, frame: int, embeddings: Tensor) -> None:
        if len(self.past[0][0]) + self.patches > self.capacity:
            self._compress()
        context, following = self._past_context()
        whole = [[s + p for s, p in zip(*pair)] for pair in zip(self._sink_context(), context)]
        _, added = self._run(embeddings, self._frame_positions(following), whole)
        for number, (keys, values) in enumerate(added):
            for head in range(self.heads):
                for index in range(self.patches):
                    row, column = divmod(index, self.grid[1])
                    self.past[number][head].append(
                        Token(frame, row, column, keys[index, head], values[index, head]))

    def _compress(self) -> None:
        self.compressions += 1
        for layer in self.past:
            for head, tokens in enumerate(layer):
                newest = sorted({t.frame for t in tokens})[-self.recent:]
                recent = [t for t in tokens if t.frame in newest]
                scores = {}
                for index, token in enumerate(tokens):
                    if token.frame in newest:
                        continue
                    same = [r.key for r in recent
                            if (r.row, r.column) == (token.row, token.column)]
                    cosines = [torch.dot(token.key, k) / token.key.norm() / k.norm() for k in same]
                    scores[index] = -float(sum(cosines)) / len(cosines)
                best = sorted(scores, key=lambda i: -scores[i])[:self.kept - len(recent)]
                layer[head] = [t for i, t in enumerate(tokens) if i in best or t.frame in newest]

    def ask(self, ids: list[int], new_tokens: int) -> list[Tensor]:
        """Return the logits of each step of greedy decoding."""
        past, following = self._past_context()
        context = [[s + p for s, p in zip(*pair)] for pair in zip(self._sink_context(), past)]
        if self.buffer:
            positions = []
            for place in range(len(self.buffer)):
                positions += self._frame_positions(
                    place * (self.patches if self.one_dimensional else 1))
            features = torch.cat([embeddings for _, embeddings in self.buffer])
            _, instant = self._run(features, positions, self._sink_context())
            final = []
            for _ in self.buffer:
                final += self._frame_positions(following)
                following += self.patches if self.one_dimensional else 1
            for number, (keys, values) in enumerate(instant):
                for head in range(self.heads):
                    context[number][head] += [
                        (final[i], keys[i, head], values[i, head]) for i in range(len(final))]
        at = self.sink_count + (
            following if self.one_dimensional else max(following, *self.grid))
        found: list[Tensor] = []
        todo = list(ids)
        while len(found) < new_tokens:
            positions = [self._text_position(at + i) for i in range(len(todo))]
            states, added = self._run(self.model.embed(todo), positions, context)
            for number, (keys, values) in enumerate(added):
                for head in range(self.heads):
                    context[number][head] += [
                        (positions[i], keys[i, head], values[i, head]) for i in range(len(todo))]
            at += len(todo)
            found.append(self.model.logits(states[-1:])[0])
            todo = [int(found[-1].argmax())]
        return found
