# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the demo prints: a line about the memory, and a table of questions and answers."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infinipot_ros.demo.questions import is_right, Question
from infinipot_ros.demo.world import Drive, SEEN_FRACTION

MIB = 1024 * 1024
NANOSECONDS = 1_000_000_000
_MOST_CHARACTERS = 40
_HEAD = ('', 'question', 'answer', 'truth', 'right', 'last seen', 'evidence', 'sure', 'ms')


@dataclass(frozen=True)
class Answered:
    """A question with what the node said. Times are seconds before the question."""

    question: Question
    answer: str
    right: bool
    last_seen_s: float | None
    evidence: str
    confidence: float
    latency_ms: float

    @classmethod
    def from_response(cls, question: Question, response: Any, drive: Drive,
                      truths: Sequence[dict[str, Any]]) -> Answered:
        """
        Judge the response of /video_qa.

        :param truths: what the camera said it showed, one entry per frame.
        """
        newest_ns = truths[-1]['stamp_ns']
        shown_ns = {truth['frame']: truth['stamp_ns'] for truth in truths}
        last_seen_ns = shown_ns.get(question.last_seen_at)
        said = response.answer if response.status == response.ANSWERED else response.message
        return cls(
            question=question, answer=said,
            right=response.status == response.ANSWERED and is_right(question, response.answer),
            last_seen_s=None if last_seen_ns is None else (newest_ns - last_seen_ns) / NANOSECONDS,
            evidence=_evidence(question, response, drive, truths), confidence=response.confidence,
            latency_ms=1000 * (response.latency.sec + response.latency.nanosec / NANOSECONDS))


def memory_line(status: Any) -> str:
    """Say how full a memory is, from a MemoryStatus message, in less than a terminal is wide."""
    return (f'{status.frames_seen} frames seen, {status.held_tokens}/{status.capacity_tokens} '
            f'tokens, {status.held_bytes / MIB:.2f}/{status.budget_bytes / MIB:.2f} MiB, '
            f'{status.compressions} compressions')


def results_table(answered: Sequence[Answered]) -> str:
    """Return a table of all questions."""
    rows = [_HEAD]
    for number, item in enumerate(answered, 1):
        seen = ('never' if item.last_seen_s is None else 'now' if item.last_seen_s == 0
                else f'{item.last_seen_s:.1f} s ago')
        rows.append((str(number), item.question.text, shortened(item.answer), item.question.answer,
                     'yes' if item.right else 'NO', seen, item.evidence,
                     f'{item.confidence:.2f}', f'{item.latency_ms:.0f}'))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ['  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
             for row in rows]
    rule = '  '.join('-' * width for width in widths)
    return '\n'.join([lines[0], rule, *lines[1:]])


def shortened(text: str) -> str:
    """Cut a text to what fits in a table."""
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS - 3] + '...'


def _evidence(question: Question, response: Any, drive: Drive,
              truths: Sequence[dict[str, Any]]) -> str:
    """Say which frame weighs most: when, where, and whether it shows what was asked about."""
    if not response.evidence:
        return 'none'
    best = response.evidence[0]
    stamp = best.header.stamp
    stamp_ns = stamp.sec * NANOSECONDS + stamp.nanosec
    ago_s = (truths[-1]['stamp_ns'] - stamp_ns) / NANOSECONDS
    text = 'now' if ago_s == 0 else f'{ago_s:.1f} s ago'
    if best.has_pose:
        text += f' at x = {best.pose.pose.position.x:.1f} m'
    frame = next((t['frame'] for t in truths if t['stamp_ns'] == stamp_ns), None)
    if frame is not None and question.thing is not None:
        shown = any(item.thing == question.thing and item.fraction >= SEEN_FRACTION
                    for item in drive.visible(frame))
        text += ', shows it' if shown else ', does not show it'
    return text
