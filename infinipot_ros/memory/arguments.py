# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a caller hands in beside pictures and settings, checked before anything changes."""

from collections.abc import Sequence
import math
import numbers

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.records import Pose

_STAMPS = range(-(2**63), 2**63)


def stamp_in_ns(stamp: object, stamp_ns: object) -> int:
    """Return one time in integer nanoseconds. Raises ConfigError unless exactly one is a time."""
    if (stamp is None) == (stamp_ns is None):
        raise ConfigError('give a frame either stamp (seconds) or stamp_ns (nanoseconds)')
    if stamp is None:
        when = checked_whole('stamp_ns', stamp_ns)
    elif not is_finite(stamp):
        raise ConfigError(f'a stamp of {stamp!r} s is no time: give a number of seconds')
    else:
        seconds = float(stamp)  # type: ignore[arg-type]
        # One that is too large to be multiplied does not fit either.
        when = round(seconds * 1e9) if abs(seconds) < 1e12 else int(seconds) * 10**9
    if when not in _STAMPS:
        raise ConfigError('a stamp that does not fit 64 bits of nanoseconds is no time')
    return when


def check_place(frame_id: object, pose: object) -> None:
    """Raise ConfigError unless these are a text, and a Pose of finite numbers or None."""
    if not isinstance(frame_id, str):
        raise ConfigError(f'frame_id is {frame_id!r}: give a text')
    if pose is None:
        return
    if not isinstance(pose, Pose):
        raise ConfigError(f'pose is {pose!r}: give a Pose, or None')
    if not isinstance(pose.frame_id, str):
        raise ConfigError(f'frame_id of the pose is {pose.frame_id!r}: give a text')
    for name, length in (('position', 3), ('orientation', 4)):
        found = getattr(pose, name)
        try:
            parts = list(found)
        except TypeError:
            parts = []
        if len(parts) != length or not all(is_finite(part) for part in parts):
            raise ConfigError(f'{name} of the pose is {found!r}: give {length} finite numbers')


def check_question(
    since_ns: object,
    until_ns: object,
    max_new_tokens: object,
    timeout_s: object,
    history: object,
) -> None:
    """Raise ConfigError naming the first that is of a wrong kind."""
    for name, value in (('since_ns', since_ns), ('until_ns', until_ns)):
        if value is not None:
            checked_whole(name, value)
    checked_whole('max_new_tokens', max_new_tokens)
    if timeout_s != math.inf and not is_finite(timeout_s):
        raise ConfigError(f'timeout_s is {timeout_s!r}: give a number of seconds, or 0 for none')
    if not isinstance(history, Sequence) or isinstance(history, str):
        raise ConfigError(f'history is {history!r}: give a list of (question, answer) pairs')
    for turn in history:
        if not (
            isinstance(turn, tuple | list)
            and len(turn) == 2
            and all(isinstance(text, str) for text in turn)
        ):
            raise ConfigError(f'history holds {turn!r}: give pairs of texts (question, answer)')


def checked_whole(name: str, value: object) -> int:
    """Return a whole number of any integer type. Raises ConfigError naming what is none."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ConfigError(f'{name} is {value!r}: give a whole number')
    return int(value)


def is_finite(value: object) -> bool:
    """Return whether a value is a finite number of any real type, and no truth value."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
