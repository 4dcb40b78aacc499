# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The messages and services are those that clients were promised."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2: run scripts/test, or source scripts/env.sh')

from infinipot_ros.msg import Evidence, MemoryStatus, SceneDescription  # noqa: E402, I100
from infinipot_ros.node.parameter_table import NODE_PARAMETERS  # noqa: E402
from infinipot_ros.srv import MemoryFile, VideoQA  # noqa: E402

PROMISED: list[tuple[Any, dict[str, str]]] = [
    (Evidence, {
        'header': 'std_msgs/Header',
        'camera': 'string',
        'relevance': 'float',
        'has_pose': 'boolean',
        'pose': 'geometry_msgs/PoseStamped',
    }),
    (MemoryStatus, {
        'header': 'std_msgs/Header',
        'budget_bytes': 'uint64',
        'held_bytes': 'uint64',
        'capacity_tokens': 'uint32',
        'held_tokens': 'uint32',
        'frames_seen': 'uint64',
        'frames_kept': 'uint64',
        'oldest_stamp': 'builtin_interfaces/Time',
        'newest_stamp': 'builtin_interfaces/Time',
        'compressions': 'uint64',
        'policy': 'string',
        'model': 'string',
    }),
    (SceneDescription, {
        'header': 'std_msgs/Header',
        'cameras': 'sequence<string>',
        'description': 'string',
        'novelty': 'float',
    }),
    (MemoryFile.Request, {'path': 'string'}),
    (MemoryFile.Response, {
        'success': 'boolean',
        'message': 'string',
        'path': 'string',
        'bytes': 'uint64',
    }),
    (VideoQA.Request, {
        'question': 'string',
        'cameras': 'sequence<string>',
        'since': 'builtin_interfaces/Time',
        'until': 'builtin_interfaces/Time',
        'max_new_tokens': 'uint32',
        'timeout_s': 'float',
        'continue_dialogue': 'boolean',
    }),
    (VideoQA.Response, {
        'status': 'uint8',
        'answer': 'string',
        'message': 'string',
        'confidence': 'float',
        'evidence': 'sequence<infinipot_ros/Evidence>',
        'frames_seen': 'uint32',
        'newest_frame': 'builtin_interfaces/Time',
        'latency': 'builtin_interfaces/Duration',
    }),
]


@pytest.mark.parametrize(
    ('message', 'fields'), PROMISED, ids=lambda value: getattr(value, '__name__', ''))
def test_fields_are_the_promised_ones(message: Any, fields: dict[str, str]) -> None:
    assert message.get_fields_and_field_types() == fields


def test_status_constants_keep_their_numbers() -> None:
    names = ('ANSWERED', 'EMPTY_MEMORY', 'BAD_REQUEST', 'BUSY',
             'TIMEOUT', 'CANCELLED', 'FAILED', 'NOT_ACTIVE')
    assert [getattr(VideoQA.Response, name) for name in names] == list(range(8))


def test_only_the_question_has_to_be_given() -> None:
    request = VideoQA.Request(question='Where is the ball?')
    assert request.cameras == []
    assert (request.since.sec, request.until.sec) == (0, 0)
    assert (request.max_new_tokens, request.timeout_s) == (0, 0.0)
    assert request.continue_dialogue is False


def test_a_message_checks_its_fields() -> None:
    with pytest.raises(AssertionError):
        VideoQA.Request(queston='a slip')
    with pytest.raises(AssertionError):
        MemoryStatus(held_bytes=-1)


def test_novelty_goes_from_0_to_2_and_message_and_parameter_say_so() -> None:
    torch = pytest.importorskip('torch')
    from infinipot_ros.memory.ingest import _novelty
    frame = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    last: Any = SimpleNamespace(buffer=SimpleNamespace(newest=frame))
    assert _novelty(last, frame) == pytest.approx(0.0, abs=1e-6)
    assert _novelty(last, -frame) == pytest.approx(2.0)
    message = Path(__file__).parents[2] / 'msg' / 'SceneDescription.msg'
    assert '0 (nothing new) to 2;' in message.read_text()
    (spec,) = (spec for spec in NODE_PARAMETERS if spec.name == 'describe.novelty')
    assert spec.high == 2.0 and '(0 to 2)' in spec.text
