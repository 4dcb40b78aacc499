# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How a camera is: since when it is silent, slow or stuck, and what of it is lost."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
import math
import time

SILENT_AFTER_S = STUCK_AFTER_S = SLOW_AFTER_S = 5.0
# a camera with less than this share of the wanted rate is slow; half of it is often meant
SLOW_SHARE = 0.4
RECENT_S = 10.0
LOST = 'lost on the way'


@dataclass
class CameraHealth:
    """
    How a camera is; times are steady.

    :param recent: when a picture came (0) or how many were found lost, in the last seconds.
    :param delay_s: how old the newest picture was by its stamp when it came.
    """

    started: float = field(default_factory=time.monotonic)
    arrived: float | None = None
    received: int = 0
    taken: int = 0
    recent: deque[tuple[float, int]] = field(default_factory=deque)
    fps: float = 0.0
    slow_since: float | None = None
    delay_s: float = 0.0
    kind: str = ''
    dropped: Counter[str] = field(default_factory=Counter)
    digest: bytes = b''
    changed: float = 0.0
    repeats: int = 0
    incompatible_qos: str = ''
    last_error: str = ''
    failed: float = -math.inf

    def silent_s(self) -> float:
        """Return for how long nothing has come."""
        return time.monotonic() - (self.started if self.arrived is None else self.arrived)

    def arrive(self, wanted_fps: float) -> None:
        """Take note that a picture has come."""
        now = time.monotonic()
        if self.arrived is not None:
            # the mean over about the last second
            gap = now - self.arrived
            weight = min(1.0, gap) if self.fps else 1.0
            self.fps += weight * (1.0 / max(gap, 1e-3) - self.fps)
            slow = self.fps < SLOW_SHARE * wanted_fps
            # who was silent begins anew
            since = self.slow_since if gap < SILENT_AFTER_S else None
            self.slow_since = (since or now) if slow else None
        self.arrived = now
        self.received += 1
        self._remember(0)

    def slow_s(self) -> float:
        """
        Return for how long pictures have come at well below the wanted rate; 0 if they have not.

        The time since the last one does not count: the camera may have stopped.
        """
        if self.slow_since is None or self.arrived is None:
            return 0.0
        return self.arrived - self.slow_since

    def lose(self, count: int) -> None:
        """Take note that the middleware has found pictures lost."""
        self.dropped[LOST] += count
        self._remember(count)

    def losses(self) -> tuple[int, float]:
        """Return how many pictures were lost in the last seconds, and which share of all."""
        since = time.monotonic() - RECENT_S
        # a copy at once: the other threads go on
        recent = [lost for when, lost in tuple(self.recent) if when >= since]
        lost = sum(recent)
        return lost, lost / max(1, lost + recent.count(0))

    def refuse(self, error: str) -> None:
        """Take note of a picture that could not be read."""
        self.dropped['bad image'] += 1
        self.last_error, self.failed = error, time.monotonic()

    def look_at(self, digest: bytes) -> None:
        """Take note of whether a picture differs from the one before."""
        if digest == self.digest:
            self.repeats += 1
        else:
            self.digest, self.changed, self.repeats = digest, time.monotonic(), 0

    def stuck_s(self) -> float:
        """Return for how long every picture has been the same; 0 if it has not."""
        return time.monotonic() - self.changed if self.repeats else 0.0

    def _remember(self, lost: int) -> None:
        now = time.monotonic()
        self.recent.append((now, lost))
        while self.recent[0][0] < now - RECENT_S:
            self.recent.popleft()
