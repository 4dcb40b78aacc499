# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The kernels in C move, count and choose as PyTorch does, and what they move comes back."""

import contextlib
from dataclasses import replace
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from infinipot_ros.errors import ConfigError, NumericError
from infinipot_ros.memory import cache_kernels, ingest, MemoryConfig, VideoMemory
from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.policies import LayerView, POLICIES
from infinipot_ros.memory.policies.rows import row_norms
from infinipot_ros.memory.policies.van import kernels_of
from memory_testing import CAP, digest, filled
from policies_oracle import best, infinipot_v_by_hand, recent_ids, tar_by_hand
import pytest
from tiny_models import pictures, tiny
import torch

SHAPE = tiny().shape
GRID = (3, 4)
CELLS = 12
WAYS = ['C', 'PyTorch']


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Run a test with the library and without it."""
    if request.param == 'PyTorch':
        monkeypatch.setattr(cache_kernels, '_LIBRARY', None)
    return request.param


def a_cache(seed, stored, capacity=None, prefix=3, dtype=torch.float32, **shape):
    """Return a cache whose heads kept different tokens, the newest frames whole."""
    shape = replace(SHAPE, dtype=dtype, **shape)
    cache = LayerCache(shape, capacity or stored, prefix, provenance=True)
    draw = torch.Generator().manual_seed(seed)
    for tensor in (*cache.keys, *cache.values):
        tensor.copy_(torch.randn(tensor.shape, generator=draw))
    old = max(0, stored - 2 * CELLS)
    for layer in range(shape.layers):
        for head in range(shape.kv_heads):
            chosen = torch.randperm(5 * max(old, 1), generator=draw)[:old].sort().values
            place = torch.cat([chosen, 5 * old + CELLS + torch.arange(stored - old)])
            cache.frame[layer, head, :stored] = 7 + place // CELLS
            cache.patch[layer, head, :stored] = place % CELLS
    cache.stored_tokens = stored
    return cache


def a_choice(seed, cache, count):
    draw = torch.Generator().manual_seed(seed)
    chance = torch.rand(*cache.frames.shape, generator=draw)
    return chance.topk(count).indices.sort().values.contiguous()


def contents(cache):
    return [t.clone() for t in (*cache.keys, *cache.values, cache.frames, cache.patches)]


def same(ones, others):
    return all(torch.equal(a, b) for a, b in zip(ones, others, strict=True))


def view_of(cache, layer, recent_frames):
    stored = slice(cache.prefix, cache.prefix + cache.stored_tokens)
    return LayerView(
        cache.keys[layer][:, stored], cache.values[layer][:, stored],
        cache.frames[layer].long(), cache.patches[layer].long(), GRID,
        recent_frames=recent_frames)


def chosen(cache, recent_frames, budget, policy='tar', alpha=0.5, **options):
    return POLICIES[policy].kernel(cache.kernels, cache_kernels.Asked(
        cache.stored_tokens, GRID, recent_frames, budget, alpha, options))


def test_the_library_is_built():
    assert cache_kernels.load() is not None
    assert LayerCache(SHAPE, 4).kernels is not None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), stored=st.integers(1, 60), prefix=st.sampled_from([0, 1, 7]),
    width=st.sampled_from([2, 5, 16, 33]), free=st.integers(0, 9),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64]), data=st.data(),
)
@pytest.mark.parametrize('library', WAYS)
def test_what_goes_comes_back_bit_for_bit(
    library, seed, stored, prefix, width, free, dtype, data
):
    with pytest.MonkeyPatch.context() as patch:
        if library == 'PyTorch':
            patch.setattr(cache_kernels, '_LIBRARY', None)
        cache = a_cache(seed, stored, stored + free, prefix, dtype, head_dim=width)
        stash = LayerCache(cache.shape, 12, provenance=False)
    assert (cache.kernels is None) == (library == 'PyTorch')
    count = data.draw(st.integers(1, stored))
    room = data.draw(st.integers(0, min(12, stored + free - count)))
    rows = a_choice(seed, cache, count)
    before = contents(cache)
    spare = torch.empty(cache.shape.kv_heads, stored, width, dtype=dtype)
    cache.keep(rows, spare, stash, room)
    assert cache.stored_tokens == count
    kept = [
        *(torch.stack([head[prefix:][row] for head, row in zip(tensor, layer, strict=True)])
          for tensor, layer in zip(before[:-2], [*rows, *rows], strict=True)),
        *(labels.gather(2, rows) for labels in before[-2:])]
    parts = [tensor[:, prefix:prefix + count] for tensor in (*cache.keys, *cache.values)]
    assert same([*parts, cache.frames, cache.patches], kept)
    # As a frame does that fails after it has written all of its keys and values.
    for tensor in (*cache.keys, *cache.values):
        tensor[:, prefix + count:prefix + count + room] = 99.0
    cache.put_back(rows, stored, spare, stash, room)
    after = contents(cache)
    if room > stored - count:
        # Rows that were free before are free again, whatever is in them.
        cut = prefix + stored
        before, after = ([*(t[:, :cut] for t in c[:-2]), *c[-2:]] for c in (before, after))
    assert same(after, before)


def test_a_stash_that_was_written_to_is_noticed():
    cache = a_cache(0, 40)
    rows, before = a_choice(0, cache, 20), contents(cache)
    spare, stash = torch.empty(SHAPE.kv_heads, 40, SHAPE.head_dim), LayerCache(SHAPE, 12)
    cache.keep(rows, spare, stash, 12)
    stash.keys[0][0, 3] += 1.0
    cache.put_back(rows, 40, spare, stash, 12)
    assert not same(contents(cache), before)


@pytest.mark.parametrize('wrong', [
    {'rows': torch.zeros(SHAPE.layers, SHAPE.kv_heads, 20, dtype=torch.int32)},
    {'rows': torch.zeros(SHAPE.layers, SHAPE.kv_heads, 0, dtype=torch.int64)},
    {'rows': torch.zeros(1, SHAPE.kv_heads, 20, dtype=torch.int64)},
    {'rows': torch.zeros(SHAPE.layers, 20, SHAPE.kv_heads, dtype=torch.int64).transpose(1, 2)},
    {'spare': torch.empty(2)},
    {'stored': 41},
    {'room': 13},
])
def test_what_would_write_where_it_must_not_is_refused(wrong):
    cache = a_cache(0, 40)
    given = {
        'rows': a_choice(0, cache, 20), 'stored': 40, 'room': 12,
        'spare': torch.empty(SHAPE.kv_heads, 40, SHAPE.head_dim), **wrong}
    with pytest.raises(ValueError, match=re.escape('cannot move')):
        cache.kernels.part(
            given['rows'], given['stored'], given['spare'], LayerCache(SHAPE, 12).kernels,
            given['room'])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), stored=st.integers(2 * CELLS + 1, 90),
    width=st.sampled_from([2, 5, 16, 33]), recent=st.integers(1, 3),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]), data=st.data(),
)
def test_tar_keeps_what_the_brute_force_keeps(seed, stored, width, recent, dtype, data):
    cache = a_cache(seed, stored, dtype=dtype, head_dim=width)
    budget = data.draw(st.integers(3 * CELLS if recent == 3 else recent * CELLS, stored)
                       if stored >= 3 * CELLS else st.just(stored))
    rows = chosen(cache, recent, budget)
    for layer in range(cache.shape.layers):
        view = view_of(cache, layer, recent)
        scores, newest = tar_by_hand(view).tolist(), recent_ids(view)
        for head in range(view.num_heads):
            whole = {n for n in range(stored) if int(view.frame[head, n]) in newest}
            left = best(scores[head], budget - len(whole), set(range(stored)) - whole)
            kept = rows[layer, head].tolist()
            assert kept == sorted(set(kept)) and whole <= set(kept)
            # Single precision may swap what double precision cannot tell apart by more than this.
            worst = min((scores[head][n] for n in left), default=0.0)
            for n in (set(kept) - whole) ^ left:
                assert scores[head][n] == pytest.approx(worst, abs=2e-6)


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
@pytest.mark.parametrize('budget', [14, 30, 60, 79])
@pytest.mark.parametrize('recent_frames', [1, 2, 5])
def test_tar_keeps_what_the_policy_keeps(dtype, budget, recent_frames):
    cache = a_cache(5, 80, dtype=dtype)
    rows = chosen(cache, recent_frames, budget)
    for layer in range(SHAPE.layers):
        view = view_of(cache, layer, recent_frames)
        assert torch.equal(rows[layer], POLICIES['tar'](view, budget))
        shuffled = replace(view, patch=view.patch.flip(1) if recent_frames == 1 else view.patch)
        if recent_frames == 1 and budget == 60:
            assert not torch.equal(rows[layer], POLICIES['tar'](shuffled, budget))


def pooled_by(cache, layer, kernel, thresholds):
    """Return the kernel of a layer, from the settings as LayerView has them."""
    view = replace(
        view_of(cache, layer, 1), layer=layer, num_layers=cache.shape.layers, van_kernel=kernel,
        cv_thresholds=thresholds)
    return kernels_of(view, row_norms(view.values))[0]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), stored=st.integers(2 * CELLS + 1, 80),
    recent=st.integers(1, 2), alpha=st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]),
    kernel=st.sampled_from([None, 1, 3, 5, 9]),
    thresholds=st.sampled_from([None, (0.12, 0.16, 0.2), (0.0, 0.0, 9.0)]), data=st.data(),
)
def test_infinipot_v_keeps_what_the_brute_force_keeps(
    seed, stored, recent, alpha, kernel, thresholds, data
):
    cache = a_cache(seed, stored)
    budget = data.draw(st.integers(recent * CELLS, stored))
    rows = chosen(
        cache, recent, budget, 'infinipot_v', alpha, van_kernel=kernel, cv_thresholds=thresholds)
    for layer in range(cache.shape.layers):
        view = replace(view_of(cache, layer, recent), alpha=alpha)
        by = pooled_by(cache, layer, kernel, thresholds)
        assert torch.equal(rows[layer], infinipot_v_by_hand(view, budget, by))


def test_thresholds_tell_layers_apart():
    cache = a_cache(3, 60)
    cache.values[0].div_(cache.values[0].norm(dim=-1, keepdim=True))
    assert [pooled_by(cache, layer, None, (0.1, 0.2, 0.3)) for layer in (0, 1)] == [7, 3]
    rows = chosen(cache, 1, 40, 'infinipot_v', 0.0, cv_thresholds=(0.1, 0.2, 0.3))
    for by in (1, 3, 5, 7):
        kept = infinipot_v_by_hand(replace(view_of(cache, 1, 1), alpha=0.0), 40, by)
        assert torch.equal(rows[1], kept) == (by == 3)


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
@pytest.mark.parametrize('budget', [14, 30, 60, 79])
@pytest.mark.parametrize('recent_frames', [1, 2, 5])
def test_infinipot_v_keeps_what_the_policy_keeps(dtype, budget, recent_frames):
    cache = a_cache(5, 80, dtype=dtype)
    rows = chosen(cache, recent_frames, budget, 'infinipot_v', van_kernel=3)
    for layer in range(SHAPE.layers):
        view = replace(view_of(cache, layer, recent_frames), van_kernel=3)
        assert torch.equal(rows[layer], POLICIES['infinipot_v'](view, budget))


@pytest.mark.parametrize('value', [0.0, 3e38, torch.inf, torch.nan])
@pytest.mark.parametrize('kernel', [1, 3])
def test_values_of_which_nothing_can_be_known_come_last_or_first(value, kernel):
    cache = a_cache(0, 60)
    for values in cache.values:
        values[:, cache.prefix + 1::3] = value
    rows = chosen(cache, 1, 30, 'infinipot_v', 0.0, van_kernel=kernel)
    for layer in range(SHAPE.layers):
        view = replace(view_of(cache, layer, 1), van_kernel=kernel, alpha=0.0)
        assert torch.equal(rows[layer], POLICIES['infinipot_v'](view, 30))


@pytest.mark.parametrize('key', [0.0, 1.0, 3e38, torch.inf, torch.nan])
def test_among_equals_the_earlier_token_stays(key):
    cache = a_cache(0, 60)
    for keys in cache.keys:
        keys.fill_(key)
    rows = chosen(cache, 2, 40)
    expected = [*range(16), *range(36, 60)]
    assert rows.tolist() == [[expected] * SHAPE.kv_heads] * SHAPE.layers
    assert torch.equal(rows[0], POLICIES['tar'](view_of(cache, 0, 2), 40))


@pytest.mark.parametrize('key', [0.0, 3e38, torch.inf, torch.nan])
@pytest.mark.parametrize('budget', [26, 30, 40, 50])
def test_a_key_of_which_nothing_can_be_known_scores_nothing(key, budget):
    cache = a_cache(0, 60)
    for keys in cache.keys:
        keys[:, cache.prefix + 1::3] = key
    # A patch without such keys in recent frames has finite means.
    cache.keys[0][:, -2 * CELLS::2] = 1.0
    rows = chosen(cache, 2, budget)
    for layer in range(SHAPE.layers):
        assert torch.equal(rows[layer], POLICIES['tar'](view_of(cache, layer, 2), budget))


@pytest.mark.parametrize(('settings', 'model', 'said'), [
    ({'policy': 'tar'}, {}, 'C'),
    ({'policy': 'infinipot_v'}, {}, 'C'),
    ({'policy': 'snapkv'}, {}, 'C, chosen in PyTorch'),
    ({'policy': 'tar'}, {'dtype': 'float64'}, 'C, chosen in PyTorch'),
])
def test_the_status_says_what_compresses(settings, model, said, monkeypatch):
    assert filled(tiny(**model), 0, **settings).status().compressed_in == said
    monkeypatch.setattr(cache_kernels, '_LIBRARY', None)
    assert filled(tiny(**model), 0, **settings).status().compressed_in == 'PyTorch'


def test_what_the_kernel_does_not_do_is_left_to_the_policy():
    assert chosen(a_cache(0, 60, dtype=torch.float64), 1, 40) is None
    cache = a_cache(0, 60)
    # Not even the newest frame fits.
    assert chosen(cache, 1, CELLS - 1) is None
    cache.patch[1, 1, 7] = CELLS
    assert chosen(cache, 1, 40) is None
    cache.patch[1, 1, 7] = -1
    assert chosen(cache, 1, 40) is None


def test_a_memory_is_the_same_with_and_without_the_library(monkeypatch):
    def remembered(policy, **settings):
        memory = filled(tiny(), 60, policy=policy, **CAP, **settings)
        assert memory.status().compressions > 5
        return digest(memory)

    cases = [
        ('tar', {}), ('infinipot_v', {'instant_frames': 2}), ('random', {'instant_frames': 0}),
        ('sliding_window', {}), ('stc', {})]
    with_library = [remembered(policy, **settings) for policy, settings in cases]
    monkeypatch.setattr(cache_kernels, '_LIBRARY', None)
    assert [remembered(policy, **settings) for policy, settings in cases] == with_library


@pytest.mark.parametrize('instant_frames', [0, 2])
def test_the_table_knows_what_is_kept_of_each_camera(way, instant_frames):
    memory = filled(
        tiny(), 0, policy='tar', cameras=('front', 'rear'), instant_frames=instant_frames,
        max_memory_tokens=2 * 12 * 9)
    for index, rgb in enumerate(pictures(50)):
        camera = ('front', 'rear')[index % 3 == 0]
        compressed = memory.add_frame(rgb, stamp=float(index), camera=camera).compressed
        if not compressed:
            continue
        held = {}
        for owner in memory._state.cameras:
            ids, counts = owner.past.frames.unique(return_counts=True)
            heads = SHAPE.layers * SHAPE.kv_heads
            held |= dict(zip(ids.tolist(), (counts / heads).tolist(), strict=True))
            held |= dict.fromkeys(owner.whole_frames(), 12.0)
        assert {kept.frame: kept.kept_tokens for kept in memory.frames()} == pytest.approx(held)
    assert memory.status().compressions > 5


def test_a_frame_that_fails_behind_a_compression_changes_nothing(way, monkeypatch):
    memory = filled(tiny(), 20, policy='tar', instant_frames=0, **CAP)
    camera = memory._state.cameras[0]
    while not memory._state.compression.needed(camera):
        memory.add_frame(pictures(1)[0], stamp=memory.status().frames_seen)
    before, rooms = digest(memory), contents(camera.past)
    backbone, layers = memory.model.backbone, []

    def spoilt(embeddings, context):
        layers.append(camera.past.stored_tokens)
        backbone(embeddings, context)
        return torch.full((1, 1), torch.nan)

    with monkeypatch.context() as patch:
        patch.setattr(memory.model, 'backbone', spoilt)
        with pytest.raises(NumericError):
            memory.add_frame(pictures(1)[0], stamp=99.0)
    # The frame was read over what would have been kept.
    assert layers == [memory._state.compression.target(camera.past.capacity)]
    assert digest(memory) == before
    cut = camera.past.prefix + camera.past.stored_tokens
    assert same([t[:, :cut] for t in contents(camera.past)[:-2]], [t[:, :cut] for t in rooms[:-2]])
    assert memory.add_frame(pictures(1)[0], stamp=99.0).compressed


def test_a_large_memory_goes_on_under_a_small_budget(way, tmp_path):
    path = tmp_path / 'large.safetensors'
    settings = {'policy': 'tar', 'thumbnail_px': 0, 'max_question_tokens': 8, 'max_new_tokens': 4}
    filled(tiny(), 220, **settings).save(path)
    for mib in (3.0, 1.0, 0.6):
        memory = VideoMemory.load(path, tiny(), MemoryConfig(budget_mib=mib, **settings))
        status = memory.status()
        assert status.held_bytes <= status.budget_bytes < mib * 2**20 + 1
        assert status.compressions > 0 or mib > 2
        memory.add_frame(pictures(1)[0], stamp=1000.0)
        assert memory.status().held_bytes <= status.budget_bytes


def same_past_after(memory, error, match=None):
    """Add a frame that has to fail; return whether the memory is as before."""
    before = digest(memory)
    with pytest.raises(error, match=match):
        memory.add_frame(pictures(1, 7)[0], stamp=1000.0)
    return digest(memory) == before


def full_memory():
    memory = filled(tiny(), 20, policy='tar', instant_frames=0, **CAP)
    while not memory._state.compression.needed(memory._state.cameras[0]):
        memory.add_frame(pictures(1)[0], stamp=memory.status().frames_seen)
    return memory


@pytest.mark.parametrize(('wrong', 'error', 'match'), [
    (lambda rows: rows + 1000, ValueError, 'rise within'),
    (lambda rows: rows - 1000, ValueError, 'rise within'),
    (lambda rows: rows.flip(2).contiguous(), ValueError, 'rise within'),
    (lambda rows: rows[..., :5].contiguous(), ConfigError, 'keeps 5 tokens'),
    (lambda rows: rows.int(), ValueError, 'cannot move'),
    (lambda rows: rows[:1].contiguous(), ValueError, 'cannot move'),
])
def test_wrong_rows_of_a_kernel_cost_the_frame_only(wrong, error, match):
    memory = full_memory()
    compression = memory._state.compression
    kernel = compression.policy.kernel
    compression.policy = replace(
        compression.policy, kernel=lambda *asked: wrong(kernel(*asked)))
    assert same_past_after(memory, error, match)
    compression.policy = replace(compression.policy, kernel=kernel)
    assert memory.add_frame(pictures(1, 7)[0], stamp=1000.0).compressed


@pytest.mark.parametrize('place', ['before part', 'after part', 'after keep', 'in commit'])
def test_an_interrupt_at_a_compression_changes_nothing(place, monkeypatch):
    memory = full_memory()
    past = memory._state.cameras[0].past
    part, keep = type(past.kernels).part, LayerCache.keep

    def interrupted(function, first):
        def call(*arguments):
            if not first:
                function(*arguments)
            raise KeyboardInterrupt
        return call

    with monkeypatch.context() as patch:
        if place == 'in commit':
            patch.setattr(LayerCache, 'commit', interrupted(None, True))
        elif place == 'after keep':
            patch.setattr(LayerCache, 'keep', interrupted(keep, False))
        else:
            patch.setattr(type(past.kernels), 'part', interrupted(part, place == 'before part'))
        before_it = contents(past)
        with pytest.raises(KeyboardInterrupt):
            memory.add_frame(pictures(1, 7)[0], stamp=1000.0)
    cut = past.prefix + past.stored_tokens
    assert same(
        [t[:, :cut] for t in contents(past)[:-2]] + contents(past)[-2:],
        [t[:, :cut] for t in before_it[:-2]] + before_it[-2:])
    assert memory.add_frame(pictures(1, 7)[0], stamp=1000.0).compressed


def test_another_library_is_not_used(monkeypatch, caplog):
    assert cache_kernels.load('no_such_library.so') is None
    # One without our functions, which is there on every Linux.
    assert cache_kernels.load('libc.so.6') is None
    assert not caplog.records
    monkeypatch.setattr(cache_kernels, '_VERSION', 10**6)
    assert cache_kernels.load() is None
    assert 'build the package again' in caplog.text


def test_a_receipt_counts_choosing_moving_and_the_table(monkeypatch):
    memory = filled(tiny(), 20, policy='tar', **CAP)
    now, ahead_s = ingest.time.perf_counter, [0.0]
    # as good as sleeping, and longer than any machine takes
    monkeypatch.setattr(ingest.time, 'perf_counter', lambda: now() + ahead_s[0])

    def slowly(function):
        def slow(*arguments):
            ahead_s[0] += 1000.0
            return function(*arguments)
        return slow

    for owner, name in (
            (type(memory._state.compression), 'choose'), (LayerCache, 'keep'),
            (ingest, 'retain_rows')):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, slowly(getattr(owner, name)))
            while not (receipt := memory.add_frame(
                    pictures(1)[0], stamp=memory.status().frames_seen)).compressed:
                assert receipt.compression_s < 1000.0
            assert 1000.0 < receipt.compression_s < 2000.0


OPERATIONS = ['front', 'rear', 'front', 'rear', 'fail', 'ask', 'small', 'large', 'save', 'clear']


def live(operations, policy, instant_frames, folder):
    """Do all that to a memory; return its digest and its rows of frames after each operation."""
    memory = filled(
        tiny(), 0, policy=policy, instant_frames=instant_frames, cameras=('front', 'rear'),
        max_memory_tokens=2 * 12 * 9, budget_mib=2.0, thumbnail_px=8)
    backbone, found = memory.model.backbone, []

    def spoilt(embeddings, context):
        backbone(embeddings, context)
        return torch.full((1, 1), torch.nan)

    for index, operation in enumerate(operations):
        rgb = pictures(1, index)[0]
        if operation in ('front', 'rear'):
            for step in range(4):
                memory.add_frame(rgb, stamp=4.0 * index + step, camera=operation)
        elif operation == 'fail':
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(memory.model, 'backbone', spoilt)
                with contextlib.suppress(NumericError):
                    memory.add_frame(rgb, stamp=4.0 * index)
        elif operation == 'ask':
            memory.ask('what?', max_new_tokens=2)
        elif operation in ('small', 'large'):
            memory.set_budget(1.5 if operation == 'small' else 2.0)
        elif operation == 'save':
            memory.save(folder / 'memory.safetensors')
            memory = VideoMemory.load(folder / 'memory.safetensors', memory.model)
        else:
            memory.reset()
        status = memory.status()
        assert status.held_bytes <= status.budget_bytes
        rows = [(kept.frame, round(kept.kept_tokens, 4)) for kept in memory.frames()]
        found.append((digest(memory), rows))
    return found


@settings(max_examples=25, deadline=None)
@given(
    operations=st.lists(st.sampled_from(OPERATIONS), min_size=5, max_size=30),
    policy=st.sampled_from(['tar', 'infinipot_v', 'random', 'snapkv', 'stc']),
    instant_frames=st.sampled_from([0, 2]),
)
def test_a_life_is_the_same_with_and_without_the_library(
    tmp_path_factory, operations, policy, instant_frames
):
    folder = tmp_path_factory.mktemp('life')
    with_library = live(operations, policy, instant_frames, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_kernels, '_LIBRARY', None)
        assert live(operations, policy, instant_frames, folder) == with_library
