# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a callback raises ends that callback only, is told in words, and does not fill the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2: run scripts/test, or source scripts/env.sh')

from infinipot_ros.errors import BudgetError, ModelLoadError, NumericError  # noqa: E402, I100
from infinipot_ros.node import guarding  # noqa: E402
from infinipot_ros.node.guarding import (  # noqa: E402
    describe,
    guard_service,
    guarded,
    kind_of,
    MOST_KINDS,
    Throttle,
)


class Log:
    """A logger that keeps what it is told, and a steady clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.lines: list[tuple[str, str]] = []

    def monotonic(self) -> float:
        return self.now

    def warning(self, text: str) -> None:
        self.lines.append(('warning', text))

    def error(self, text: str) -> None:
        self.lines.append(('error', text))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(guarding, 'time', log)
    return log


def test_one_line_of_a_kind_in_five_seconds_and_the_rest_are_counted(log: Log) -> None:
    warn = Throttle(log, 'warning')  # type: ignore[arg-type]
    for tenth in range(151):  # 10 Hz for 15 s
        log.now = 100.0 + tenth / 10
        warn('bad image', f'picture {tenth}')
        if tenth == 3:
            warn('jump', 'back')
    assert log.lines == [
        ('warning', 'picture 0'), ('warning', 'back'),
        *(('warning', f'picture {tenth} (and 49 more of this kind)') for tenth in (50, 100, 150))]


def test_kinds_without_end_share_one_line(log: Log) -> None:
    warn = Throttle(log, 'warning')  # type: ignore[arg-type]
    for number in range(1000):
        warn(f'kind {number}', f'{number}')
        warn('kind 0', 'again')
    assert [text for _, text in log.lines] == [str(number) for number in range(MOST_KINDS + 1)]


def test_messages_that_differ_in_numbers_are_of_one_kind() -> None:
    cut, more = (f'data has {size} bytes, expected 30 (<object at 0x{size}f>)' for size in (1, 2))
    assert kind_of(cut) == kind_of(more) == 'data has bytes expected object at'


def test_a_callback_that_raises_is_logged_and_goes_on(log: Log) -> None:
    called: list[int] = []

    def fail(number: int) -> None:
        called.append(number)
        raise KeyError('no such thing')
    callback = guarded(fail, log)  # type: ignore[arg-type]
    for number in range(3):
        callback(number)
    assert called == [0, 1, 2]
    ((level, text),) = log.lines
    assert level == 'error' and 'no such thing' in text


class Service:
    """What guard_service needs of rclpy's service."""

    srv_name = '/video_qa'
    srv_type = SimpleNamespace(Response=lambda: SimpleNamespace(message=''))

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def callback(self, request: Any, response: Any) -> Any:
        response.message = 'half of it'
        raise ValueError(request)

    def send_response(self, response: Any, header: Any) -> None:
        if header == 'gone':
            raise RuntimeError('client will not receive response')
        self.sent.append(response)


def test_a_service_that_raises_answers_all_the_same(log: Log) -> None:  # rclpy#367
    service = Service()
    guard_service(service, log,  # type: ignore[arg-type]
                  lambda response, text: setattr(response, 'message', f'failed: {text}'))
    begun = SimpleNamespace(message='')
    response = service.callback('seven', begun)
    assert response is not begun and response.message == 'failed: ValueError: seven'
    assert log.lines == [('error', '/video_qa: ValueError: seven')]


def test_a_client_that_is_gone_costs_its_response_only(log: Log) -> None:  # ros2#1017
    service = Service()
    guard_service(service, log, lambda *unused: None)  # type: ignore[arg-type]
    for header in ('gone', 'here', 'gone'):
        service.send_response(header, header)
    assert service.sent == ['here']
    ((level, text),) = log.lines
    assert level == 'error' and 'its client is gone: RuntimeError: client will not' in text


@pytest.mark.parametrize(('error', 'text'), [
    (NumericError('NaN'), 'NaN'), (TimeoutError('late'), 'late'), (KeyError('x'), "KeyError: 'x'"),
    (NumericError(), 'NumericError'), (RuntimeError(' '), 'RuntimeError')])
def test_an_error_is_never_without_words(error: Exception, text: str) -> None:
    assert describe(error) == text


@pytest.mark.parametrize('error', [
    RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB'), MemoryError(),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
    ModelLoadError('/m: its weights cannot be loaded on cuda as float16: CUDA out of memory')])
def test_out_of_memory_comes_with_what_needs_less(error: Exception) -> None:
    text = describe(error)
    assert text.startswith((type(error).__name__, '/m: its weights'))
    assert text.endswith('(lower budget_mib, instant_frames or the frame size, or take a smaller '
                         'model)')


def test_a_library_of_another_version_says_where_the_right_one_is() -> None:
    text = describe(ImportError("cannot import name 'Qwen2VLConfig' from 'transformers'"))
    assert text.startswith("ImportError: cannot import name 'Qwen2VLConfig'")
    assert 'of a version that is not supported' in text and 'docs/on_a_robot.md' in text


def test_a_gpu_that_is_lost_asks_for_a_restart() -> None:
    text = describe(RuntimeError('CUDA error: device-side assert triggered'))
    assert text.endswith('restart the node)')


def test_an_error_of_the_engine_names_parameters() -> None:
    assert describe(BudgetError('lower max_new_tokens (64)')) == 'lower qa.max_new_tokens (64)'
