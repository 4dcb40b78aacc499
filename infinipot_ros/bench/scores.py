# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Tell how well scores part things from background, head by head, and what policies keep.

Scores are looked at where nothing has selected yet: past tokens that no compression has judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infinipot_ros.bench.methods import Method
from infinipot_ros.bench.oracle import (
    BACKGROUND_RANK,
    cells_showing,
    FIXTURE_RANK,
    truth_of,
)
from infinipot_ros.bench.probe import Probe
from infinipot_ros.bench.retention import few_frames_allowed
from infinipot_ros.bench.shared_vision import SharedVision
from infinipot_ros.bench.streams import draw_frames, Stream
from infinipot_ros.demo.clips import cell_labels, IGNORED
from infinipot_ros.demo.world import Drive
from infinipot_ros.memory import VideoMemory
from infinipot_ros.memory.model import VisionLanguageModel
from infinipot_ros.memory.policies import LayerView, tar_scores
from infinipot_ros.memory.policies.rows import cosines_to_rows, row_norms
from infinipot_ros.memory.policies.tar import mean_recent_keys
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BACKGROUND, FIXTURE, TARGET, PARTIAL = range(4)
# The memory whose scores are looked at; what it keeps does not matter for fresh tokens.
SCORED = Method('tar', 'tar')

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ScoreRow:
    """
    How one head's scores rank things above background on one stream.

    An AUC of 0.5 is chance, below it things score lower than background. The cosines are means
    over fresh past tokens with the recent frames' keys: at the same patch, and at a wrong one.
    """

    setting: str
    seed: int
    layer: int
    head: int
    tar_auc: float
    van_auc: float
    background_same_patch: float
    background_wrong_patch: float
    things_same_patch: float
    tokens: int


@dataclass(frozen=True)
class KeptRow:
    """
    What a policy holds after the last compression of a stream, in percent of its tokens.

    `covered`: percent of (thing seen so far, layer, head) that still hold a token of the thing.
    """

    setting: str
    seed: int
    policy: str
    target: float
    fixture: float
    background: float
    covered: float


def kinds_of(drive: Drive) -> Tensor:
    """Return what every patch of a drive shows, int64 [frames, patches]."""
    rank = truth_of(drive)
    kinds = torch.full(rank.shape, BACKGROUND)
    kinds[rank < BACKGROUND_RANK] = FIXTURE
    kinds[rank < FIXTURE_RANK] = TARGET
    for index in range(drive.num_frames):
        partial = torch.from_numpy(cell_labels(drive.visible(index))[0] == IGNORED)
        kinds[index][partial & (kinds[index] == BACKGROUND)] = PARTIAL
    return kinds


def things_on(drive: Drive) -> dict[int, list[tuple[int, int]]]:
    """Return, for each thing that can be asked about, the (frame, patch) that show it."""
    places: dict[int, list[tuple[int, int]]] = {}
    for index in range(drive.num_frames):
        for item in drive.visible(index):
            if not item.thing.fixture:
                for patch in np.flatnonzero(cells_showing(item)):
                    places.setdefault(item.thing.index, []).append((index, int(patch)))
    return places


def auc(things: Floats, background: Floats) -> float:
    """Return the chance that a thing scores above background, ties half; NaN without both."""
    if not len(things) or not len(background):
        return float('nan')
    both = np.concatenate([things, background])
    _, place, counts = np.unique(both, return_inverse=True, return_counts=True)
    # The mean rank of equal values.
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    above = ranks[:len(things)].sum() - len(things) * (len(things) + 1) / 2
    return float(above / (len(things) * len(background)))


def look_at(
    model: VisionLanguageModel, stream: Stream, tokens: int, policies: Sequence[str],
) -> tuple[list[ScoreRow], list[KeptRow]]:
    """Return the scores of a stream's fresh tokens, and what each policy has kept at its end."""
    drive = stream.drive()
    frames = draw_frames(drive)
    shared = SharedVision(model)
    kinds = kinds_of(drive)
    samples = _Samples(kinds)
    _show(shared, frames, SCORED, tokens, samples.take)
    kept = []
    for policy in policies:
        last: dict[int, Tensor] = {}

        def remember(view: LayerView, rows: Tensor, last: dict[int, Tensor] = last) -> None:
            last[view.layer] = torch.stack(
                [view.frame.gather(1, rows), view.patch.gather(1, rows)])

        _show(shared, frames, Method(policy, policy), tokens, remember)
        kept.append(_kept(stream, policy, torch.stack([last[k] for k in sorted(last)]), kinds,
                          things_on(drive)))
    return samples.rows(stream), kept


def _show(
    model: SharedVision, frames: Sequence[np.ndarray], method: Method, tokens: int, watch: object,
) -> None:
    with Probe(method.policy, watch) as name, few_frames_allowed():  # type: ignore[arg-type]
        config = Method(name, name, method.settings).config(tokens, {})
        memory = VideoMemory(model, config)
        for index, rgb in enumerate(frames):
            memory.add_frame(rgb, stamp=float(index))


class _Samples:
    """Scores and kinds of all fresh past tokens that go by, for each layer and head."""

    def __init__(self, kinds: Tensor) -> None:
        self._kinds = kinds
        self._parts: dict[tuple[int, int], list[Floats]] = {}

    def take(self, view: LayerView, _: Tensor) -> None:
        fresh = torch.ones_like(view.recent) if view.fresh is None else view.fresh
        chosen = fresh & ~view.recent
        recent = mean_recent_keys(view)
        wrong = (view.patch + 1 + view.frame % (view.tokens_per_frame - 1)) % view.tokens_per_frame
        columns = torch.stack([
            self._kinds[view.frame, view.patch].double(), tar_scores(view).double(),
            row_norms(view.values).double(),
            cosines_to_rows(view.keys, recent, view.patch).double(),
            cosines_to_rows(view.keys, recent, wrong).double()], dim=-1)
        for head in range(view.num_heads):
            self._parts.setdefault((view.layer, head), []).append(
                columns[head][chosen[head]].cpu().numpy())

    def rows(self, stream: Stream) -> list[ScoreRow]:
        return [self._row(stream, layer, head, np.concatenate(parts))
                for (layer, head), parts in sorted(self._parts.items())]

    @staticmethod
    def _row(stream: Stream, layer: int, head: int, table: Floats) -> ScoreRow:
        kind, tar, van, same, wrong = table.T
        things, walls = kind == TARGET, kind == BACKGROUND

        def mean(values: Floats) -> float:
            return round(float(values.mean()), 4) if len(values) else float('nan')

        return ScoreRow(
            stream.setting, stream.seed, layer, head, round(auc(tar[things], tar[walls]), 4),
            round(auc(van[things], van[walls]), 4), mean(same[walls]), mean(wrong[walls]),
            mean(same[things]), len(table))


def _kept(
    stream: Stream, policy: str, held: Tensor, kinds: Tensor,
    places: dict[int, list[tuple[int, int]]],
) -> KeptRow:
    """Judge what is held: [layers, (frame, patch), heads, tokens]."""
    frame, patch = held[:, 0], held[:, 1]
    kind = kinds[frame, patch]
    count = kinds.shape[1]
    newest = int(frame.max())
    ids = frame * count + patch
    covered = []
    for shown in places.values():
        mine = torch.tensor([index * count + cell for index, cell in shown if index <= newest])
        if len(mine):
            covered.append(torch.isin(ids, mine).any(-1).double().mean())

    def percent(wanted: int) -> float:
        return round(100 * float((kind == wanted).double().mean()), 2)

    return KeptRow(stream.setting, stream.seed, policy, percent(TARGET), percent(FIXTURE),
                   percent(BACKGROUND),
                   round(100 * float(torch.stack(covered).mean()), 2) if covered else float('nan'))
