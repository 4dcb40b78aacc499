# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Tables for a terminal and for Markdown, and how a share is written in a cell."""

from __future__ import annotations

from collections.abc import Sequence
import math

Cells = Sequence[Sequence[str]]


def plain_table(header: Sequence[str], rows: Cells) -> str:
    """Return an aligned table; the first column to the left, the others to the right."""
    widths = [max(len(str(row[k])) for row in [header, *rows]) for k in range(len(header))]
    lines = ['  '.join(_pad(str(cell), width, k) for k, (cell, width) in
                       enumerate(zip(row, widths))).rstrip() for row in [header, *rows]]
    return '\n'.join([lines[0], '-' * len(lines[0]), *lines[1:]])


def markdown_table(header: Sequence[str], rows: Cells) -> str:
    """Return a Markdown table; the first column to the left, the others to the right."""
    marks = ['---', *['---:'] * (len(header) - 1)]
    return '\n'.join('| ' + ' | '.join(str(cell) for cell in row) + ' |'
                     for row in [header, marks, *rows])


def interval(value: float, low: float, high: float, signed: bool = False) -> str:
    """Write '82 [71, 92]', or '+45 [+32, +58]'; '' where there is no value."""
    if math.isnan(value):
        return ''
    form = '+.0f' if signed else '.0f'
    if math.isnan(low):
        return format(value, form)
    return f'{value:{form}} [{low:{form}}, {high:{form}}]'


def _pad(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)
