# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of the memory share: spies, faults, and a digest of everything remembered."""

from typing import Any

from infinipot_ros.memory import (
    checkpoint,
    checkpoint_file,
    MemoryConfig,
    question_selection,
    questions,
    VideoMemory,
)
import pytest
from tiny_models import pictures

#: So few tokens that some 20 frames of the tiny Qwen compress: nine frames of 12.
CAP = {'max_memory_tokens': 12 * 9}


class Spy:
    """A model that notes the logits it gave."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.seen: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def logits(self, states: Any) -> Any:
        found = self._model.logits(states)
        self.seen.append(found[-1].clone())
        return found


def digest(memory: VideoMemory) -> str:
    """Return a digest of every stored token, frame, picture and counter of a memory."""
    state = memory._state
    return checkpoint_file.digest(
        checkpoint.facts_text(state), dict(checkpoint.named_tensors(state)))


def filled(model: Any, frames: int, scene: int = 0, **settings: Any) -> VideoMemory:
    """Return a memory of a tiny model that has seen random pictures, one a second."""
    settings = {'budget_mib': 4.0, 'thumbnail_px': 0, **settings}
    memory = VideoMemory(model, MemoryConfig(**settings))
    add(memory, frames, scene)
    return memory


def add(memory: VideoMemory, frames: int, scene: int = 0, camera: str | None = None) -> None:
    """Add random pictures."""
    start = memory.status().frames_seen
    size = memory.model.default_frame_size_px
    for index, rgb in enumerate(pictures(frames, scene, size)):
        memory.add_frame(rgb, stamp=float(start + index), camera=camera)


def noted_selections(monkeypatch: pytest.MonkeyPatch, fastv_layer: int) -> list[Any]:
    """Return what will note the selections that questions make; FastV's first layer is given."""
    made: list[Any] = []

    class Noted(question_selection.Selection):

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(questions, 'Selection', Noted)
    monkeypatch.setattr(question_selection, 'FASTV_LAYER', fastv_layer)
    return made
