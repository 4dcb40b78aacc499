# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
One compression: ours against TaR by all pairs, and its share of the time per frame.

Returns 0 when every target is reached: at most a fifth of the memory and no more time than all
pairs, at most 0.5 % of the time of the frames between two compressions.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import time

from infinipot_ros.bench import compression
from infinipot_ros.bench.arguments import at_least, device, folder
from infinipot_ros.bench.csv_files import write_about, write_rows
from infinipot_ros.bench.in_process import in_process
from infinipot_ros.bench.share import CASES, measure_share, share_report
import torch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument('--layers', type=at_least(1), default=compression.Setting.layers)
    parser.add_argument('--recent-frames', type=at_least(1),
                        default=compression.Setting.recent_frames,
                        help='r; the paper has 4 (0.125 of 31), the published code 7')
    parser.add_argument('--dtype', choices=['float32', 'bfloat16'], default='float32')
    parser.add_argument('--device', type=device, default='cpu')
    parser.add_argument('--repeats', type=at_least(1), default=5)
    parser.add_argument('--threads', type=at_least(1), default=1)
    parser.add_argument('--shares', nargs='*', choices=list(CASES), default=list(CASES),
                        help='models and memories whose share of a frame is measured; default all')
    parser.add_argument('--out', type=folder, default='bench_results')


def run(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Measure, print and write; return 0 when all targets are reached."""
    started = time.perf_counter()
    torch.set_num_threads(options.threads)
    setting = compression.Setting(
        layers=options.layers, recent_frames=options.recent_frames,
        dtype=getattr(torch, options.dtype), device=options.device)
    with torch.inference_mode():
        costs = compression.measure(setting, options.repeats)
        shared = compression.shared_tokens(setting)
    print(compression.report(setting, costs, shared))
    shares = [in_process(options.threads, measure_share, case, options.device)
              for case in options.shares]
    folder = options.out / 'compression'
    write_rows(folder / 'compression.csv', costs)
    if shares:
        print('\n' + share_report(shares))
        write_rows(folder / 'shares.csv', shares)
    write_about(folder / 'about.json', command, time.perf_counter() - started,
                layers=setting.layers, tokens=setting.tokens, budget=setting.budget,
                shared_tokens=round(shared, 5), threads=options.threads)
    return 0 if compression.passed(costs) and all(share.passed for share in shares) else 1
