# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The service video_qa: check a request, hand it to the engine, wait no longer than it may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
import math
import threading
import time
from typing import TYPE_CHECKING

from infinipot_ros.errors import BusyError, Cancelled
from infinipot_ros.node.engine_thread import EngineThread
from infinipot_ros.node.guarding import describe, guard_service
from infinipot_ros.node.messages import clean, fill_answer, fill_refusal, to_ns, to_time
from infinipot_ros.node.parameter_table import in_parameters
from infinipot_ros.node.parameters import Parameters
from infinipot_ros.node.work import Question
from infinipot_ros.srv import VideoQA
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile

if TYPE_CHECKING:
    from infinipot_ros.memory import Answer

LONGEST_TIMEOUT_S = 3600.0
DIALOGUE_TURNS = 4
REQUESTS_AT_ONCE = 200


class QuestionService:
    """
    Serve video_qa.

    Every question that waits holds one thread of the executor; at most qa.queue + 1 do.
    """

    def __init__(self, node: Node, engine: EngineThread, parameters: Parameters,
                 not_active: Callable[[], str]) -> None:
        """
        Create the service.

        :param not_active: says why the node does not answer questions now, '' if it does.
        """
        self._engine = engine
        self._parameters = parameters
        self._not_active = not_active
        self._lock = threading.Lock()
        self._dialogue: list[tuple[str, str]] = []
        self._open = 0
        # by default a middleware drops requests, unanswered, beyond ten at once
        deep = QoSProfile(depth=REQUESTS_AT_ONCE)
        service = node.create_service(VideoQA, 'video_qa', self._serve, qos_profile=deep,
                                      callback_group=ReentrantCallbackGroup())
        guard_service(service, node.get_logger(),
                      lambda response, text: fill_refusal(response, 'FAILED', text, 0.0))

    @property
    def open(self) -> int:  # noqa: A003
        """Return how many requests have no reply yet."""
        return self._open

    def forget(self) -> None:
        """Forget the dialogue."""
        with self._lock:
            self._dialogue.clear()

    def _serve(self, request: VideoQA.Request, response: VideoQA.Response) -> VideoQA.Response:
        started = time.monotonic()
        with self._lock:
            self._open += 1
        try:
            status, message, answer = self._outcome(request, started)
        finally:
            with self._lock:
                self._open -= 1
        latency_s = time.monotonic() - started
        if answer is not None:
            return fill_answer(response, answer, latency_s)
        held = self._engine.status
        if held is not None:
            response.frames_seen = held.frames_seen
            response.newest_frame = to_time(held.newest_stamp_ns)
        return fill_refusal(response, status, message, latency_s)

    def _outcome(self, request: VideoQA.Request,
                 started: float) -> tuple[str, str, Answer | None]:
        """Return a status with its reason, or an answer."""
        reason = self._not_active()
        if reason:
            return 'NOT_ACTIVE', reason, None
        problem = self._problem(request)
        if problem:
            return 'BAD_REQUEST', problem, None
        question = self._question(request, started)
        try:
            answer = self._engine.queue.ask(question).wait()
        except BusyError as busy:
            return 'BUSY', describe(busy), None
        except TimeoutError as late:
            limit_s = question.deadline - started
            return 'TIMEOUT', f'no answer within {limit_s:g} s: {describe(late)}', None
        except Cancelled as cancelled:
            return 'CANCELLED', describe(cancelled), None
        except Exception as error:
            return 'FAILED', f'the model failed: {describe(error)}', None
        if answer.status.name == 'ANSWERED':
            self._remember(request, answer.text)
        else:
            answer = replace(answer, message=in_parameters(answer.message))
        return answer.status.name, answer.message, answer

    def _problem(self, request: VideoQA.Request) -> str:
        """Say what is wrong with a request; '' if nothing is."""
        limit = self._parameters['qa.max_question_chars']
        if len(request.question) > limit:
            return (f'the question has {len(request.question)} characters; at most {limit} are '
                    'allowed (parameter qa.max_question_chars)')
        if not _printable(request.question):
            return 'the question is empty; fill in question'
        cameras = self._parameters['cameras']
        unknown = [name for name in request.cameras if name not in cameras]
        if unknown:
            return (f'there is no camera {unknown[0][:80]!r}; there are {", ".join(cameras)}, and '
                    'an empty list is all of them')
        since_ns, until_ns = to_ns(request.since), to_ns(request.until)
        if since_ns and until_ns and since_ns > until_ns:
            return 'since is later than until; 0 leaves an end open'
        most = self._parameters['qa.max_new_tokens']
        if request.max_new_tokens > most:
            return (f'max_new_tokens is {request.max_new_tokens}; at most {most} are allowed '
                    '(parameter qa.max_new_tokens)')
        if not 0.0 <= request.timeout_s <= LONGEST_TIMEOUT_S or math.isnan(request.timeout_s):
            return (f'timeout_s is {request.timeout_s}; it has to be from 0 to '
                    f'{LONGEST_TIMEOUT_S:g}, and 0 is the parameter qa.timeout_s')
        return ''

    def _question(self, request: VideoQA.Request, started: float) -> Question:
        return Question(
            text=_printable(request.question),
            deadline=started + (request.timeout_s or self._parameters['qa.timeout_s']),
            cameras=list(request.cameras) or None, since_ns=to_ns(request.since) or None,
            until_ns=to_ns(request.until) or None, max_new_tokens=request.max_new_tokens,
            history=self._turns() if request.continue_dialogue else ())

    def _turns(self) -> tuple[tuple[str, str], ...]:
        """Return the last turns; the memory leaves out the oldest where there is no room."""
        with self._lock:
            return tuple(self._dialogue)

    def _remember(self, request: VideoQA.Request, said: str) -> None:
        with self._lock:
            if not request.continue_dialogue:
                self._dialogue.clear()
            self._dialogue.append((_printable(request.question), said))
            del self._dialogue[:-DIALOGUE_TURNS]


def _printable(text: str) -> str:
    """Return a question without control characters, which mean nothing to a model."""
    spaced = ''.join(' ' if char in '\n\r\t' else char for char in clean(text))
    return ''.join(char for char in spaced if char.isprintable()).strip()
