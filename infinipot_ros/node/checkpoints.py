# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Files of the memory, inside one directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
import os
from pathlib import Path

from infinipot_ros.errors import CheckpointError
from infinipot_ros.node.engine_thread import EngineThread
from infinipot_ros.node.file_lock import FileLocks
from infinipot_ros.node.log_bridge import engine_logs_to
from rclpy.node import Node

SUFFIX = '.infinipot'
# Linux allows 255, in all 4095; the drafts and locks beside a file have longer names than it
MOST_BYTES, MOST_PATH_BYTES = 200, 4000


class Checkpoints:
    """Find, lock, save and load them; the last two in the engine thread."""

    def __init__(self, node: Node, engine: EngineThread, directory: Callable[[], str]) -> None:
        """Take note where files may be; the full name of the node is that of its own file."""
        node_name = node.get_fully_qualified_name()
        self.most_mib = 0.0  # the budget at configuration
        self._logger = node.get_logger()
        self._engine = engine
        self._directory = directory
        self._own_name = node_name.strip('/').replace('/', '.')
        self._locks = FileLocks(node_name)

    def path(self, name: str = '') -> Path:
        """
        Return the path of a file name.

        :raises CheckpointError: there is no directory, or the name leads out of it.
        """
        directory = self._directory()
        if not directory:
            raise CheckpointError('the parameter checkpoint.directory is empty; set it to the '
                                  'folder that memories may be saved to')
        if '\0' in name or any(len(os.fsencode(part)) > MOST_BYTES for part in name.split('/')):
            raise CheckpointError(f"'{name[:20]}...' is no name for a file; give one of at most "
                                  f'{MOST_BYTES} bytes')
        root = folder(directory)
        whole = root / (name or self._own_name + SUFFIX)
        if len(os.fsencode(whole)) > MOST_PATH_BYTES:
            raise CheckpointError(f"'{name[:20]}...' below checkpoint.directory is too long a "
                                  f'path; at most {MOST_PATH_BYTES} bytes are possible')
        path = _resolved(whole, f"'{name[:200]}'")
        if root not in path.parents:
            raise CheckpointError(f"'{name[:200]}' leads out of checkpoint.directory ({root}); "
                                  'give a file name inside it')
        return path

    def claim_own(self) -> None:
        """
        Keep others from writing the node's own file, until `release`.

        :raises CheckpointError: another node has it.
        """
        self._locks.claim(self.path())

    def release(self) -> None:
        """Let others write what this node has claimed."""
        self._locks.release_all()

    def save(self, path: Path) -> None:
        """Save the memory."""
        memory = self._engine.memory
        if memory is None:
            raise CheckpointError('there is no memory yet; configure the node first')
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f'{path.parent} cannot be made: {error.strerror}; set '
                                  'checkpoint.directory to a folder that can be written'
                                  ) from error
        for_now = self._locks.claim(path)
        try:
            memory.save(path)
        finally:
            if for_now:
                self._locks.release(path)

    def load(self, path: Path) -> None:
        """Put a saved memory in the place of this one, which stays if anything is wrong."""
        memory = self._engine.memory
        if memory is None:
            raise CheckpointError('there is no memory yet; configure the node first')
        if not path.is_file():
            raise CheckpointError(f'there is no file {path}; ~/save_memory makes such a file')
        with engine_logs_to(self._logger):
            # with room for the budget to be raised to what it was, as in the memory before
            loaded = type(memory).load(path, memory.model,
                                       replace(memory.config, budget_mib=self.most_mib))
            loaded.set_budget(memory.config.budget_mib)
        self._engine.replace_memory(loaded)


def folder(directory: str) -> Path:
    """
    Return the path that checkpoint.directory stands for.

    :raises CheckpointError: it stands for none: no such user, or links that lead in a circle.
    """
    return _resolved(Path(directory), f"checkpoint.directory is '{directory[:200]}', which")


def _resolved(path: Path, what: str) -> Path:
    try:
        return path.expanduser().resolve()
    except (RuntimeError, OSError, ValueError) as error:
        raise CheckpointError(f'{what} leads nowhere: {str(error)[:300]}') from error
