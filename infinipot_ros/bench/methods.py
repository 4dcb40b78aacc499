# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a retention benchmark compares: a policy with its settings, and a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from infinipot_ros.bench import oracle
from infinipot_ros.errors import ConfigError
from infinipot_ros.memory import MemoryConfig
from infinipot_ros.memory.policies import get_policy

ORACLE = 'label_oracle'
# The policies that the report compares in pairs, then the ceiling of reading.
REPORTED: tuple[str, ...] = (
    'infinipot_v', 'infinipot_v_gated', 'tar', 'tar_diverse', 'van_pool', 'uniform_tokens',
    'sliding_window', 'recent_frames', 'infinipot_v_published', ORACLE,
)
# Every policy that keeps to a budget; the others (full, fastv, rekv) keep all there is, rekv in
# host memory.
SURVEYED: tuple[str, ...] = (
    *REPORTED, 'tar_frame', 'tar_reverse', 'tar_diverse_later', 'van', 'van_reverse', 'snapkv',
    'infinipot', 'stc', 'ttm', 'rekv_no_offload', 'dscache_uniform', 'uniform_frames', 'random',
)
# Budgets are counted in tokens here, so the MiB budget only has to be out of the way.
_AMPLE_MIB = 256.0


@dataclass(frozen=True)
class Method:
    """
    A named configuration of the memory; `settings` are fields of MemoryConfig.

    `tokens`: a size of its own for the cumulative cache, whatever the budget of the run is.
    """

    name: str
    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tokens: int | None = None

    def config(self, tokens: int, options: Mapping[str, Any]) -> MemoryConfig:
        """Return the settings of a memory with a cumulative cache of `tokens` tokens."""
        policy = oracle.NAME if self.policy == ORACLE else self.policy
        given = {
            'instant_frames': 0, 'max_question_tokens': 32, 'max_new_tokens': 12,
            'thumbnail_px': 0, 'max_evidence': 1, **self.settings,
        }
        if self.policy == ORACLE:
            given['policy_options'] = {**given.get('policy_options', {}), **options}
        return MemoryConfig(
            budget_mib=_AMPLE_MIB, policy=policy, max_memory_tokens=self.tokens or tokens, **given)


def method_of(name: str) -> Method:
    """
    Return the method that is a policy with its own settings.

    Raises `ConfigError` naming the policies there are.
    """
    if name != ORACLE:
        get_policy(name)
    return Method(name, name)


def compared(names: Iterable[str]) -> list[str]:
    """Return the methods to show beside each other: of all policies, only the reported ones."""
    methods = list(dict.fromkeys(names))
    if set(methods) == set(SURVEYED):
        return list(REPORTED)
    return methods


@dataclass(frozen=True)
class Budget:
    """Tokens of the cumulative cache: a number, or a share of all tokens of a stream."""

    text: str
    tokens: int | None
    share: Fraction | None

    def of(self, stream_tokens: int) -> int:
        """Return the tokens for a stream of `stream_tokens`."""
        if self.tokens is not None:
            return self.tokens
        assert self.share is not None
        return int(stream_tokens * self.share)


def parse_budget(text: str) -> Budget:
    """
    Read '128' or '1/8'.

    Raises `ConfigError` for anything else.
    """
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0 or (value > 1 and value.denominator != 1):
        raise ConfigError(
            f'budget: {text!r} is neither a number of tokens such as 128 nor a share such as 1/8')
    if value > 1:
        return Budget(text, int(value), None)
    return Budget(text, None, value)
