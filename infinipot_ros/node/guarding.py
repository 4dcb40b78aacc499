# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Keep the executor alive whatever a callback raises.

rclpy lets an exception of a callback end the executor: the client then waits for ever, and every
timer stops. A client that is gone by the time of its answer does the same.
"""

from __future__ import annotations

from collections.abc import Callable
import functools
import re
import time
from typing import Any

from infinipot_ros.node.parameter_table import in_parameters
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.service import Service

# what CUDA says, and what PyTorch says of a CPU
_NO_MEMORY = ('out of memory', "can't allocate memory")
# what comes after so many kinds is of one kind: there is no end to what a driver may send
MOST_KINDS = 32
_WORD = re.compile(r'\b[^\W\d]+\b')


class Throttle:
    """Let one message of a kind through in five seconds, and count the rest."""

    def __init__(self, logger: RcutilsLogger, level: str, period_s: float = 5.0) -> None:
        """Throttle a logger at a level, 'warning' or 'error'."""
        self._logger = logger
        self._is_error = level == 'error'
        self._period_s = period_s
        self._last: dict[str, float] = {}
        self._held: dict[str, int] = {}

    def __call__(self, kind: str, text: str) -> None:
        """Log the text, unless one of its kind was logged a moment ago."""
        now = time.monotonic()
        if kind not in self._last and len(self._last) >= MOST_KINDS:
            kind = ''
        if now - self._last.get(kind, -self._period_s) < self._period_s:
            self._held[kind] = self._held.get(kind, 0) + 1
            return
        self._last[kind] = now
        more = self._held.pop(kind, 0)
        text = f'{text} (and {more} more of this kind)' if more else text
        # rclpy raises where one line of code logs at two levels
        if self._is_error:
            self._logger.error(text)
        else:
            self._logger.warning(text)


def kind_of(text: str) -> str:
    """Return the words of a message, the same for messages that differ in numbers only."""
    return ' '.join(_WORD.findall(text))


def guarded(callback: Callable[..., None], logger: RcutilsLogger) -> Callable[..., None]:
    """Return a callback of a timer or subscription that logs what is raised."""
    throttle = Throttle(logger, 'error')

    @functools.wraps(callback)
    def run(*arguments: Any) -> None:
        try:
            callback(*arguments)
        except Exception as error:
            throttle(type(error).__name__, f'{callback.__qualname__}: {describe(error)}')

    return run


def guard_service(service: Service, logger: RcutilsLogger,
                  on_error: Callable[[Any, str], None]) -> None:
    """
    Make a service answer even if its callback raises, and outlive clients that are gone.

    :param on_error: fills a response in with the text of an error.
    """
    callback, send = service.callback, service.send_response
    throttle = Throttle(logger, 'error')

    def answer(request: Any, response: Any) -> Any:
        try:
            return callback(request, response)
        except Exception as error:
            text = describe(error)
            throttle(type(error).__name__, f'{service.srv_name}: {text}')
            response = service.srv_type.Response()
            on_error(response, text)
            return response

    def send_response(response: Any, header: Any) -> None:
        try:
            send(response, header)
        except Exception as error:
            throttle('send', f'{service.srv_name}: an answer could not be sent, its client is '
                             f'gone: {describe(error)}')

    service.callback, service.send_response = answer, send_response


def describe(error: BaseException) -> str:
    """Return the text of an error, which is never empty; its type for those we do not raise."""
    from infinipot_ros.errors import InfinipotError
    text = in_parameters(str(error).strip())
    if not text or not isinstance(error, InfinipotError | TimeoutError):
        text = f'{type(error).__name__}: {text}' if text else type(error).__name__
    if isinstance(error, MemoryError) or any(words in text.lower() for words in _NO_MEMORY):
        text += ' (lower budget_mib, instant_frames or the frame size, or take a smaller model)'
    if isinstance(error, ImportError):
        text += (' (missing, or of a version that is not supported: install torch and '
                 'transformers as docs/on_a_robot.md says)')
    if 'device-side assert' in text:
        text += ' (the GPU takes no more work from this process: restart the node)'
    return text
