# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How long a frame and an answer take in a memory, as its stream gets longer, and at what peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import time

from infinipot_ros.bench.peak import PeakMemory
from infinipot_ros.bench.random_models import memory_model, RandomFrames, stock_model
from infinipot_ros.bench.stopwatch import stopwatch, synchronize
from infinipot_ros.errors import ConfigError
from infinipot_ros.memory import attention, MemoryConfig, positions, VideoMemory
from infinipot_ros.memory.model import VisionLanguageModel
import numpy as np
import torch

QUESTION = 'what colour was the ball ?'
ANSWER_TOKENS = 32
# Frames whose mean time stands for a length; in a full memory some of them compress it.
FRAMES_MEASURED = 32
_AMPLE_MIB = 1_000_000.0


@dataclass(frozen=True)
class Setup:
    """A model and a memory to measure; `lengths` are tokens of the stream, rising."""

    config: str
    memory_tokens: int
    lengths: tuple[int, ...]
    device: str = 'cpu'
    dtype: str = 'float32'
    policy: str = 'infinipot_v'

    @property
    def torch_dtype(self) -> torch.dtype:
        """Return the number format."""
        found = getattr(torch, self.dtype, None)
        if not isinstance(found, torch.dtype):
            raise ConfigError(f'dtype is {self.dtype!r}: use float32, bfloat16 or float16')
        return found


@dataclass(frozen=True)
class LengthRow:
    """
    What a frame and an answer cost when the stream has `context_tokens` tokens.

    `kv_bytes`: keys and values held. `peak_bytes`: the most taken beyond the model's weights while
    frames came in and a question was answered.
    """

    way: str
    context_tokens: int
    kv_bytes: int
    peak_bytes: int
    frame_ms: float
    first_token_ms: float
    tokens_per_s: float


@dataclass(frozen=True)
class FrameRow:
    """Where the time of one frame of a full memory goes; `layers` is all that is not named."""

    config: str
    memory_tokens: int
    vision_ms: float
    layers_ms: float
    rotation_ms: float
    compression_ms: float
    total_ms: float

    @property
    def compression_share(self) -> float:
        """Return the part of a frame's time that compression takes."""
        return self.compression_ms / self.total_ms


def measure_memory(setup: Setup) -> tuple[list[LengthRow], FrameRow]:
    """Feed a stream of random frames to a memory and measure at every length."""
    stock, tokenizer = stock_model(setup.config, setup.device, setup.torch_dtype)
    model = memory_model(stock, tokenizer, setup.config)
    vision_ms = _vision_ms(model, setup.device)
    peak = PeakMemory(setup.device)
    memory = new_memory(model, setup)
    per_frame = memory.status().tokens_per_frame
    blank = np.zeros((*model.default_frame_size_px, 3), np.uint8)
    rows, seen = [], 0
    for length in setup.lengths:
        frames = length // per_frame
        feed(memory, blank, seen, max(seen, frames - FRAMES_MEASURED), setup.device)
        peak.restart()
        first = max(seen, frames - FRAMES_MEASURED)
        spent = feed(memory, blank, first, frames, setup.device)
        seen = max(seen, frames)
        answer(memory, setup.device)
        first_token_s, rate = answer(memory, setup.device)
        parts = memory.status().bytes_by_part
        rows.append(LengthRow(
            'memory', seen * per_frame, parts['cumulative'] + parts['sinks'] + parts['instant'],
            peak.highest(), round(spent / max(1, frames - first) * 1e3, 3),
            round(first_token_s * 1e3, 3), round(rate, 2)))
    return rows, _split(memory, blank, seen, setup, vision_ms)


def new_memory(model: VisionLanguageModel, setup: Setup) -> VideoMemory:
    """Return an empty memory of the setup that reads random frames."""
    return VideoMemory(RandomFrames(model, spread=0.5), MemoryConfig(
        budget_mib=_AMPLE_MIB, policy=setup.policy, max_memory_tokens=setup.memory_tokens,
        max_question_tokens=32, max_new_tokens=ANSWER_TOKENS, thumbnail_px=0, instant_frames=0))


def feed(memory: VideoMemory, rgb: np.ndarray, first: int, last: int, device: str) -> float:
    """Add the frames `first` to `last` - 1; return the seconds it took."""
    synchronize(device)
    start = time.perf_counter()
    for index in range(first, last):
        memory.add_frame(rgb, stamp=float(index))
    synchronize(device)
    return time.perf_counter() - start


def answer(memory: VideoMemory, device: str) -> tuple[float, float]:
    """Return the seconds to the first token and the tokens a second after it."""
    synchronize(device)
    start = time.perf_counter()
    times: list[float] = []

    def never() -> bool:
        synchronize(device)
        times.append(time.perf_counter())
        return False

    given = memory.ask(QUESTION, cancel=never)
    if given.tokens != ANSWER_TOKENS:
        raise RuntimeError(f'the answer has {given.tokens} tokens: {given.message}')
    # The memory looks for a cancellation before the question and before every token.
    ends = times[2:]
    return ends[0] - start, (len(ends) - 1) / (ends[-1] - ends[0])


def _vision_ms(model: VisionLanguageModel, device: str, repeats: int = 10) -> float:
    rng = np.random.default_rng(0)
    size = model.default_frame_size_px
    pictures = [rng.integers(0, 256, (*size, 3)).astype(np.uint8) for _ in range(repeats + 1)]
    with torch.inference_mode():
        # The first call is slower than all others.
        model.encode(pictures[:1], size)
        synchronize(device)
        start = time.perf_counter()
        for rgb in pictures[1:]:
            model.encode([rgb], size)
        synchronize(device)
    return (time.perf_counter() - start) / repeats * 1e3


def _split(
    memory: VideoMemory, rgb: np.ndarray, seen: int, setup: Setup, vision_ms: float,
) -> FrameRow:
    """Time the parts of a frame over many compressions, the total in a pass of its own."""
    frames = 2 * FRAMES_MEASURED
    total_ms = feed(memory, rgb, seen, seen + frames, setup.device) / frames * 1e3
    spent, compression_s = {'rotation': 0.0}, 0.0
    with stopwatch(spent, 'rotation', attention, 'rotate', setup.device), \
            stopwatch(spent, 'rotation', positions.Rotation, 'cos_sin', setup.device):
        for index in range(seen + frames, seen + 2 * frames):
            compression_s += memory.add_frame(rgb, stamp=float(index)).compression_s
    rotation_ms = spent['rotation'] / frames * 1e3
    compression_ms = compression_s / frames * 1e3
    return FrameRow(
        setup.config, setup.memory_tokens, round(vision_ms, 3),
        round(total_ms - rotation_ms - compression_ms, 3), round(rotation_ms, 3),
        round(compression_ms, 4), round(total_ms + vision_ms, 3))


def parse_lengths(text: str) -> tuple[int, ...]:
    """Read '5000,25000' as rising numbers of tokens. Raises `ConfigError`."""
    try:
        lengths = tuple(int(part) for part in text.split(','))
    except ValueError:
        lengths = ()
    if not lengths or lengths[0] < 1 or list(lengths) != sorted(set(lengths)):
        raise ConfigError(f'lengths is {text!r}: give rising numbers of tokens, with commas')
    return lengths


def length_table(rows: Sequence[LengthRow]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows, one way after the other."""
    header = ['way', 'tokens of the stream', 'MiB of keys and values', 'MiB peak', 'ms a frame',
              'ms to first token', 'tokens a second']
    return header, [
        [row.way, str(row.context_tokens), f'{row.kv_bytes / 2**20:.1f}',
         f'{row.peak_bytes / 2**20:.1f}', f'{row.frame_ms:.1f}', f'{row.first_token_ms:.1f}',
         f'{row.tokens_per_s:.1f}'] for row in rows]
