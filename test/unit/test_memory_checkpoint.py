# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Invariant 8: a saved memory has the same answers and the same future, or is refused by name."""

from dataclasses import replace
import json
import os
import re

from infinipot_ros.errors import CheckpointError, ConfigError
from infinipot_ros.memory import checkpoint_file, MemoryConfig, Pose, VideoMemory
from infinipot_ros.memory.frame_table import ROW
from infinipot_ros.memory.policies import POLICIES
from memory_testing import add, CAP, digest, filled
import pytest
from safetensors.torch import save_file
from tiny_models import pictures, tiny
import torch

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


@pytest.mark.parametrize('name', sorted(
    name for name, policy in POLICIES.items()
    if policy.select.__module__.startswith('infinipot_ros.memory.policies.')))
def test_every_policy_goes_on_as_if_it_had_never_been_saved(tmp_path, name):
    offloads = POLICIES[name].ranks_frames is not None
    settings = dict(CAP) if POLICIES[name].evicts or offloads else {}
    settings |= {} if POLICIES[name].evicts else {'question_tokens': 30}
    # Neighbours are alike, so that stc and ttm drop patches.
    drive = [rgb // 8 + 100 for rgb in pictures(45)]
    memory = filled(tiny(), 0, policy=name, **settings)
    _show(memory, drive[:21])
    memory.save(tmp_path / 'm')
    again = VideoMemory.load(tmp_path / 'm', tiny())
    assert digest(again) == digest(memory)
    for part in (drive[21:25], drive[25:]):
        _show(memory, part)
        _show(again, part)
        assert digest(again) == digest(memory)
    one, two = (m.ask('what?', max_new_tokens=3) for m in (memory, again))
    assert (one.text, one.attention_by_frame) == (two.text, two.attention_by_frame)


def _show(memory, drive):
    for rgb in drive:
        memory.add_frame(rgb, stamp=float(memory.status().frames_seen))


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
    monkeypatch.setattr(checkpoint_file, 'VERSION', 2)
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


@pytest.mark.parametrize('name, words', [
    ('x' * 300, 'too long'), ('x' * 300 + '/m', 'too long'), ('a\0b', 'null'),
    ('folder', 'directory'), ('file/m', 'Not a directory'), ('', 'directory'),
    ('\ud800', 'surrogates')])
def test_a_name_that_cannot_be_a_file_is_named_with_the_cause(tmp_path, name, words):
    memory = filled(tiny(), 10)
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'file').touch()
    path = f'{tmp_path}/{name}'
    with pytest.raises(CheckpointError, match=words) as told:
        memory.save(path)
    assert str(path).rstrip('/') in str(told.value)
    assert {found.name for found in tmp_path.iterdir()} == {'folder', 'file'}
    with pytest.raises(CheckpointError) as told:
        VideoMemory.load(path, tiny())
    assert str(path).rstrip('/') in str(told.value)


def test_the_longest_name_that_a_file_can_have_is_good_enough(tmp_path):
    path = tmp_path / ('x' * 255)
    filled(tiny(), 10).save(path)
    assert VideoMemory.load(path, tiny()).status().frames_seen == 10


def test_options_that_no_file_can_hold_are_named(tmp_path):
    memory = filled(tiny(), 10, policy_options={'mine': object()})
    with pytest.raises(CheckpointError, match='policy_options'):
        memory.save(tmp_path / 'm')


def test_settings_that_are_no_longer_allowed_are_named(tmp_path, monkeypatch):
    filled(tiny(), 10, policy_options={'cv_thresholds': (0.1, 0.2, 0.3)}).save(tmp_path / 'm')
    again = VideoMemory.load(tmp_path / 'm', tiny())
    assert again.config.policy_options['cv_thresholds'] == (0.1, 0.2, 0.3)
    monkeypatch.setattr(MemoryConfig, '__post_init__', _refuse)
    with pytest.raises(CheckpointError, match='not allowed'):
        VideoMemory.load(tmp_path / 'm', tiny())


def test_a_file_imports_no_module(tmp_path, monkeypatch):
    (tmp_path / 'harmless.py').write_text('raise SystemExit("was run")')
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / 'm'
    for name in ('policy', 'question_policy'):
        filled(tiny(), 10, question_tokens=24).save(path)
        _edited(path, lambda facts, _, name=name: facts['config'].update(
            {name: 'harmless:mine'}))
        with pytest.raises(CheckpointError, match='import harmless'):
            VideoMemory.load(path, tiny())


def _refuse(_):
    raise ConfigError('no')


def _edited(path, change):
    """Write a checkpoint anew, with other facts or tensors and the digest that goes with them."""
    facts, tensors = checkpoint_file.read(path)
    change(facts, tensors)
    checkpoint_file.write(path, json.dumps(facts), tensors)


def _fact(value, *keys):
    def change(facts, _):
        for key in keys[:-1]:
            facts = facts[key]
        if value is _GONE:
            del facts[keys[-1]]
        else:
            facts[keys[-1]] = value
    return change


def _element(name, value, *place):
    def change(_, tensors):
        tensors[name] = tensors[name].clone()
        tensors[name][place] = value
    return change


def _row(field, value, place=1):
    def change(_, tensors):
        rows = tensors['table.rows'].numpy().copy().view(ROW)
        rows[field][place] = value
        tensors['table.rows'] = torch.from_numpy(rows.view('uint8'))
    return change


def _tensor(name, value):
    def change(_, tensors):
        tensors[name] = value
        if value is None:
            del tensors[name]
    return change


_GONE = object()
FACTS = ['fingerprint', 'model', 'config', 'grid', 'next_frame', 'stamps_gone_back', 'names',
         'cameras']
OF_CAMERA = ['stored_tokens', 'buffered', 'frames_seen', 'compressions', 'judged_until']
HARM = {
    **{f'{key} {kind}': _fact(value, key) for key in FACTS
       for kind, value in [('gone', _GONE), ('null', None), ('5.5', 5.5), ('True', True)]},
    **{f'camera {key} {kind}': _fact(value, 'cameras', 0, key) for key in OF_CAMERA
       for kind, value in [('gone', _GONE), ('null', None), ('-5', -5), ('x', 'x')]},
    'newest_stamp_ns': _fact('x', 'cameras', 0, 'newest_stamp_ns'),
    'pending': _fact(0, 'cameras', 0, 'pending'),
    'buffered falls': _fact([3, 2], 'cameras', 0, 'buffered'),
    'no budget': _fact(_GONE, 'config', 'budget_mib'),
    'policy null': _fact(None, 'config', 'policy'),
    'options list': _fact([1], 'config', 'policy_options'),
    'policy magic': _fact('magic', 'config', 'policy'),
    'little budget': _fact(0.01, 'config', 'budget_mib'),
    'layers': _fact([99], 'config', 'evidence_layers'),
    'no names': _fact([], 'names'), 'number as a name': _fact([5], 'names'),
    'next_frame 0': _fact(0, 'next_frame'), 'no cameras': _fact([], 'cameras'),
    'camera null': _fact([None], 'cameras'), 'many tokens': _fact(10**12, 'cameras', 0,
                                                                  'stored_tokens'),
    'patch': _element('camera0.patch', -1, 0, 0, 3),
    'large patch': _element('camera0.patch', 12, 0, 0, 3),
    'unsorted': _element('camera0.frame', 0, 0, 0, -1),
    'future frame': _element('camera0.frame', 24, 0, 0, -1),
    'NaN keys': _element('camera0.keys1', float('nan'), 0, 0, 0),
    'inf values': _element('camera0.values0', float('inf'), 0, 0, 0),
    'NaN features': _element('camera0.features', float('nan'), 0, 0, 0),
    'no keys': _tensor('camera0.keys0', None), 'no rows': _tensor('table.rows', None),
    'no frames': _tensor('camera0.frame', None),
    'short keys': _tensor('camera0.keys0', torch.zeros(2, 3, 16)),
    'float frames': _tensor('camera0.frame', torch.zeros(3, 2, 5)),
    'garbage rows': _tensor('table.rows', torch.full((10 * ROW.itemsize,), 255).to(torch.uint8)),
    'part of a row': _tensor('table.rows', torch.zeros(7, dtype=torch.uint8)),
    'flat pictures': _tensor('table.pictures', torch.zeros(7, dtype=torch.uint8)),
    'row frame': _row('frame', 10**6), 'row order': _row('frame', 0),
    'row camera': _row('camera', 3), 'row frame_id': _row('frame_id', 9),
    'row pose_frame': _row('pose_frame', -2), 'row pose': _row('pose', float('nan')),
    'row kept': _row('kept', float('nan')), 'row thumbnail': _row('thumbnail', 99),
    'state': _tensor('camera0.state0.mine', torch.zeros(2, 9)),
}


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp('saved') / 'm'
    filled(tiny(), 25, **CAP, thumbnail_px=16).save(path)
    return path


@pytest.mark.parametrize('name', HARM)
def test_an_edited_file_with_a_good_digest_is_refused_by_name(tmp_path, whole, name):
    path = tmp_path / 'm'
    path.write_bytes(whole.read_bytes())
    _edited(path, lambda facts, tensors: None)
    assert VideoMemory.load(path, tiny()).status().frames_seen == 25
    _edited(path, HARM[name])
    with pytest.raises(CheckpointError, match=re.escape(str(path))):
        VideoMemory.load(path, tiny())


@pytest.mark.parametrize('tensor', [
    None, torch.zeros(1, 6, dtype=torch.float64), torch.zeros(12, dtype=torch.float64)])
def test_a_policy_state_that_layers_do_not_share_is_refused(tmp_path, tensor):
    path = tmp_path / 'm'
    filled(tiny(), 25, **CAP, policy='infinipot_v_gated').save(path)
    assert VideoMemory.load(path, tiny()).status().compressions
    _edited(path, _tensor('camera0.state1.gate_moments', tensor))
    with pytest.raises(CheckpointError, match='different layers'):
        VideoMemory.load(path, tiny())


@pytest.fixture(scope='module', params=[('stc', 0), ('stc', 3), ('ttm', 2)])
def thinned(request, tmp_path_factory):
    """Save a memory whose token filter takes frame `number` of its group next."""
    policy, number = request.param
    path, memory = tmp_path_factory.mktemp('thinned') / 'm', filled(tiny(), 20, policy=policy)
    while int(memory._state.cameras[0].token_filter.state()['number']) != number:
        add(memory, 1)
    memory.save(path)
    return path


@pytest.mark.parametrize('name, tensor', [
    ('reference', None), ('reference', torch.zeros(11, 48)), ('reference', torch.zeros(12, 47)),
    ('reference', torch.zeros(12)), ('reference', torch.zeros(12, 48, dtype=torch.int64)),
    ('reference', torch.zeros(12, 48, dtype=torch.float64)), ('number', None),
    ('number', torch.tensor(8)), ('number', torch.tensor(-1)), ('number', torch.tensor(1.0)),
    ('number', torch.tensor([1])), ('mine', torch.zeros(1))])
def test_what_a_token_filter_cannot_go_on_with_is_refused(tmp_path, thinned, name, tensor):
    path = tmp_path / 'm'
    path.write_bytes(thinned.read_bytes())
    _edited(path, _tensor('camera0.filter.reference', torch.ones(12, 48)))
    add(VideoMemory.load(path, tiny()), 1)
    _edited(path, _tensor(f'camera0.filter.{name}', tensor))
    with pytest.raises(CheckpointError, match=r'token filter .*camera0\.filter\.') as told:
        VideoMemory.load(path, tiny())
    assert str(told.value).startswith(f'{path}: ')


class _Mean:
    """A token filter of one's own: its state is of a shape that only it knows."""

    def __init__(self):
        self.mean = torch.zeros(48)

    def keep(self, embeddings):
        if self.mean.shape != embeddings.shape[1:]:
            raise SystemExit('no')
        kept = (embeddings - self.mean).sum(dim=1) > 0
        kept[0] = True
        self.mean = (self.mean + embeddings.mean(dim=0)) / 2
        return kept

    def state(self):
        return {'mean': self.mean}

    def restore(self, state):
        self.mean = state['mean']


def test_a_token_filter_of_ones_own_goes_on_or_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(
        POLICIES, 'mine', replace(POLICIES['stc'], name='mine', token_filter=_Mean))
    path, memory = tmp_path / 'm', filled(tiny(), 20, policy='mine')
    memory.save(path)
    again = VideoMemory.load(path, tiny())
    assert digest(again) == digest(memory)
    add(memory, 3)
    add(again, 3)
    assert digest(again) == digest(memory)
    for tensor in (torch.zeros(47), None):
        _edited(path, _tensor('camera0.filter.mean', tensor))
        with pytest.raises(CheckpointError, match='token filter'):
            VideoMemory.load(path, tiny())


@pytest.mark.parametrize('name, tensor', [
    ('keys0', None), ('keys0', torch.zeros(16, 1, 1, 1, 1)), ('frames', torch.arange(3)),
    ('frames', torch.arange(25)), ('frames', torch.zeros(21, dtype=torch.int64))])
def test_a_store_that_is_not_whole_is_refused(tmp_path, name, tensor):
    path = tmp_path / 'm'
    filled(tiny(), 25, **CAP, policy='rekv', question_tokens=30).save(path)
    assert VideoMemory.load(path, tiny()).status().host_tokens
    _edited(path, _tensor(f'camera0.store.{name}', tensor))
    with pytest.raises(CheckpointError, match='store'):
        VideoMemory.load(path, tiny())
