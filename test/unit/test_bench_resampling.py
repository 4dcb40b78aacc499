# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Intervals over streams cover the truth as often as they say, and pairing is worth having."""

import math

from infinipot_ros.bench.resampling import difference_of, resample, share_of, verdict
import numpy as np


def counts(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_share_is_of_all_questions_not_a_mean_of_streams():
    share = share_of(counts(1, 9), counts(1, 99), resample(2))
    assert share.value == 10 / 100
    assert share.count == 100


def test_nothing_asked_is_no_number():
    share = share_of(counts(0, 0), counts(0, 0), resample(2))
    assert share.count == 0
    assert math.isnan(share.value)
    assert math.isnan(share.low)


def test_one_stream_has_no_interval():
    share = share_of(counts(3), counts(4), resample(1))
    assert share.value == 0.75
    assert math.isnan(share.low)


def test_interval_is_the_same_in_every_run():
    first = share_of(counts(1, 5, 9), counts(10, 10, 10), resample(3))
    assert first == share_of(counts(1, 5, 9), counts(10, 10, 10), resample(3))


def test_interval_covers_the_truth_where_answers_of_a_stream_depend_on_each_other():
    rng = np.random.default_rng(3)
    samples = resample(16, draws=500)
    asked = np.full(16, 20, np.int64)
    covered = naive = 0
    for _ in range(300):
        # Each stream is easy or hard as a whole; the true share is one half.
        right = rng.binomial(20, rng.beta(1, 1, 16)).astype(np.int64)
        share = share_of(right, asked, samples)
        covered += share.low <= 0.5 <= share.high
        spread = 1.96 * math.sqrt(share.value * (1 - share.value) / 320)
        naive += abs(share.value - 0.5) <= spread
    assert covered / 300 > 0.87
    # Control: an interval that takes the questions for independent is far too narrow.
    assert naive / 300 < 0.7


def test_pairing_sees_a_small_difference_between_very_different_streams():
    asked = np.full(12, 50, np.int64)
    base = np.arange(12, dtype=np.int64) * 4
    better = base + 2
    samples = resample(12)
    found = difference_of((better, base), (asked, asked), samples)
    assert verdict(found) == 'wins'
    assert math.isclose(found.value, 0.04)
    assert verdict(difference_of((base, better), (asked, asked), samples)) == 'loses'
    assert verdict(difference_of((base, base), (asked, asked), samples)) == 'ties'
    # Control: without pairing the two intervals overlap almost wholly.
    first, second = (share_of(right, asked, samples) for right in (better, base))
    assert first.low < second.high


def test_no_difference_is_found_in_noise_too_often():
    rng = np.random.default_rng(5)
    samples = resample(16, draws=500)
    asked = np.full(16, 20, np.int64)
    stars = 0
    for _ in range(300):
        hard = rng.beta(1, 1, 16)
        one, two = (rng.binomial(20, hard).astype(np.int64) for _ in range(2))
        stars += verdict(difference_of((one, two), (asked, asked), samples)) != 'ties'
    assert stars / 300 < 0.12
