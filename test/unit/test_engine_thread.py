# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
The engine thread: order, bounds, deadlines and faults.

The memory here is a script, because what is tested is a model that hangs, raises or takes its
time at a chosen moment; the real one is behind the same thread in test/integration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
import threading
import time
from types import SimpleNamespace
from typing import Any

from infinipot_ros.errors import BusyError, Cancelled, ImageFormatError
from infinipot_ros.node.engine_thread import EngineThread
from infinipot_ros.node.work import Frame, GRACE_S, Hooks, Question
from infinipot_ros.node.work_queue import WorkQueue
import numpy as np
import pytest

PICTURE = np.zeros((8, 8, 3), np.uint8)
PATIENCE_S = 60.0  # of a test with a busy machine; nothing here takes that long


class ScriptedMemory:
    """Note what is done in which order; do on the way what the test says."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.threads: set[int] = set()
        self.frames_seen = 0
        self.during_ask: Callable[[Any], None] = lambda call: None
        self.during_frame: Callable[[], None] = lambda: None

    def add_frame(self, rgb: Any, *, stamp_ns: int, camera: str, frame_id: str, pose: Any) -> Any:
        self.threads.add(threading.get_ident())
        self.during_frame()
        self.log.append(f'frame {stamp_ns}')
        self.frames_seen += 1
        return SimpleNamespace(total_s=0.01, compression_s=0.004, novelty=0.5, compressed=False)

    def ask(self, question: str, **how: Any) -> Any:
        self.threads.add(threading.get_ident())
        self.during_ask(SimpleNamespace(**how))
        self.log.append(f'ask {question}')
        cancelled = how['cancel']()
        return SimpleNamespace(text=question.upper(), tokens=1, status=SimpleNamespace(
            name='CANCELLED' if cancelled else 'ANSWERED'))

    def describe(self, **how: Any) -> Any:
        return self.ask('describe', **how)

    def status(self) -> Any:
        return SimpleNamespace(frames_seen=self.frames_seen)


@pytest.fixture
def memory() -> ScriptedMemory:
    return ScriptedMemory()


@pytest.fixture
def told() -> list[Any]:
    return []


@pytest.fixture
def engine(memory: ScriptedMemory, told: list[Any]) -> Iterator[EngineThread]:
    """Run an engine around the script; whatever happened, it has to stop."""
    hooks = Hooks(on_error=lambda what, error: told.append((what, error)),
                  on_description=lambda answer: told.append(('description', answer)))
    thread = EngineThread(hooks)
    thread.start()
    thread.call(lambda: thread.set_memory(memory), PATIENCE_S)  # type: ignore[arg-type]
    yield thread
    assert thread.stop(PATIENCE_S)


def frame(stamp_ns: int) -> Frame:
    return Frame('camera', stamp_ns, 'optical', PICTURE)


def question(text: str = 'what', timeout_s: float = PATIENCE_S) -> Question:
    return Question(text, time.monotonic() + timeout_s)


class Gate:
    """Hold the engine inside a piece of work until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, *unused: Any) -> None:
        self.entered.set()
        assert self.opened.wait(PATIENCE_S)

    def wait_until_entered(self) -> None:
        assert self.entered.wait(PATIENCE_S)


def until(true: Callable[[], Any]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


def settle(engine: EngineThread) -> None:
    """Wait until nothing waits."""
    until(lambda: not engine.queue._describe and engine.busy_since is None
          and engine.queue.waiting() == (0, 0))


def test_everything_runs_in_one_thread_that_is_not_ours(engine, memory) -> None:
    engine.queue.offer(frame(1))
    assert engine.queue.ask(question('a')).wait().text == 'A'
    settle(engine)
    assert memory.threads == {engine._thread.ident}


def test_a_question_knows_what_was_due_before_it_and_the_newest_frame(memory) -> None:
    hooks = Hooks(newest=lambda: [frame(99)])
    engine = EngineThread(hooks)
    engine.start()
    engine.call(lambda: engine.set_memory(memory), PATIENCE_S)
    gate = Gate()
    memory.during_frame = gate
    for stamp in (1, 2, 3):
        engine.queue.offer(frame(stamp))
    gate.wait_until_entered()
    asked = [engine.queue.ask(question(name)) for name in 'ab']
    gate.opened.set()
    for item in asked:
        item.wait()
    assert memory.log == ['frame 1', 'frame 2', 'frame 3', 'frame 99', 'ask a',
                          'frame 99', 'ask b']
    engine.stop(PATIENCE_S)


def test_a_newest_frame_that_cannot_be_had_does_not_cost_the_answer(memory, told) -> None:
    thread = EngineThread(Hooks(newest=lambda: [1 // 0],  # type: ignore[list-item]
                                on_error=lambda what, error: told.append((what, str(error)))))
    thread.start()
    thread.call(lambda: thread.set_memory(memory), PATIENCE_S)
    assert thread.queue.ask(question('a')).wait().text == 'A'
    assert told == [('frame', 'integer division or modulo by zero')]
    assert thread.stop(PATIENCE_S)


def test_jobs_go_before_questions_and_questions_before_later_frames(engine, memory) -> None:
    gate = Gate()
    engine.post(gate)
    gate.wait_until_entered()
    item = engine.queue.ask(question('a'))
    job = engine.post(lambda: memory.log.append('job'))
    gate.opened.set()
    item.wait()
    engine.queue.offer(frame(1))
    settle(engine)
    assert job.done.is_set()
    assert memory.log == ['job', 'ask a', 'frame 1']


def test_the_queue_of_questions_is_bounded_and_says_busy_at_once(engine, memory) -> None:
    gate = Gate()
    memory.during_ask = gate
    engine.queue.max_questions = 2
    asked = [engine.queue.ask(question('0'))]
    gate.wait_until_entered()
    asked += [engine.queue.ask(question('1')), engine.queue.ask(question('2'))]
    with pytest.raises(BusyError, match=r'qa\.queue is 2\); ask again in a moment'):
        engine.queue.ask(question('3'))  # while the gate is closed, so it waits for nothing
    gate.opened.set()
    assert [item.wait().text for item in asked] == ['0', '1', '2']
    assert engine.queue.refused == 1


def test_frames_are_bounded_the_newest_stay_and_drops_are_counted(engine, memory) -> None:
    gate, started = Gate(), time.monotonic()
    engine.post(gate)
    gate.wait_until_entered()
    engine.queue.max_frames = 3
    for stamp in range(10):
        engine.queue.offer(frame(stamp))
    assert engine.queue.waiting() == (0, 3)
    gate.opened.set()
    settle(engine)
    assert memory.log == ['frame 7', 'frame 8', 'frame 9']
    assert engine.dropped == {'model busy': 7}
    assert engine.queue.last_overrun >= started


def test_frames_dropped_before_they_are_taken_leave_nothing_to_do() -> None:
    dropped: Counter[str] = Counter()
    queue = WorkQueue(dropped)
    queue.offer(frame(1))
    assert queue.wait()
    queue.drop_frames('deactivated')
    assert queue.take() is None
    assert dropped == {'deactivated': 1}


def test_a_model_that_hangs_costs_its_caller_the_deadline_and_no_more(engine, memory) -> None:
    gate = Gate()
    memory.during_ask = gate
    asked = engine.queue.ask(question('hang'))
    gate.wait_until_entered()
    asked.deadline = time.monotonic() + 0.2
    with pytest.raises(TimeoutError, match='has not come back'):
        asked.wait()  # while the gate is closed
    assert time.monotonic() >= asked.deadline + GRACE_S
    assert engine.hung_s() > 0.2
    waiting = engine.queue.ask(question('behind', timeout_s=0.1))
    with pytest.raises(TimeoutError):
        waiting.wait()
    gate.opened.set()
    memory.during_ask = lambda call: None
    assert engine.queue.ask(question('next')).wait().text == 'NEXT'
    assert 'ask behind' not in memory.log


def test_cancelling_stops_the_one_running_and_the_ones_waiting(engine, memory) -> None:
    gate = Gate()
    memory.during_ask = gate
    running = engine.queue.ask(question('running'))
    gate.wait_until_entered()
    waiting = engine.queue.ask(question('waiting'))
    engine.queue.cancel_questions('deactivated')
    with pytest.raises(Cancelled, match='deactivated'):
        waiting.wait()
    gate.opened.set()
    assert running.wait().status.name == 'CANCELLED'


def test_what_the_model_raises_reaches_the_one_who_asked_and_no_one_else(
        engine, memory, told) -> None:
    def explode(call: Any) -> None:
        raise RuntimeError('CUDA error: device-side assert')
    memory.during_ask = explode
    with pytest.raises(RuntimeError, match='device-side'):
        engine.queue.ask(question()).wait()
    memory.during_ask = lambda call: None
    assert engine.queue.ask(question('b')).wait().text == 'B'
    assert [what for what, _ in told] == ['question']
    assert engine.counts['failed'] == 1


@pytest.mark.parametrize(('error', 'reason'), [(ImageFormatError('16 px'), 'bad image'),
                                               (RuntimeError('out of memory'), 'model failed')])
def test_a_bad_frame_costs_that_frame(engine, memory, told, error, reason) -> None:
    errors = [error]

    def explode() -> None:
        if errors:
            raise errors.pop()
    memory.during_frame = explode
    engine.queue.offer(frame(1))
    engine.queue.offer(frame(2))
    settle(engine)
    assert memory.log == ['frame 2']
    assert engine.dropped == {reason: 1}
    assert [what for what, _ in told] == ['frame']


@pytest.mark.parametrize('kind', [SystemExit, GeneratorExit, KeyboardInterrupt])
def test_what_a_policy_raises_to_end_the_process_ends_no_thread(
        engine, memory, told, kind) -> None:
    def end(*unused: Any) -> None:
        raise kind('no licence')
    memory.during_frame = memory.during_ask = end
    engine.queue.offer(frame(1))
    settle(engine)
    with pytest.raises(RuntimeError, match=f'{kind.__name__} was raised: no licence'):
        engine.queue.ask(question()).wait()
    engine.call(lambda: setattr(memory, 'frames_seen', 1), PATIENCE_S)
    engine.queue.describe()
    settle(engine)
    with pytest.raises(RuntimeError, match=kind.__name__):
        engine.call(end, PATIENCE_S)
    memory.during_frame = memory.during_ask = lambda *unused: None
    assert engine.queue.ask(question('b')).wait().text == 'B'
    assert [what for what, _ in told] == ['frame', 'question', 'engine']
    assert all(isinstance(error, Exception) for _, error in told)
    assert engine.dropped == {'model failed': 1} and engine.counts['failed'] == 1


def test_the_picture_that_a_camera_has_sent_before_is_left_out(engine, memory) -> None:
    """Camera by camera; after a failure or a reset the memory has not got it, so it is new."""
    def offer(camera: str, stamp_ns: int, digest: bytes) -> None:
        engine.queue.offer(Frame(camera, stamp_ns, 'optical', PICTURE, digest=digest))
        settle(engine)

    for camera, stamp_ns, digest in (('front', 1, b'a'), ('front', 2, b'a'), ('rear', 3, b'a'),
                                     ('front', 4, b'b'), ('front', 5, b'a'), ('rear', 6, b'a'),
                                     ('front', 7, b''), ('front', 8, b'')):
        offer(camera, stamp_ns, digest)
    assert memory.log == [f'frame {stamp_ns}' for stamp_ns in (1, 3, 4, 5, 7, 8)]
    assert engine.dropped['stuck'] == 2
    engine.call(engine.forget_pictures, PATIENCE_S)
    offer('rear', 9, b'a')
    memory.during_frame = lambda: 1 / 0
    offer('rear', 10, b'c')
    memory.during_frame = lambda: None
    offer('rear', 11, b'c')
    assert memory.log[-2:] == ['frame 9', 'frame 11']
    assert engine.dropped == {'stuck': 2, 'model failed': 1}


@pytest.mark.parametrize(('interrupt', 'log'), [
    (lambda engine: engine.queue.ask(question('first')),
     ['ask describe', 'ask first', 'ask describe']),
    (lambda engine: engine.post(lambda: None), ['ask describe', 'ask describe']),
    (lambda engine: engine.post(lambda: None, urgent=False), ['ask describe'])],
    ids=['a question', 'a job', 'drawing'])
def test_a_description_gives_way_to_questions_and_jobs_but_not_to_drawing_and_is_retried(
        engine, memory, told, interrupt, log) -> None:
    engine.queue.offer(frame(1))
    settle(engine)
    gate = Gate()
    memory.during_ask = gate
    engine.queue.describe()
    engine.queue.describe()
    gate.wait_until_entered()
    interrupt(engine)
    gate.opened.set()
    until(lambda: told)
    settle(engine)
    assert memory.log == ['frame 1', *log]
    assert [what for what, _ in told] == ['description']


def test_a_description_that_fails_is_told_and_not_counted(engine, memory, told) -> None:
    engine.queue.offer(frame(1))
    settle(engine)
    memory.describe = lambda **how: SimpleNamespace(
        message='the prompt is too long', status=SimpleNamespace(name='BAD_REQUEST'))
    engine.queue.describe()
    until(lambda: told)
    assert [(what, str(error)) for what, error in told] == [
        ('description', 'the prompt is too long')]
    assert not engine.counts['described']


def test_jobs_return_raise_and_time_out(engine, memory) -> None:
    assert engine.call(lambda: 42, PATIENCE_S) == 42
    with pytest.raises(ValueError, match='no'):
        engine.call(lambda: int('no'), PATIENCE_S)
    gate = Gate()
    memory.during_ask = gate
    asked = engine.queue.ask(question('long'))
    gate.wait_until_entered()
    with pytest.raises(BusyError, match='try again'):
        engine.call(lambda: memory.log.append('too late'), 0.05)
    gate.opened.set()
    asked.wait()
    settle(engine)
    assert memory.log == ['ask long']


def test_an_error_that_no_one_waits_for_is_told(engine, told) -> None:
    with pytest.raises(ZeroDivisionError):
        engine.call(lambda: 1 // 0, PATIENCE_S)
    assert not told
    assert engine.post(lambda: int('no')).done.wait(PATIENCE_S)
    assert [(what, type(error)) for what, error in told] == [('engine', ValueError)]


def test_who_has_waited_finds_the_state_after_it_which_is_taken_once(engine, memory) -> None:
    """The end of a job or a question is told last, when its status is there already."""
    status, taken = memory.status, []

    def slow() -> Any:
        time.sleep(0.1)
        taken.append(status())
        return taken[-1]
    engine.call(lambda: setattr(memory, 'status', slow), PATIENCE_S)
    engine.call(lambda: setattr(memory, 'frames_seen', 7), PATIENCE_S)
    assert engine.status.frames_seen == 7
    memory.during_ask = lambda call: setattr(memory, 'frames_seen', 8)
    engine.queue.ask(question()).wait()
    assert engine.status.frames_seen == 8
    engine.queue.describe()
    engine.queue.offer(frame(1))
    until(lambda: engine.status.frames_seen == 9)
    assert [seen.frames_seen for seen in taken] == [0, 7, 8, 8, 9]


def test_a_status_that_cannot_be_had_is_told_and_costs_no_answer(engine, memory, told) -> None:
    memory.status = lambda: 1 // 0
    assert engine.call(lambda: 42, PATIENCE_S) == 42
    assert engine.queue.ask(question('a')).wait().text == 'A'
    until(lambda: len(told) == 2)
    assert [(what, type(error)) for what, error in told] == [('engine', ZeroDivisionError)] * 2


def test_two_engines_take_turns_on_one_model(engine, memory) -> None:
    lock = threading.Lock()
    other, theirs = EngineThread(Hooks()), ScriptedMemory()
    other.start()
    engine.call(lambda: engine.set_memory(memory, lock), PATIENCE_S)
    other.call(lambda: other.set_memory(theirs, lock), PATIENCE_S)
    inside = []

    def alone(call: Any) -> None:
        inside.append(1)
        time.sleep(0.01)
        assert len(inside) == 1
        inside.pop()
    memory.during_ask = theirs.during_ask = alone
    asked = [side.queue.ask(question(f'{n}')) for n in range(4) for side in (engine, other)]
    assert [item.wait().text for item in asked] == ['0', '0', '1', '1', '2', '2', '3', '3']
    with lock, pytest.raises(TimeoutError):
        other.queue.ask(question('late', timeout_s=0.05)).wait()
    assert other.stop(PATIENCE_S)


def test_stopping_answers_everyone_and_refuses_what_comes_later(memory) -> None:
    engine = EngineThread(Hooks())
    engine.start()
    engine.call(lambda: engine.set_memory(memory), PATIENCE_S)
    gate = Gate()
    memory.during_ask = gate
    running, waiting = engine.queue.ask(question('r')), engine.queue.ask(question('w'))
    gate.wait_until_entered()
    assert not engine.stop(0.05)
    with pytest.raises(Cancelled, match='shutting down'):
        waiting.wait()
    with pytest.raises(Cancelled):
        engine.queue.ask(question('later'))
    gate.opened.set()
    assert running.wait().status.name == 'CANCELLED'
    assert engine.stop(PATIENCE_S)


def test_a_hook_that_raises_is_reported_and_nothing_stops(memory, told) -> None:
    def bad(*unused: Any) -> None:
        raise KeyError('listener')
    engine = EngineThread(Hooks(on_frame=bad, on_answer=bad,
                                on_error=lambda what, error: told.append(what)))
    engine.start()
    engine.call(lambda: engine.set_memory(memory), PATIENCE_S)
    engine.queue.offer(frame(1))
    assert engine.queue.ask(question('a')).wait().text == 'A'
    assert engine.stop(PATIENCE_S)
    assert told == ['engine', 'engine']
