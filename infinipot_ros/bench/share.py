# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
What part of the time per frame goes into compression, over whole cycles of compressions.

A cycle is the frames from behind one compression to behind the next. Frames are what the demo's
camera publishes on a drive, or noise of the size that the model reads; they pass the vision
encoder. Compression is all that happens only because the memory was full: choosing, moving what is
kept, and counting it in the table of frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
import itertools
import time

from infinipot_ros.bench.random_models import memory_model, stock_model
from infinipot_ros.bench.stopwatch import stopwatch, synchronize
from infinipot_ros.bench.tables import plain_table
from infinipot_ros.demo.world import Drive
from infinipot_ros.memory import MemoryConfig, VideoMemory
from infinipot_ros.memory.compression import Compression
from infinipot_ros.memory.model import RgbImage
import numpy as np
import torch

TARGET = 0.005
_AMPLE_MIB = 1_000_000.0
_DRIVE_SCALE = 4


@dataclass(frozen=True)
class Case:
    """
    A model and a memory of it, and how many cycles to measure.

    `drive`: frames of the demo world instead of noise. `targeted`: whether it is to reach the
    target; others show what the share depends on.
    """

    config: str
    dtype: str
    memory: MemoryConfig
    cycles: int
    drive: bool = False
    targeted: bool = True


def _demo(policy: str = 'tar', **settings: float) -> MemoryConfig:
    return MemoryConfig(
        policy=policy, sample_fps=4.0, max_question_tokens=64, max_new_tokens=32, **settings)


CASES = {
    # As config/robots/cpu_demo.yaml has it.
    'demo': Case('demo', 'float32', _demo(budget_mib=2.0), 60, drive=True),
    'demo_infinipot_v': Case(
        'demo', 'float32', _demo('infinipot_v', budget_mib=2.0), 60, drive=True, targeted=False),
    'demo_128': Case(
        'demo', 'float32', _demo(budget_mib=_AMPLE_MIB, max_memory_tokens=128), 100, drive=True,
        targeted=False),
    # Nearly all that the model can read.
    'demo_full': Case(
        'demo', 'float32', _demo(budget_mib=3.25), 60, drive=True, targeted=False),
    'demo_noise': Case('demo', 'float32', _demo(budget_mib=2.0), 60, targeted=False),
    # bfloat16 is the faster format on CPUs that multiply in it.
    'qwen2_vl_0.5b': Case('qwen2_vl_0.5b', 'bfloat16', MemoryConfig(
        budget_mib=_AMPLE_MIB, max_memory_tokens=4096), 3),
}


@dataclass(frozen=True)
class ShareRow:
    """
    The mean frame of whole cycles, its vision included, and the mean compression.

    `moving_ms` is the part of a compression that is left when choosing costs nothing.
    """

    case: str
    policy: str
    dtype: str
    memory_tokens: int
    tokens_per_frame: int
    compressions: int
    frames_between: float
    frame_ms: float
    vision_ms: float
    compression_ms: float
    moving_ms: float
    compressed_in: str

    @property
    def share(self) -> float:
        """Return compression's part of the time of all frames, vision included."""
        return self.compression_ms / (self.frames_between * self.frame_ms)

    @property
    def share_without_vision(self) -> float:
        """Return compression's part of the time behind the vision encoder."""
        return self.compression_ms / (self.frames_between * (self.frame_ms - self.vision_ms))

    @property
    def passed(self) -> bool:
        """Return whether the target is reached, or none is set."""
        return self.share <= TARGET or not CASES[self.case].targeted


def measure_share(name: str, device: str = 'cpu') -> ShareRow:
    """Fill a memory of a case, and measure its cycles."""
    case = CASES[name]
    stock, tokenizer = stock_model(case.config, device, getattr(torch, case.dtype))
    model = memory_model(stock, tokenizer, case.config)
    memory = VideoMemory(model, case.memory)
    pictures = _drive() if case.drive else _noise(model.default_frame_size_px)
    frames = _frames(memory, pictures, device)
    # The first cycle is another: it starts with whole frames.
    _cycles(frames, 2)
    spent = {'vision': 0.0, 'choosing': 0.0}
    with stopwatch(spent, 'choosing', Compression, 'choose', device), \
            stopwatch(spent, 'vision', model, 'encode', device):
        count, total_s, compression_s = _cycles(frames, case.cycles)
    status = memory.status()
    return ShareRow(
        name, case.memory.policy, case.dtype, memory.plan.camera_tokens[0],
        status.tokens_per_frame, case.cycles, round(count / case.cycles, 2),
        round(total_s / count * 1e3, 4), round(spent['vision'] / count * 1e3, 4),
        round(compression_s / case.cycles * 1e3, 4),
        round((compression_s - spent['choosing']) / case.cycles * 1e3, 4), status.compressed_in)


def _noise(size_px: tuple[int, int]) -> Iterator[RgbImage]:
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (*size_px, 3)).astype(np.uint8) for _ in range(8)]
    yield from itertools.cycle(pictures)


def _drive() -> Iterator[RgbImage]:
    """Yield pictures as launch/demo.launch.py has them, of one drive after another."""
    for seed in itertools.count():
        drive = Drive(seed, 'calm', scale=_DRIVE_SCALE)
        for index in range(drive.num_frames):
            yield drive.frame(index).rgb


def _frames(
    memory: VideoMemory, pictures: Iterator[RgbImage], device: str,
) -> Iterator[tuple[float, float, bool]]:
    """Feed pictures; yield a frame's seconds, those of its compression, and whether it had one."""
    for index, rgb in enumerate(pictures):
        synchronize(device)
        start = time.perf_counter()
        receipt = memory.add_frame(rgb, stamp=float(index))
        synchronize(device)
        yield time.perf_counter() - start, receipt.compression_s, receipt.compressed


def _cycles(
    frames: Iterator[tuple[float, float, bool]], cycles: int,
) -> tuple[int, float, float]:
    """Take frames up to and with so many compressions: their number and sums of seconds."""
    count, total_s, compression_s = 0, 0.0, 0.0
    for frame_s, spent_s, compressed in frames:
        count, total_s, compression_s = count + 1, total_s + frame_s, compression_s + spent_s
        cycles -= compressed
        if not cycles:
            break
    return count, total_s, compression_s


def share_table(rows: Sequence[ShareRow]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows."""
    header = ['case', 'policy', 'dtype', 'tokens', 'frames between', 'ms a frame', 'of it vision',
              'ms a compression', 'of it moving', 'in', 'share', 'without vision']
    return header, [
        [row.case, row.policy, row.dtype, str(row.memory_tokens), f'{row.frames_between:.1f}',
         f'{row.frame_ms:.2f}', f'{row.vision_ms:.2f}', f'{row.compression_ms:.3f}',
         f'{row.moving_ms:.3f}', row.compressed_in, f'{row.share:.2%}',
         f'{row.share_without_vision:.2%}']
        for row in rows]


def share_report(rows: Sequence[ShareRow]) -> str:
    """Return the table, and for every case that has to whether it reaches the target."""
    said = [f'share of compression, {row.case}, in {row.compressed_in}: {row.share:.2%} '
            f'(target: at most {TARGET:.1%}) {"reached" if row.passed else "MISSED"}'
            for row in rows if CASES[row.case].targeted]
    return '\n'.join([plain_table(*share_table(rows)), '', *said])
