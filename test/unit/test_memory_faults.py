# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A model that raises or returns NaN at any call leaves the memory bit for bit as it was."""

from infinipot_ros.errors import ConfigError, ImageFormatError, NumericError
from infinipot_ros.memory import Pose
from memory_testing import CAP, digest, filled
import numpy as np
import pytest
from tiny_models import pictures, tiny
import torch


class Faulty:
    """A model whose n-th call to an attention layer, encoder or head fails."""

    def __init__(self, model):
        self._model = model
        self.fuse = None
        self.kind = 'raise'

    def __getattr__(self, name):
        return getattr(self._model, name)

    def _fault(self, value):
        if self.fuse is None:
            return value
        self.fuse -= 1
        if self.fuse >= 0:
            return value
        self.fuse = None
        if self.kind == 'raise':
            raise RuntimeError('device-side assert')
        return torch.full_like(value, float('nan'))

    def encode(self, *args):
        return self._fault(self._model.encode(*args))

    def logits(self, *args):
        return self._fault(self._model.logits(*args))

    def backbone(self, embeddings, stream):
        return self._model.backbone(embeddings, _FaultyStream(self, stream))


class _FaultyStream:

    def __init__(self, model, stream):
        self._model, self._stream = model, stream

    def attend(self, *args):
        return self._model._fault(self._stream.attend(*args))


@pytest.mark.parametrize('kind, error', [('raise', RuntimeError), ('nan', NumericError)])
@pytest.mark.parametrize('settings', [{}, {'policy': 'snapkv'}, {'policy': 'stc'},
                                      {'policy': 'infinipot_v_gated'},
                                      {'policy': 'rekv', 'question_tokens': 30}])
def test_a_fault_in_any_call_of_a_frame_changes_nothing(kind, error, settings):
    model = Faulty(tiny())
    memory = filled(model, 12, instant_frames=1, **CAP, **settings)
    sound = filled(tiny(), 12, instant_frames=1, **CAP, **settings)
    model.kind = kind
    faults = 0
    for rgb in pictures(6, 9):
        before = digest(memory)
        for nth in range(40):
            model.fuse = nth
            try:
                memory.add_frame(rgb, stamp=20.0)
            except error:
                faults += 1
                assert digest(memory) == before
                continue
            break
        model.fuse = None
        sound.add_frame(rgb, stamp=20.0)
    assert faults >= 6 * 4
    assert memory.status().compressions >= 1
    assert digest(memory) == digest(sound)


@pytest.mark.parametrize('kind, error', [('raise', RuntimeError), ('nan', NumericError)])
@pytest.mark.parametrize('settings', [{}, {'policy': 'rekv', 'question_tokens': 30}])
def test_a_fault_in_any_call_of_a_question_changes_nothing(kind, error, settings):
    model = Faulty(tiny())
    memory = filled(model, 15, **CAP, **settings)
    before, faults = digest(memory), 0
    expected = memory.ask('what?', max_new_tokens=3).text
    model.kind = kind
    for nth in range(0, 60):
        memory._state.cameras[0].instant_frames = None
        model.fuse = nth
        try:
            memory.ask('what?', max_new_tokens=3)
        except error:
            faults += 1
        fired, model.fuse = model.fuse is None, None
        assert digest(memory) == before
        if not fired:
            break
    assert faults >= 10
    assert memory.ask('what?', max_new_tokens=3).text == expected


@pytest.mark.parametrize('rgb', [
    None, 'picture', np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8),
    np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8)],
    ids=['none', 'text', 'grey', 'rgba', 'float', 'empty'])
def test_what_is_no_picture_is_refused(rgb):
    memory = filled(tiny(), 3)
    before = digest(memory)
    with pytest.raises(ImageFormatError, match=r'uint8|empty'):
        memory.add_frame(rgb, stamp=1.0)
    assert digest(memory) == before


@pytest.mark.parametrize('stamp', [
    {}, {'stamp': 1.0, 'stamp_ns': 1}, {'stamp': float('nan')}, {'stamp': 1e30}])
def test_a_frame_needs_one_stamp_that_is_a_time(stamp):
    memory = filled(tiny(), 0)
    with pytest.raises(ConfigError, match='stamp'):
        memory.add_frame(pictures(1)[0], **stamp)


def test_a_stamp_that_goes_back_is_kept_and_noted():
    memory = filled(tiny(), 5)
    receipt = memory.add_frame(pictures(1)[0], stamp_ns=2)
    assert receipt.stamp_went_back
    assert [row.stamp_ns for row in memory.frames()][-1] == 2
    assert memory.frames()[-1].stamp_went_back
    assert memory.status().stamps_gone_back == 1
    assert not memory.add_frame(pictures(1)[0], stamp_ns=3).stamp_went_back


@pytest.mark.parametrize('size', [(1, 1), (3, 500), (500, 3), (337, 1023)])
def test_a_picture_of_any_size_becomes_a_frame(size):
    for family in ('qwen2_vl', 'llava_onevision', 'llava_next_video'):
        memory = filled(tiny(family), 0)
        memory.add_frame(pictures(1, 0, size)[0], stamp=0.0)
        assert memory.status().frames_seen == 1


TURN = (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize('name, arguments', [
    ('position', {'pose': Pose('map', (1.0, 2.0), TURN)}),
    ('position', {'pose': Pose('map', None, TURN)}),
    ('position', {'pose': Pose('map', (1.0, 2.0, float('nan')), TURN)}),
    ('orientation', {'pose': Pose('map', (1.0, 2.0, 3.0), ('a', 0.0, 0.0, 1.0))}),
    ('orientation', {'pose': Pose('map', (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, float('inf')))}),
    ('frame_id of the pose', {'pose': Pose(None, (1.0, 2.0, 3.0), TURN)}),
    ('pose', {'pose': (1.0, 2.0, 3.0)}),
    ('frame_id', {'frame_id': b'eye'}), ('frame_id', {'frame_id': None}),
    ('stamp', {'stamp': 1e300}), ('stamp', {'stamp': 2**70}), ('stamp', {'stamp': 'x'}),
    ('stamp', {'stamp': 10**400}), ('stamp', {'stamp': True}),
    ('stamp_ns', {'stamp': None, 'stamp_ns': 1.5}), ('bits', {'stamp': None, 'stamp_ns': 2**63}),
    ('bits', {'stamp': None, 'stamp_ns': 10**400}), ('stamp_ns', {'stamp': None, 'stamp_ns': 'x'}),
])
def test_an_argument_of_a_wrong_kind_is_named_and_changes_nothing(name, arguments):
    memory = filled(tiny(), 12, instant_frames=1, **CAP)
    before = digest(memory)
    with pytest.raises(ConfigError, match=name):
        memory.add_frame(pictures(1)[0], **{'stamp': 12.0, **arguments})
    assert digest(memory) == before
    assert memory.add_frame(pictures(1)[0], stamp=12.0).frame_id == 12


@pytest.mark.parametrize('name, value', [
    ('since_ns', 'x'), ('until_ns', 1.5), ('history', [('a',)]), ('history', [('a', 1)]),
    ('history', 'ab'), ('history', 5), ('max_new_tokens', 1.5), ('timeout_s', 'x'),
])
def test_an_argument_of_a_question_of_a_wrong_kind_is_named(name, value):
    memory = filled(tiny(), 3)
    with pytest.raises(ConfigError, match=name):
        memory.ask('what?', **{name: value})
    assert memory.ask('what?', timeout_s=float('inf'), max_new_tokens=1).tokens


@pytest.mark.parametrize('budget', ['x', None, True, float('nan')])
def test_a_budget_that_is_no_number_is_named(budget):
    memory = filled(tiny(), 3)
    with pytest.raises(ConfigError, match='budget_mib'):
        memory.set_budget(budget)


@pytest.mark.filterwarnings('error')
def test_stamps_at_both_ends_are_times():
    memory = filled(tiny(), 0)
    for stamp in (-2**63, 2**63 - 1, np.int64(5)):
        memory.add_frame(pictures(1)[0], stamp_ns=stamp)
    assert memory.status().tokens_per_minute > 0
    assert memory.ask('what?', since_ns=-2**80, until_ns=2**80, max_new_tokens=1).tokens
