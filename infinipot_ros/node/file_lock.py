# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One writer for each file of a memory, among all processes. Nothing here imports ROS."""

from __future__ import annotations

from contextlib import suppress
import fcntl
import os
from pathlib import Path

from infinipot_ros.errors import CheckpointError


class FileLocks:
    """
    The files that one node writes; whoever else wants one is told who has it.

    A lock is an flock on a side file with the pid and the name of its owner in it. The kernel
    takes it back when a process ends, however it ends.
    """

    def __init__(self, owner: str) -> None:
        """Hold nothing yet; `owner` is who others are told has a file."""
        self._owner = owner
        self._held: dict[Path, int] = {}

    def claim(self, path: Path) -> bool:
        """
        Lock a file until `release`; return False where it was ours already.

        Where the folder or the file system allows no lock, saving says what is wrong, if anything.

        :raises CheckpointError: another node has the file; its process is named.
        """
        if path in self._held:
            return False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = _locked(_side(path))
        except BlockingIOError as taken:
            raise CheckpointError(
                f'{path} is in use by {taken.args[0]}; give each node a name, a namespace or a '
                'checkpoint.directory of its own, or end the other one') from None
        except OSError:
            return False
        with suppress(OSError):  # a full disk: the lock holds without the name
            os.ftruncate(handle, 0)
            os.pwrite(handle, f'process {os.getpid()}, node {self._owner}\n'.encode(), 0)
        self._held[path] = handle
        return True

    def release(self, path: Path) -> None:
        """Let others have a file."""
        handle = self._held.pop(path, None)
        if handle is not None:
            with suppress(OSError):
                _side(path).unlink()
            os.close(handle)

    def release_all(self) -> None:
        """Let others have every file."""
        for path in list(self._held):
            self.release(path)


def _side(path: Path) -> Path:
    return path.with_name(f'.{path.name}.lock')


def _locked(side: Path) -> int:
    """
    Return a handle that holds the lock of a side file.

    :raises BlockingIOError: with what the owner wrote there.
    """
    while True:
        handle = os.open(side, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(side, handle):
                return handle
        except BlockingIOError:
            owner = os.pread(handle, 500, 0).decode(errors='replace').strip()
            os.close(handle)
            raise BlockingIOError(owner or 'another process') from None
        except OSError:
            os.close(handle)
            raise
        os.close(handle)


def _is_at(side: Path, handle: int) -> bool:
    """Return whether a path still leads to an open file; its last owner may have deleted it."""
    try:
        return os.path.samestat(os.fstat(handle), side.stat())
    except FileNotFoundError:
        return False
