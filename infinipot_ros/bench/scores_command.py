# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""`infinipot bench scores`: why TaR or VaN helps or not, layer by layer and head by head."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import time

from infinipot_ros.bench.arguments import at_least, folder
from infinipot_ros.bench.csv_files import write_about, write_rows
from infinipot_ros.bench.scores import KeptRow, look_at, ScoreRow
from infinipot_ros.bench.streams import make_streams
from infinipot_ros.bench.tables import plain_table
from infinipot_ros.demo.settings import SETTINGS
import numpy as np

POLICIES = ('infinipot_v', 'infinipot_v_gated', 'infinipot_v_published', 'tar', 'tar_diverse',
            'van_pool')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument('--settings', default=','.join(SETTINGS), help='with commas')
    parser.add_argument('--policies', default=','.join(POLICIES), help='with commas')
    parser.add_argument('--streams', type=at_least(1), default=6, help='streams a setting')
    parser.add_argument('--frames', type=at_least(1), default=240)
    parser.add_argument('--tokens', type=at_least(1), default=128, help='size of the memory')
    parser.add_argument('--tuning', action='store_true', help='use the tuning seeds')
    parser.add_argument('--model', default='demo')
    parser.add_argument('--out', type=folder, default='bench_results')


def run(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the benchmark, print its tables and write its files."""
    from infinipot_ros.models import load_model
    started = time.perf_counter()
    model = load_model(options.model)
    scores: list[ScoreRow] = []
    kept: list[KeptRow] = []
    for setting in options.settings.split(','):
        for stream in make_streams(setting, options.streams, options.frames, options.tuning):
            found = look_at(model, stream, options.tokens, options.policies.split(','))
            scores += found[0]
            kept += found[1]
    print('Area under the curve, things against background, and mean cosines with recent keys\n'
          + plain_table(*score_table(scores)) + '\n')
    print(f'What is held at the end of a stream ({options.tokens} tokens), and how many of '
          '(thing, layer, head) still hold the thing\n' + plain_table(*kept_table(kept)))
    folder = options.out / 'scores'
    write_rows(folder / 'scores.csv', scores)
    write_rows(folder / 'kept.csv', kept)
    write_about(folder / 'about.json', command, time.perf_counter() - started)
    return 0


def score_table(rows: Sequence[ScoreRow]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: settings, layers and heads down, means over streams."""
    header = ['setting', 'layer', 'head', 'AUC TaR', 'AUC VaN', 'background, same patch',
              'background, wrong patch', 'things, same patch']
    groups: dict[tuple[str, int, int], list[ScoreRow]] = {}
    for row in rows:
        groups.setdefault((row.setting, row.layer, row.head), []).append(row)
    return header, [
        [setting, str(layer), str(head),
         *(f'{mean_of(mine, name):.2f}' for name in (
             'tar_auc', 'van_auc', 'background_same_patch', 'background_wrong_patch',
             'things_same_patch'))]
        for (setting, layer, head), mine in groups.items()]


def kept_table(rows: Sequence[KeptRow]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: settings and policies down, means over streams."""
    header = ['policy', 'setting', 'things, %', 'fixtures, %', 'background, %', 'covered, %']
    groups: dict[tuple[str, str], list[KeptRow]] = {}
    for row in rows:
        groups.setdefault((row.policy, row.setting), []).append(row)
    return header, [
        [policy, setting, *(f'{mean_of(mine, name):.0f}' for name in (
            'target', 'fixture', 'background', 'covered'))]
        for (policy, setting), mine in groups.items()]


def mean_of(rows: Sequence[object], name: str) -> float:
    """Return the mean of a field over rows, of those that have a number."""
    values = np.array([getattr(row, name) for row in rows], float)
    return float(np.nanmean(values)) if not np.isnan(values).all() else float('nan')
