# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Look over a policy's shoulder: see every view that it decides on, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from infinipot_ros.memory.policies import get_policy, LayerView, POLICIES
from torch import Tensor

Watch = Callable[[LayerView, Tensor], None]


class Probe:
    """
    A policy that behaves as another one and tells of each decision.

    Use as a context: it gives the name under which the watched policy runs, and takes it back.
    """

    def __init__(self, policy: str, watch: Watch) -> None:
        """Watch `policy`; `watch(view, kept)` comes after each decision on a layer."""
        self._policy = get_policy(policy)
        self._watch = watch
        self._name = f'{self._policy.name} watched by {id(self)}'

    def __enter__(self) -> str:
        """Register the watched policy and return its name."""
        # Who watches wants to know of which layer a decision is.
        POLICIES[self._name] = replace(
            self._policy, name=self._name, select=self._select, many_layers=False,
            kernel=None)
        return self._name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Forget the watched policy."""
        del POLICIES[self._name]

    def _select(self, view: LayerView, budget: int) -> Tensor:
        kept = self._policy.select(view, budget)
        self._watch(view, kept)
        return kept
