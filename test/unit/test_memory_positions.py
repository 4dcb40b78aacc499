# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Invariant 5: positions depend on what is kept and stay bounded, at any age of the stream."""

from hypothesis import given, settings
from hypothesis import strategies as st
from infinipot_ros.memory import positions
from infinipot_ros.memory.model import RotaryTable
from memory_testing import add, filled
import pytest
from tiny_models import tiny
import torch

CPU = torch.device('cpu')


def frames_of(*heads):
    """Return frames [1, H, n] from lists."""
    return torch.tensor([heads], dtype=torch.int32)


def test_ranks_are_dense_per_head_and_right_aligned():
    frame = frames_of([3, 3, 7, 9, 9, 12], [9, 9, 9, 9, 12, 12])
    ranks, following = positions.aligned_ranks(frame, 64, 1)
    assert ranks[0].tolist() == [[0, 0, 1, 2, 2, 3], [2, 2, 2, 2, 3, 3]]
    assert following == 4


def test_an_empty_cache_starts_at_rank_zero():
    ranks, following = positions.aligned_ranks(frames_of([], []), 64, 1)
    assert ranks.shape == (1, 2, 0) and following == 0


def test_only_attended_frames_take_a_rank():
    frame = frames_of([1, 2, 2, 5, 8])
    attended = torch.isin(frame, torch.tensor([2, 8]))
    ranks, following = positions.aligned_ranks(frame, 64, 1, attended)
    assert following == 2
    assert ranks[attended].tolist() == [0, 0, 1]


@settings(max_examples=80, deadline=None)
@given(
    heads=st.lists(
        st.lists(st.integers(0, 400), min_size=40, max_size=40).map(sorted),
        min_size=1, max_size=3),
    max_rank=st.integers(3, 30), recent=st.integers(1, 6))
def test_squeezed_ranks_are_bounded_ordered_and_leave_the_recent_alone(heads, max_rank, recent):
    frame = frames_of(*heads)
    ranks, following = positions.aligned_ranks(frame, max_rank, recent)
    counts = [len(set(head)) for head in heads]
    assert following == min(max(counts), max_rank)
    for head, found in zip(heads, ranks[0].tolist(), strict=True):
        assert found[0] >= 0 and found[-1] == following - 1
        assert found == sorted(found)
        by_frame = dict(zip(head, found, strict=True))
        assert all(by_frame[f] == r for f, r in zip(head, found, strict=True))
        ids = sorted(by_frame)
        kept = ids[-min(recent, max_rank - 1):]
        assert [by_frame[f] for f in kept] == list(range(following - len(kept), following))
        if len(ids) > max_rank:
            older = [by_frame[f] for f in ids[:-len(kept)]]
            share = [older.count(rank) for rank in set(older)]
            assert max(share) - min(share) <= 1


def test_a_top_that_was_found_before_gives_the_same_ranks():
    frame = frames_of(range(20), [*[4] * 15, *range(5, 10)])
    for max_rank in (6, 20, 64):
        ranks, following = positions.aligned_ranks(frame, max_rank, 2)
        again, same = positions.aligned_ranks(frame, max_rank, 2, top=following)
        assert torch.equal(ranks, again) and same == following


def test_text_follows_time_rows_or_columns_whichever_is_largest():
    scheme = positions.PositionScheme((3, 4), 64, 1.0, CPU)
    assert scheme.end(7, 2) == 7 + 4
    assert scheme.end(7, 9) == 7 + 9
    assert scheme.end(7, 2, (6, 8)) == 7 + 8
    assert scheme.end(7, 0) == 7
    seconds = positions.PositionScheme((3, 4), 64, 2.5, CPU)
    assert seconds.end(7, 4) == 7 + int(3 * 2.5) + 1


def test_rows_and_columns_are_the_tokens_own():
    scheme = positions.PositionScheme((3, 4), 64, 1.0, CPU)
    patch = torch.tensor([[[0, 5, 11]]], dtype=torch.int32)
    found, _ = scheme.past(frames_of([1, 4, 4]), patch, 10, 1, 1)
    time, row, column = (axis[0, 0].tolist() for axis in found.axes)
    assert (time, row, column) == ([10, 11, 11], [10, 11, 12], [10, 11, 13])


@pytest.mark.parametrize('family', ['qwen2_vl', 'llava_onevision'])
def test_positions_at_frame_a_million_are_those_at_frame_ten(family):
    young, old = (filled(tiny(family), 0, max_memory_tokens=108) for _ in range(2))
    old._state.next_frame = 1_000_000
    add(young, 60)
    add(old, 60)
    first, second = (m._state.cameras[0].past for m in (young, old))
    assert torch.equal(first.frames + 1_000_000, second.frames)
    for a, b in zip(first.keys, second.keys, strict=True):
        assert torch.equal(a[:, :first.prefix + first.stored_tokens],
                           b[:, :first.prefix + first.stored_tokens])
    assert young.ask('what?').text == old.ask('what?').text


@pytest.mark.parametrize('family', ['qwen2_vl', 'llava_onevision'])
@pytest.mark.parametrize('max_rank', [64, 9])
def test_no_position_exceeds_the_table(family, max_rank, monkeypatch):
    own = {'max_rank': max_rank} if family == 'qwen2_vl' else {}
    memory = filled(tiny(family, **own), 0, max_memory_tokens=216, cameras=('a', 'b'))
    largest = 0
    look_up = positions.Rotation.cos_sin

    def watched(self, axes):
        nonlocal largest
        largest = max(largest, *(int(axis.max()) for axis in axes if axis.numel()))
        return look_up(self, axes)

    monkeypatch.setattr(positions.Rotation, 'cos_sin', watched)
    for camera in ('a', 'b'):
        add(memory, 40, camera=camera)
    memory.ask('x' * 200)
    plan, sizes = memory.plan, memory._state.sizes
    assert largest < plan.positions
    bound = sizes.sink_tokens + sum(plan.camera_tokens) + 2 * sizes.instant_tokens
    assert largest < bound + sizes.text_tokens
    if own:
        assert largest < sizes.sink_tokens + 2 * max(max_rank, 4) + sizes.text_tokens


def test_rotation_with_interleaved_columns_turns_each_by_its_own_axis():
    """Qwen3-VL's order of columns: time, row, column in turn."""
    index = torch.arange(50)[:, None] * torch.tensor([1.0, 0.5, 0.25, 0.1, 0.05])
    axes = (0, 1, 2, 0, 1)
    table = RotaryTable(index.cos(), index.sin(), axes)
    places = (torch.tensor([[3, 4]]), torch.tensor([[10, 20]]), torch.tensor([[30, 40]]))
    cos, sin = positions.Rotation(table).cos_sin(places)
    for column, axis in enumerate(axes):
        assert torch.equal(cos[0, :, column], table.cos[places[axis][0], column])
        assert torch.equal(sin[0, :, column], table.sin[places[axis][0], column])


def test_rotating_keeps_lengths_and_turns_by_differences():
    table = tiny(dtype='float64').rotary_table(100)
    rotation = positions.Rotation(table)
    query, key = torch.randn(2, 1, 1, 8, dtype=torch.float64)

    def product(at):
        turned = [positions.rotate(x, *rotation.cos_sin((torch.tensor([[p]]),) * 3))
                  for x, p in ((query, at + 5), (key, at))]
        assert torch.allclose(turned[0].norm(), query.norm())
        return float((turned[0] * turned[1]).sum())

    assert product(3) == pytest.approx(product(60), abs=1e-5)
    assert abs(product(3) - float((query * key).sum())) > 1e-3
