# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
What waits for the engine thread, from whichever thread, and the order in which it is taken.

Jobs (load, reset, save) go first, then questions, then descriptions, then frames. One question too
many is refused at once, of frames the oldest is dropped. Nothing here imports ROS.
"""

from __future__ import annotations

from collections import Counter, deque
import threading
import time

from infinipot_ros.errors import BusyError, Cancelled
from infinipot_ros.node.work import Description, Frame, Job, Question


class WorkQueue:
    """Work may be put in from any thread; `wait` and what is below it are for the engine's."""

    def __init__(self, dropped: Counter[str]) -> None:
        """Begin empty; frames that have to go are counted in `dropped`, by reason."""
        self.max_questions = 4
        self.max_frames = 8
        self.refused = 0  # questions that were one too many
        self.last_overrun = -float('inf')  # when a due frame was last dropped
        self._dropped = dropped
        self._wake = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._questions: deque[Question] = deque()
        self._frames: deque[Frame] = deque()
        self._running: Question | None = None
        self._describe = False
        self._closed = False

    def close(self) -> None:
        """Cancel what can be cancelled, and refuse what comes later."""
        with self._wake:
            self._closed = True
            self._describe = False
            self._wake.notify_all()
        self.cancel_questions('the node is shutting down')

    def put(self, job: Job) -> Job:
        """Queue a job."""
        with self._wake:
            self._refuse_if_closed()
            self._jobs.append(job)
            self._wake.notify_all()
        return job

    def ask(self, question: Question) -> Question:
        """
        Queue a question.

        :raises BusyError: at once, if as many wait as may.
        """
        with self._wake:
            self._refuse_if_closed()
            idle = self._running is None and not self._questions
            if not idle and len(self._questions) >= self.max_questions:
                self.refused += 1
                raise BusyError(f'{len(self._questions) + 1} questions are waiting already '
                                f'(parameter qa.queue is {self.max_questions}); ask again in a '
                                'moment')
            self._questions.append(question)
            self._wake.notify_all()
        return question

    def cancel_questions(self, reason: str) -> None:
        """Stop the question under way and drop those that wait; their callers get Cancelled."""
        with self._wake:
            waiting, self._questions = list(self._questions), deque()
            if self._running is not None:
                self._running.cancelled = reason
        for question in waiting:
            question.error = Cancelled(reason)
            question.done.set()

    def describe(self) -> None:
        """Ask for one description, when no question waits; asking twice is asking once."""
        with self._wake:
            self._describe = not self._closed
            self._wake.notify_all()

    def offer(self, frame: Frame) -> None:
        """Queue a frame; where too many wait the oldest is dropped and counted."""
        with self._wake:
            while len(self._frames) >= self.max_frames:
                self._frames.popleft()
                self._dropped['model busy'] += 1
                self.last_overrun = time.monotonic()
            self._frames.append(frame)
            self._wake.notify_all()

    def drop_frames(self, reason: str) -> None:
        """Drop the frames that wait, counted under a reason."""
        with self._wake:
            self._dropped[reason] += len(self._frames)
            self._frames.clear()

    def waiting(self) -> tuple[int, int]:
        """Return how many questions (the one being answered too) and frames wait."""
        with self._wake:
            return len(self._questions) + (self._running is not None), len(self._frames)

    def wait(self) -> bool:
        """Wait for work; return False when there will be none."""
        with self._wake:
            while not (self._closed or self._jobs or self._questions or self._frames
                       or self._describe):
                self._wake.wait()
            return bool(self._jobs) or not self._closed

    def take(self) -> Job | Question | Description | Frame | None:
        """Return what is to be done next; None if that has just been cancelled or dropped."""
        with self._wake:
            if self._jobs:
                return self._jobs.popleft()
            if self._questions:
                self._running = self._questions.popleft()
                return self._running
            if self._describe:
                self._describe = False
                return Description()
            return self._frames.popleft() if self._frames else None

    def take_frame(self) -> Frame | None:
        """Return the oldest frame, None if there is none."""
        with self._wake:
            return self._frames.popleft() if self._frames else None

    def answered(self) -> None:
        """Take note that no question is being answered any more."""
        with self._wake:
            self._running = None

    def puts_off_description(self) -> bool:
        """Say whether something waits that a description under way gives way to."""
        with self._wake:
            return bool(self._questions or self._closed
                        or any(job.urgent for job in self._jobs))

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Cancelled('the node is shutting down')
