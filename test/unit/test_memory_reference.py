# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Invariants 3 and 10: after any number of compressions the engine is the reference."""

from infinipot_ros.memory import MemoryConfig, positions, VideoMemory
from memory_testing import Spy
import pytest
from reference_memory import ReferenceMemory
from tiny_models import pictures, tiny
import torch

FAMILIES = ['qwen2_vl', 'llava_onevision']
FRAMES, NEW_TOKENS = 17, 3


def run_both(family, instant_frames, frames=FRAMES, sabotage=None):
    """Feed both the same frames and the same question; return them with their logits."""
    model = tiny(family, dtype='float64')
    size = model.default_frame_size_px
    grid = model.grid(size)
    capacity = grid[0] * grid[1] * 8 + 5
    spy = Spy(model)
    memory = VideoMemory(spy, MemoryConfig(
        budget_mib=4.0, policy='tar', instant_frames=instant_frames, thumbnail_px=0,
        max_memory_tokens=capacity))
    with torch.inference_mode():
        reference = ReferenceMemory(model, grid, capacity, instant_frames)
        for index, rgb in enumerate(pictures(frames, 3, size)):
            memory.add_frame(rgb, stamp=index)
            reference.add(index, model.encode([rgb], size))
    if sabotage is not None:
        sabotage(memory)
    memory.ask('what?', max_new_tokens=NEW_TOKENS)
    with torch.inference_mode():
        logits = reference.ask(model.suffix_ids('what?'), NEW_TOKENS)
    return memory, reference, spy.seen[:NEW_TOKENS], logits


def difference(found, expected):
    return max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('instant_frames', [0, 2])
def test_kept_tokens_and_answers_equal_the_reference(family, instant_frames):
    memory, reference, found, expected = run_both(family, instant_frames)
    past = memory._state.cameras[0].past
    assert memory.status().compressions == reference.compressions >= 3
    for layer in range(reference.layers):
        for head in range(reference.heads):
            tokens = reference.past[layer][head]
            assert past.frames[layer, head].tolist() == [t.frame for t in tokens]
            columns = reference.grid[1]
            assert past.patches[layer, head].tolist() == [
                t.row * columns + t.column for t in tokens]
            stop = past.prefix + past.stored_tokens
            for stored, kept in ((past.keys, [t.key for t in tokens]),
                                 (past.values, [t.value for t in tokens])):
                torch.testing.assert_close(
                    stored[layer][head, past.prefix:stop], torch.stack(kept),
                    rtol=1e-9, atol=1e-9)
    assert difference(found, expected) < 1e-9


def shift_one_frame(memory):
    """Give the tokens of one frame to its neighbour, as a wrong coordinate in time."""
    frames = memory._state.cameras[0].past.frames
    ids = frames.unique()
    frames[frames == ids[1]] = ids[0]


def swap_two_patches(memory):
    past = memory._state.cameras[0].past
    past.patches[0, 0, [0, 5]] = past.patches[0, 0, [5, 0]]


def drop_one_token(memory):
    past = memory._state.cameras[0].past
    past.keys[1][1, past.prefix] = 0.0
    past.values[1][1, past.prefix] = 0.0


def touch_a_sink(memory):
    memory._state.cameras[0].past.values[0][0, 1] += 0.01


@pytest.mark.parametrize('sabotage', [
    shift_one_frame, swap_two_patches, drop_one_token, touch_a_sink])
def test_the_comparison_notices_a_single_wrong_token(sabotage):
    _, _, found, expected = run_both('qwen2_vl', 0, sabotage=sabotage)
    assert difference(found, expected) > 1e-6


def test_the_comparison_notices_ranks_that_are_not_right_aligned(monkeypatch):
    aligned = positions.aligned_ranks

    def left_aligned(frame, *args, **kwargs):
        ranks, top = aligned(frame, *args, **kwargs)
        return (ranks - ranks[..., :1] if frame.shape[-1] else ranks), top

    monkeypatch.setattr(positions, 'aligned_ranks', left_aligned)
    _, _, found, expected = run_both('qwen2_vl', 0)
    assert difference(found, expected) > 1e-6


def test_the_comparison_notices_a_question_that_starts_one_too_late(monkeypatch):
    end = positions.PositionScheme.end
    monkeypatch.setattr(
        positions.PositionScheme, 'end', lambda self, *args: end(self, *args) + 1)
    for family in FAMILIES:
        _, _, found, expected = run_both(family, 0, frames=3)
        assert difference(found, expected) > 1e-6
