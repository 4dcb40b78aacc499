# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Whether what a checkpoint holds is a memory: kinds, ranges, shapes, order and finite numbers.

A digest says that a file is as it was written, not that it was written by this program.
"""

from collections.abc import Mapping
from typing import Any

from infinipot_ros.memory.frame_table import ROW
from infinipot_ros.memory.state import MemoryState
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

#: Frames are numbered in 32 bits beside every token.
_FRAMES = 2**31 - 1
_KINDS: dict[str, type] = {
    'model': str, 'fingerprint': str, 'config': dict, 'grid': list, 'names': list, 'cameras': list
}


def check_kinds(facts: Mapping[str, Any]) -> None:
    """Raise ValueError naming the first fact that is missing or of a wrong kind."""
    for name, kind in _KINDS.items():
        if not isinstance(facts.get(name), kind):
            raise ValueError(f'{name} is {facts.get(name)!r}')
    names = facts['names']
    if not names or names[0] != '' or not all(isinstance(name, str) for name in names):
        raise ValueError(f'names is {names!r}')
    next_frame = _within('next_frame', facts.get('next_frame'), 0, _FRAMES)
    _within('stamps_gone_back', facts.get('stamps_gone_back'), 0, 2**63)
    for camera in facts['cameras']:
        if not isinstance(camera, dict):
            raise ValueError(f'cameras holds {camera!r}')
        for name in ('stored_tokens', 'frames_seen', 'compressions'):
            _within(name, camera.get(name), 0, 2**63)
        _within('judged_until', camera.get('judged_until'), -1, next_frame - 1)
        newest, pending = camera.get('newest_stamp_ns'), camera.get('pending')
        if newest is not None:
            _within('newest_stamp_ns', newest, -(2**63), 2**63 - 1)
        whole = camera.get('buffered')
        if not isinstance(whole, list):
            raise ValueError(f'buffered is {whole!r}')
        if pending is not None:
            whole = [*whole, pending]
        for frame in whole:
            _within('a frame in buffered or pending', frame, 0, next_frame - 1)
        if sorted(set(whole)) != whole:
            raise ValueError(f'buffered and pending are {whole}, which do not rise')


def check_memory(
    state: MemoryState, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Raise ValueError (or KeyError) unless facts and tensors are those of such a memory."""
    if len(facts['cameras']) != len(state.cameras):
        raise ValueError(f'cameras has {len(facts["cameras"])} entries')
    for index, camera in enumerate(facts['cameras']):
        _check_camera(state, camera, tensors, f'camera{index}.', facts['next_frame'])
    pictures = tensors['table.pictures']
    if pictures.dtype != torch.uint8 or pictures.dim() != 4 or pictures.shape[3] != 3:
        raise ValueError(f'table.pictures is {_kind(pictures)}')
    raw = tensors['table.rows']
    if raw.dtype != torch.uint8 or raw.dim() != 1 or len(raw) % ROW.itemsize:
        raise ValueError(f'table.rows is {_kind(raw)}')
    _check_rows(raw.numpy().view(ROW), facts, len(pictures))


def _check_camera(
    state: MemoryState,
    facts: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    name: str,
    next_frame: int,
) -> None:
    shape, patches = state.sizes.shape, state.sizes.tokens_per_frame
    count, heads, buffered = facts['stored_tokens'], shape.kv_heads, facts['buffered']
    if len(buffered) > state.config.instant_frames:
        raise ValueError(f'buffered holds {len(buffered)} frames')
    if facts['pending'] is not None and state.sizes.frames_per_step == 1:
        raise ValueError('pending is half a pair, and the model reads single frames')
    for layer in range(shape.layers):
        for kind in ('keys', 'values'):
            _numbers(tensors, f'{name}{kind}{layer}', (heads, count, shape.head_dim), shape.dtype)
    labels = [tensors[f'{name}{kind}'] for kind in ('frame', 'patch')]
    if any(t.dtype != torch.int32 or t.shape != (shape.layers, heads, count) for t in labels):
        raise ValueError(f'{name}frame and patch are {_kind(labels[0])}, {_kind(labels[1])}')
    frame, patch = (label.long() for label in labels)
    if count:
        oldest = buffered[0] if buffered else next_frame
        _all_within(f'{name}frame', frame, 0, oldest - 1)
        _all_within(f'{name}patch', patch, 0, patches - 1)
        if bool(((frame * patches + patch).diff(dim=-1) <= 0).any()):
            raise ValueError(f'{name}frame and patch do not rise')
    frames = (len(buffered), patches, shape.hidden)
    _numbers(tensors, f'{name}features', frames, shape.dtype)
    if f'{name}newest' in tensors:
        _numbers(tensors, f'{name}newest', frames[1:], shape.dtype)
    for kind in ('pending_picture', 'newest_picture'):
        picture = tensors[f'{name}{kind}']
        if picture.dtype != torch.uint8 or picture.dim() != 3:
            raise ValueError(f'{name}{kind} is {_kind(picture)}')
    for key, tensor in tensors.items():
        if key.startswith((f'{name}window', f'{name}filter.', f'{name}store.')) and (
            tensor.is_floating_point() and not bool(torch.isfinite(tensor).all())
        ):
            raise ValueError(f'{key} is not finite')
    if f'{name}store.frames' in tensors:
        stored = tensors[f'{name}store.frames']
        _all_within(f'{name}store.frames', stored, 0, next_frame - 1)
        if stored.dtype != torch.int64 or stored.dim() != 1 or bool((stored.diff() <= 0).any()):
            raise ValueError(f'{name}store.frames do not rise')


def _check_rows(rows: npt.NDArray[np.void], facts: Mapping[str, Any], pictures: int) -> None:
    names = len(facts['names'])
    for field, low, high in (
        ('frame', 0, facts['next_frame'] - 1),
        ('camera', 0, len(facts['cameras']) - 1),
        ('frame_id', 0, names - 1),
        ('pose_frame', -1, names - 1),
        ('thumbnail', -1, pictures - 1),
        ('kept', 0, float(np.finfo(np.float32).max)),
    ):
        if not ((rows[field] >= low) & (rows[field] <= high)).all():
            raise ValueError(f'{field} in table.rows is outside {low}..{high}')
    if (np.diff(rows['frame']) <= 0).any():
        raise ValueError('frame in table.rows does not rise')
    if not np.isfinite(rows['pose']).all():
        raise ValueError('pose in table.rows is not finite')
    if (np.ascontiguousarray(rows['went_back']).view(np.uint8) > 1).any():
        raise ValueError('went_back in table.rows is no truth value')
    used = rows['thumbnail'][rows['thumbnail'] >= 0]
    if len(np.unique(used)) != len(used):
        raise ValueError('thumbnail in table.rows names one picture twice')


def _within(name: str, value: object, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f'{name} is {value!r}')
    return value


def _all_within(name: str, tensor: Tensor, low: int, high: int) -> None:
    if tensor.numel() and not (low <= int(tensor.min()) and int(tensor.max()) <= high):
        raise ValueError(f'{name} is outside {low}..{high}')


def _numbers(
    tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    tensor = tensors[name]
    if tensor.shape != shape or tensor.dtype != dtype:
        raise ValueError(f'{name} is {_kind(tensor)}')
    if not bool(torch.isfinite(tensor).all()):
        raise ValueError(f'{name} is not finite')


def _kind(tensor: Tensor) -> str:
    return f'{tensor.dtype} {list(tensor.shape)}'
