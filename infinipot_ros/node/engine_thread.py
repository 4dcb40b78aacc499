# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
One thread owns the memory: everything that runs the model happens here, one piece after another.

Callbacks of the node only put work in its queue and, at most, wait for its end with a deadline on
steady time. Nothing here imports ROS.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
import threading
import time
from typing import Any, TYPE_CHECKING

from infinipot_ros.errors import BusyError, Cancelled, ImageFormatError, InfinipotError
from infinipot_ros.node.work import Description, failure, Frame, Hooks, Job, Question
from infinipot_ros.node.work_queue import WorkQueue

if TYPE_CHECKING:
    from infinipot_ros.memory import Answer, MemoryStatus, VideoMemory


class EngineThread:
    """Run one memory in a thread of its own."""

    def __init__(self, hooks: Hooks, name: str = 'engine') -> None:
        """Make the thread; `start` starts it."""
        self.describe_prompt = ''
        self.memory: VideoMemory | None = None  # replaced in the thread only
        self.status: MemoryStatus | None = None  # as of the last piece of work
        self.dropped: Counter[str] = Counter()  # frames that the memory has not got, by reason
        self.counts: Counter[str] = Counter()
        # spent on frames, compression, answers
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.busy_since: float | None = None
        self.queue = WorkQueue(self.dropped)
        self._hooks = hooks
        self._model_lock: threading.Lock = threading.Lock()
        self._added: dict[str, bytes] = {}  # digest of the newest frame by camera
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Cancel everything and end the thread; return whether it ended in time."""
        self.queue.close()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def alive(self) -> bool:
        """Return whether the thread still runs."""
        return self._thread.is_alive()

    def set_memory(self, memory: VideoMemory | None, lock: threading.Lock | None = None) -> None:
        """Take over a memory; only from a function given to `call`. The lock guards its model."""
        self.memory = memory
        self.forget_pictures()
        self._model_lock = lock or threading.Lock()

    def replace_memory(self, memory: VideoMemory) -> None:
        """Go on with another memory of the same model; only from a function given to `call`."""
        self.set_memory(memory, self._model_lock)

    def forget_pictures(self) -> None:
        """Take the next frame of every camera, be it the same; after the memory was emptied."""
        self._added.clear()

    def call(self, function: Callable[[], Any], timeout_s: float) -> Any:
        """
        Run a function in the thread, before questions and frames, and return what it returns.

        :raises BusyError: it has not begun in time, or not ended; one not begun never will.
        :raises Exception: whatever the function raised.
        """
        job = self.queue.put(Job(function))
        if not job.done.wait(timeout_s):
            job.abandoned = True
            raise BusyError(f'the model has been busy for {timeout_s:g} s; try again later')
        if job.error is not None:
            raise job.error
        return job.result

    def post(self, function: Callable[[], Any], urgent: bool = True) -> Job:
        """Run a function in the thread without waiting for it; an error of it is told."""
        return self.queue.put(Job(function, urgent, told=True))

    def hung_s(self) -> float:
        """Return for how long the model has not come back from one piece of work; 0 if it has."""
        since = self.busy_since
        return 0.0 if since is None else time.monotonic() - since

    def _run(self) -> None:
        while self.queue.wait():
            self.busy_since = time.monotonic()
            try:
                self._do(self.queue.take())
            except BaseException as error:  # the thread outlives everything
                self._tell(self._hooks.on_error, 'engine', failure(error))
            self.busy_since = None

    def _do(self, work: Job | Question | Description | Frame | None) -> None:
        """Do one piece of work; who has waited for it finds the status that it has left."""
        try:
            if isinstance(work, Job):
                self._do_job(work)
            elif isinstance(work, Question):
                self._answer(work)
            elif isinstance(work, Description):
                self._describe()
            elif work is not None:
                self._add(work)
            self.status = None if self.memory is None else self.memory.status()
        finally:
            if isinstance(work, Job | Question):
                work.done.set()
        if isinstance(work, Question) and work.answer is not None:
            self._tell(self._hooks.on_answer, work, work.answer)

    def _do_job(self, job: Job) -> None:
        if job.abandoned:
            return
        try:
            job.result = job.function()
        except BaseException as error:  # raised again where it is waited for
            job.error = failure(error)
            if job.told:
                self._tell(self._hooks.on_error, 'engine', job.error)

    def _answer(self, question: Question) -> None:
        started = time.monotonic()
        try:
            self._catch_up(question)
            question.answer = self._ask_memory(question)
            self.counts['answered'] += 1
        except BaseException as error:  # raised again where it is waited for
            question.error = failure(error)
            if not isinstance(error, Cancelled | TimeoutError):
                self.counts['failed'] += 1
                self._tell(self._hooks.on_error, 'question', question.error)
        finally:
            self.queue.answered()
            self.seconds['answers'] += time.monotonic() - started

    def _catch_up(self, question: Question) -> None:
        """Bring the memory up to now: what waits (the queue bounds it), then the newest frames."""
        for _ in range(self.queue.max_frames):
            frame = None if self._is_over(question) else self.queue.take_frame()
            if frame is None:
                break
            self._add(frame)
        try:
            newest = self._hooks.newest()
        except Exception as error:  # a picture that cannot be had must not cost the answer
            self._tell(self._hooks.on_error, 'frame', error)
            return
        for frame in newest:
            self._check(question)
            self._add(frame)

    def _ask_memory(self, question: Question) -> Answer:
        self._check(question)
        if self.memory is None:
            raise InfinipotError('no model is loaded')
        if not self._model_lock.acquire(timeout=max(0.0, question.deadline - time.monotonic())):
            raise TimeoutError('another robot was using the model all the time')
        try:
            return self.memory.ask(
                question.text, cameras=question.cameras, since_ns=question.since_ns,
                until_ns=question.until_ns, max_new_tokens=question.max_new_tokens,
                timeout_s=max(0.001, question.deadline - time.monotonic()),
                cancel=lambda: bool(question.cancelled), on_token=self._on_token,
                history=question.history)
        finally:
            self._model_lock.release()

    def _describe(self) -> None:
        """Describe; a question that comes meanwhile goes first, and the description is retried."""
        if self.memory is None or self.status is None or self.status.frames_seen == 0:
            return
        with self._model_lock:
            prompt = {'prompt': self.describe_prompt} if self.describe_prompt else {}
            answer = self.memory.describe(**prompt, cancel=self.queue.puts_off_description,
                                          on_token=self._on_token)
        if answer.status.name == 'CANCELLED':
            self.queue.describe()
            return
        if answer.status.name != 'ANSWERED':
            self._tell(self._hooks.on_error, 'description', InfinipotError(
                answer.message or answer.status.name))
            return
        self.counts['described'] += 1
        self._tell(self._hooks.on_description, answer)

    def _on_token(self, token: str) -> None:
        self.busy_since = time.monotonic()

    def _is_over(self, question: Question) -> bool:
        return bool(question.cancelled) or time.monotonic() > question.deadline

    def _check(self, question: Question) -> None:
        if question.cancelled:
            raise Cancelled(question.cancelled)
        if time.monotonic() > question.deadline:
            raise TimeoutError('its time was up before the model was free')

    def _add(self, frame: Frame) -> None:
        """Add one frame; whatever goes wrong costs this frame only."""
        if self.memory is None:
            self.dropped['no memory'] += 1
            return
        if frame.digest and frame.digest == self._added.get(frame.camera):
            self.dropped['stuck'] += 1
            return
        try:
            with self._model_lock:
                receipt = self.memory.add_frame(
                    frame.rgb, stamp_ns=frame.stamp_ns, camera=frame.camera,
                    frame_id=frame.frame_id, pose=frame.pose)
        except BaseException as error:  # counted and told, and the next frame is tried
            bad = isinstance(error, ImageFormatError)
            self.dropped['bad image' if bad else 'model failed'] += 1
            self._tell(self._hooks.on_error, 'frame', failure(error))
            return
        self._added[frame.camera] = frame.digest
        self.busy_since = time.monotonic()
        self.counts['frames'] += 1
        self.seconds['frames'] += receipt.total_s
        self.seconds['compression'] += receipt.compression_s
        self._tell(self._hooks.on_frame, frame, receipt)

    def _tell(self, hook: Callable[..., None], *arguments: Any) -> None:
        try:
            hook(*arguments)
        except Exception as error:  # a listener must not stop the engine
            if hook is not self._hooks.on_error:
                self._tell(self._hooks.on_error, 'engine', error)
