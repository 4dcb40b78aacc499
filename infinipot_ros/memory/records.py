# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the memory hands out: receipts, answers with their evidence, and status."""

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt


class AnswerStatus(Enum):
    """How a question ended; the names are those of VideoQA.srv."""

    ANSWERED = 'answered'
    EMPTY_MEMORY = 'empty_memory'
    BAD_REQUEST = 'bad_request'
    TIMEOUT = 'timeout'
    CANCELLED = 'cancelled'
    FAILED = 'failed'


@dataclass(frozen=True)
class Pose:
    """Where the robot was: position in metres, orientation as a quaternion (x, y, z, w)."""

    frame_id: str
    position: tuple[float, float, float]
    orientation: tuple[float, float, float, float]


@dataclass(frozen=True)
class FrameReceipt:
    """
    What adding one frame did.

    `novelty` is the mean TaR score of the new frame's patches against the frame before it, from 0
    (the same picture) to 2; `compression_s` is the part of `total_s` spent choosing and moving
    tokens.
    """

    frame_id: int
    compressed: bool
    novelty: float
    compression_s: float
    total_s: float
    stamp_went_back: bool = False


@dataclass(frozen=True)
class Evidence:
    """
    One frame that an answer rests on.

    `relevance` is the frame's share of the answer's attention (all frames, sinks and text sum to
    1); `relevance_per_token` is that share divided by the tokens the frame still has.
    """

    frame: int
    stamp_ns: int
    camera: str
    frame_id: str
    pose: Pose | None
    relevance: float
    relevance_per_token: float
    thumbnail: npt.NDArray[np.uint8] | None = field(repr=False, default=None)

    @property
    def stamp(self) -> float:
        """Return the frame's stamp in seconds."""
        return self.stamp_ns / 1e9


@dataclass(frozen=True)
class Answer:
    """
    The answer to one question; `message` says why, in words, when it is not ANSWERED.

    Where it is, `message` names the cameras asked about that have no part in the answer,
    and the words of the question that the model does not know.

    `confidence` is the mean probability of the tokens of the text. `other_attention` is the share
    of attention that went to sinks and text, so that with all frames it sums to 1.
    """

    text: str
    status: AnswerStatus
    message: str = ''
    confidence: float = 0.0
    evidence: list[Evidence] = field(default_factory=list)
    attention_by_frame: dict[int, float] = field(default_factory=dict, repr=False)
    other_attention: float = 0.0
    tokens: int = 0
    frames_seen: int = 0
    newest_stamp_ns: int = 0
    latency_s: float = 0.0


@dataclass(frozen=True)
class KeptFrame:
    """One frame of which the memory still holds something."""

    frame: int
    stamp_ns: int
    camera: str
    frame_id: str
    pose: Pose | None
    kept_tokens: float
    stamp_went_back: bool = False


@dataclass(frozen=True)
class MemoryStatus:
    """The state of a memory in figures; bytes are those of the storage actually held."""

    budget_bytes: int
    held_bytes: int
    capacity_tokens: int
    held_tokens: int
    tokens_per_frame: int
    frames_seen: int
    frames_kept: int
    compressions: int
    oldest_stamp_ns: int
    newest_stamp_ns: int
    stamps_gone_back: int
    policy: str
    model: str
    bytes_by_part: dict[str, int]
    tokens_per_minute: float
    #: What chooses VaN's pooling kernel.
    van_pooling: str = ''
    #: What compresses: 'C', 'C, chosen in PyTorch' or 'PyTorch'.
    compressed_in: str = ''
    #: What a policy that offloads holds in host memory, beside the budget and `held_bytes`: it
    #: grows with the stream. 0 for every policy that a robot can use.
    host_bytes: int = 0
    host_tokens: int = 0
