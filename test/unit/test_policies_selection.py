# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Choosing the best tokens: exact counts, ties by token order, infinities and NaN last."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from infinipot_ros.memory.policies import keep_top, top_mask
from policies_oracle import best
import torch

# Few different values, so that ties are the rule.
SCORE = st.sampled_from([-math.inf, -1.0, -0.0, 0.0, 0.5, math.inf, math.nan])


def ranked(row):
    return [-math.inf if math.isnan(score) else score for score in row]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data(), tokens=st.integers(1, 12))
def test_the_mask_has_exactly_the_best_of_each_row(data, tokens):
    rows = data.draw(st.lists(st.lists(SCORE, min_size=tokens, max_size=tokens),
                              min_size=2, max_size=2))
    counts = data.draw(st.lists(st.integers(0, tokens), min_size=2, max_size=2))
    scores = torch.tensor(rows)
    both = top_mask(scores, torch.tensor(counts))
    for head, count in enumerate(counts):
        expected = best(ranked(rows[head]), count, range(tokens))
        assert set(both[head].nonzero().flatten().tolist()) == expected
        alone = top_mask(scores, count)[head]
        assert set(alone.nonzero().flatten().tolist()) == expected


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data(), tokens=st.integers(1, 12))
def test_first_tokens_come_before_all_others_whatever_the_scores(data, tokens):
    rows = data.draw(st.lists(st.lists(SCORE, min_size=tokens, max_size=tokens),
                              min_size=2, max_size=2))
    masks = data.draw(st.lists(st.lists(st.booleans(), min_size=tokens, max_size=tokens),
                               min_size=2, max_size=2))
    budget = data.draw(st.integers(1, tokens))
    kept = keep_top(torch.tensor(rows), budget, torch.tensor(masks))
    for head in range(2):
        # Here the lowest finite number stands for NaN and -inf alike, the highest for +inf.
        low, high = torch.finfo(torch.float32).min, torch.finfo(torch.float32).max
        finite = [min(max(score, low), high) for score in ranked(rows[head])]
        first = [n for n in range(tokens) if masks[head][n]]
        chosen = best(finite, budget, first)
        others = [n for n in range(tokens) if n not in first]
        chosen |= best(finite, budget - len(chosen), others)
        assert kept[head].tolist() == sorted(chosen)


def test_scores_that_are_all_nan_still_give_every_token_once():
    first = torch.tensor([[True, True, False, False, False]])
    assert keep_top(torch.full((1, 5), math.nan), 4, first).tolist() == [[0, 1, 2, 3]]
