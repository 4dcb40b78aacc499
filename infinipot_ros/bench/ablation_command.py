# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""`infinipot bench ablation NAME`: the papers' ablations on the demo world."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import time

from infinipot_ros.bench.ablation import Ablation, ABLATIONS
from infinipot_ros.bench.arguments import at_least
from infinipot_ros.bench.methods import parse_budget
from infinipot_ros.bench.retention import Cell
from infinipot_ros.bench.retention_command import add_run_arguments, collect, FRAMES
from infinipot_ros.bench.retention_report import make_report, show_report, write_report
from infinipot_ros.bench.streams import make_streams
from infinipot_ros.bench.workers import Job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument('name', choices=sorted(ABLATIONS), help='; '.join(
        f'{name}: {ablation.summary}' for name, ablation in ABLATIONS.items()))
    parser.add_argument('--streams', type=at_least(1), default=12, help='streams a setting')
    parser.add_argument('--frames', type=at_least(1), default=FRAMES, help='length of a stream')
    parser.add_argument('--tuning', action='store_true', help='use the tuning seeds')
    add_run_arguments(parser)


def run(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run one ablation, print its table and write its files."""
    started = time.perf_counter()
    ablation = ABLATIONS[options.name]
    jobs = make_jobs(ablation, options.streams, options.frames, options.tuning)
    report = make_report(collect(options.model, jobs, options.workers))
    print(f'{options.name}: {ablation.summary}\n\n{show_report(report, ablation.metrics)}')
    folder = options.out / 'ablation' / options.name
    write_report(folder, report, command, time.perf_counter() - started)
    print(f'\nfiles in {folder}')
    return 0


def make_jobs(ablation: Ablation, streams: int, frames: int, tuning: bool) -> list[Job]:
    """Return one job a stream with all methods."""
    cells = [Cell(parse_budget(ablation.budget), method) for method in ablation.methods]
    return [(stream, cells) for setting in ablation.settings
            for stream in make_streams(setting, streams, frames, tuning)]
