# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A memory that offloads: the device keeps its budget, and what is on host is told apart."""

from infinipot_ros.errors import BudgetError, CheckpointError, ConfigError
from infinipot_ros.memory import AnswerStatus, MemoryConfig, offload, VideoMemory
from infinipot_ros.memory.budget import MIB
from infinipot_ros.memory.frame_table import ROW
from infinipot_ros.memory.policies import get_robot_policy, POLICIES, register
from infinipot_ros.memory.policies.windows import select_newest
from memory_testing import add, digest, filled, Spy
import pytest
from tiny_models import pictures, tiny
import torch

REKV = {'policy': 'rekv', 'question_tokens': 30, 'max_memory_tokens': 12 * 9}


def everything(memory):
    """Return copies of all that is held, sinks, instant cache and positions of no use included."""
    state = memory._state
    found = [rows.clone() for camera in state.cameras
             for cache in (camera.past, camera.instant) for rows in (*cache.keys, *cache.values)]
    found += [labels.clone() for camera in state.cameras
              for labels in (camera.past.frame, camera.past.patch)]
    found += [tensor.clone() for store in state.stores for _, tensor in store.tensors()]
    return found, state.table.rows.tobytes(), memory.status()


def assert_same(before, after):
    assert all(torch.equal(a, b) for a, b in zip(before[0], after[0], strict=True))
    assert before[1:] == after[1:]


@pytest.mark.parametrize('settings', [
    {}, {'instant_frames': 0}, {'cameras': ('a', 'b'), 'max_memory_tokens': 12 * 18},
    {'hold_rotated_keys': False, 'thumbnail_px': 16}, {'question_tokens': 500}])
@pytest.mark.parametrize('family', ['qwen2_vl', 'llava_onevision'])
def test_the_device_keeps_its_budget_while_the_host_grows(family, settings):
    memory = filled(tiny(family), 0, **{**REKV, 'instant_frames': 1, **settings})
    cameras, grown = memory.config.cameras, []
    size = memory.model.default_frame_size_px
    for index, rgb in enumerate(pictures(150, 0, size)):
        memory.add_frame(rgb, stamp=float(index), camera=cameras[index % len(cameras)])
        if index % 50 == 49:
            status = memory.status()
            # Nothing on the device grows but what was planned, and all of it was there at first.
            assert status.bytes_by_part == memory.plan.bytes_by_part
            assert status.held_bytes == memory.plan.total_bytes <= status.budget_bytes
            assert memory.ask('what?', max_new_tokens=2).status is AnswerStatus.ANSWERED
            assert memory.status() == status
            grown.append(status.host_bytes)
    waiting = len(cameras) * memory.config.instant_frames
    assert status.host_tokens == (150 - waiting) * status.tokens_per_frame
    blocks = [block for store in memory._state.stores for block in store._blocks]
    rows = len(memory._state.table._rows) - memory.plan.table_rows
    assert status.host_bytes == sum(block.nbytes for block in blocks) + rows * ROW.itemsize
    assert grown == sorted(set(grown)) and 'host' not in status.bytes_by_part
    assert status.held_tokens <= status.capacity_tokens


def test_other_policies_hold_nothing_on_host():
    status = filled(tiny(), 40, max_memory_tokens=12 * 9).status()
    assert status.host_bytes == status.host_tokens == 0
    assert status.bytes_by_part['fetched'] == 0


def test_the_room_for_what_is_fetched_is_paid_for_or_refused():
    parts = [filled(tiny(), 0, **{**REKV, 'question_tokens': n}).plan.bytes_by_part['fetched']
             for n in (30, 60)]
    shape = tiny().shape
    row = shape.layers * shape.kv_heads * (2 * shape.head_dim * 4 + 8)
    assert parts == [30 * row, 60 * row]
    with pytest.raises(BudgetError, match='question_tokens 3000 is'):
        filled(tiny(), 0, **{**REKV, 'question_tokens': 3000, 'budget_mib': 1.0})
    with pytest.raises(BudgetError, match='question_tokens is 9000 and the model reads 4096'):
        filled(tiny(), 0, **{**REKV, 'question_tokens': 9000, 'budget_mib': 900.0})
    with pytest.raises(ConfigError, match='set question_tokens'):
        filled(tiny(), 0, policy='rekv')
    with pytest.raises(ConfigError, match='leave question_policy empty'):
        filled(tiny(), 0, **REKV, question_policy='fastv')


def test_every_frame_can_be_named_asked_for_by_time_and_shown():
    memory = filled(tiny(), 400, **REKV, thumbnail_px=8)
    assert memory.plan.table_rows < 200
    assert [kept.frame for kept in memory.frames()] == list(range(400))
    assert memory.status().frames_kept == 400
    assert (memory.retained(3) == 1).all() and (memory.retained() == 1).all()
    answer = memory.ask('what?', until_ns=int(30e9), max_new_tokens=2)
    assert answer.evidence and all(one.frame <= 30 for one in answer.evidence)
    assert set(answer.attention_by_frame) >= {one.frame for one in answer.evidence}
    # Pictures stay within the budget: the newest frames have them.
    assert [memory._state.table.thumbnail(row) is None for row in (0, 399)] == [True, False]


@pytest.mark.parametrize('way', ['answer', 'cancel', 'deadline', 'error', 'late error'])
@pytest.mark.parametrize('instant_frames', [0, 2])
def test_a_question_changes_nothing_whatever_happens(way, instant_frames, monkeypatch):
    model = Spy(tiny())
    memory = filled(model, 30, **REKV, instant_frames=instant_frames)
    memory.ask('what?', max_new_tokens=1)  # builds the instant cache
    before, calls = everything(memory), []
    options = {'cancel': {'cancel': lambda: bool(calls) or bool(calls.append(1))},
               'deadline': {'timeout_s': 1e-9}}.get(way, {})
    if 'error' in way:
        fetch, nth = offload.HostStore.fetch, 1 if way == 'error' else 2

        def failing(*args):
            calls.append(1)
            if len(calls) > nth:
                raise RuntimeError('out of pinned memory')
            fetch(*args)

        monkeypatch.setattr(offload.HostStore, 'fetch', failing)
        with pytest.raises(RuntimeError, match='pinned'):
            memory.ask('what?')
        monkeypatch.undo()
    else:
        answer = memory.ask('what?', max_new_tokens=3, **options)
        assert (answer.status is AnswerStatus.ANSWERED) == (way == 'answer')
    assert_same(before, everything(memory))
    assert memory.ask('what?', max_new_tokens=3).tokens


def test_a_frame_that_cannot_be_stored_is_no_part_of_anything(monkeypatch):
    memory, sound = (filled(tiny(), 17, **REKV, instant_frames=1) for _ in range(2))
    before = everything(memory)

    def failing(*_):
        raise RuntimeError('no host memory')

    with monkeypatch.context() as patch:
        patch.setattr(offload._Block, '__init__', failing)
        with pytest.raises(RuntimeError, match='no host memory'):
            add(memory, 1)
    after = everything(memory)
    # Free space of the device may have been written to; what is stored was not.
    past = memory._state.cameras[0].past
    assert after[1:] == before[1:] and past.stored_tokens == 108
    for one in (memory, sound):
        add(one, 3, scene=5)
    assert digest(memory) == digest(sound)


def test_a_smaller_budget_leaves_the_store_and_what_a_question_reads():
    spy = Spy(tiny())
    memory = filled(spy, 60, policy='rekv', question_tokens=40, budget_mib=3.0)
    before = memory.status()
    memory.ask('what?', max_new_tokens=2)
    memory.set_budget(0.7)
    after = memory.status()
    assert after.held_bytes <= after.budget_bytes == int(0.7 * MIB) < before.held_bytes
    assert after.held_tokens < before.held_tokens
    assert after.bytes_by_part == memory.plan.bytes_by_part
    assert (after.host_tokens, after.frames_kept) == (before.host_tokens, 60)
    memory.ask('what?', max_new_tokens=2)
    torch.testing.assert_close(spy.seen[0], spy.seen[2])
    memory.set_budget(3.0)
    add(memory, 5)
    assert memory.status().host_tokens == before.host_tokens + 5 * 12


def test_what_was_saved_goes_on_with_another_window_and_not_without_a_store(tmp_path):
    memory = filled(tiny(), 60, policy='rekv', question_tokens=40, budget_mib=3.0)
    memory.save(tmp_path / 'm')
    small = {'budget_mib': 0.7, 'thumbnail_px': 0, 'policy': 'rekv', 'question_tokens': 25}
    again = VideoMemory.load(tmp_path / 'm', tiny(), MemoryConfig(**small))
    status = again.status()
    assert status.held_bytes <= status.budget_bytes and status.frames_kept == 60
    assert status.host_tokens == memory.status().host_tokens
    assert again.ask('what?', until_ns=int(9e9), max_new_tokens=2).tokens
    with pytest.raises(CheckpointError, match=r"'rekv' keeps every frame.*'tar' does not"):
        VideoMemory.load(
            tmp_path / 'm', tiny(), MemoryConfig(**{**small, 'policy': 'tar'}))
    filled(tiny(), 20).save(tmp_path / 'tar')
    with pytest.raises(CheckpointError, match=r"does not keep every frame.*'rekv' does"):
        VideoMemory.load(tmp_path / 'tar', tiny(), MemoryConfig(**small))


@pytest.mark.parametrize('settings', [{}, {'cameras': ('a', 'b'), 'max_memory_tokens': 12 * 18},
                                      {'instant_frames': 0, 'thumbnail_px': 8}])
@pytest.mark.parametrize('family', ['qwen2_vl', 'llava_onevision'])
def test_a_long_stream_saved_and_loaded_has_the_same_future(tmp_path, family, settings):
    memory = filled(tiny(family), 170, **{**REKV, **settings})
    memory.save(tmp_path / 'm')
    again = VideoMemory.load(tmp_path / 'm', tiny(family))
    assert digest(again) == digest(memory)
    assert again.status().host_bytes <= memory.status().host_bytes
    for one in (memory, again):
        add(one, 20, scene=5)
    assert digest(again) == digest(memory)
    one, two = (m.ask('what?', max_new_tokens=3) for m in (memory, again))
    assert (one.text, one.attention_by_frame) == (two.text, two.attention_by_frame)


def test_a_reset_forgets_the_store_and_gives_it_back():
    memory, fresh = filled(tiny(), 300, **REKV), filled(tiny(), 0, **REKV)
    memory.reset()
    assert memory.status() == fresh.status() and memory.status().host_bytes == 0
    assert memory.ask('what?').status is AnswerStatus.EMPTY_MEMORY
    for one in (memory, fresh):
        add(one, 30, scene=3)
    assert digest(memory) == digest(fresh)


def test_pairs_of_frames_are_stored_as_one():
    memory = filled(tiny(temporal=2), 41, **REKV, instant_frames=0)
    store = memory._state.cameras[0].store
    assert store.frames == list(range(20)) and memory._state.cameras[0].pending == 20
    answer = memory.ask('what?', max_new_tokens=2)
    assert 20 in answer.attention_by_frame


@pytest.fixture
def my_ranking():
    yield register('oldest_first', 'fetches the oldest', ranks_frames=lambda means, question:
                   -torch.arange(len(means)))(select_newest)
    del POLICIES['oldest_first']


def test_a_policy_of_ones_own_can_offload_and_no_robot_takes_it(my_ranking, monkeypatch):
    memory = filled(tiny(), 40, **{**REKV, 'policy': 'oldest_first'}, instant_frames=0)
    answer = memory.ask('what?', max_new_tokens=2)
    assert set(answer.attention_by_frame) == {0, 1, 2}
    with pytest.raises(ConfigError, match='outgrow any host memory'):
        get_robot_policy('oldest_first')
    object.__setattr__(POLICIES['oldest_first'], 'ranks_frames', lambda means, _: means[:1, 0, 0])
    object.__setattr__(
        memory._state.compression.fetching, 'ranks_frames', lambda means, _: means[:1, 0, 0])
    with pytest.raises(ConfigError, match='has to rank 40'):
        memory.ask('what?')
