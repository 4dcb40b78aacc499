# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is handed to the engine thread, and what it tells the node. Nothing here imports ROS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
import threading
import time
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    from infinipot_ros.memory import Answer, FrameReceipt, Pose
    from infinipot_ros.node.images import Rgb

# how much longer than its deadline a caller waits, so that the words so far can come with TIMEOUT
GRACE_S = 0.3


@dataclass(frozen=True)
class Frame:
    """
    One camera frame on its way into the memory.

    :param digest: of the picture as it came; a frame with that of the one before is left out.
    """

    camera: str
    stamp_ns: int
    frame_id: str
    rgb: Rgb
    pose: Pose | None = None
    digest: bytes = b''


@dataclass
class Question:
    """
    One question, from its arrival to its answer.

    :param deadline: steady time (`time.monotonic`) at which to give up.
    """

    text: str
    deadline: float
    cameras: Sequence[str] | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    max_new_tokens: int = 0
    history: Sequence[tuple[str, str]] = ()
    answer: Answer | None = None
    error: Exception | None = None
    cancelled: str = ''
    done: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> Answer:
        """
        Wait for the answer until the deadline.

        :raises TimeoutError: the model has not come back in time.
        :raises Exception: whatever answering raised.
        """
        self.done.wait(max(0.0, self.deadline + GRACE_S - time.monotonic()))
        if self.error is not None:
            raise self.error
        if self.answer is None:
            self.cancelled = 'its deadline has passed'
            raise TimeoutError('the model is busy and has not come back in time')
        return self.answer


@dataclass
class Job:
    """
    One function that runs in the engine thread.

    :param urgent: a description under way is put off for it.
    :param told: no one waits for it, so that the node is told of its error.
    """

    function: Callable[[], Any]
    urgent: bool = True
    told: bool = False
    result: Any = None
    error: Exception | None = None
    abandoned: bool = False
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Description:
    """A wish for one description of the scene."""


@dataclass
class Hooks:
    """
    What the thread tells the node; called in the thread, and never allowed to stop it.

    :param newest: the newest frame of each camera that the memory has not seen, for a question.
    """

    newest: Callable[[], Sequence[Frame]] = tuple
    on_frame: Callable[[Frame, FrameReceipt], None] = lambda frame, receipt: None
    on_answer: Callable[[Question, Answer], None] = lambda question, answer: None
    on_description: Callable[[Answer], None] = lambda answer: None
    on_error: Callable[[str, Exception], None] = lambda what, error: None


def failure(error: BaseException) -> Exception:
    """Return what is raised as one that ends no thread, as SystemExit of a policy would."""
    if isinstance(error, Exception):
        return error
    return RuntimeError(f'{type(error).__name__} was raised: {error}'.removesuffix(': '))
