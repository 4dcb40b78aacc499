# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which frames an answer rests on: its attention over the kept tokens, summed per frame."""

from dataclasses import dataclass

from infinipot_ros.memory.frame_table import FrameTable
from infinipot_ros.memory.model import ModelShape
from infinipot_ros.memory.records import Evidence
import torch
from torch import Tensor


class MassRecorder:
    """
    Adds up the attention that single query tokens pay to every token, per layer and head.

    A token's attention is only noted until `settle` says that it led to a token of the answer.
    """

    def __init__(self, layers: tuple[int, ...], shape: ModelShape, tokens: int) -> None:
        """Allocate two [chosen layers, H, tokens] in float32."""
        self.layers = layers
        self._row = {layer: row for row, layer in enumerate(layers)}
        size = (len(layers), shape.kv_heads, tokens)
        self.mass = torch.zeros(size, dtype=torch.float32, device=shape.device)
        self._noted = torch.zeros_like(self.mass)
        self._tokens = 0
        self.queries = 0
        self.query_heads = shape.query_heads

    @property
    def nbytes(self) -> int:
        """Bytes of storage held."""
        return self.mass.untyped_storage().nbytes() + self._noted.untyped_storage().nbytes()

    def clear(self) -> None:
        """Forget what was added."""
        self.mass.zero_()
        self.queries = 0

    def add(self, layer: int, weights: Tensor) -> None:
        """Note the weights [H, g, n] of one query token."""
        row = self._row.get(layer)
        if row is not None:
            self._tokens = weights.shape[2]
            self._noted[row, :, : self._tokens] = weights.sum(dim=1)

    def settle(self) -> None:
        """Count what was last noted."""
        self.mass[:, :, : self._tokens] += self._noted[:, :, : self._tokens]
        self.queries += 1

    def shares(self, tokens: int) -> Tensor:
        """Return the share [chosen layers, H, tokens] of all attention counted; the whole is 1."""
        total = max(1, self.queries) * len(self.layers) * self.query_heads
        return self.mass[:, :, :tokens] / total


@dataclass(frozen=True)
class Labelled:
    """
    A stretch of the context and the frame of each of its tokens.

    frames: int [L or 1, H or 1, tokens], or None for tokens that belong to no frame.
    """

    tokens: int
    frames: Tensor | None


@dataclass(frozen=True)
class Attended:
    """
    Attention by frame; with `other` (sinks and text) it sums to 1.

    `tokens` is how many tokens of the frame there were, the mean over layers and heads.
    """

    mass: dict[int, float]
    tokens: dict[int, float]
    other: float


def attended_frames(recorder: MassRecorder, stretches: list[Labelled], total: int) -> Attended:
    """Sum a recorder's shares over `total` tokens by frame."""
    if recorder.queries == 0:
        return Attended({}, {}, 0.0)
    shares = recorder.shares(total)
    chosen = list(recorder.layers)
    mass: dict[int, float] = {}
    tokens: dict[int, float] = {}
    at, labelled = 0, 0.0
    for stretch in stretches:
        part = shares[:, :, at:at + stretch.tokens]
        at += stretch.tokens
        if stretch.frames is None or stretch.tokens == 0:
            continue
        frames = stretch.frames[chosen] if stretch.frames.shape[0] > 1 else stretch.frames
        ids, place = torch.unique(frames.expand(part.shape), return_inverse=True)
        sums = torch.zeros(len(ids), dtype=torch.float64, device=part.device)
        sums.index_add_(0, place.flatten(), part.flatten().double())
        counts = torch.bincount(place.flatten(), minlength=len(ids))
        caches = part.shape[0] * part.shape[1]
        labelled += float(sums.sum())
        for frame, share, count in zip(ids.tolist(), sums.tolist(), counts.tolist(), strict=True):
            mass[frame] = mass.get(frame, 0.0) + share
            tokens[frame] = tokens.get(frame, 0.0) + count / caches
    return Attended(mass, tokens, float(shares.double().sum()) - labelled)


def evidence_list(
    attended: Attended, table: FrameTable, cameras: tuple[str, ...], most: int
) -> list[Evidence]:
    """Return the frames with the largest share of attention, the largest first."""
    found: list[Evidence] = []
    for frame, share in sorted(attended.mass.items(), key=lambda item: (-item[1], -item[0])):
        if len(found) == most:
            break
        index = table.find(frame)
        if index is None:
            continue
        row = table.describe(index, cameras)
        found.append(
            Evidence(
                frame=frame,
                stamp_ns=row.stamp_ns,
                camera=row.camera,
                frame_id=row.frame_id,
                pose=row.pose,
                relevance=share,
                relevance_per_token=share / attended.tokens[frame],
                thumbnail=table.thumbnail(index),
            )
        )
    return found
