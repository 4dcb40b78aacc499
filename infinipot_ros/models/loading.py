# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Load a model by name or folder; a folder is never looked up on a network."""

from collections.abc import Iterator
from contextlib import contextmanager
import hashlib
import json
import logging
import os
from pathlib import Path
import threading
from typing import Any, cast

from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError
from infinipot_ros.errors import ModelLoadError
from infinipot_ros.memory.model import VisionLanguageModel
from infinipot_ros.models.base import HuggingFaceModel
from infinipot_ros.models.calibration import find_calibration, read_calibration
from infinipot_ros.models.llava import LlavaNextVideo, LlavaOnevision
from infinipot_ros.models.qwen2_vl import QwenVL
import torch
import transformers
from transformers.utils import logging as transformers_logging

logger = logging.getLogger(__name__)

ADAPTERS: dict[str, Any] = {
    'qwen2_vl': QwenVL,
    'qwen2_5_vl': QwenVL,
    'llava_onevision': LlavaOnevision,
    'llava_next_video': LlavaNextVideo,
}
DTYPES = {
    'auto': 'auto',
    'float32': torch.float32,
    'bfloat16': torch.bfloat16,
    'float16': torch.float16,
    'float64': torch.float64,
}


def load_model(
    name_or_folder: str | Path,
    device: str = 'cpu',
    dtype: str = 'float32',
    quantization: str = '',
    calibration: str | Path = '',
) -> VisionLanguageModel:
    """
    Load a vision-language model for a memory.

    :param name_or_folder: 'demo' for the embedded demo model, a folder, or a hub name.
    :param device: a torch device, such as 'cpu' or 'cuda:0'.
    :param dtype: 'float32', 'bfloat16', 'float16', 'float64', or 'auto' for the weights' own.
    :param quantization: '' or 'int8' or 'int4' (both need the bitsandbytes package).
    :param calibration: file of `infinipot calibrate` with this model's VaN thresholds; '' is
        infinipot_calibration.json in the model's folder if there is one, 'none' is no file.

    Raises ModelLoadError naming the folder, the file and what to do. Code that comes with a model
    is never run.

    """
    if dtype not in DTYPES:
        raise ModelLoadError(f'dtype is {dtype!r}: use one of {", ".join(DTYPES)}')
    source = demo_folder() if str(name_or_folder) == 'demo' else Path(name_or_folder).expanduser()
    if not source.is_dir():
        if _looks_like_path(str(name_or_folder)):
            raise ModelLoadError(f'{source}: no such folder; give a folder, a hub name or "demo"')
        source = _downloaded(str(name_or_folder)) or source
    is_folder = source.is_dir()
    if is_folder:
        _check_files(source)
    where = str(source) if is_folder else str(name_or_folder)
    options = {'local_files_only': is_folder, 'trust_remote_code': False}
    try:
        config = transformers.AutoConfig.from_pretrained(where, **options)
    except Exception as error:
        fix = '' if is_folder else (
            '; is the name right? A robot without a network needs the whole folder of the model, '
            'and its path')
        raise ModelLoadError(f'{where}: its config.json cannot be read: {error}{fix}') from error
    adapter = ADAPTERS.get(config.model_type)
    if adapter is None:
        raise ModelLoadError(
            f'{where}: model type {config.model_type!r} has no adapter; '
            f'supported: {", ".join(sorted(ADAPTERS))}'
        )
    _check_evictable(where, config.get_text_config())
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, **options)
    except Exception as error:
        raise ModelLoadError(f'{where}: its tokenizer cannot be loaded: {error}') from error
    try:
        processors: Any = transformers.AutoImageProcessor
        processor = processors.from_pretrained(where, backend='pil', **options)
    except Exception as error:
        raise ModelLoadError(
            f'{where}: its preprocessor_config.json cannot be used: {error}'
        ) from error
    find_template(tokenizer, where)
    path = find_calibration(calibration, source if is_folder else None)
    measured = None if path is None else read_calibration(path)
    model = _load_weights(where, device, dtype, quantization, options)
    made: HuggingFaceModel = adapter(
        model, tokenizer, processor, str(name_or_folder), _fingerprint(model))
    if path is not None and measured is not None:
        measured.check(path, made.name, made.shape.layers, made.weights_sample)
        made.cv_thresholds = measured.cv_thresholds
        logger.info('%s: thresholds of VaN %s from %s', made.name, made.cv_thresholds, path)
    # The vision half is the adapter's: the base class alone is no VisionLanguageModel.
    return cast(VisionLanguageModel, made)


def find_template(tokenizer: Any, where: str) -> None:
    """
    Give a tokenizer without one the chat template that some models keep in a file of its own.

    :param where: a folder, or a hub name: the cache is asked first, then the hub.

    Raises ModelLoadError when the file is there and cannot be used.

    """
    if tokenizer.chat_template:
        return
    for name in ('chat_template.jinja', 'chat_template.json'):
        try:
            found = _find_file(where, name)
            if found is None:
                continue
            text = found.read_text(encoding='utf-8')
            tokenizer.chat_template = (
                json.loads(text)['chat_template'] if name.endswith('json') else text
            )
        except Exception as error:
            raise ModelLoadError(
                f'{where}: its {name} cannot be used: {type(error).__name__}: {error}'
            ) from error
        return


def _find_file(where: str, name: str) -> Path | None:
    """Return a file of a model in a folder, in the hub's cache or on the hub, or None."""
    if Path(where).is_dir():
        path = Path(where) / name
        return path if path.is_file() else None
    cached = try_to_load_from_cache(where, name)
    if cached is None:
        try:
            return Path(hf_hub_download(where, name))
        except EntryNotFoundError:  # not there, or no network to look
            return None
    return Path(cached) if isinstance(cached, str) else None  # else known to be not there


def demo_folder() -> Path:
    """Return the embedded demo model's folder, in a source tree or an installation."""
    package = Path(__file__).resolve().parents[1]
    places = [package.parent / 'resource' / 'demo_model', package / 'resource' / 'demo_model']
    for prefix in os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep):
        if prefix:
            places.append(
                Path(prefix) / 'share' / 'infinipot_ros' / 'resource' / 'demo_model'
            )
    for place in places:
        if (place / 'config.json').is_file():
            return place
    raise ModelLoadError(
        'the demo model is not installed; looked in ' + ', '.join(str(place) for place in places)
    )


def _looks_like_path(name: str) -> bool:
    return name.startswith(('/', '.', '~')) or name.count('/') > 1 or name.endswith('/')


def _downloaded(name: str) -> Path | None:
    """Return where a hub model is in the cache, if it is there whole: then no one is asked."""
    try:
        config = try_to_load_from_cache(name, 'config.json')
        if not isinstance(config, str):
            return None
        _check_files(Path(config).parent)
    except (ValueError, ModelLoadError):  # what is no name of a model, or half a model
        return None
    return Path(config).parent


def _check_files(folder: Path) -> None:
    wanted = {
        'config.json': ['config.json'],
        'weights (model.safetensors)': ['*.safetensors'],
        'a tokenizer (tokenizer.json)': ['tokenizer.json', 'tokenizer.model', 'vocab.json'],
        'preprocessor_config.json': ['preprocessor_config.json', 'processor_config.json'],
    }
    missing = [
        what
        for what, patterns in wanted.items()
        if not any(True for pattern in patterns for _ in folder.glob(pattern))
    ]
    index = folder / 'model.safetensors.index.json'
    if index.is_file() and not (folder / 'model.safetensors').is_file():
        try:
            parts = set(json.loads(index.read_text(encoding='utf-8'))['weight_map'].values())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelLoadError(f'{index}: is no list of weights: {error}') from error
        missing += sorted(part for part in parts if not (folder / part).is_file())
    if missing:
        raise ModelLoadError(
            f'{folder}: has no {", no ".join(missing)}; copy the whole model folder again'
        )


def _check_evictable(where: str, text: Any) -> None:
    kinds = set(getattr(text, 'layer_types', None) or ['full_attention'])
    if getattr(text, 'sliding_window', None) is not None:
        kinds.add(f'sliding windows of {text.sliding_window} tokens')
    if kinds != {'full_attention'}:
        raise ModelLoadError(
            f'{where}: its text layers are {", ".join(sorted(kinds))}; a memory can only keep '
            'chosen tokens of full-attention layers'
        )


def _load_weights(
    where: str, device: str, dtype: str, quantization: str, options: dict[str, Any]
) -> Any:
    kwargs: dict[str, Any] = {
        'dtype': DTYPES[dtype],
        'attn_implementation': 'sdpa',
        'use_safetensors': True,
        **options,
    }
    if quantization:
        kwargs['quantization_config'] = _quantization(quantization)
        kwargs['device_map'] = {'': device}
    try:
        models: Any = transformers.AutoModelForImageTextToText
        with _without_progress_bars():
            model, info = models.from_pretrained(where, output_loading_info=True, **kwargs)
        if not quantization:
            model.to(torch.device(device))
    except Exception as error:
        raise ModelLoadError(
            f'{where}: its weights cannot be loaded on {device} as {dtype}: '
            f'{type(error).__name__}: {error}'
        ) from error
    missing = sorted(info['missing_keys'])
    if missing:
        raise ModelLoadError(
            f'{where}: its weights lack {len(missing)} tensors, such as {missing[0]}; copy the '
            'whole model again'
        )
    return model.eval().requires_grad_(False)


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Keep transformers' progress bars of this thread out of the caller's terminal and log."""
    thread = threading.get_ident()

    def make(factory: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if threading.get_ident() == thread:
            options = {**options, 'disable': True}
        elif before is not None:
            return before(factory, args, options)
        return factory(*args, **options)

    before = transformers_logging.set_tqdm_hook(make)
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(before)


def _quantization(name: str) -> Any:
    if name not in ('int8', 'int4'):
        raise ModelLoadError(f'quantization is {name!r}: use "", int8 or int4')
    settings: Any = transformers.BitsAndBytesConfig
    return settings(
        load_in_8bit=name == 'int8',
        load_in_4bit=name == 'int4',
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def _fingerprint(model: Any) -> str:
    """Return a digest of the settings and of some numbers of every weight, wherever it lies."""
    settings = _without_origin(json.loads(model.config.to_json_string(use_diff=False)))
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for name, weight in sorted(model.state_dict().items()):
        flat = weight.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // 64)][:64].to('cpu', torch.float32)
        digest.update(f'{name}{tuple(weight.shape)}'.encode() + some.numpy().tobytes())
    return digest.hexdigest()


def _without_origin(settings: Any) -> Any:
    """Return settings without those that change when a folder is moved or a library updated."""
    if not isinstance(settings, dict):
        return settings
    return {name: _without_origin(value) for name, value in settings.items()
            if name not in ('_name_or_path', 'transformers_version')}
