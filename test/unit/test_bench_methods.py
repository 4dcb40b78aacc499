# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Budgets and methods are read from a command line without guessing."""

from fractions import Fraction

from infinipot_ros.bench.methods import Method, method_of, ORACLE, parse_budget, REPORTED
from infinipot_ros.errors import ConfigError
import pytest


def test_budgets_are_tokens_or_shares_of_a_stream():
    assert parse_budget('128').of(10_000) == 128
    assert parse_budget('1/8').of(1280) == 160
    assert parse_budget('1/8').share == Fraction(1, 8)


@pytest.mark.parametrize('text', ['', 'all', '0', '-3', '1/0', '3/2', '12.5x'])
def test_other_budgets_are_refused(text):
    with pytest.raises(ConfigError, match='neither'):
        parse_budget(text)


def test_every_reported_policy_is_there():
    for name in REPORTED:
        assert method_of(name).policy == name


def test_an_unknown_policy_is_refused_by_naming_those_there_are():
    with pytest.raises(ConfigError, match='infinipot_v'):
        method_of('infinipotv')


def test_a_method_sets_what_it_is_told_and_nothing_else():
    plain = Method('x', 'tar').config(200, {'truth': 1})
    assert (plain.max_memory_tokens, plain.policy, plain.alpha) == (200, 'tar', 0.5)
    assert not plain.policy_options
    own = Method('x', 'infinipot_v', {'alpha': 0.25}, tokens=64).config(200, {})
    assert (own.max_memory_tokens, own.alpha) == (64, 0.25)


def test_only_the_oracle_is_told_the_truth():
    assert Method('x', ORACLE).config(200, {'truth': 1}).policy_options == {'truth': 1}
