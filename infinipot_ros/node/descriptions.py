# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When to describe the scene. Nothing here imports ROS."""

from __future__ import annotations

from collections.abc import Callable
import time
from typing import Any, Protocol

# a scene that changes all the time is described no more often than this
NOVELTY_GAP_S = 2.0


class Values(Protocol):
    """The parameters of a node."""

    def __getitem__(self, name: str) -> Any:
        """Return a value."""


class Descriptions:
    """
    Ask for a description every describe.period_s, and when a frame is new enough.

    Each puts off the next, so that the two never come at once.
    """

    def __init__(self, parameters: Values, describe: Callable[[], None]) -> None:
        """Ask for nothing yet; `describe` begins one description."""
        self._parameters = parameters
        self._describe = describe
        self._pictures: object = None
        self.restart()

    def restart(self) -> None:
        """Count the time from now; after a description, or a start."""
        self.last = time.monotonic()

    def on_novelty(self, novelty: float) -> None:
        """Describe if a frame is new by describe.novelty."""
        if 0 < self._parameters['describe.novelty'] <= novelty and \
                time.monotonic() - self.last > NOVELTY_GAP_S:
            self._begin()

    def in_time(self, pictures: object) -> None:
        """
        Describe if it is time to.

        :param pictures: how many have come; without another it would say again what was seen then.
        """
        period_s = self._parameters['describe.period_s']
        if 0 < period_s <= time.monotonic() - self.last and pictures != self._pictures:
            self._pictures = pictures
            self._begin()

    def _begin(self) -> None:
        self.restart()
        self._describe()
