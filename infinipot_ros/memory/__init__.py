# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The KV memory: keeps what a camera saw within a fixed budget and answers questions about it."""

from infinipot_ros.memory.config import MemoryConfig
from infinipot_ros.memory.records import (
    Answer,
    AnswerStatus,
    Evidence,
    FrameReceipt,
    KeptFrame,
    MemoryStatus,
    Pose,
)
from infinipot_ros.memory.video_memory import VideoMemory

__all__ = [
    'Answer',
    'AnswerStatus',
    'Evidence',
    'FrameReceipt',
    'KeptFrame',
    'MemoryConfig',
    'MemoryStatus',
    'Pose',
    'VideoMemory',
]
