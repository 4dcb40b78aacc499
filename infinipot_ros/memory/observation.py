# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What some policies need beyond keys and values: attention drawn, rotated keys."""

from infinipot_ros.memory.attention import Context, Piece
from infinipot_ros.memory.camera_memory import CameraMemory
from infinipot_ros.memory.construction import Construction
from infinipot_ros.memory.policies.registry import Policy
from infinipot_ros.memory.positions import rotate
import torch
from torch import Tensor


def attention_weights(
    query: Tensor, keys: Tensor, scaling: float, mask: Tensor | None
) -> Tensor:
    """Return the weights [H, queries, n] of queries [H, queries, D] over keys [H, n, D]."""
    scores = torch.matmul(query, keys.transpose(1, 2)) * scaling
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is not None:
        scores = scores.masked_fill(~(mask[0] if mask.dim() == 4 else mask), float('-inf'))
    return torch.softmax(scores, dim=-1)


class QueryWindow:
    """Watches a frame pass and notes the queries of its last tokens (SnapKV's window)."""

    def __init__(self, tokens: int) -> None:
        """Note up to `tokens` tokens."""
        self.tokens = tokens
        self.noted: list[Tensor] = []

    def before(self, layer: int, query: Tensor) -> None:
        """Note a layer's queries."""
        self.noted.append(query[:, -self.tokens:])

    def after(
        self, layer: int, query: Tensor, keys: Tensor, scaling: float, mask: Tensor | None
    ) -> None:
        """Need nothing."""

    def settle(self, camera: CameraMemory) -> None:
        """Put what was noted behind the queries the camera holds."""
        for held, new in zip(camera.window, self.noted, strict=True):
            held.copy_(torch.cat([held, new], dim=1)[:, -self.tokens:])


class PromptObserver:
    """Watches a prompt pass and sums the attention its tokens pay to a stretch of the context."""

    def __init__(self, first: int, count: int) -> None:
        """Look at `count` tokens from `first` on."""
        self.first, self.count = first, count
        self.drawn: list[Tensor] = []

    def before(self, layer: int, query: Tensor) -> None:
        """Need nothing."""

    def after(
        self, layer: int, query: Tensor, keys: Tensor, scaling: float, mask: Tensor | None
    ) -> None:
        """Sum the weights over a layer's queries: [H, count]."""
        weights = attention_weights(query, keys, scaling, mask)
        self.drawn.append(weights[:, :, self.first:self.first + self.count].sum(1))


class Observation:
    """Gives a policy the optional fields of LayerView that it names."""

    def __init__(self, build: Construction) -> None:
        """Observe with one memory's passes."""
        self.build = build

    def __call__(
        self, camera: CameraMemory, policy: Policy, recent_frames: int
    ) -> list[dict[str, Tensor]]:
        """Return the fields for every layer."""
        wanted = {*policy.required, *policy.optional}
        layers = range(self.build.model.shape.layers)
        found: list[dict[str, Tensor]] = [{} for _ in layers]
        if not wanted & {'attention', 'rotated_keys'}:
            return found
        piece, following = self.build.past_piece(camera, self.build.sink_tokens, recent_frames)
        if 'rotated_keys' in wanted:
            for layer in layers:
                found[layer]['rotated_keys'] = self._rotated(piece, layer)
        if 'attention' in wanted:
            drawn = (
                self._prompt_attention(camera, piece, following, policy.observe_prompt)
                if policy.observe_prompt
                else [self._window_attention(camera, piece, layer) for layer in layers]
            )
            for layer in layers:
                found[layer]['attention'] = drawn[layer]
        return found

    def _rotated(self, piece: Piece, layer: int) -> Tensor:
        cos, sin = self.build.rotation.cos_sin(piece.coordinates.of_layer(layer))
        return rotate(piece.keys(layer), cos, sin)

    def _window_attention(self, camera: CameraMemory, piece: Piece, layer: int) -> Tensor:
        """Return what the last tokens' queries pay to the cumulative cache, [H, n]."""
        sinks = self.build.sink_piece(camera)
        keys = torch.cat([self._rotated(sinks, layer), self._rotated(piece, layer)], dim=1)
        heads, total, width = keys.shape
        queries = camera.window[layer]
        count = queries.shape[1]
        cos, sin = self.build.rotation.cos_sin(piece.coordinates.of_layer(layer))
        grouped = queries.reshape(heads, -1, count, width)
        turned = rotate(grouped, cos[:, None, -count:], sin[:, None, -count:])
        causal = torch.ones(count, total, dtype=torch.bool, device=keys.device)
        causal[:, total - count:].tril_()
        groups = grouped.shape[1]
        weights = attention_weights(
            turned.reshape(heads, -1, width), keys, width**-0.5, causal.repeat(groups, 1)
        )
        return weights[:, :, sinks.tokens:].sum(1)

    def _prompt_attention(
        self, camera: CameraMemory, piece: Piece, following: int, prompt: str
    ) -> list[Tensor]:
        build = self.build
        ids = build.model.suffix_ids(prompt)[: build.scratch.capacity]
        watcher = PromptObserver(build.sink_tokens, piece.tokens)
        context = Context(
            [build.sink_piece(camera), piece],
            build.scratch,
            build.rotation,
            build.workspace,
            watcher=watcher,
        )
        base = build.scheme.end(build.sink_tokens, following, build.scheme.grid)
        context.begin(build.scheme.text(len(ids), base), len(ids))
        build.model.backbone(build.model.embed(ids), context)
        return watcher.drawn
