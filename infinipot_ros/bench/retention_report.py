# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The tables, files and plots of a retention result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infinipot_ros.bench import plots
from infinipot_ros.bench.csv_files import read_about, read_rows, write_about, write_rows
from infinipot_ros.bench.grading import (
    age_metrics,
    cells_of,
    METRICS,
    PAIRED,
    PairRow,
    ShareRow,
    Tally,
)
from infinipot_ros.bench.retention import AnswerRow, MemoryRow, StreamResult
from infinipot_ros.bench.tables import interval, plain_table
import numpy as np

# What a terminal has room for; all metrics are in shares.csv.
TERMINAL_METRICS = ('colour, past', 'did: yes, past', 'did: no', 'did: no, recombined',
                    'evidence, past')


@dataclass(frozen=True)
class CostRow:
    """What a method held and cost: the most bytes, and means over all streams."""

    setting: str
    budget: str
    method: str
    frames: int
    capacity_tokens: int
    held_bytes: int
    growing_bytes: int
    compressions: float
    vision_ms: float
    frame_ms: float
    compression_ms: float
    first_token_ms: float
    host_bytes: int = 0


@dataclass(frozen=True)
class Report:
    """Everything that is derived from the rows of a run."""

    shares: list[ShareRow]
    ages: list[ShareRow]
    pairs: list[PairRow]
    costs: list[CostRow]
    memory: list[MemoryRow]
    about: Any


def make_report(results: Iterable[StreamResult], paired: bool = True) -> Report:
    """Grade a run; the order of its streams does not matter."""
    answers: list[AnswerRow] = []
    memory: list[MemoryRow] = []
    for result in results:
        answers.extend(result.answers)
        memory.extend(result.memory)
    answers.sort(key=lambda row: row.seed)
    shares, ages, pairs = [], [], []
    for cell in sorted(cells_of(answers), key=lambda rows: rows[0].setting):
        tally = Tally(cell, METRICS)
        shares += tally.shares()
        ages += Tally(cell, age_metrics()).shares()
        if paired:
            pairs += tally.pairs(PAIRED)
    return Report(shares, ages, pairs, _costs(answers, memory), memory, {})


def write_report(folder: Path, report: Report, command: Sequence[str], seconds: float) -> None:
    """Write the CSV files of a report and how it came about."""
    for name in ('shares', 'ages', 'pairs', 'costs', 'memory'):
        rows = getattr(report, name)
        if rows:
            write_rows(folder / f'{name}.csv', rows)
    write_about(folder / 'about.json', command, seconds)


def read_report(folder: Path) -> Report:
    """Read what `write_report` wrote."""
    pairs = folder / 'pairs.csv'
    return Report(
        read_rows(folder / 'shares.csv', ShareRow), read_rows(folder / 'ages.csv', ShareRow),
        read_rows(pairs, PairRow) if pairs.exists() else [],
        read_rows(folder / 'costs.csv', CostRow), read_rows(folder / 'memory.csv', MemoryRow),
        read_about(folder / 'about.json'))


def plot_report(folder: Path, report: Report) -> None:
    """Draw accuracy against age and against budget, and memory against the stream's length."""
    plots.plot_ages(folder / 'accuracy_by_age.png', report.ages)
    plots.plot_memory(folder / 'memory_by_length.png', report.memory)
    swept = budget_sweeps(report)
    if swept:
        tokens = {row.budget: row.capacity_tokens for row in report.costs}
        plots.plot_budgets(folder / 'accuracy_by_budget.png', swept, tokens)


def budget_sweeps(report: Report) -> list[ShareRow]:
    """Return the shares of streams that were run, at one length, with three budgets or more."""
    length = {(row.setting, row.budget): row.frames for row in report.costs}
    groups: dict[tuple[str, int], set[str]] = {}
    for (setting, budget), frames in length.items():
        groups.setdefault((setting, frames), set()).add(budget)
    return [row for row in report.shares
            if len(groups[row.setting, length[row.setting, row.budget]]) >= 3]


def show_report(report: Report, metrics: Sequence[str] = TERMINAL_METRICS) -> str:
    """Return the tables for a terminal."""
    parts = []
    for setting, budget in dict.fromkeys((row.setting, row.budget) for row in report.shares):
        mine = [row for row in report.shares if (row.setting, row.budget) == (setting, budget)]
        streams = mine[0].streams
        parts.append(f'{setting}, budget {budget}, {streams} streams: % [95 % interval]\n'
                     + plain_table(*share_table(mine, metrics)))
    parts.append('What it costs, means over all streams\n'
                 + plain_table(*cost_table(report.costs)))
    if report.pairs:
        parts.append(pair_counts(report.pairs))
    return '\n\n'.join(parts)


def share_table(
    rows: Sequence[ShareRow], metrics: Sequence[str],
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a table of one cell: methods down, metrics across."""
    of = {(row.method, row.metric): row for row in rows}
    methods = list(dict.fromkeys(row.method for row in rows))
    counts = {metric: of[methods[0], metric].questions for metric in metrics}
    header = ['method', *(f'{metric} (n={counts[metric]})' for metric in metrics)]
    return header, [
        [method, *(interval(row.percent, row.low, row.high)
                   for row in (of[method, metric] for metric in metrics))]
        for method in methods]


def cost_table(rows: Sequence[CostRow]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of what methods hold and cost."""
    header = ['method', 'setting', 'budget', 'tokens', 'KiB held', 'KiB on host', 'ms vision',
              'ms memory', 'ms compression', 'ms first token']
    hosts = any(row.host_bytes for row in rows)
    if not hosts:
        header.remove('KiB on host')
    return header, [
        [row.method, row.setting, row.budget, str(row.capacity_tokens),
         f'{row.held_bytes / 1024:.0f}', *([f'{row.host_bytes / 1024:.0f}'] if hosts else ()),
         f'{row.vision_ms:.1f}', f'{row.frame_ms:.1f}',
         f'{row.compression_ms:.2f}', f'{row.first_token_ms:.1f}'] for row in rows]


def pair_counts(pairs: Sequence[PairRow]) -> str:
    """Say how many paired differences there are, and how many of them chance alone would give."""
    judged = [row for row in pairs if row.verdict != '-']
    clear = [row for row in judged if row.verdict != 'ties']
    return (f'{len(clear)} of {len(judged)} paired differences have an interval without 0; '
            f'without any true difference about {0.05 * len(judged):.0f} would. '
            'All of them are in pairs.csv.')


def _costs(answers: Sequence[AnswerRow], memory: Sequence[MemoryRow]) -> list[CostRow]:
    first: dict[tuple[str, str, str], list[float]] = {}
    for row in answers:
        first.setdefault((row.setting, row.budget, row.method), []).append(row.first_token_ms)
    costs = []
    for key, delays in first.items():
        mine = [row for row in memory if (row.setting, row.budget, row.method) == key]
        # The last measurement of a stream covers all its frames.
        length = max(row.frames for row in mine)
        ends = [row for row in mine if row.frames == length]

        def mean(name: str, ends: list[MemoryRow] = ends) -> float:
            return round(float(np.mean([getattr(row, name) for row in ends])), 3)

        costs.append(CostRow(
            *key, length, ends[0].capacity_tokens, max(row.held_bytes for row in mine),
            max(row.growing_bytes for row in mine), mean('compressions'), mean('vision_ms'),
            mean('frame_ms'), mean('compression_ms'), round(float(np.nanmean(delays)), 2),
            max(row.host_bytes for row in mine)))
    return sorted(costs, key=lambda row: (row.setting, row.budget))
