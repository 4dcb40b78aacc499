# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
How a checkpoint is on disk: one safetensors file, written whole or not at all, read if whole.

Its metadata hold a JSON text of facts and a digest of facts and tensors. What those are is not
known here.
"""

from collections.abc import Iterable, Mapping
import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from infinipot_ros.errors import CheckpointError
from safetensors import safe_open, SafetensorError
from safetensors.torch import save_file
import torch
from torch import Tensor

FORMAT = 'infinipot_ros memory'
VERSION = 1


def facts_text(facts: Mapping[str, Any]) -> str:
    """
    Return facts with format and version as JSON, the same text for the same facts.

    Raises TypeError or ValueError for what JSON cannot hold.
    """
    return json.dumps({'format': FORMAT, 'version': VERSION, **facts}, sort_keys=True)


def digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Return a digest of facts and of the names, kinds and bytes of contiguous CPU tensors."""
    found = hashlib.blake2b(text.encode(), digest_size=32)
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f'{name} {tensor.dtype} {tuple(tensor.shape)}'.encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def write(path: Path, text: str, tensors: dict[str, Tensor]) -> None:
    """
    Write a file; one of that name stays as it was until the new one is safely on disk.

    :param text: what `facts_text` returns.
    :param tensors: contiguous, on the CPU, and no two of one storage.

    Raises CheckpointError when it cannot be written.

    """
    metadata = {'facts': text, 'digest': digest(text, tensors)}
    # No longer than it has to be: a file system that takes the name takes the draft's as well.
    name = hashlib.blake2b(path.name.encode('utf-8', 'replace'), digest_size=8).hexdigest()
    draft = path.parent / f'.{name}.{os.getpid()}.part'
    try:
        _drop_drafts_of_the_dead(path.parent.glob(f'.{name}.*.part'))
        save_file(tensors, draft, metadata)
        _sync(draft)
        os.replace(draft, path)
        _sync(path.parent)
    except (OSError, SafetensorError, ValueError) as error:
        with contextlib.suppress(OSError, ValueError):
            draft.unlink(missing_ok=True)
        raise CheckpointError(
            f'{path}: the memory cannot be written: {error}; check that the folder exists, may be '
            'written to and has room, and that it is a name for a file'
        ) from error


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """
    Return the facts, with format and version, and the tensors of a file.

    Raises CheckpointError where it is missing, torn, of another format or version, or changed.
    """
    try:
        if not path.is_file():
            raise CheckpointError(f'{path}: no such checkpoint')
        with path.open('rb'):
            pass
    except (OSError, ValueError) as error:
        raise CheckpointError(f'{path}: cannot be read: {error}') from error
    try:
        with safe_open(path, framework='pt') as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f'{path}: torn or no checkpoint ({error}); it is left as it is, use an older one'
        ) from error
    try:
        facts: dict[str, Any] = json.loads(metadata['facts'])
        kind, version = facts['format'], facts['version']
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f'{path}: not a checkpoint of infinipot_ros') from error
    if kind != FORMAT or version != VERSION:
        raise CheckpointError(
            f'{path}: {kind} of version {version}; this program reads version {VERSION}'
        )
    if metadata.get('digest') != digest(metadata['facts'], tensors):
        raise CheckpointError(
            f'{path}: damaged, its contents do not match their digest; use an older one'
        )
    return facts, tensors


def _drop_drafts_of_the_dead(drafts: Iterable[Path]) -> None:
    """Delete what processes left that were killed while they wrote, so that no disk fills up."""
    for draft in drafts:
        try:
            os.kill(int(draft.name.split('.')[-2]), 0)
        except ProcessLookupError:
            draft.unlink(missing_ok=True)
        except (PermissionError, ValueError, OverflowError):
            pass  # of another user's process, or not ours at all


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
