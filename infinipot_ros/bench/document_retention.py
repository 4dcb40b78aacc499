# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The section of docs/benchmarks.md on what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infinipot_ros.bench.csv_files import about_text
from infinipot_ros.bench.grading import AGE_BINS, age_name, PAIRED, PairRow, ShareRow
from infinipot_ros.bench.retention_report import (
    cost_table,
    pair_counts,
    read_report,
    Report,
    share_table,
)
from infinipot_ros.bench.streams import REPORT_SEED, TUNING_SEED
from infinipot_ros.bench.tables import interval, markdown_table

# Differences that are shown with their intervals in every setting.
SHOWN_PAIRS = (
    ('infinipot_v', 'infinipot_v_published'), ('infinipot_v', 'tar'),
    ('infinipot_v', 'infinipot_v_gated'), ('infinipot_v_gated', 'tar'), ('tar', 'tar_diverse'),
    ('infinipot_v', 'sliding_window'), ('infinipot_v', 'recent_frames'), ('tar', 'uniform_tokens'),
)
_ANSWERS = ('colour, past', 'did: yes, past', 'did: no', 'did: no, recombined')
_ERRORS = ('colour, past: abstained', 'colour, past: invented', 'colour, never seen',
           'shape, past', 'evidence, past')
_NOW = ('colour, recent', 'is there now', 'see now', 'where now', 'which first')
_SETTINGS = """| setting | what |
| --- | --- |
| `calm` | a drive past rooms with quiet walls, eight things of eight shapes |
| `still` | a fixed camera on a furnished room: 4 or 5 things for ever, others for 6 to 18 frames |
| `crowd` | a drive with a thing every 50 to 82 pixels |
| `screen` | a fixed camera, flickering screens, moving blobs |
| `vivid` | a drive past vivid patterned panels |"""
_HOW = """A memory of so many tokens (16 a frame) sees a stream and is asked at several times;
past means last seen more than 24 frames ago. `recent_frames` has no memory at all: it
sees the newest four frames, and a memory that does not beat it is not worth having.
`label_oracle` is told which patches show things and keeps those: it is the ceiling of
what the model can *read*, not of what a policy can do (in `crowd` it gives every
thing the same share and keeps the same tokens in all heads, and policies may do
better). A cache that keeps everything is no ceiling either: it leaves the length that
the model was trained to read.

Reported seeds are {report} and up; whoever changes something looks only at seeds
{tuning} and up. Intervals are 95 %, from 4,000 bootstrap samples of whole streams;
differences are paired, on the same streams and questions. They are not corrected for
their number: {counts}

**Read "did: yes" only together with "did: no"**: a policy that forgets says no more
often, one that keeps more says yes more often. "Recombined" asks about a colour and a
shape that were both seen, but not on one thing.

{settings}"""


def retention_section(folder: Path) -> str:
    """Return the whole section."""
    report = read_report(folder)
    parts = ['## What is remembered', about_text(report.about), _HOW.format(
        report=REPORT_SEED, tuning=TUNING_SEED, settings=_SETTINGS,
        counts=pair_counts(report.pairs))]
    for setting, budget in _cells(report):
        mine = _of(report.shares, setting, budget)
        parts += [f'### `{setting}`, {_budget_name(report, setting, budget)}, '
                  f'{mine[0].streams} streams',
                  markdown_table(*share_table(mine, _ANSWERS)),
                  markdown_table(*share_table(mine, _ERRORS)),
                  markdown_table(*share_table(mine, _NOW)),
                  'Right colours by the age of the thing in frames, %:',
                  markdown_table(*_age_table(_of(report.ages, setting, budget)))]
    parts += _pair_parts(report)
    parts += ['### What it costs',
              'Vision is the encoding of a frame, memory all that comes after it (compression '
              'included), compression the choice of what stays. One thread.',
              markdown_table(*cost_table(report.costs))]
    parts += [f'![{name}](benchmarks/retention/{name}.png)' for name in (
        'accuracy_by_age', 'accuracy_by_budget', 'memory_by_length')
        if (folder / f'{name}.png').is_file()]
    return '\n\n'.join(parts)


def retention_tables(report: Report, metrics: Sequence[str]) -> list[str]:
    """Return a table for every setting and budget of a report."""
    parts = []
    for setting, budget in _cells(report):
        mine = _of(report.shares, setting, budget)
        parts += [f'`{setting}`, {_budget_name(report, setting, budget)}, '
                  f'{mine[0].streams} streams:', markdown_table(*share_table(mine, metrics))]
    return parts


def win_table(
    pairs: Sequence[PairRow], metric: str,
) -> tuple[list[str], list[list[str]]]:
    """Return who beats whom: the row's method less the column's, bold where it is clear."""
    mine = [row for row in pairs if row.metric == metric]
    methods = list(dict.fromkeys([row.first for row in mine] + [row.second for row in mine]))
    points = {}
    for row in mine:
        for a, b, sign in ((row.first, row.second, 1), (row.second, row.first, -1)):
            text = '' if row.points != row.points else f'{sign * row.points:+.0f}'
            points[a, b] = f'**{text}**' if row.verdict in ('wins', 'loses') else text
    return ['', *methods], [[a, *(points.get((a, b), '') for b in methods)] for a in methods]


def _pair_parts(report: Report) -> list[str]:
    if not report.pairs:
        return []
    parts = ['### Who wins, loses or ties',
             'Points that the first is ahead of the second, paired; bold: the interval has no 0.']
    cells = list(dict.fromkeys((row.setting, row.budget) for row in report.pairs))
    for metric in PAIRED:
        of = {(row.first, row.second, row.setting, row.budget): row for row in report.pairs
              if row.metric == metric}
        rows = []
        for first, second in SHOWN_PAIRS:
            found = [of.get((first, second, *cell)) for cell in cells]
            if any(found):
                rows.append([f'{first} - {second}', *('' if row is None else _bold(row)
                                                      for row in found)])
        parts += [f'*{metric}*', markdown_table(
            ['pair', *(f'{setting} {budget}' for setting, budget in cells)], rows)]
    parts.append('All pairs, *colour, past* (row less column, points; all metrics and intervals '
                 'are in pairs.csv):')
    for setting, budget in cells:
        mine = [row for row in report.pairs if (row.setting, row.budget) == (setting, budget)]
        parts += [f'`{setting}`, {_budget_name(report, setting, budget)}:',
                  markdown_table(*win_table(mine, 'colour, past'))]
    return parts


def _bold(row: PairRow) -> str:
    text = interval(row.points, row.low, row.high, signed=True)
    return f'**{text}**' if row.verdict in ('wins', 'loses') else text


def _age_table(rows: Sequence[ShareRow]) -> tuple[list[str], list[list[str]]]:
    of = {(row.method, row.metric): row for row in rows}
    methods = list(dict.fromkeys(row.method for row in rows))
    bins = [name for name in (age_name(*edges) for edges in AGE_BINS)
            if of[methods[0], name].questions]
    header = ['method', *(f'{name} (n={of[methods[0], name].questions})' for name in bins)]
    return header, [[method, *(interval(row.percent, row.low, row.high)
                               for row in (of[method, name] for name in bins))]
                    for method in methods]


def _cells(report: Report) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row.setting, row.budget) for row in report.shares))


def _of(rows: Sequence[ShareRow], setting: str, budget: str) -> list[ShareRow]:
    return [row for row in rows if (row.setting, row.budget) == (setting, budget)]


def _budget_name(report: Report, setting: str, budget: str) -> str:
    row = next(row for row in report.costs if (row.setting, row.budget) == (setting, budget))
    share = f'{budget} of the stream = ' if '/' in budget else ''
    return f'{share}{row.capacity_tokens} tokens, {row.frames} frames'
