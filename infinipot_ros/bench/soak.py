# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Very many frames through one memory, with a question now and then: nothing may grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import gc
import time

from infinipot_ros.bench.peak import resident_bytes
from infinipot_ros.memory import VideoMemory
import numpy as np
import torch

# What comes before this share of the frames is warm-up: allocators and tables fill.
WARM_UP = 0.2
# Resident memory is counted in pages and drifts with the allocator; a leak is far more.
RESIDENT_SLACK_BYTES = 4 * 2**20


@dataclass(frozen=True)
class SoakRow:
    """What was held after so many frames."""

    frames: int
    held_bytes: int
    held_tokens: int
    tensors: int
    tensor_bytes: int
    resident_bytes: int
    frame_ms: float


def soak(
    memory: VideoMemory, frames: int, samples: int = 50,
    ask: Callable[[VideoMemory], object] | None = None,
) -> list[SoakRow]:
    """Add `frames` frames and measure `samples` times, each time after `ask(memory)`."""
    height, width = memory.model.default_frame_size_px
    rgb = np.zeros((height, width, 3), np.uint8)
    rows: list[SoakRow] = []
    every = max(1, frames // samples)
    start = time.perf_counter()
    for index in range(1, frames + 1):
        memory.add_frame(rgb, stamp=index / 10)
        if index % every == 0:
            spent = (time.perf_counter() - start) / every
            if ask is not None:
                ask(memory)
            status = memory.status()
            count, size = live_tensors()
            rows.append(SoakRow(index, status.held_bytes, status.held_tokens, count, size,
                                resident_bytes(), round(spent * 1e3, 3)))
            start = time.perf_counter()
    return rows


def live_tensors() -> tuple[int, int]:
    """Return how many tensors this process holds and the bytes of their storages, each once."""
    gc.collect()
    sizes: dict[int, int] = {}
    count = 0
    for item in gc.get_objects():
        if type(item) is torch.Tensor or type(item) is torch.nn.Parameter:
            count += 1
            storage = item.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
    return count, sum(sizes.values())


def growth(rows: Sequence[SoakRow]) -> dict[str, int]:
    """Return by how much each figure grew from the end of the warm-up to its highest."""
    warm = rows[min(len(rows) - 1, int(len(rows) * WARM_UP)):]
    names = ('held_bytes', 'tensors', 'tensor_bytes', 'resident_bytes')
    return {name: max(getattr(row, name) for row in warm) - getattr(warm[0], name)
            for name in names}


def is_flat(rows: Sequence[SoakRow]) -> bool:
    """Tell whether nothing grew after the warm-up, resident memory but for its slack."""
    found = growth(rows)
    slack = {'resident_bytes': RESIDENT_SLACK_BYTES}
    return all(size <= slack.get(name, 0) for name, size in found.items())
