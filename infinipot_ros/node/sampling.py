# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Which frames of a camera go into the memory, by their stamps. Nothing here imports ROS."""

from __future__ import annotations

from enum import Enum

SECOND_NS = 1_000_000_000
# further back than this is a jump of time; less is a message that came late
JUMP_NS = SECOND_NS
# stamps further ahead of the clock than this are wrong
FUTURE_NS = 60 * SECOND_NS
# a camera at exactly the wanted rate jitters around it
TOLERANCE = 0.1
# a question takes the newest frame as well, unless the last one taken is about as new
NEWEST_GAP = 0.25


class Verdict(Enum):
    """What to do with a frame."""

    DUE = 'due'
    EARLY = 'early'
    LATE = 'late'
    JUMPED_BACK = 'jumped back'


class Sampler:
    """Choose `fps` frames a second by their stamps."""

    def __init__(self) -> None:
        """Start before any frame: the first one is due."""
        self._next_ns: int | None = None
        self._newest_ns: int | None = None
        self._taken_ns: int | None = None
        self._planned_from = 0
        self._fps = 0.0

    def judge(self, stamp_ns: int, fps: float) -> Verdict:
        """Say whether the frame of this stamp is due, and take note of it."""
        period_ns = SECOND_NS / fps
        if self._newest_ns is None or self._next_ns is None:
            self._fps = fps
            self._take(stamp_ns, stamp_ns + int(period_ns))
            return Verdict.DUE
        if stamp_ns < self._newest_ns:
            if self._newest_ns - stamp_ns <= JUMP_NS:
                return Verdict.LATE
            self._take(stamp_ns, stamp_ns + int(period_ns))
            return Verdict.JUMPED_BACK
        self._newest_ns = stamp_ns
        if fps != self._fps:
            self._fps, self._next_ns = fps, self._planned_from + int(period_ns)
        if stamp_ns < self._next_ns - TOLERANCE * period_ns:
            return Verdict.EARLY
        behind = stamp_ns > self._next_ns + period_ns
        self._take(stamp_ns, int((stamp_ns if behind else self._next_ns) + period_ns))
        return Verdict.DUE

    def wants_newest(self, stamp_ns: int, fps: float) -> bool:
        """Say whether a question is better off with this newest frame too, and take note."""
        if self._taken_ns is not None and abs(stamp_ns - self._taken_ns) < \
                NEWEST_GAP * SECOND_NS / fps:
            return False
        self._taken_ns = stamp_ns
        return True

    def _take(self, stamp_ns: int, next_ns: int) -> None:
        self._newest_ns = self._taken_ns = self._planned_from = stamp_ns
        self._next_ns = next_ns


def usable_stamp(stamp_ns: int, now_ns: int) -> tuple[int, str]:
    """
    Return a stamp to go by, and what was wrong with the one given ('' if nothing).

    :param now_ns: the clock of the node; 0 where simulated time has not begun.
    """
    if stamp_ns <= 0:
        return now_ns, 'images have no stamp (0); the time of arrival is used'
    if now_ns > 0 and stamp_ns > now_ns + FUTURE_NS:
        ahead_s = (stamp_ns - now_ns) / SECOND_NS
        return now_ns, (f'image stamps are {ahead_s:.0f} s ahead of the clock; the time of '
                        'arrival is used. Is use_sim_time right, and are the clocks synchronised?')
    return stamp_ns, ''
