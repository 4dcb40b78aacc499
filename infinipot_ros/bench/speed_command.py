# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""`infinipot bench speed`: a frame, an answer and the peak memory, beside a cache that grows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import time

from infinipot_ros.bench.arguments import at_least, device, folder
from infinipot_ros.bench.csv_files import write_about, write_rows
from infinipot_ros.bench.decoding import decoding_text, measure_decoding
from infinipot_ros.bench.in_process import in_process
from infinipot_ros.bench.random_models import CONFIGURATIONS
from infinipot_ros.bench.speed import (
    FrameRow,
    length_table,
    measure_memory,
    parse_lengths,
    Setup,
)
from infinipot_ros.bench.speed_stock import measure_stock
from infinipot_ros.bench.tables import plain_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument('--config', default='demo', choices=CONFIGURATIONS,
                        help='the demo model, or the sizes of another with random weights')
    parser.add_argument('--memory-tokens', type=at_least(1), default=512,
                        help='size of the memory')
    parser.add_argument('--lengths', default='5000,25000,50000,100000',
                        help='tokens of the stream at which to measure, rising, with commas')
    parser.add_argument('--policy', default='infinipot_v')
    parser.add_argument('--device', type=device, default='cpu')
    parser.add_argument('--dtype', default='float32')
    parser.add_argument('--threads', type=at_least(1), default=1, help='threads on a CPU')
    parser.add_argument('--out', type=folder, default='bench_results')


def run(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the benchmark, print its tables and write its files."""
    started = time.perf_counter()
    setup = Setup(options.config, options.memory_tokens, parse_lengths(options.lengths),
                  options.device, options.dtype, options.policy)
    rows, split = in_process(options.threads, measure_memory, setup)
    rows += in_process(options.threads, measure_stock, setup)
    decoding = in_process(options.threads, measure_decoding, setup)
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
