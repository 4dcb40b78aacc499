# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Plots of a retention result as PNG files. Needs matplotlib, which is imported only here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from infinipot_ros.bench.grading import AGE_BINS, age_name, ShareRow
from infinipot_ros.bench.methods import compared
from infinipot_ros.bench.retention import MemoryRow
from infinipot_ros.errors import ConfigError
import numpy as np

_MARKS = 'osD^v<>PX*'


def plot_ages(path: Path, rows: Sequence[ShareRow]) -> None:
    """Plot the share of right colours against age, a panel for each setting and budget."""
    cells = list(dict.fromkeys((row.setting, row.budget) for row in rows))
    figure, panels = _figure(len(cells))
    bins = [age_name(*edges) for edges in AGE_BINS]
    for panel, (setting, budget) in zip(panels, cells):
        mine = [row for row in rows if (row.setting, row.budget) == (setting, budget)]
        for k, method in enumerate(compared(row.method for row in mine)):
            of_bin = {row.metric: row for row in mine if row.method == method and row.questions}
            at = [x for x, name in enumerate(bins) if name in of_bin]
            shown = [of_bin[bins[x]] for x in at]
            panel.plot(at, [row.percent for row in shown], marker=_MARKS[k % len(_MARKS)],
                       markersize=4, label=method)
            if not any(np.isnan(row.low) for row in shown):
                panel.fill_between(at, [row.low for row in shown], [row.high for row in shown],
                                   alpha=0.08)
        panel.set_title(f'{setting}, {budget} tokens', fontsize=10)
        panel.set_xticks(range(len(bins)), bins, fontsize=7)
        panel.set_xlabel('frames since last seen')
        panel.set_ylabel('right colour, %')
        panel.set_ylim(-3, 103)
    panels[0].legend(fontsize=6)
    _save(figure, path)


def plot_budgets(path: Path, rows: Sequence[ShareRow], tokens_of: dict[str, int]) -> None:
    """Plot the share of right colours about the past against the budget, a panel a setting."""
    settings = list(dict.fromkeys(row.setting for row in rows))
    figure, panels = _figure(len(settings))
    for panel, setting in zip(panels, settings):
        mine = [row for row in rows if row.setting == setting and row.metric == 'colour, past']
        for k, method in enumerate(compared(row.method for row in mine)):
            line = sorted((tokens_of[row.budget], row.percent, row.low, row.high)
                          for row in mine if row.method == method)
            tokens, percent, low, high = (np.array(part) for part in zip(*line))
            panel.plot(tokens, percent, marker=_MARKS[k % len(_MARKS)], markersize=4,
                       label=method)
            if not np.isnan(low).any():
                panel.fill_between(tokens, low, high, alpha=0.08)
        panel.set_title(setting, fontsize=10)
        panel.set_xscale('log', base=2)
        ticks = sorted(set(tokens_of.values()))
        panel.set_xticks(ticks, [str(tick) for tick in ticks], fontsize=7)
        panel.set_xlabel('tokens of the memory')
        panel.set_ylabel('right colour, past, %')
        panel.set_ylim(-3, 103)
    panels[0].legend(fontsize=6)
    _save(figure, path)


def plot_memory(path: Path, rows: Sequence[MemoryRow]) -> None:
    """Plot the bytes held against the length of the stream, beside a cache that keeps all."""
    figure, (panel,) = _figure(1)
    for budget in dict.fromkeys(row.budget for row in rows):
        mine = [row for row in rows if row.budget == budget]
        frames = sorted({row.frames for row in mine})
        most = [max(row.held_bytes for row in mine if row.frames == at) for at in frames]
        panel.plot(frames, np.array(most) / 2**20, marker='o', markersize=3,
                   label=f'a memory of {budget} tokens, all of it')
    growing = sorted({(row.frames, row.growing_bytes) for row in rows})
    panel.plot([at for at, _ in growing], np.array([size for _, size in growing]) / 2**20,
               linestyle='--', color='black', label='keys and values of every frame')
    panel.set_xlabel('frames seen')
    panel.set_ylabel('MiB')
    panel.set_ylim(bottom=0)
    panel.legend(fontsize=7)
    _save(figure, path)


def check_plotting() -> None:
    """Raise `ConfigError` now rather than after a long run, where matplotlib is not there."""
    if find_spec('matplotlib') is None:
        raise ConfigError(
            'plots need matplotlib: pip install matplotlib, or leave them out with --no-plots')


def _figure(panels: int) -> tuple[Any, list[Any]]:
    check_plotting()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    columns = min(3, panels)
    lines = -(-panels // columns)
    figure = Figure(figsize=(4.6 * columns, 3.4 * lines), layout='constrained')
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, squeeze=False)
    flat = list(grid.flat)
    for spare in flat[panels:]:
        spare.set_visible(False)
    return figure, flat[:panels]


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
