# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How words of a question that a model does not know are told."""

from collections.abc import Sequence

WORDS_NAMED, WORD_CHARS = 5, 40


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
