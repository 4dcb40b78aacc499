# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Time and working memory of a compression: ours, and TaR by comparing all pairs of frames.

All pairs is how the published code computes TaR: normalised past and recent keys are multiplied in
one tensor [1, H, r, past frames, P, D] and summed over D. The rest (VaN, the union) is the same
code for both, and so are the tokens kept, up to rounding. Both run in one process, taking turns.

Peak extra memory is the most that was allocated at one time beyond what was there before. On a CPU
it comes from the allocations and releases that PyTorch's own allocator reports to its profiler,
the buffers inside its operations included; on CUDA from the allocator's peak counter. Times are
taken in separate passes without the profiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
import statistics
import time

from infinipot_ros.bench.machine import this_machine
from infinipot_ros.bench.tables import plain_table
from infinipot_ros.memory.policies import LayerView, POLICIES, van_scores
from infinipot_ros.memory.policies.infinipot_v import share_of, union
from infinipot_ros.memory.policies.registry import Select
import torch
from torch import Tensor
from torch.profiler import profile, ProfilerActivity

MIB = 2**20


@dataclass(frozen=True)
class Setting:
    """A cache to compress. The default: Qwen2-VL-7B's shape, 31 frames of 14 x 14 down to 23."""

    layers: int = 28
    heads: int = 4
    head_dim: int = 128
    frames: int = 31
    grid: tuple[int, int] = (14, 14)
    kept_frames: int = 23
    recent_frames: int = 4
    dtype: torch.dtype = torch.float32
    device: str = 'cpu'

    @property
    def tokens(self) -> int:
        """Tokens before the compression."""
        return self.frames * self.grid[0] * self.grid[1]

    @property
    def budget(self) -> int:
        """Tokens after it."""
        return self.kept_frames * self.grid[0] * self.grid[1]


@dataclass(frozen=True)
class Cost:
    """What one way of choosing costs for all layers of a compression."""

    way: str
    seconds: float
    peak_bytes: int


def choose_all_pairs(view: LayerView, budget: int) -> Tensor:
    """Keep what infinipot_v keeps, with TaR from all pairs; whole frames in order only."""
    return union(
        view, all_pairs_tar(view), van_scores(view), budget, share_of(view.alpha, budget)
    )


def all_pairs_tar(view: LayerView) -> Tensor:
    """Return TaR as the published code computes it, [H, N]; recent tokens get +inf."""
    past = view.num_tokens - view.recent_frames * view.tokens_per_frame

    def by_frame(keys: Tensor) -> Tensor:
        unit = keys / (keys.norm(dim=-1, keepdim=True) + 1e-9)
        return unit.reshape(1, view.num_heads, -1, view.tokens_per_frame, keys.shape[-1])

    recent_keys, past_keys = by_frame(view.keys[:, past:]), by_frame(view.keys[:, :past])
    pairs = (recent_keys.unsqueeze(3) * past_keys.unsqueeze(2)).sum(dim=-1)
    scores = view.keys.new_full(view.frame.shape, torch.inf)
    scores[:, :past] = -pairs.mean(dim=2).reshape(view.num_heads, -1)
    return scores


def whole_frames(setting: Setting, layer: int) -> LayerView:
    """Return a layer before its first compression: every frame whole, in order."""
    generator = torch.Generator().manual_seed(layer)
    cells = setting.grid[0] * setting.grid[1]
    shape = (setting.heads, setting.tokens, setting.head_dim)
    keys, values = (
        torch.randn(shape, generator=generator).to(setting.device, setting.dtype) for _ in 'kv'
    )
    place = torch.arange(setting.tokens, device=setting.device).repeat(setting.heads, 1)
    return LayerView(
        keys, values, place // cells, place % cells, setting.grid, layer, setting.layers,
        setting.recent_frames,
    )


def survivors(setting: Setting, layer: int) -> LayerView:
    """Return a layer after many compressions: each head holds its own part of an older past."""
    view = whole_frames(setting, layer)
    generator = torch.Generator().manual_seed(layer)
    cells = setting.grid[0] * setting.grid[1]
    old = setting.budget
    # Of ten times as many frames as fit, a random part for every head.
    chance = torch.rand(setting.heads, 10 * old, generator=generator)
    place = chance.topk(old).indices.sort().values.to(setting.device)
    frame, patch = view.frame.clone(), view.patch.clone()
    frame[:, :old], patch[:, :old] = place // cells, place % cells
    frame[:, old:] += 10 * setting.kept_frames
    return LayerView(
        view.keys, view.values, frame, patch, setting.grid, layer, setting.layers,
        setting.recent_frames,
    )


def peak_extra_bytes(work: Callable[[], object], device: str = 'cpu') -> int:
    """Run `work` and return the most memory that it had allocated at one time."""
    if torch.device(device).type == 'cuda':
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recording:
        work()
    assert recording.profiler is not None
    events = [e for e in recording.profiler.kineto_results.events() if e.name() == '[memory]']
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def shared_tokens(setting: Setting) -> float:
    """Return the share of kept tokens that both ways keep, in the first layer."""
    view = whole_frames(setting, 0)
    kept = torch.zeros((2, *view.frame.shape), dtype=torch.bool, device=view.keys.device)
    kept[0].scatter_(1, POLICIES['infinipot_v'](view, setting.budget), True)
    kept[1].scatter_(1, choose_all_pairs(view, setting.budget), True)
    return float((kept[0] & kept[1]).sum() / kept[0].sum())


def measure(setting: Setting, repeats: int = 5) -> list[Cost]:
    """Measure both ways, and ours on a cache that was compressed many times before."""
    ours = POLICIES['infinipot_v']
    whole = [whole_frames(setting, layer) for layer in range(setting.layers)]
    scattered = [survivors(setting, layer) for layer in range(setting.layers)]

    def run(select: Select, views: Sequence[LayerView]) -> Callable[[], None]:
        def work() -> None:
            for view in views:
                # A new view each time: what one computes about itself once is part of the cost.
                select(replace(view), setting.budget)
        return work

    ways = {
        'ours': run(ours, whole),
        'all pairs': run(choose_all_pairs, whole),
        'ours, compressed before': run(ours, scattered),
    }
    peaks = {way: peak_extra_bytes(work, setting.device) for way, work in ways.items()}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, work in ways.items():
            seconds[way].append(_seconds(work, setting.device))
    return [Cost(way, statistics.median(seconds[way]), peaks[way]) for way in ways]


def _seconds(work: Callable[[], object], device: str) -> float:
    cuda = torch.device(device).type == 'cuda'
    if cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def report(setting: Setting, costs: Sequence[Cost], shared: float) -> str:
    """Return the table, the ratios and what was measured, as text."""
    ours, all_pairs = costs[0], costs[1]
    rows = [
        [
            cost.way,
            f'{1000 * cost.seconds:.1f}',
            f'{1000 * cost.seconds / setting.layers:.2f}',
            f'{cost.peak_bytes / MIB:.1f}',
        ]
        for cost in costs
    ]
    memory = ours.peak_bytes / all_pairs.peak_bytes
    duration = ours.seconds / all_pairs.seconds
    machine = this_machine()
    return '\n'.join([
        f'{setting.layers} layers, {setting.heads} KV heads, D {setting.head_dim}, '
        f'{str(setting.dtype).removeprefix("torch.")} on {setting.device}; P = '
        f'{setting.grid[0]} x {setting.grid[1]}, {setting.frames} -> {setting.kept_frames} frames '
        f'= {setting.tokens} -> {setting.budget} tokens, r = {setting.recent_frames}',
        f'{machine.processor}, {torch.get_num_threads()} thread(s), torch {machine.torch}, '
        f'commit {machine.commit}',
        '',
        plain_table(['way', 'ms', 'ms per layer', 'peak extra MiB'], rows),
        '',
        f'kept by both ways: {100 * shared:.2f} % of the tokens',
        f'peak extra memory, ours / all pairs: {memory:.3f} (target: at most 0.200) '
        f'{"reached" if memory <= 0.2 else "MISSED"}',
        f'time, ours / all pairs: {duration:.3f} (target: at most 1.000) '
        f'{"reached" if duration <= 1.0 else "MISSED"}',
    ])


def passed(costs: Sequence[Cost]) -> bool:
    """Return whether ours takes a fifth of the memory and no more time."""
    ours, all_pairs = costs[0], costs[1]
    return 5 * ours.peak_bytes <= all_pairs.peak_bytes and ours.seconds <= all_pairs.seconds
