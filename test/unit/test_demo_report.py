# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo's table says what was answered, what was true, and on which frame it rests."""
from types import SimpleNamespace
from typing import Any

from infinipot_ros.demo.questions import Question
from infinipot_ros.demo.report import (
    Answered,
    memory_line,
    results_table,
    shortened,
)
from infinipot_ros.demo.world import Drive
import pytest

DRIVE = Drive(2026, num_frames=300)
THING = DRIVE.visible(205)[0].thing
START_NS = 1_700_000_000_000_000_000
TRUTHS: list[dict[str, Any]] = [
    {'frame': frame, 'stamp_ns': START_NS + frame * 100_000_000} for frame in range(206)]


def response(answer: str, frame: int | None, status: int = 0, has_pose: bool = True) -> Any:
    """Make what the service returns, resting on one frame."""
    evidence = []
    if frame is not None:
        stamp_ns = TRUTHS[frame]['stamp_ns']
        evidence = [SimpleNamespace(
            header=SimpleNamespace(stamp=SimpleNamespace(
                sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9)),
            has_pose=has_pose,
            pose=SimpleNamespace(pose=SimpleNamespace(position=SimpleNamespace(x=12.34))))]
    return SimpleNamespace(
        ANSWERED=0, status=status, answer=answer, message='the model is busy', confidence=0.876,
        evidence=evidence, latency=SimpleNamespace(sec=0, nanosec=41_000_000))


def judged(
        answer: str, frame: int | None, last_seen_at: int | None = 205, **more: Any) -> Answered:
    question = Question('what colour was it ?', 'orange', 'colour', 'seen', 205, THING,
                        last_seen_at)
    return Answered.from_response(question, response(answer, frame, **more), DRIVE, TRUTHS)


def test_right_and_wrong_answers_are_told_apart() -> None:
    assert judged('Orange', 205).right
    assert not judged('red', 205).right
    assert not judged('orange', 205, status=3).right, 'BUSY is no answer, whatever else it says'


def test_what_is_no_answer_says_why() -> None:
    assert judged('', None, status=3).answer == 'the model is busy'


def test_times_are_before_the_question() -> None:
    assert judged('orange', 205, last_seen_at=105).last_seen_s == pytest.approx(10.0)
    assert judged('orange', 205, last_seen_at=None).last_seen_s is None


def test_evidence_says_when_where_and_whether_the_thing_is_there() -> None:
    assert judged('orange', 205).evidence == 'now at x = 12.3 m, shows it'
    assert judged('orange', 0).evidence == '20.5 s ago at x = 12.3 m, does not show it'
    assert judged('orange', 0, has_pose=False).evidence == '20.5 s ago, does not show it'
    assert judged('orange', None).evidence == 'none'


def test_the_table_has_a_line_for_each_question() -> None:
    table = results_table([judged('orange', 205), judged('x' * 100, 0, last_seen_at=None)])
    head, rule, first, second = table.splitlines()
    assert head.split() == ['question', 'answer', 'truth', 'right', 'last', 'seen', 'evidence',
                            'sure', 'ms']
    assert set(rule) == {'-', ' '}
    assert 'yes' in first and '0.88' in first and '41' in first and ' now ' in first
    assert 'NO' in second and 'never' in second and 'x' * 37 + '... ' in second
    assert head.index('truth') == first.index('orange', first.index('orange') + 1)


def test_a_short_text_is_left_alone() -> None:
    assert shortened('an orange ball') == 'an orange ball'


def test_the_memory_line_has_bytes_and_budget() -> None:
    status = SimpleNamespace(frames_seen=7, held_tokens=5, capacity_tokens=6,
                             held_bytes=1_572_864, budget_bytes=2_097_152, compressions=3)
    assert memory_line(status) == (
        '7 frames seen, 5/6 tokens, 1.50/2.00 MiB, 3 compressions')


def test_the_memory_line_fits_a_terminal_beside_its_stage() -> None:
    status = SimpleNamespace(frames_seen=123, held_tokens=386, capacity_tokens=408,
                             held_bytes=2_094_258, budget_bytes=2_097_152, compressions=123)
    assert len(f'123 of 206: {memory_line(status)}') < 80
