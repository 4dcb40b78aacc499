# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
A policy that cheats: it is told which patches show which thing, and keeps those.

It is the ceiling of what the model can read out of so many tokens, where the tokens are spread
over the things evenly; not the ceiling of what a policy can reach. Only benchmarks can name it,
as `infinipot_ros.bench.oracle:label_oracle`, and they have to give it the truth as an option.
"""

from __future__ import annotations

from infinipot_ros.demo.clips import cell_labels, NO_THING
from infinipot_ros.demo.world import Drive, Visible
from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.policies import keep_top, LayerView, register
import numpy as np
import torch
from torch import Tensor

NAME = 'infinipot_ros.bench.oracle:label_oracle'
OPTION = 'truth'
# Ranks of patches that show furniture, and of those that show nothing.
FIXTURE_RANK = 100_000.0
BACKGROUND_RANK = 1_000_000.0


def truth_of(drive: Drive) -> Tensor:
    """
    Return a rank for every patch of a drive, float32 [frames, patches]; lower is kept first.

    Every thing has its frames ranked, the best view first, and a patch has the rank of its frame
    among the frames of the thing it shows. So each thing gets its best view before any gets a
    second one.
    """
    views = [drive.visible(index) for index in range(drive.num_frames)]
    frames_of: dict[int, list[tuple[float, int, Visible]]] = {}
    for index, view in enumerate(views):
        for item in view:
            # A view that is cut by the edge of the picture comes after all whole ones.
            frames_of.setdefault(item.thing.index, []).append((-item.fraction, index, item))
    patches = len(cell_labels([])[0])
    ranks = np.full((drive.num_frames, patches), BACKGROUND_RANK, np.float32)
    for shown in frames_of.values():
        for rank, (_, index, item) in enumerate(sorted(shown, key=lambda entry: entry[:2])):
            cells = cells_showing(item)
            base = FIXTURE_RANK if item.thing.fixture else 0.0
            ranks[index, cells] = np.minimum(ranks[index, cells], base + rank)
    return torch.from_numpy(ranks)


def cells_showing(item: Visible) -> np.ndarray:
    """Return which patches show a thing, bool [patches]."""
    colour = cell_labels([item])[0]
    return np.asarray((colour >= 0) & (colour != NO_THING))


@register('label_oracle', 'told which patches show things, benchmark only', on_robot=False)
def select_label_oracle(view: LayerView, budget: int) -> Tensor:
    """Keep the newest frame, then patches by `truth_of`, newer ones first among equals."""
    ranks = view.options.get(OPTION)
    if not isinstance(ranks, Tensor):
        raise ConfigError(f'policy label_oracle needs policy_options[{OPTION!r}], see truth_of')
    rank = ranks.to(view.frame.device)[view.frame, view.patch].double()
    age = view.frame.double() / float(len(ranks) + 1)
    return keep_top(age - rank, budget, view.newest)
