# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One copy of the weights for all the nodes of a process. Nothing here imports ROS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
import threading
from typing import Any


@dataclass
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    loading: threading.Lock = field(default_factory=threading.Lock)
    model: Any = None
    users: int = 0


class Lease:
    """A model in use; `lock` is held while it runs, `release` gives it back."""

    def __init__(self, pool: ModelPool, key: tuple[str, ...], entry: _Entry) -> None:
        """Made by ModelPool.acquire."""
        self._pool, self._key, self._entry = pool, key, entry
        self._released = False

    @property
    def model(self) -> Any:
        """Return the model."""
        return self._entry.model

    @property
    def lock(self) -> threading.Lock:
        """Return the lock that makes its users take turns."""
        return self._entry.lock

    def release(self) -> None:
        """Give the model back; the last user frees its weights. Twice is as good as once."""
        if not self._released:
            self._released = True
            self._pool._give_back(self._key, self._entry)


class ModelPool:
    """Load each model once, however many ask for it."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: dict[tuple[str, ...], _Entry] = {}
        self._guard = threading.Lock()

    def acquire(self, key: tuple[str, ...], load: Callable[[], Any]) -> Lease:
        """
        Return the model of a key, loading it if no one has.

        :raises Exception: whatever loading raises; the next one who asks tries again.
        """
        with self._guard:
            entry = self._entries.setdefault(key, _Entry())
            entry.users += 1
        try:
            with entry.loading:
                if entry.model is None:
                    entry.model = load()
        except BaseException:
            self._give_back(key, entry)
            raise
        return Lease(self, key, entry)

    def _give_back(self, key: tuple[str, ...], entry: _Entry) -> None:
        with self._guard:
            entry.users -= 1
            if entry.users == 0:
                self._entries.pop(key, None)
                entry.model = None


MODELS = ModelPool()
