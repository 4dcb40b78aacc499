# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Invariant 4 and the rooms it lives in: layer caches, feature buffer, frame table."""

from infinipot_ros.errors import BudgetError
from infinipot_ros.memory import cache_kernels, Pose
from infinipot_ros.memory.camera_memory import FeatureBuffer
from infinipot_ros.memory.frame_table import FrameTable, NAMES_BYTES, ROW
from infinipot_ros.memory.layer_cache import LayerCache
from memory_testing import filled
import numpy as np
import pytest
from tiny_models import pictures, tiny
import torch

SHAPE = tiny().shape


def cache_of(frames, capacity=48, prefix=3):
    cache = LayerCache(SHAPE, capacity, prefix, provenance=True)
    for frame in range(frames):
        for layer in range(SHAPE.layers):
            rows = torch.full((SHAPE.kv_heads, 4, SHAPE.head_dim), float(frame + 1))
            cache.write(layer, 0, rows, -rows)
        cache.commit(4, frame, torch.arange(4))
    return cache


def test_kept_rows_move_to_the_front_and_the_prefix_stays():
    cache = cache_of(6)
    for layer in range(SHAPE.layers):
        cache.keys[layer][:, :3] = 99.0
    spare = torch.zeros(SHAPE.kv_heads, 48, SHAPE.head_dim)
    rows = torch.tensor([[0, 5, 10, 23], [1, 2, 3, 20]])
    cache.keep(torch.stack([rows] * SHAPE.layers), spare, LayerCache(SHAPE, 4))
    assert cache.stored_tokens == 4
    assert cache.frames[2].tolist() == [[0, 1, 2, 5], [0, 0, 0, 5]]
    assert cache.patches[2].tolist() == [[0, 1, 2, 3], [1, 2, 3, 0]]
    assert cache.keys[1][:, 3:7, 0].tolist() == [[1, 2, 3, 6], [1, 1, 1, 6]]
    assert cache.values[1][:, 3:7, 0].tolist() == [[-1, -2, -3, -6], [-1, -1, -1, -6]]
    assert (cache.keys[0][:, :3] == 99.0).all()


def test_what_is_written_counts_only_when_committed():
    cache = cache_of(2)
    rows = torch.ones(SHAPE.kv_heads, 4, SHAPE.head_dim)
    cache.write(0, 0, rows, rows)
    assert cache.stored_tokens == 8 and cache.frames.shape[2] == 8
    with pytest.raises(BudgetError, match='compress'):
        cache.write(0, 38, rows, rows)
    with pytest.raises(BudgetError):
        cache.commit(41)
    with pytest.raises(ValueError, match='crop'):
        cache.crop(9)


def test_resizing_keeps_what_is_stored():
    cache = cache_of(6)
    before = [rows[:, :27].clone() for rows in cache.keys]
    bytes_before = cache.nbytes
    cache.resize(24)
    assert cache.nbytes < bytes_before
    assert all(torch.equal(a, b) for a, b in zip(before, cache.keys, strict=True))
    assert cache.frames[0, 0].tolist() == [f for f in range(6) for _ in range(4)]
    with pytest.raises(BudgetError):
        cache.resize(23)


def test_a_cache_whose_resizing_ended_halfway_moves_nothing(monkeypatch):
    cache, made = cache_of(6), LayerCache._rows
    calls = iter([True, False])

    def short_of_memory(self, count):
        if next(calls):
            return made(self, count)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(LayerCache, '_rows', short_of_memory)
        with pytest.raises(MemoryError):
            cache.resize(24)
    rows = torch.arange(8).expand(SHAPE.layers, SHAPE.kv_heads, -1).contiguous()
    before = [rows.clone() for rows in cache.keys]
    with pytest.raises(BudgetError, match='halfway'):
        cache.keep(rows, torch.zeros(SHAPE.kv_heads, 48, SHAPE.head_dim), LayerCache(SHAPE, 4))
    assert all(torch.equal(a, b) for a, b in zip(before, cache.keys, strict=True))


@pytest.mark.parametrize('policy', ['infinipot_v', 'tar', 'van_pool', 'random', 'uniform_tokens'])
@pytest.mark.parametrize('instant_frames', [0, 2])
def test_kept_tokens_are_sorted_counted_and_whole_where_recent(policy, instant_frames):
    memory = filled(tiny(), 0, policy=policy, max_memory_tokens=12 * 16 + 7,
                    instant_frames=instant_frames, recent_ratio=0.25)
    camera = memory._state.cameras[0]
    sinks = [rows[:, :7].clone() for rows in camera.past.keys]
    compressions = 0
    for index, rgb in enumerate(pictures(60)):
        compressed = memory.add_frame(rgb, stamp=float(index)).compressed
        past = camera.past
        frames, patches = past.frames.long(), past.patches.long()
        order = frames * 12 + patches
        assert (order.diff(dim=-1) > 0).all()
        assert past.stored_tokens <= past.capacity
        if compressed:
            compressions += 1
            assert past.stored_tokens == int(0.75 * (12 * 16 + 7)) + 12
            newest = index - instant_frames
            # The appended frame, and the newest one (TaR: r = 4 of them) that was judged.
            for age in range(5 if policy in ('infinipot_v', 'tar') else 2):
                there = (frames == newest - age).sum(-1)
                assert (there == 12).all()
    assert compressions >= 5
    assert all(torch.equal(a, b[:, :7]) for a, b in zip(sinks, camera.past.keys, strict=True))


def test_a_feature_buffer_gives_back_its_oldest_and_keeps_its_order():
    buffer = FeatureBuffer(SHAPE, 3, 2)
    frames = [torch.full((2, SHAPE.hidden), float(i)) for i in range(8)]
    for index, features in enumerate(frames):
        if buffer.full:
            oldest, embeddings = buffer.oldest()
            assert oldest == index - 3 and torch.equal(embeddings, frames[oldest])
        buffer.push(index, features)
        assert torch.equal(buffer.newest, features)
        assert torch.equal(buffer.ordered(), torch.stack(frames[max(0, index - 2):index + 1]))
    empty = FeatureBuffer(SHAPE, 0, 2)
    empty.push(1, frames[1])
    assert not empty.frame_ids and torch.equal(empty.newest, frames[1])
    assert empty.ordered().shape == (0, 2, SHAPE.hidden)


def holding(tokens):
    """Return a cache that holds so many tokens of frames, in its first head, and others beside."""
    cache = LayerCache(SHAPE, max(1, sum(tokens.values())), provenance=True)
    cache.frame.fill_(1000)
    mine = [frame for frame, count in tokens.items() for _ in range(count)]
    cache.frame[0, 0, :len(mine)] = torch.tensor(mine, dtype=torch.int32)
    cache.stored_tokens = cache.capacity
    return cache


@pytest.mark.parametrize('library', ['C', 'PyTorch'])
def test_the_table_keeps_rows_of_kept_frames_and_their_thumbnails(library, monkeypatch):
    if library == 'PyTorch':
        monkeypatch.setattr(cache_kernels, '_LIBRARY', None)
    table = FrameTable(6, 3, (2, 2))
    pose = Pose('map', (1, 2, 3), (0, 0, 0, 1))
    for frame in range(5):
        small = np.full((2, 2, 3), frame, np.uint8)
        seen_from = pose if frame % 2 else None
        table.add(frame, frame * 10, 0, f'eye{frame}', seen_from, 4.0, False, small)
    assert [table.thumbnail(table.find(f)) is None for f in range(5)] == [
        True, True, False, False, False]
    table.retain(0, holding({1: 2, 3: 8}), 4, 4)
    assert [row['frame'] for row in table.rows] == [1, 3, 4] and table.find(2) is None
    kept = table.describe(table.find(3), ('front',))
    assert (kept.stamp_ns, kept.frame_id, kept.pose) == (30, 'eye3', pose)
    assert kept.kept_tokens == pytest.approx(8 / (SHAPE.layers * SHAPE.kv_heads))
    assert table.describe(table.find(4), ('front',)).kept_tokens == 4.0
    assert (table.thumbnail(table.find(3)) == 3).all()
    table.add(7, 70, 0, '', None, 4.0, True, np.full((2, 2, 3), 7, np.uint8))
    # The picture of a frame that went was free.
    assert (table.thumbnail(table.find(7)) == 7).all()
    assert (table.thumbnail(table.find(3)) == 3).all()


def test_a_full_table_gives_up_the_frame_with_the_fewest_tokens():
    table = FrameTable(3, 0, (1, 1))
    for frame, kept in enumerate([3.0, 1.0, 2.0]):
        table.add(frame, 0, 0, '', None, kept, False, None)
    table.add(3, 0, 0, '', None, 4.0, False, None)
    assert [int(row['frame']) for row in table.rows] == [0, 2, 3]
    table.resize(2, 0)
    assert [int(row['frame']) for row in table.rows] == [0, 3]


def test_names_that_no_row_uses_are_given_back_and_long_ones_cut():
    table = FrameTable(4, 0, (1, 1))
    for frame in range(3000):
        pose = Pose(f'map{frame}', (1, 2, 3), (0, 0, 0, 1))
        table.add(frame, 0, 0, f'eye{frame}', pose, 1.0 + frame, False, None)
    rows = [table.describe(index, ('front',)) for index in range(4)]
    assert [row.frame_id for row in rows] == [f'eye{n}' for n in range(2996, 3000)]
    assert [row.pose.frame_id for row in rows] == [f'map{n}' for n in range(2996, 3000)]
    assert len(table.names) < 100 and sum(map(len, table.names)) < NAMES_BYTES
    table.add(3000, 0, 0, 'e' + 'ä' * 10**6, None, 9999.0, False, None)
    assert table.describe(3, ('front',)).frame_id == 'e' + 'ä' * 127
    assert table.nbytes == 4 * ROW.itemsize + NAMES_BYTES


def test_where_all_names_are_used_the_oldest_frames_lose_theirs(caplog):
    table = FrameTable(500, 0, (1, 1))
    pose = Pose('map', (1, 2, 3), (0, 0, 0, 1))
    for frame in range(400):
        table.add(frame, 0, 0, f'{frame}' + 'x' * 300, pose if frame else None, 1.0, False, None)
    old, new = (table.describe(index, ('front',)) for index in (1, 399))
    assert (old.frame_id, old.pose) == ('', pose)
    assert new.frame_id == ('399' + 'x' * 300)[:256] and new.pose == pose
    assert sum(len(name) for name in table.names) <= NAMES_BYTES
    assert caplog.text.count('lose it') == 1
    rows, pictures = table.dump()
    again = FrameTable(500, 0, (1, 1))
    many = [name or f'free{n}' + 'y' * 10**5 for n, name in enumerate(table.names)]
    again.load(rows.view(np.uint8), pictures, ['', *many[1:]])
    assert again.describe(399, ('front',)) == new
    assert sum(len(name) for name in again.names) <= NAMES_BYTES


def test_retain_leaves_other_cameras_alone():
    table = FrameTable(6, 0, (1, 1))
    for frame in range(4):
        table.add(frame, 0, frame % 2, '', None, 1.0, False, None)
    table.retain(0, holding({}), 9, 4)
    assert [int(row['frame']) for row in table.rows] == [1, 3]


def test_the_map_of_kept_patches_counts_caches():
    memory = filled(tiny(), 30, max_memory_tokens=12 * 9, instant_frames=2)
    assert (memory.retained() == 1.0).all()
    past = memory._state.cameras[0].past
    for kept in memory.frames():
        share = memory.retained(kept.frame)
        assert share.shape == (3, 4)
        if kept.frame < 28:
            tokens = float((past.frames == kept.frame).sum()) / 6
            assert share.sum() == pytest.approx(tokens)
    assert memory.retained(10**6).sum() == 0
