# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""`infinipot bench soak`: bytes, tensors and the process stay flat, or exit status 1."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import time

from infinipot_ros.bench.arguments import at_least, folder
from infinipot_ros.bench.csv_files import write_about, write_rows
from infinipot_ros.bench.soak import growth, is_flat, soak, SoakRow
from infinipot_ros.bench.tables import plain_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument('--frames', type=at_least(1), default=100_000)
    parser.add_argument('--samples', type=at_least(1), default=50,
                        help='how often to measure and to ask')
    parser.add_argument('--config', default='qwen2_vl_micro',
                        help="'demo' or a configuration of random weights")
    parser.add_argument('--memory-tokens', type=at_least(1), default=256)
    parser.add_argument('--policy', default='infinipot_v')
    parser.add_argument('--threads', type=at_least(1), default=1)
    parser.add_argument('--out', type=folder, default='bench_results')


def run(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the benchmark; return 0 where everything stayed flat."""
    from infinipot_ros.bench.random_models import memory_model, stock_model
    from infinipot_ros.bench.speed import new_memory, QUESTION, Setup
    import torch
    started = time.perf_counter()
    torch.set_num_threads(options.threads)
    setup = Setup(options.config, options.memory_tokens, (), policy=options.policy)
    stock, tokenizer = stock_model(setup.config, setup.device, setup.torch_dtype)
    memory = new_memory(memory_model(stock, tokenizer, setup.config), setup)
    rows = soak(memory, options.frames, options.samples, lambda held: held.ask(QUESTION))
    print(plain_table(*soak_table(rows)) + '\n' + soak_text(rows))
    folder = options.out / 'soak'
    write_rows(folder / 'soak.csv', rows)
    write_about(folder / 'about.json', command, time.perf_counter() - started)
    return 0 if is_flat(rows) else 1


def soak_table(rows: Sequence[SoakRow], lines: int = 10) -> tuple[list[str], list[list[str]]]:
    """Return header and some of the rows, the last among them."""
    header = ['frames', 'tokens held', 'KiB held', 'tensors', 'KiB of tensors', 'MiB resident',
              'ms a frame']
    step = max(1, len(rows) // lines)
    chosen = rows[::-1][::step][::-1]
    return header, [
        [str(row.frames), str(row.held_tokens), f'{row.held_bytes / 1024:.1f}', str(row.tensors),
         f'{row.tensor_bytes / 1024:.1f}', f'{row.resident_bytes / 2**20:.1f}',
         f'{row.frame_ms:.2f}'] for row in chosen]


def soak_text(rows: Sequence[SoakRow]) -> str:
    """Say what grew after the warm-up."""
    grown = growth(rows)
    return ('after the warm-up: '
            + ', '.join(f'{name.replace("_", " ")} +{size}' for name, size in grown.items())
            + f' -> {"flat" if is_flat(rows) else "GROWS"}')
