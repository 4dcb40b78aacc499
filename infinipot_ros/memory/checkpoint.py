# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
What of a memory is in its file, and how a memory is made from that again.

The sinks and the instant cache are not in it: both follow from the model and the feature buffer.
How the file is written and read is the matter of `checkpoint_file`.
"""

from collections.abc import Iterator
import copy
from dataclasses import asdict, dataclass, fields
import logging
from pathlib import Path
import sys
from typing import Any

from infinipot_ros.errors import CheckpointError, InfinipotError
from infinipot_ros.memory import checkpoint_file
from infinipot_ros.memory.camera_memory import CameraMemory, put_picture
from infinipot_ros.memory.compression import check_layers, check_state
from infinipot_ros.memory.config import MemoryConfig
from infinipot_ros.memory.ingest import shrink
from infinipot_ros.memory.model import VisionLanguageModel
from infinipot_ros.memory.policies.registry import Policy, TokenFilter
from infinipot_ros.memory.saved_facts import check_kinds, check_memory
from infinipot_ros.memory.state import MemoryState
import numpy as np
import torch
from torch import Tensor

_STORE = 'store.'
#: What reading tensors and facts of any kind may raise.
_RAW = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saved:
    """What a file holds, checked against its own digest and the model."""

    path: Path
    config: MemoryConfig
    facts: dict[str, Any]
    tensors: dict[str, Tensor]


def save(state: MemoryState, path: Path) -> None:
    """
    Write a memory; a file of that name stays as it was until the new one is safely on disk.

    Raises CheckpointError when it cannot be written.
    """
    tensors = dict(named_tensors(state))
    try:
        text = facts_text(state)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f'{path}: policy_options hold what a checkpoint cannot: {error}'
        ) from error
    checkpoint_file.write(path, text, tensors)


def read(path: Path, model: VisionLanguageModel) -> Saved:
    """
    Return what a file holds.

    Raises CheckpointError where it is missing, torn, of another format, version or model.
    """
    facts, tensors = checkpoint_file.read(path)
    try:
        check_kinds(facts)
    except ValueError as error:
        raise CheckpointError(f'{path}: no memory of this program: {error}') from error
    if facts['fingerprint'] != model.fingerprint:
        raise CheckpointError(
            f'{path}: of the model {facts["model"]!r} with other weights, settings or dtype than '
            f'{model.name!r}; load it with that model'
        )
    try:
        config = _config(facts['config'])
    except (InfinipotError, *_RAW) as error:
        raise CheckpointError(f'{path}: its settings are not allowed: {error}') from error
    return Saved(path, config, facts, tensors)


def restore(state: MemoryState, saved: Saved) -> None:
    """
    Fill a new memory; tokens that its budget does not hold are compressed away.

    Other thresholds of VaN than the saved ones, such as those of a calibration made since, are
    used from here on, with a warning: what was kept stays, and later choices differ.
    Raises CheckpointError where the new settings cannot go on with the saved memory.
    """
    old, new = saved.config, state.config
    for name in ('cameras', 'instant_frames'):
        if getattr(old, name) != getattr(new, name):
            raise CheckpointError(
                f'{saved.path}: its {name} is {getattr(old, name)!r}, the configuration has '
                f'{getattr(new, name)!r}'
            )
    if saved.facts['grid'] != list(state.sizes.scheme.grid):
        raise CheckpointError(
            f'{saved.path}: its frames have {saved.facts["grid"]} tokens, the configuration gives '
            f'{list(state.sizes.scheme.grid)}; use the same frame_size_px'
        )
    stored = f'camera0.{_STORE}frames' in saved.tensors
    if stored != bool(state.stores):
        raise CheckpointError(
            f'{saved.path}: its policy {old.policy!r} {"keeps" if stored else "does not keep"} '
            f'every frame in host memory, and {new.policy!r} {"does not" if stored else "does"}'
        )
    try:
        check_memory(state, saved.facts, saved.tensors)
        _restore_table(state, saved)
        for camera, facts in zip(state.cameras, saved.facts['cameras'], strict=True):
            same = old.policy == new.policy
            _restore_camera(camera, facts, saved, state.compression.policy, same)
        state.next_frame = saved.facts['next_frame']
        state.stamps_gone_back = saved.facts['stamps_gone_back']
        shrink(state, list(state.plan.camera_tokens))
        for camera, tokens in zip(state.cameras, state.plan.camera_tokens, strict=True):
            camera.past.resize(tokens)
    except _RAW as error:
        raise CheckpointError(f'{saved.path}: no whole memory: {error}') from error
    except InfinipotError as error:
        raise CheckpointError(f'{saved.path}: does not fit this configuration: {error}') from error
    was, now = _thresholds(old), _thresholds(state.compression.config)
    if was != now:
        logger.warning(
            "%s: was saved with %s as VaN's thresholds and goes on with %s: what is kept from now "
            'on is chosen by those',
            saved.path, *(taus or 'none' for taus in (was, now)))


def _thresholds(config: MemoryConfig) -> tuple[object, ...]:
    taus = config.policy_options.get('cv_thresholds')
    return tuple(taus) if isinstance(taus, tuple | list) else ()


def check_policies(path: str | Path, config: MemoryConfig) -> None:
    """Raise CheckpointError for a policy in a module that is not imported: no file runs code."""
    for name in (config.policy, config.question_policy):
        module, colon, _ = name.rpartition(':')
        if colon and module not in sys.modules:
            raise CheckpointError(
                f'{path}: its policy {name!r} is in a module that a file may not import: '
                f'`import {module}` first, or give the config'
            )


def facts_text(state: MemoryState) -> str:
    """Return everything but tensors, the same text for the same memory."""
    return checkpoint_file.facts_text(_facts(state))


def _facts(state: MemoryState) -> dict[str, Any]:
    return {
        'model': state.model.name,
        'fingerprint': state.model.fingerprint,
        'config': {
            **asdict(_plain(state.config)),
            # With the thresholds of the model, so that the future is the same without its file.
            'policy_options': dict(state.compression.config.policy_options),
        },
        'grid': list(state.sizes.scheme.grid),
        'next_frame': state.next_frame,
        'stamps_gone_back': state.stamps_gone_back,
        'names': state.table.names,
        'cameras': [
            {
                'stored_tokens': camera.past.stored_tokens,
                'buffered': camera.buffer.frame_ids,
                'pending': camera.pending,
                'frames_seen': camera.frames_seen,
                'compressions': camera.compressions,
                'judged_until': camera.judged_until,
                'newest_stamp_ns': camera.newest_stamp_ns,
            }
            for camera in state.cameras
        ],
    }


def _plain(config: MemoryConfig) -> MemoryConfig:
    """Return the settings with options that can be copied."""
    values = {item.name: getattr(config, item.name) for item in fields(config)}
    return MemoryConfig(**{**values, 'policy_options': {}})


def _config(values: dict[str, Any]) -> MemoryConfig:
    known = {item.name for item in fields(MemoryConfig)}
    plain = {name: value for name, value in values.items() if name in known}
    options = _tuples(plain.pop('policy_options', {}))
    return MemoryConfig(**_tuples(plain), policy_options=options)


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Return values that were lists in JSON as the tuples that they had been."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }


def named_tensors(state: MemoryState) -> Iterator[tuple[str, Tensor]]:
    """Yield copies in host memory of all tensors that a file holds, by their names in it."""
    for camera in state.cameras:
        name, past = f'camera{camera.index}', camera.past
        start, stop = past.prefix, past.prefix + past.stored_tokens
        for layer in range(len(past.keys)):
            yield f'{name}.keys{layer}', _copy(past.keys[layer][:, start:stop])
            yield f'{name}.values{layer}', _copy(past.values[layer][:, start:stop])
            for key, value in camera.policy_state[layer].items():
                yield f'{name}.state{layer}.{key}', _copy(value)
        if camera.store is not None:
            for key, value in camera.store.tensors():
                yield f'{name}.{_STORE}{key}', value
        yield f'{name}.frame', _copy(past.frames)
        yield f'{name}.patch', _copy(past.patches)
        yield f'{name}.features', _copy(camera.buffer.ordered())
        if camera.buffer.newest is not None:
            yield f'{name}.newest', _copy(camera.buffer.newest)
        if camera.token_filter is not None:
            for key, value in camera.token_filter.state().items():
                yield f'{name}.filter.{key}', _copy(value)
        for layer, queries in enumerate(camera.window):
            yield f'{name}.window{layer}', _copy(queries)
        yield f'{name}.pending_picture', torch.from_numpy(camera.pending_picture.copy())
        yield f'{name}.newest_picture', torch.from_numpy(camera.newest_picture.copy())
    rows, pictures = state.table.dump()
    yield 'table.rows', torch.from_numpy(rows.view(np.uint8).copy())
    yield 'table.pictures', torch.from_numpy(pictures.copy())


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().to('cpu', copy=True).contiguous()


def _restore_table(state: MemoryState, saved: Saved) -> None:
    rows, pictures = saved.tensors['table.rows'], saved.tensors['table.pictures']
    state.table.load(rows.numpy(), pictures.numpy(), saved.facts['names'])


def _restore_camera(
    camera: CameraMemory,
    facts: dict[str, Any],
    saved: Saved,
    policy: Policy,
    keep_policy_state: bool,
) -> None:
    tensors, name, past = saved.tensors, f'camera{camera.index}', camera.past
    count = facts['stored_tokens']
    if count > past.capacity:
        past.resize(count)
    for layer in range(len(past.keys)):
        past.write(layer, 0, tensors[f'{name}.keys{layer}'], tensors[f'{name}.values{layer}'])
        if keep_policy_state:
            found = _named(tensors, f'{name}.state{layer}.')
            check_state(policy, found, past.shape.kv_heads)
            camera.policy_state[layer] = {
                key: value.to(past.frame.device) for key, value in found.items()
            }
    check_layers(policy, camera.policy_state, past.shape.kv_heads)
    if keep_policy_state and camera.token_filter is not None:
        frame = torch.zeros_like(camera.buffer.features[0])
        _restore_filter(camera.token_filter, tensors, f'{name}.filter.', frame)
    if camera.store is not None:
        camera.store.restore(_named(tensors, f'{name}.{_STORE}'))
    past.frame[:, :, :count] = tensors[f'{name}.frame']
    past.patch[:, :, :count] = tensors[f'{name}.patch']
    past.commit(count)
    camera.buffer.restore(
        facts['buffered'], tensors[f'{name}.features'], tensors.get(f'{name}.newest')
    )
    for layer, queries in enumerate(camera.window):
        if f'{name}.window{layer}' in tensors:
            queries.copy_(tensors[f'{name}.window{layer}'])
    for place, key in (
        (camera.pending_picture, 'pending_picture'),
        (camera.newest_picture, 'newest_picture'),
    ):
        picture = tensors[f'{name}.{key}'].numpy()
        if picture.shape == place.shape:
            put_picture(place, picture)
    camera.pending = facts['pending']
    camera.frames_seen = facts['frames_seen']
    camera.compressions = facts['compressions']
    camera.judged_until = facts['judged_until']
    camera.newest_stamp_ns = facts['newest_stamp_ns']
    camera.instant_frames = None


def _restore_filter(
    token_filter: TokenFilter, tensors: dict[str, Tensor], start: str, frame: Tensor
) -> None:
    """Restore a filter, and try a copy of it on a frame: it alone knows what it can go on with."""
    found = _named(tensors, start)
    try:
        token_filter.restore({key: value.to(frame.device) for key, value in found.items()})
        copy.deepcopy(token_filter).keep(frame)
    except (Exception, SystemExit) as error:  # whatever is wrong with code that a user wrote
        held = ', '.join(f'{start}{key}' for key in found)
        raise ValueError(
            f"the policy's token filter cannot go on with {held or 'nothing'}: "
            f'{type(error).__name__}: {error}'
        ) from error


def _named(tensors: dict[str, Tensor], start: str) -> dict[str, Tensor]:
    return {name[len(start):]: value for name, value in tensors.items() if name.startswith(start)}
