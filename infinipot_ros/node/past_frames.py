# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Which frames to show of a memory, how old they are, and of which to keep a picture.

Nothing here imports ROS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinipot_ros.memory.records import KeptFrame

# kept tokens are a mean over caches in float32
NEARLY_WHOLE = 0.999
NOW_S = 0.05


def shown(frames: Sequence[KeptFrame], whole: int, most: int) -> list[KeptFrame]:
    """
    Return the newest frame, then what a compression has left of the past, in order of time.

    Of what is left those frames that have most, but not all of one moment.

    :param frames: oldest first.
    :param whole: tokens of a whole frame. Where no frame has lost any, some from all of the past
        are returned.
    """
    if not frames:
        return []
    past, untouched = _split(frames[:-1], whole)
    best = _richest_apart(past, most - 1) if past else _spread(untouched, most - 1)
    return [frames[-1], *best]


def pictured(frames: Sequence[KeptFrame], whole: int, most: int) -> list[KeptFrame]:
    """
    Return the frames whose pictures are worth their place.

    Half of the places at most are for frames that a compression has thinned out, the rest are
    spread over the whole ones: some of these will be thinned out next.
    """
    past, untouched = _split(frames, whole)
    best = _richest(past, max(most // 2, most - len(untouched)))
    return best + _spread(untouched, most - len(best))


def ago(seconds: float) -> str:
    """Return how long ago a frame was in words; negative is later, after a jump of time back."""
    if abs(seconds) < NOW_S:
        return 'now'
    when = 'ago' if seconds > 0 else 'later'
    if abs(seconds) < 60:
        return f'{abs(seconds):.1f} s {when}'
    minutes, rest = divmod(round(abs(seconds)), 60)
    if minutes < 60:
        return f'{minutes} min {rest:02d} s {when}'
    return f'{minutes // 60} h {minutes % 60:02d} min {when}'


def _split(frames: Sequence[KeptFrame],
           whole: int) -> tuple[list[KeptFrame], list[KeptFrame]]:
    """Tell the frames that have lost tokens from those that have not."""
    past = [frame for frame in frames if frame.kept_tokens < NEARLY_WHOLE * whole]
    return past, [frame for frame in frames if frame.kept_tokens >= NEARLY_WHOLE * whole]


def _richest(frames: Sequence[KeptFrame], most: int) -> list[KeptFrame]:
    """Return those with the most tokens, the newer of equals, oldest first."""
    return sorted(_ranked(frames)[:max(0, most)], key=lambda frame: frame.frame)


def _ranked(frames: Sequence[KeptFrame]) -> list[KeptFrame]:
    return sorted(frames, key=lambda frame: (-frame.kept_tokens, -frame.frame))


def _richest_apart(frames: Sequence[KeptFrame], most: int) -> list[KeptFrame]:
    """Return those with the most tokens, as far apart in time as still fills the places."""
    ranked = _ranked(frames)
    stamps = [frame.stamp_ns for frame in frames]
    gap_ns = (max(stamps) - min(stamps)) // max(1, most)
    chosen: list[KeptFrame] = []
    while len(chosen) < min(most, len(frames)):
        for frame in ranked:
            if len(chosen) < most and all(
                    frame.frame != other.frame and (
                        frame.camera != other.camera
                        or abs(frame.stamp_ns - other.stamp_ns) >= gap_ns)
                    for other in chosen):
                chosen.append(frame)
        gap_ns //= 2
    return sorted(chosen, key=lambda frame: frame.frame)


def _spread(frames: Sequence[KeptFrame], most: int) -> list[KeptFrame]:
    """Return at most so many, evenly spaced, with the last one."""
    if most <= 0:
        return []
    if len(frames) <= most:
        return list(frames)
    return [frames[len(frames) * (number + 1) // most - 1] for number in range(most)]
