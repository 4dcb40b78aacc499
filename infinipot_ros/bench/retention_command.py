# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""`infinipot bench retention`: which streams, which budgets, which policies."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
import sys
import time

from infinipot_ros.bench.arguments import at_least, folder
from infinipot_ros.bench.csv_files import write_rows
from infinipot_ros.bench.methods import method_of, parse_budget, REPORTED, SURVEYED
from infinipot_ros.bench.plots import check_plotting
from infinipot_ros.bench.retention import Cell, StreamResult
from infinipot_ros.bench.retention_report import (
    make_report,
    plot_report,
    Report,
    show_report,
    write_report,
)
from infinipot_ros.bench.streams import make_streams
from infinipot_ros.bench.workers import Job, run_jobs

FRAMES = 240


@dataclass(frozen=True)
class Part:
    """Streams of one setting and length, with the budgets and policies they are run with."""

    setting: str
    budgets: tuple[str, ...]
    streams: int
    frames: int = FRAMES
    policies: tuple[str, ...] = REPORTED


# The table of record. The shares need streams short enough for half of them to be readable.
REPORT: tuple[Part, ...] = (
    Part('still', ('128', '64'), 16),
    Part('calm', ('128',), 10),
    Part('crowd', ('64',), 12),
    Part('screen', ('128',), 10),
    Part('vivid', ('128',), 10),
    Part('calm', ('1/2', '1/4', '1/8', '1/16'), 6, 80, SURVEYED),
    Part('calm', ('384',), 3, 600),
)
_FEW = ('infinipot_v', 'tar', 'sliding_window', 'label_oracle')
QUICK: tuple[Part, ...] = (
    Part('still', ('128',), 2, 90, _FEW), Part('crowd', ('64',), 2, 90, _FEW))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument('--quick', action='store_true',
                        help='a small version of under a minute, without plots')
    parser.add_argument('--settings', default='', help='settings of the demo world, with commas '
                        '(default: the table of record)')
    parser.add_argument('--budgets', default='128', help='with --settings: tokens (128) or shares '
                        "of a stream's tokens (1/8), with commas")
    parser.add_argument('--frames', type=at_least(1), default=FRAMES,
                        help='with --settings: length of a stream')
    parser.add_argument('--streams', type=at_least(0), default=0,
                        help='streams a setting (default: 16 with --settings, else as planned)')
    parser.add_argument('--policies', default='', help='policies, with commas (default: '
                        f'{",".join(REPORTED)}; with shares of a stream all that keep to one)')
    parser.add_argument('--tuning', action='store_true',
                        help='use the tuning seeds: whoever changes something looks only at these')
    parser.add_argument('--answers', action='store_true',
                        help='also write every question and answer (several MB)')
    add_run_arguments(parser)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every benchmark on streams has: model, processes, where results go."""
    parser.add_argument('--model', default='demo', help="'demo' or a model folder")
    parser.add_argument('--workers', type=at_least(1), default=2,
                        help='processes of one thread each')
    parser.add_argument('--out', type=folder, default='bench_results',
                        help='folder for CSV files and plots')
    parser.add_argument('--no-plots', action='store_true', help='write no PNG files')


def run(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the benchmark, print its tables and write its files."""
    draw = not (options.no_plots or options.quick)
    if draw:
        check_plotting()
    started = time.perf_counter()
    jobs = make_jobs(parts_of(options), options.tuning)
    results = collect(options.model, jobs, options.workers)
    report = make_report(results)
    folder = options.out / ('retention_quick' if options.quick else 'retention')
    finish(folder, report, command, time.perf_counter() - started, draw)
    if options.answers:
        write_rows(folder / 'answers.csv', [row for result in results for row in result.answers])
    return 0


def parts_of(options: argparse.Namespace) -> list[Part]:
    """Return the parts that the options ask for."""
    if options.settings:
        budgets = tuple(options.budgets.split(','))
        parts = [Part(setting, budgets, 16, options.frames)
                 for setting in options.settings.split(',')]
    else:
        parts = list(QUICK if options.quick else REPORT)
    if options.streams:
        parts = [replace(part, streams=options.streams) for part in parts]
    if options.policies:
        parts = [replace(part, policies=tuple(options.policies.split(','))) for part in parts]
    return parts


def make_jobs(parts: Sequence[Part], tuning: bool) -> list[Job]:
    """Return one job a stream, with every budget and policy it is run with."""
    jobs: list[Job] = []
    for part in parts:
        budgets = [parse_budget(text) for text in part.budgets]
        methods = [method_of(name) for name in part.policies]
        cells = [Cell(budget, method) for budget in budgets for method in methods]
        for stream in make_streams(part.setting, part.streams, part.frames, tuning):
            jobs.append((stream, cells))
    return jobs


def collect(model: str, jobs: Sequence[Job], workers: int) -> list[StreamResult]:
    """Run all jobs and tell on stderr how far they are."""
    results = []
    started = time.perf_counter()
    for result in run_jobs(model, jobs, workers):
        results.append(result)
        spent = time.perf_counter() - started
        print(f'\r{len(results)} of {len(jobs)} streams, {spent:.0f} s', end='', file=sys.stderr,
              flush=True)
    print(file=sys.stderr)
    return results


def finish(
    folder: Path, report: Report, command: Sequence[str], seconds: float, draw: bool,
) -> None:
    """Print the tables and write the files."""
    print(show_report(report))
    write_report(folder, report, command, seconds)
    if draw:
        plot_report(folder, report)
    print(f'\n{seconds:.0f} s; files in {folder}')
