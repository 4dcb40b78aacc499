# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Invariant 8: a saved memory has the same answers and the same future, or is refused by name."""

import os

from infinipot_ros.errors import CheckpointError
from infinipot_ros.memory import checkpoint, MemoryConfig, Pose, VideoMemory
from memory_testing import add, digest, filled
import pytest
from tiny_models import pictures, tiny

CAP = {'max_memory_tokens': 12 * 9}
POSE = Pose('map', (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))


@pytest.mark.parametrize('settings', [
    {}, {'instant_frames': 0}, {'newest_scale': 2}, {'policy': 'infinipot_v_gated'},
    {'policy': 'snapkv'}, {'cameras': ('a', 'b'), 'max_memory_tokens': 12 * 18},
    {'thumbnail_px': 16}])
@pytest.mark.parametrize('family', ['qwen2_vl', 'llava_onevision'])
def test_answers_and_future_are_the_same(tmp_path, family, settings):
    memory = filled(tiny(family), 25, **{**CAP, **settings})
    memory.add_frame(pictures(1)[0], stamp=30.0, frame_id='eye', pose=POSE)
    memory.save(tmp_path / 'm')
    again = VideoMemory.load(tmp_path / 'm', tiny(family))
    assert again.config == memory.config and digest(again) == digest(memory)
    assert again.frames() == memory.frames() and again.frames()[-1].pose == POSE
    for _ in range(2):
        one, two = (m.ask('what?', max_new_tokens=4) for m in (memory, again))
        assert (one.text, one.attention_by_frame) == (two.text, two.attention_by_frame)
        add(memory, 20, scene=5)
        add(again, 20, scene=5)
        assert digest(again) == digest(memory)


def test_half_a_pair_is_not_lost(tmp_path):
    memory = filled(tiny(temporal=2), 13)
    memory.save(tmp_path / 'm')
    again = VideoMemory.load(tmp_path / 'm', tiny(temporal=2))
    assert again._state.cameras[0].pending is not None
    add(memory, 3, scene=5)
    add(again, 3, scene=5)
    assert digest(again) == digest(memory)


def test_a_torn_file_is_refused_and_left_alone(tmp_path):
    memory = filled(tiny(), 15, **CAP)
    whole = tmp_path / 'm'
    memory.save(whole)
    content = whole.read_bytes()
    torn = tmp_path / 'torn'
    for size in [0, 1, 4, 8, 100, len(content) // 2, len(content) - 1]:
        torn.write_bytes(content[:size])
        with pytest.raises(CheckpointError, match='torn'):
            VideoMemory.load(torn, tiny())
        assert torn.stat().st_size == size


def test_a_single_wrong_bit_is_noticed(tmp_path):
    memory = filled(tiny(), 15, **CAP)
    path = tmp_path / 'm'
    memory.save(path)
    content = bytearray(path.read_bytes())
    for place in (len(content) - 5, len(content) // 2, 60):
        changed = bytearray(content)
        changed[place] ^= 4
        path.write_bytes(changed)
        with pytest.raises(CheckpointError):
            VideoMemory.load(path, tiny())


def test_a_file_of_something_else_is_refused(tmp_path):
    from safetensors.torch import save_file
    import torch
    with pytest.raises(CheckpointError, match='no such'):
        VideoMemory.load(tmp_path / 'none', tiny())
    (tmp_path / 'text').write_text('not a checkpoint at all, only words')
    with pytest.raises(CheckpointError):
        VideoMemory.load(tmp_path / 'text', tiny())
    save_file({'a': torch.zeros(1)}, tmp_path / 'other')
    with pytest.raises(CheckpointError, match='not a checkpoint'):
        VideoMemory.load(tmp_path / 'other', tiny())


def test_another_model_or_version_is_refused(tmp_path, monkeypatch):
    memory = filled(tiny(), 10)
    memory.save(tmp_path / 'm')
    with pytest.raises(CheckpointError, match='other weights'):
        VideoMemory.load(tmp_path / 'm', tiny('llava_onevision'))
    with pytest.raises(CheckpointError, match='dtype'):
        VideoMemory.load(tmp_path / 'm', tiny(dtype='float64'))
    monkeypatch.setattr(checkpoint, 'VERSION', 2)
    with pytest.raises(CheckpointError, match='version 1'):
        VideoMemory.load(tmp_path / 'm', tiny())


@pytest.mark.parametrize('name, value', [
    ('cameras', ('other',)), ('instant_frames', 2), ('frame_size_px', (32, 32))])
def test_settings_that_cannot_go_on_are_named(tmp_path, name, value):
    memory = filled(tiny(), 10)
    memory.save(tmp_path / 'm')
    with pytest.raises(CheckpointError, match=name):
        VideoMemory.load(
            tmp_path / 'm', tiny(), MemoryConfig(**{'budget_mib': 4.0, name: value}))


def test_a_smaller_budget_compresses_what_was_saved(tmp_path):
    memory = filled(tiny(), 60, budget_mib=3.0)
    memory.save(tmp_path / 'm')
    small = VideoMemory.load(
        tmp_path / 'm', tiny(), MemoryConfig(budget_mib=0.7, thumbnail_px=0))
    status = small.status()
    assert status.held_bytes <= status.budget_bytes
    assert status.held_tokens < memory.status().held_tokens
    assert status.bytes_by_part == small.plan.bytes_by_part
    assert small.ask('what?', max_new_tokens=2).tokens


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    memory = filled(tiny(), 10)
    path = tmp_path / 'm'
    memory.save(path)
    old = path.read_bytes()
    add(memory, 5)

    def full(*_):
        raise OSError(28, 'No space left on device')

    for name in ('replace', 'fsync'):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(CheckpointError, match='No space'):
                memory.save(path)
        assert path.read_bytes() == old
        assert [found.name for found in tmp_path.iterdir()] == ['m']
    with pytest.raises(CheckpointError, match='folder'):
        memory.save(tmp_path / 'none' / 'm')
