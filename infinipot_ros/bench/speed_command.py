# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""`infinipot bench speed`: a frame, an answer and the peak memory, beside a cache that grows."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
import multiprocessing
from pathlib import Path
import time
from typing import TypeVar

from infinipot_ros.bench.csv_files import write_about, write_rows
from infinipot_ros.bench.random_models import CONFIGURATIONS
from infinipot_ros.bench.speed import (
    decoding_rate,
    FrameRow,
    length_table,
    measure_memory,
    parse_lengths,
    Setup,
)
from infinipot_ros.bench.speed_stock import generate_rate, measure_stock
from infinipot_ros.bench.tables import plain_table
import torch

Result = TypeVar('Result')


@dataclass(frozen=True)
class DecodingRow:
    """Tokens a second after so many tokens, ours and `generate()` with a DynamicCache."""

    config: str
    context_tokens: int
    ours_per_s: float
    generate_per_s: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument('--config', default='demo', choices=CONFIGURATIONS,
                        help='the demo model, or the sizes of another with random weights')
    parser.add_argument('--memory-tokens', type=int, default=512, help='size of the memory')
    parser.add_argument('--lengths', default='5000,25000,50000,100000',
                        help='tokens of the stream at which to measure, rising, with commas')
    parser.add_argument('--policy', default='infinipot_v')
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--dtype', default='float32')
    parser.add_argument('--threads', type=int, default=1, help='threads on a CPU')
    parser.add_argument('--out', type=Path, default=Path('bench_results'))


def run(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the benchmark, print its tables and write its files."""
    started = time.perf_counter()
    setup = Setup(options.config, options.memory_tokens, parse_lengths(options.lengths),
                  options.device, options.dtype, options.policy)
    rows, split = in_process(options.threads, measure_memory, setup)
    rows += in_process(options.threads, measure_stock, setup)
    read, ours = in_process(options.threads, decoding_rate, setup)
    generate = in_process(options.threads, generate_rate, setup, read)
    decoding = DecodingRow(setup.config, read, round(ours, 2), round(generate, 2))
    print(plain_table(*length_table(rows)) + '\n\n' + split_text(split) + '\n'
          + decoding_text(decoding))
    folder = options.out / 'speed' / options.config
    write_rows(folder / 'lengths.csv', rows)
    write_rows(folder / 'frame.csv', [split])
    write_rows(folder / 'decoding.csv', [decoding])
    write_about(folder / 'about.json', command, time.perf_counter() - started,
                setup={'config': setup.config, 'memory_tokens': setup.memory_tokens,
                       'device': setup.device, 'dtype': setup.dtype, 'policy': setup.policy,
                       'threads': options.threads})
    return 0


def split_text(row: FrameRow) -> str:
    """Say where the time of a frame goes."""
    return (f'a frame of a full memory takes {row.total_ms:.2f} ms: vision {row.vision_ms:.2f}, '
            f'layers {row.layers_ms:.2f}, rotation {row.rotation_ms:.2f}, '
            f'compression {row.compression_ms:.3f} ({row.compression_share:.2%})')


def decoding_text(row: DecodingRow) -> str:
    """Say how fast answers come, beside `generate()`."""
    return (f'decoding after {row.context_tokens} tokens: {row.ours_per_s:.1f} tokens a second, '
            f'generate() with a DynamicCache {row.generate_per_s:.1f} '
            f'({row.ours_per_s / row.generate_per_s:.2f} of it)')


def in_process(threads: int, work: Callable[..., Result], *arguments: object) -> Result:
    """Run work in a fresh process, so that its memory is its own."""
    context = multiprocessing.get_context('spawn')
    with ProcessPoolExecutor(1, mp_context=context, initializer=torch.set_num_threads,
                             initargs=(threads,)) as pool:
        return pool.submit(work, *arguments).result()
