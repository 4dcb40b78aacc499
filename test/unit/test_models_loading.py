# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Loading names the folder, the file and the fix; a folder opens no connection."""

import json
import shutil
import socket
from types import SimpleNamespace

from huggingface_hub.errors import EntryNotFoundError
from infinipot_ros.errors import ConfigError, ModelLoadError
from infinipot_ros.memory import AnswerStatus, MemoryConfig, VideoMemory
from infinipot_ros.models import load_model, loading
from infinipot_ros.models.loading import demo_folder, find_template
from memory_testing import filled
import numpy as np
import pytest
from tiny_models import model_folder, pictures, save, tiny
import torch


@pytest.fixture
def folder(tmp_path):
    return model_folder(tmp_path / 'model')


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError('a connection was opened')
    monkeypatch.setattr(socket.socket, 'connect', refuse)
    monkeypatch.setattr(socket, 'getaddrinfo', refuse)


def test_a_folder_loads_without_a_network(folder, no_network):
    model = load_model(folder)
    assert model.shape.layers == 3 and model.grid(model.default_frame_size_px) == (3, 4)


@pytest.mark.parametrize('missing, words', [
    ('config.json', 'config.json'), ('model.safetensors', 'model.safetensors'),
    ('tokenizer.json', 'tokenizer'), ('preprocessor_config.json', 'preprocessor_config.json'),
    ('chat_template.jinja', 'chat_template')])
def test_a_missing_file_is_named(folder, no_network, missing, words):
    (folder / missing).unlink()
    with pytest.raises(ModelLoadError, match=words) as told:
        load_model(folder)
    assert str(folder) in str(told.value)


@pytest.mark.parametrize('broken', [
    'config.json', 'tokenizer.json', 'preprocessor_config.json', 'model.safetensors'])
def test_a_torn_file_is_named(folder, no_network, broken):
    content = (folder / broken).read_bytes()
    (folder / broken).write_bytes(content[:len(content) // 2])
    with pytest.raises(ModelLoadError) as told:
        load_model(folder)
    assert str(folder) in str(told.value)


@pytest.mark.parametrize('name', ['/no/such/folder', './nothing', '~/nothing_at_all'])
def test_a_missing_folder_is_no_hub_name(no_network, name):
    with pytest.raises(ModelLoadError, match='no such folder'):
        load_model(name)


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """Let the hub's cache be an empty folder; a failed connection is not tried again."""
    from huggingface_hub import constants
    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path / 'hub'))
    monkeypatch.setattr('time.sleep', lambda _: None)
    return tmp_path / 'hub'


def test_a_hub_model_that_was_downloaded_is_loaded_without_a_network(
        folder, hub_cache, no_network):  # transformers#45545
    repository = hub_cache / 'models--someone--their_model'
    (repository / 'refs').mkdir(parents=True)
    (repository / 'refs' / 'main').write_text('abc')
    snapshot = shutil.copytree(folder, repository / 'snapshots' / 'abc')
    model = load_model('someone/their_model')
    assert model.name == 'someone/their_model'
    assert model.fingerprint == load_model(folder).fingerprint
    (snapshot / 'model.safetensors').unlink()
    with pytest.raises(ModelLoadError, match='a connection was opened'):  # to fetch the rest
        load_model('someone/their_model')


@pytest.fixture
def template(folder):
    """Keep the model's chat template as the processors of some models do; return it."""
    jinja = folder / 'chat_template.jinja'
    text = jinja.read_text()
    (folder / 'chat_template.json').write_text(json.dumps({'chat_template': text}))
    jinja.unlink()
    return text


def test_a_chat_template_of_the_processor_is_found_in_a_folder(folder, template, no_network):
    assert load_model(folder).shape.layers == 3
    tokenizer = SimpleNamespace(chat_template=None)
    find_template(tokenizer, str(folder))
    assert tokenizer.chat_template == template
    find_template(own := SimpleNamespace(chat_template='its own'), str(folder))
    assert own.chat_template == 'its own'
    for torn in ('{"chat_', '{}', '[]'):
        (folder / 'chat_template.json').write_text(torn)
        with pytest.raises(ModelLoadError, match=r'chat_template\.json') as told:
            load_model(folder)
        assert str(folder) in str(told.value)


def test_a_chat_template_is_found_in_the_hubs_cache_without_a_network(
        folder, template, hub_cache, no_network):
    repository = hub_cache / 'models--someone--their_model'
    (repository / 'refs').mkdir(parents=True)
    (repository / 'refs' / 'main').write_text('abc')
    (repository / 'blobs').mkdir()
    snapshot = repository / 'snapshots' / 'abc'
    snapshot.mkdir(parents=True)
    for path in folder.iterdir():
        shutil.copy(path, repository / 'blobs' / path.name)
        (snapshot / path.name).symlink_to(f'../../blobs/{path.name}')
    assert load_model('someone/their_model').fingerprint == load_model(folder).fingerprint
    # As while it is downloaded: known to have no jinja file, and its weights not yet there.
    (repository / '.no_exist' / 'abc').mkdir(parents=True)
    (repository / '.no_exist' / 'abc' / 'chat_template.jinja').touch()
    (snapshot / 'model.safetensors').unlink()
    tokenizer = SimpleNamespace(chat_template=None)
    find_template(tokenizer, 'someone/their_model')
    assert tokenizer.chat_template == template


def test_a_chat_template_that_was_not_downloaded_is_asked_for(
        folder, template, hub_cache, monkeypatch):
    asked = []

    def hub(repository, name):
        asked.append((repository, name))
        if not (folder / name).is_file():
            raise EntryNotFoundError(name)
        return str(folder / name)

    monkeypatch.setattr(loading, 'hf_hub_download', hub)
    tokenizer = SimpleNamespace(chat_template=None)
    find_template(tokenizer, 'someone/their_model')
    assert tokenizer.chat_template == template and asked == [
        ('someone/their_model', name) for name in ('chat_template.jinja', 'chat_template.json')]
    (folder / 'chat_template.json').unlink()
    find_template(none := SimpleNamespace(chat_template=None), 'someone/their_model')
    assert none.chat_template is None


def test_without_a_network_a_chat_template_that_is_not_in_the_cache_is_none(
        hub_cache, monkeypatch):
    monkeypatch.setattr(socket, 'getaddrinfo', _unreachable)
    tokenizer = SimpleNamespace(chat_template=None)
    find_template(tokenizer, 'someone/their_model')
    assert tokenizer.chat_template is None


def _unreachable(*_, **__):
    raise socket.gaierror(-3, 'Temporary failure in name resolution')


def test_a_hub_model_without_a_network_is_told_what_to_do(hub_cache, monkeypatch):
    monkeypatch.setattr(socket, 'getaddrinfo', _unreachable)
    with pytest.raises(ModelLoadError, match='without a network needs the whole folder') as told:
        load_model('someone/their_model')
    assert str(told.value).startswith('someone/their_model: ')


def test_a_missing_part_of_the_weights_is_named(folder):
    (folder / 'model.safetensors').rename(folder / 'model-00001-of-00002.safetensors')
    index = folder / 'model.safetensors.index.json'
    index.write_text(json.dumps({'metadata': {}, 'weight_map': {
        'a': 'model-00001-of-00002.safetensors', 'b': 'model-00002-of-00002.safetensors'}}))
    with pytest.raises(ModelLoadError, match=r'no model-00002-of-00002\.safetensors;'):
        load_model(folder)
    for torn in ('{"weight', '[]', '{"weight_map": 3}'):
        index.write_text(torn)
        with pytest.raises(ModelLoadError, match=r'index\.json: is no list of weights'):
            load_model(folder)


def test_loading_shows_no_progress_bar_and_leaves_the_callers_alone(folder, capfd):
    from transformers.utils import logging
    made = []

    def hook(factory, args, options):
        made.append(args)
        return factory(*args, **options)

    before = logging.set_tqdm_hook(hook)
    try:
        load_model(folder)
        assert capfd.readouterr().err == ''
        assert logging.set_tqdm_hook(hook) is hook and logging.is_progress_bar_enabled()
        with pytest.raises(ModelLoadError):
            load_model(folder, device='nowhere')
        list(logging.tqdm([1], desc='mine'))
        assert made == [([1],)] and 'mine' in capfd.readouterr().err
    finally:
        logging.set_tqdm_hook(before)


def test_an_unsupported_kind_lists_the_supported_ones(folder):
    config = json.loads((folder / 'config.json').read_text())
    config['model_type'] = 'llama'
    (folder / 'config.json').write_text(json.dumps(config))
    with pytest.raises(ModelLoadError, match='qwen2_vl'):
        load_model(folder)


@pytest.mark.parametrize('change', [
    {'layer_types': ['full_attention', 'sliding_attention', 'full_attention']},
    {'sliding_window': 128, 'use_sliding_window': True, 'max_window_layers': 0,
     'layer_types': None}])
def test_layers_that_cannot_evict_are_refused(folder, change):
    config = json.loads((folder / 'config.json').read_text())
    config['text_config'] |= change
    (folder / 'config.json').write_text(json.dumps(config))
    with pytest.raises(ModelLoadError, match='sliding'):
        load_model(folder)


@pytest.mark.parametrize('options, words', [
    ({'dtype': 'int3'}, 'dtype'), ({'device': 'nowhere'}, 'nowhere'),
    ({'quantization': 'int2'}, 'quantization')])
def test_a_bad_option_is_named(folder, options, words):
    with pytest.raises(ModelLoadError, match=words):
        load_model(folder, **options)


def test_weights_that_are_missing_are_named(folder):
    from safetensors.torch import load_file, save_file
    weights = load_file(folder / 'model.safetensors')
    name = next(key for key in weights if 'layers.1.mlp.up_proj' in key)
    del weights[name]
    save_file(weights, folder / 'model.safetensors', {'format': 'pt'})
    with pytest.raises(ModelLoadError, match='up_proj'):
        load_model(folder)


def test_a_model_that_was_moved_has_the_same_fingerprint(folder):
    first = load_model(folder).fingerprint
    moved = folder.rename(folder.parent / 'elsewhere')
    assert load_model(moved).fingerprint == first
    config = json.loads((moved / 'config.json').read_text())
    (moved / 'config.json').write_text(json.dumps({**config, 'transformers_version': '5.0'}))
    assert load_model(moved).fingerprint == first


def test_another_model_has_another_fingerprint(folder):
    first = load_model(folder)
    assert first.fingerprint == load_model(folder).fingerprint
    from safetensors.torch import load_file, save_file
    weights = load_file(folder / 'model.safetensors')
    weights[next(key for key in weights if key.endswith('k_proj.weight'))][0, 0] += 1.0
    save_file(weights, folder / 'model.safetensors', {'format': 'pt'})
    assert load_model(folder).fingerprint != first.fingerprint
    assert load_model(folder, dtype='float64').fingerprint != first.fingerprint


def test_the_demo_model_answers(no_network, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = load_model('demo')
    assert model.grid(model.default_frame_size_px) == (4, 4) and model.frames_per_step == 1
    memory = VideoMemory(model, MemoryConfig(budget_mib=4.0))
    for index, rgb in enumerate(pictures(40, 0, (112, 112))):
        memory.add_frame(rgb, stamp=float(index))
    assert memory.status().compressions >= 1
    assert memory.ask('what do you see now ?').status is AnswerStatus.ANSWERED


def test_the_demo_model_is_found_in_an_installation(tmp_path, monkeypatch):
    place = tmp_path / 'share' / 'infinipot_ros' / 'resource' / 'demo_model'
    shutil.copytree(demo_folder(), place)
    monkeypatch.setattr(loading, '__file__', str(tmp_path / 'lib' / 'a' / 'b' / 'loading.py'))
    monkeypatch.setenv('AMENT_PREFIX_PATH', f'/elsewhere:{tmp_path}')
    assert demo_folder() == place
    monkeypatch.setenv('AMENT_PREFIX_PATH', '')
    with pytest.raises(ModelLoadError, match='demo model is not installed'):
        demo_folder()


@pytest.mark.parametrize('text_family', ['llama', 'mistral', 'qwen2'])
def test_every_text_model_under_llava_works(tmp_path, text_family):
    save(tmp_path, 'llava_next_video', text_family=text_family)
    memory = filled(load_model(tmp_path), 40, max_memory_tokens=40)
    assert memory.status().compressions >= 3
    assert memory.ask('what?', max_new_tokens=2).status is AnswerStatus.ANSWERED


def test_frame_sizes_that_a_family_does_not_read_are_refused():
    with pytest.raises(ConfigError, match='frame_size_px'):
        VideoMemory(tiny('llava_onevision'), MemoryConfig(budget_mib=4.0, frame_size_px=(64, 64)))
    with pytest.raises(ConfigError, match='frame_size_px'):
        VideoMemory(tiny('llava_next_video'), MemoryConfig(budget_mib=4.0, newest_scale=2))
    with pytest.raises(ConfigError, match='one token'):
        VideoMemory(tiny(), MemoryConfig(budget_mib=4.0, frame_size_px=(3, 64)))


def test_pictures_are_prepared_as_the_stock_processor_does(folder):
    from transformers import AutoImageProcessor
    model = load_model(folder)
    processor = AutoImageProcessor.from_pretrained(folder, backend='pil')
    for rgb in pictures(3, 1, (24, 32)):
        stock = processor(images=[rgb], return_tensors='pt')
        with torch.inference_mode():
            expected = model._visual(
                stock['pixel_values'], grid_thw=stock['image_grid_thw']).pooler_output
            torch.testing.assert_close(
                model.encode([rgb], (24, 32)), expected, rtol=1e-4, atol=1e-4)


def test_a_large_picture_is_resized_by_the_models_filter():
    from PIL import Image
    model = tiny()
    rgb = pictures(1, 0, (240, 320))[0]
    expected = Image.fromarray(rgb).resize((32, 24), Image.Resampling.BICUBIC)
    assert np.array_equal(model.prepare(rgb, (24, 32)), np.asarray(expected))
    square = tiny('llava_next_video').prepare(rgb, (16, 16))
    assert square.shape == (16, 16, 3)
    middle = Image.fromarray(rgb).resize((21, 16), Image.Resampling.BICUBIC)
    assert np.array_equal(square, np.asarray(middle)[:, 2:18])
