# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The store in host memory: frames come out as they went in; half a frame is none."""

from hypothesis import given, settings
from hypothesis import strategies as st
from infinipot_ros.memory import offload
from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.offload import HostStore
import pytest
from tiny_models import tiny
import torch

SHAPE = tiny().shape
TOKENS = 4


def frame_rows(number):
    """Return a cache that holds one frame of its own after a prefix, and where it starts."""
    cache = LayerCache(SHAPE, TOKENS, prefix=3)
    draw = torch.Generator().manual_seed(number)
    for rows in (*cache.keys, *cache.values):
        rows.copy_(torch.randn(rows.shape, generator=draw))
    return cache, 3


def store_of(numbers):
    store = HostStore(SHAPE, TOKENS)
    for number in numbers:
        store.write(*frame_rows(number))
        store.commit(number)
    return store


def assert_holds(store, numbers):
    """Check every layer of every frame against what was put in."""
    assert store.frames == numbers and store.tokens == len(numbers) * TOKENS
    room = LayerCache(SHAPE, TOKENS, provenance=True)
    for place, number in enumerate(numbers):
        cache, start = frame_rows(number)
        for layer in range(SHAPE.layers):
            store.fetch(layer, [place], [TOKENS], room)
            assert torch.equal(room.keys[layer], cache.keys[layer][:, start:])
            assert torch.equal(room.values[layer], cache.values[layer][:, start:])
            torch.testing.assert_close(
                store.means(layer)[place], cache.keys[layer][:, start:].mean(1))
            assert (room.frame[layer] == number).all()
            assert (room.patch[layer] == torch.arange(TOKENS)).all()


def test_every_frame_comes_out_as_it_went_in():
    numbers = list(range(0, 120, 3))
    assert_holds(store_of(numbers), numbers)


def test_a_fetch_fills_a_room_in_the_order_given_and_cuts_where_told():
    store, room = store_of(range(40)), LayerCache(SHAPE, 9, provenance=True)
    store.fetch(1, [2, 17, 33], [4, 1, 4], room)
    assert room.frame[1, 0].tolist() == [2] * 4 + [17] + [33] * 4
    assert room.patch[1, 1].tolist() == [0, 1, 2, 3, 0, 0, 1, 2, 3]
    for rows, number, count in ((slice(0, 4), 2, 4), (slice(4, 5), 17, 1), (slice(5, 9), 33, 4)):
        cache, start = frame_rows(number)
        assert torch.equal(room.values[1][:, rows], cache.values[1][:, start:start + count])
    assert room.stored_tokens == 0 and (room.frame[0] == -1).all()


def test_what_is_written_counts_only_when_committed():
    store = store_of([1, 2])
    store.write(*frame_rows(99))
    assert_holds(store, [1, 2])
    store.write(*frame_rows(3))
    store.commit(3)
    assert_holds(store, [1, 2, 3])


def test_it_grows_by_whole_blocks_and_moves_none():
    store = HostStore(SHAPE, TOKENS)
    assert store.nbytes == 0
    sizes, places = [], []
    for number in range(50):
        store.write(*frame_rows(number))
        store.commit(number)
        sizes.append(store.nbytes)
        places.append(store._blocks[0].keys.data_ptr())
    assert len(set(places)) == 1
    per_token = 2 * SHAPE.layers * SHAPE.kv_heads * SHAPE.head_dim * 4
    block = 16 * (TOKENS * per_token + per_token // 2)
    assert sizes == [block * (1 + number // 16) for number in range(50)]


def test_a_block_has_few_frames_where_they_are_large(monkeypatch):
    keys = SHAPE.layers * SHAPE.kv_heads * SHAPE.head_dim * 4 * TOKENS
    monkeypatch.setattr(offload, 'BLOCK_BYTES', 3 * keys + 1)
    assert HostStore(SHAPE, TOKENS).block_frames == 3
    assert_holds(store_of(range(7)), list(range(7)))
    monkeypatch.setattr(offload, 'BLOCK_BYTES', 1)
    assert HostStore(SHAPE, TOKENS).block_frames == 1


def test_what_is_cropped_is_forgotten_and_its_blocks_given_back():
    store = store_of(range(40))
    whole = store.nbytes
    store.crop(17)
    assert_holds(store, list(range(17)))
    assert store.nbytes == whole * 2 // 3
    store.clear()
    assert store.nbytes == 0 and store.frames == []
    with pytest.raises(ValueError, match='crop'):
        store.crop(1)


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(['add', 'add', 'add', 'fail', 'crop', 'save']),
                                st.integers(0, 50)), max_size=40),
       most=st.sampled_from([1, 3, 16]))
def test_any_course_of_things_leaves_what_a_plain_list_would_hold(steps, most):
    before, offload.BLOCK_FRAMES = offload.BLOCK_FRAMES, most
    try:
        store, expected = HostStore(SHAPE, TOKENS), []
        for number, (what, place) in enumerate(steps):
            if what in ('add', 'fail'):
                store.write(*frame_rows(number))
            if what == 'add':
                store.commit(number)
                expected.append(number)
            elif what == 'crop':
                del expected[min(place, len(expected)):]
                store.crop(len(expected))
            elif what == 'save':
                saved = {name: tensor.clone() for name, tensor in store.tensors()}
                offload.BLOCK_FRAMES = most = 1 + place % 5
                store = HostStore(SHAPE, TOKENS)
                store.restore(saved)
        assert_holds(store, expected)
        assert store.nbytes >= sum(tensor.nbytes for name, tensor in store.tensors()
                                   if name != 'frames')
    finally:
        offload.BLOCK_FRAMES = before
