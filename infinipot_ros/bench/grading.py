# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From graded answers to shares by family and age, and to who beats whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from infinipot_ros.bench.methods import compared
from infinipot_ros.bench.resampling import difference_of, resample, share_of, verdict
from infinipot_ros.bench.retention import AnswerRow
import numpy as np

# A thing last seen more frames ago than this is one about the past.
PAST_AGE = 24
AGE_BINS: tuple[tuple[int, int], ...] = (
    (0, 0), (1, 12), (13, 24), (25, 48), (49, 96), (97, 192), (193, 1 << 30))


@dataclass(frozen=True)
class Metric:
    """A share: among the answers that `asks` selects, those that `counts`."""

    name: str
    asks: Callable[[AnswerRow], bool]
    counts: Callable[[AnswerRow], bool]


def _right(row: AnswerRow) -> bool:
    return row.right == 1


def _family(family: str, *kinds: str) -> Callable[[AnswerRow], bool]:
    return lambda row: row.family == family and (not kinds or row.kind in kinds)


def _past(family: str, *kinds: str) -> Callable[[AnswerRow], bool]:
    of_family = _family(family, *kinds)
    return lambda row: of_family(row) and row.age > PAST_AGE


_PAST_COLOUR = _past('colour', 'seen')
YES = ('yes', 'yes-shared')
METRICS: tuple[Metric, ...] = (
    Metric('colour, past', _PAST_COLOUR, _right),
    Metric('colour, past: abstained', _PAST_COLOUR,
           lambda row: not row.right and row.abstained == 1),
    Metric('colour, past: invented', _PAST_COLOUR,
           lambda row: not row.right and row.abstained == 0),
    Metric('colour, recent', lambda row: _family('colour', 'seen')(row) and row.age <= PAST_AGE,
           _right),
    Metric('colour, never seen', _family('colour', 'never'), _right),
    Metric('shape, past', _past('shape', 'seen'), _right),
    Metric('did: yes, past', _past('did', *YES), _right),
    Metric('did: no', _family('did', 'no'), _right),
    Metric('did: no, recombined', _family('did', 'no-recombined'), _right),
    Metric('is there now', _family('now'), _right),
    Metric('see now', _family('see'), _right),
    Metric('where now', _family('where'), _right),
    Metric('which first', _family('first'), _right),
    Metric('evidence, past', lambda row: row.age > PAST_AGE and row.evidence >= 0
           and row.family in ('colour', 'shape', 'did'), lambda row: row.evidence == 1),
)
# What is compared in pairs.
PAIRED = ('colour, past', 'did: yes, past', 'did: no', 'did: no, recombined')


@dataclass(frozen=True)
class ShareRow:
    """One share with its 95 % interval over streams; values are in percent."""

    setting: str
    budget: str
    method: str
    metric: str
    percent: float
    low: float
    high: float
    questions: int
    streams: int


@dataclass(frozen=True)
class PairRow:
    """The first method's share less the second's, in points, on the same streams."""

    setting: str
    budget: str
    first: str
    second: str
    metric: str
    points: float
    low: float
    high: float
    verdict: str


def age_metrics(family: str = 'colour', kind: str = 'seen') -> list[Metric]:
    """Return a metric for every bin of age of a family."""
    return [Metric(age_name(low, high), _in_bin(_family(family, kind), low, high), _right)
            for low, high in AGE_BINS]


def age_name(low: int, high: int) -> str:
    """Name a bin of ages in frames."""
    if low == high:
        return str(low)
    return f'{low}+' if high >= 1 << 30 else f'{low}-{high}'


def _in_bin(
    asks: Callable[[AnswerRow], bool], low: int, high: int,
) -> Callable[[AnswerRow], bool]:
    return lambda row: asks(row) and low <= row.age <= high


class Tally:
    """Counts of one setting and budget: per method and metric, right and asked per stream."""

    def __init__(self, rows: Sequence[AnswerRow], metrics: Sequence[Metric]) -> None:
        """Count rows that are all of one setting and budget."""
        self.setting, self.budget = rows[0].setting, rows[0].budget
        seeds = sorted({row.seed for row in rows})
        self.streams = len(seeds)
        self.methods = list(dict.fromkeys(row.method for row in rows))
        self.metrics = [metric.name for metric in metrics]
        self.samples = resample(self.streams)
        shape = (len(self.methods), len(metrics), self.streams)
        self.right = np.zeros(shape, np.int64)
        self.asked = np.zeros(shape, np.int64)
        method_of = {name: k for k, name in enumerate(self.methods)}
        stream_of = {seed: k for k, seed in enumerate(seeds)}
        for row in rows:
            at = method_of[row.method], stream_of[row.seed]
            for k, metric in enumerate(metrics):
                if metric.asks(row):
                    self.asked[at[0], k, at[1]] += 1
                    self.right[at[0], k, at[1]] += metric.counts(row)

    def shares(self) -> list[ShareRow]:
        """Return every share with its interval."""
        rows = []
        for m, method in enumerate(self.methods):
            for k, metric in enumerate(self.metrics):
                share = share_of(self.right[m, k], self.asked[m, k], self.samples)
                rows.append(ShareRow(
                    self.setting, self.budget, method, metric, _percent(share.value),
                    _percent(share.low), _percent(share.high), share.count, self.streams))
        return rows

    def pairs(self, metrics: Iterable[str] = PAIRED) -> list[PairRow]:
        """Return every paired difference between compared methods, and who wins."""
        rows = []
        methods = [self.methods.index(name) for name in compared(self.methods)]
        for metric in metrics:
            k = self.metrics.index(metric)
            for a, b in combinations(methods, 2):
                found = difference_of((self.right[a, k], self.right[b, k]),
                                      (self.asked[a, k], self.asked[b, k]), self.samples)
                rows.append(PairRow(
                    self.setting, self.budget, self.methods[a], self.methods[b], metric,
                    _percent(found.value), _percent(found.low), _percent(found.high),
                    verdict(found)))
        return rows


def cells_of(rows: Iterable[AnswerRow]) -> list[list[AnswerRow]]:
    """Return the rows of every setting and budget apart, in the order of appearance."""
    cells: dict[tuple[str, str], list[AnswerRow]] = {}
    for row in rows:
        cells.setdefault((row.setting, row.budget), []).append(row)
    return list(cells.values())


def _percent(value: float) -> float:
    return round(100 * value, 2)
