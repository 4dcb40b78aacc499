# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measured thresholds belong to a model: used where it is loaded, refused where it is another."""

import json
import re
import shutil

from infinipot_ros.errors import ConfigError, ModelLoadError
from infinipot_ros.memory import MemoryConfig, VideoMemory
from infinipot_ros.models import load_model
from infinipot_ros.models.calibration import Calibration, FILE_NAME
from memory_testing import add, CAP, digest, filled
import pytest
from tiny_models import model_folder, save

# Low enough that every kernel is 1; by depth the three layers have 7, 5 and 3.
LOW = (1e-6, 2e-6, 3e-6)


@pytest.fixture
def folder(tmp_path):
    """Return a model's folder with a calibration in it."""
    folder = model_folder(tmp_path / 'model')
    model = load_model(folder)
    Calibration('mine', 3, model.weights_sample, 'a drive', LOW).write(folder / FILE_NAME)
    return folder


def changed(folder, **values):
    path = folder / FILE_NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_the_file_in_a_models_folder_is_used_without_an_option(folder):
    measured, plain = load_model(folder), load_model(folder, calibration='none')
    assert measured.cv_thresholds == LOW and plain.cv_thresholds is None
    memory, by_depth = filled(measured, 40, **CAP), filled(plain, 40, **CAP)
    told = filled(plain, 40, policy_options={'cv_thresholds': LOW}, **CAP)
    assert digest(memory) == digest(told) != digest(by_depth)
    assert memory.status().van_pooling == 'kernel by thresholds 1e-06, 2e-06, 3e-06 of the model'
    assert by_depth.status().van_pooling == 'kernel by depth'
    assert told.status().van_pooling.endswith('of policy_options')


def test_what_is_said_of_one_memory_wins(folder):
    model = load_model(folder)
    none = filled(model, 40, policy_options={'cv_thresholds': None}, **CAP)
    assert none.status().van_pooling == 'kernel by depth'
    kept = [frame.kept_tokens for frame in none.frames()]
    assert kept != [frame.kept_tokens for frame in filled(model, 40, **CAP).frames()]
    kernel = filled(model, 40, policy_options={'van_kernel': 1}, **CAP)
    assert kernel.status().van_pooling == 'kernel 1'


def test_a_smaller_budget_goes_on_with_the_thresholds(folder):
    memory = filled(load_model(folder), 40, budget_mib=2.0)
    memory.set_budget(1.0)
    assert memory._state.compression.config.policy_options['cv_thresholds'] == LOW


def test_a_saved_memory_keeps_its_thresholds(folder, tmp_path):
    memory = filled(load_model(folder), 20, **CAP)
    memory.save(tmp_path / 'm')
    again = VideoMemory.load(tmp_path / 'm', load_model(folder, calibration='none'))
    for one in (memory, again):
        add(one, 20, scene=9)
    assert digest(again) == digest(memory)


@pytest.mark.parametrize('before, after, words', [
    ('none', '', r'with none as .* goes on with \(1e-06, 2e-06, 3e-06\):'),
    ('', 'none', r'with \(1e-06, 2e-06, 3e-06\) as .* goes on with none:'), ('', '', ''),
    ('none', 'none', '')])
def test_a_saved_memory_says_when_it_goes_on_with_other_thresholds(
        folder, tmp_path, caplog, before, after, words):
    memory = filled(load_model(folder, calibration=before), 20, **CAP)
    memory.save(tmp_path / 'm')
    again = VideoMemory.load(
        tmp_path / 'm', load_model(folder, calibration=after), memory.config)
    assert len(caplog.messages) == bool(words)
    assert not words or re.search(words, caplog.text)
    # What it says next time is what it has gone on with.
    caplog.clear()
    again.save(tmp_path / 'm')
    VideoMemory.load(tmp_path / 'm', again.model, memory.config)
    assert not caplog.messages


def test_another_place_can_be_named(folder, tmp_path):
    place = tmp_path / 'elsewhere.json'
    (folder / FILE_NAME).rename(place)
    assert load_model(folder).cv_thresholds is None
    assert load_model(folder, calibration=place).cv_thresholds == LOW
    with pytest.raises(ModelLoadError, match=r'no_such\.json.*No such file'):
        load_model(folder, calibration=tmp_path / 'no_such.json')


@pytest.mark.parametrize('dtype', ['float64', 'float16', 'bfloat16'])
def test_a_model_is_known_again_in_another_dtype(folder, dtype):
    assert load_model(folder, dtype=dtype).cv_thresholds == LOW


def test_one_of_another_model_is_refused_with_what_to_do(folder, tmp_path):
    other = tmp_path / 'other'
    save(other, 'llava_onevision')
    shutil.copy(folder / FILE_NAME, other)
    with pytest.raises(ModelLoadError, match=r"'mine' with other weights.*calibrate"):
        load_model(other)
    changed(folder, layers=4)
    with pytest.raises(ModelLoadError, match=r"'mine' of 4 layers, and .* has 3: calibrate"):
        load_model(folder)


@pytest.mark.parametrize('values', [
    {'cv_thresholds': [0.3, 0.2, 0.4]}, {'cv_thresholds': [0.1, 0.2]},
    {'cv_thresholds': [0.1, 0.2, float('nan')]}, {'cv_thresholds': ['0.1', 0.2, 0.3]},
    {'cv_thresholds': None}, {'layers': None}, {'weights': 3}])
def test_a_broken_file_is_named(folder, values):
    changed(folder, **values)
    with pytest.raises(ModelLoadError, match=FILE_NAME):
        load_model(folder)


@pytest.mark.parametrize('content', [b'', b'[]', b'{}', b'\xff\xfe', b'{"cv_thresholds": [1'])
def test_a_torn_file_is_named(folder, content):
    (folder / FILE_NAME).write_bytes(content)
    with pytest.raises(ModelLoadError, match=FILE_NAME):
        load_model(folder)


@pytest.mark.parametrize('options, words', [
    ({'cv_thresholds': (0.3, 0.2, 0.4)}, 'cv_thresholds'), ({'cv_thresholds': 1}, 'cv_thresholds'),
    ({'van_kernel': 2}, 'van_kernel'), ({'seed': 1.5}, 'seed'), ({'seed': 'x'}, 'seed')])
def test_wrong_policy_options_are_named_before_the_memory_is_full(options, words):
    with pytest.raises(ConfigError, match=words):
        MemoryConfig(budget_mib=4.0, policy_options=options)
