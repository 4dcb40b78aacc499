# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Shares with 95 % intervals over independent streams, and paired differences between methods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DRAWS = 4000
LEVEL = 0.95
# Fewer streams than this say nothing about how far streams differ.
LEAST_STREAMS = 2

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """A share of `count` questions with its interval; low and high are NaN for a single stream."""

    value: float
    low: float
    high: float
    count: int


def resample(num_streams: int, draws: int = DRAWS, seed: int = 0) -> Counts:
    """Return how often each stream is drawn in each bootstrap sample: [draws, streams]."""
    rng = np.random.default_rng(seed)
    even = np.full(num_streams, 1.0 / num_streams)
    return np.asarray(rng.multinomial(num_streams, even, size=draws), np.int64)


def share_of(right: Counts, asked: Counts, samples: Counts) -> Share:
    """
    Return sum(right) / sum(asked) with its interval.

    right, asked: [streams], per stream. Questions of one stream depend on each other, so whole
    streams are drawn. NaN where nothing was asked.
    """
    total = int(asked.sum())
    value = float(right.sum()) / total if total else float('nan')
    low, high = _interval(_ratios(right, asked, samples), len(asked))
    return Share(value, low, high, total)


def difference_of(
    right: tuple[Counts, Counts], asked: tuple[Counts, Counts], samples: Counts,
) -> Share:
    """
    Return share(first) - share(second) on the same streams with its paired interval.

    right, asked: of the two methods, each [streams]. Both get the same bootstrap samples, so what
    the streams have in common cancels.
    """
    totals = [int(part.sum()) for part in asked]
    if min(totals) == 0:
        return Share(float('nan'), float('nan'), float('nan'), 0)
    value = float(right[0].sum()) / totals[0] - float(right[1].sum()) / totals[1]
    first, second = (_ratios(r, a, samples) for r, a in zip(right, asked))
    low, high = _interval(first - second, len(asked[0]))
    return Share(value, low, high, min(totals))


def verdict(difference: Share) -> str:
    """Return 'wins', 'loses' or 'ties' of the first method; '-' where there is no interval."""
    if np.isnan(difference.low):
        return '-'
    if difference.low > 0:
        return 'wins'
    return 'loses' if difference.high < 0 else 'ties'


def _ratios(right: Counts, asked: Counts, samples: Counts) -> npt.NDArray[np.float64]:
    drawn = (samples @ asked).astype(np.float64)
    return np.divide(samples @ right, drawn, out=np.full(len(drawn), np.nan), where=drawn > 0)


def _interval(values: npt.NDArray[np.float64], streams: int) -> tuple[float, float]:
    # A sample of streams in which the question was never asked says nothing.
    values = values[~np.isnan(values)]
    if streams < LEAST_STREAMS or not len(values):
        return float('nan'), float('nan')
    edge = (1 - LEVEL) / 2
    low, high = np.quantile(values, [edge, 1 - edge])
    return float(low), float(high)
