# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How words that a model does not know, and times of day, are told."""

from collections.abc import Sequence
from datetime import datetime, timezone

WORDS_NAMED, WORD_CHARS = 5, 40
# Stamps past this many seconds are times since 1970, not since the start of a recording.
EPOCH_S = 1e8


def named(words: Sequence[str]) -> str:
    """Return the first few words in quotes, and how many more there are."""
    some = ', '.join(repr(word[:WORD_CHARS]) for word in words[:WORDS_NAMED])
    return some + (f' and {len(words) - WORDS_NAMED} more' if len(words) > WORDS_NAMED else '')


def left_out(words: Sequence[str]) -> str:
    """Say that words of a question that was answered had no part in the answer; '' if none."""
    if not words:
        return ''
    return (f'the model does not know {named(words)}; the answer takes no account of that, '
            'whatever its confidence')


def utc(stamp_ns: int) -> str:
    """Return the date and the time of day of a stamp; '' where it is no time since 1970."""
    if stamp_ns / 1e9 < EPOCH_S:
        return ''
    return f'{datetime.fromtimestamp(stamp_ns / 1e9, timezone.utc):%Y-%m-%d %H:%M:%S} UTC'
