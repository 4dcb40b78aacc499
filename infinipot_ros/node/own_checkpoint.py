# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The node's own checkpoint, by which a memory outlives its process."""

from __future__ import annotations

from collections.abc import Callable
import time

from infinipot_ros.errors import CheckpointError, InfinipotError
from infinipot_ros.node.checkpoints import Checkpoints
from infinipot_ros.node.engine_thread import EngineThread
from infinipot_ros.node.guarding import describe
from infinipot_ros.node.parameters import Parameters
from rclpy.impl.rcutils_logger import RcutilsLogger


class OwnCheckpoint:
    """
    Go on with it at the start, save it every checkpoint.period_s and at the end.

    One that cannot be gone on with is never written over: `refused` says why.
    """

    def __init__(self, checkpoints: Checkpoints, engine: EngineThread, parameters: Parameters,
                 logger: RcutilsLogger, on_error: Callable[[str, Exception], None]) -> None:
        """Do nothing yet; `on_error` is told what goes wrong with saving in time."""
        self.refused = ''
        self._checkpoints = checkpoints
        self._engine = engine
        self._parameters = parameters
        self._logger = logger
        self._on_error = on_error
        self.restart()

    def restart(self) -> None:
        """Count the time to the next save from now."""
        self._saved = time.monotonic()

    def claim(self) -> None:
        """
        Keep others from writing the file, if this node is to; `Checkpoints.release` ends that.

        :raises CheckpointError: another node has it, or there is no directory for it.
        """
        if self._parameters['checkpoint.restore'] or self._parameters['checkpoint.period_s']:
            self._checkpoints.claim_own()

    def restore(self) -> None:
        """Go on with the file, if that is wanted and there is one; in the engine thread."""
        self.refused = ''
        if not self._parameters['checkpoint.restore']:
            return
        path = self._checkpoints.path()
        if not path.exists():
            return
        try:
            self._checkpoints.load(path)
            self._logger.info(f'goes on with the memory in {path}')
        except CheckpointError as error:
            self.refused = describe(error)
            self._logger.error(
                f'begins with an empty memory: {self.refused}. The file stays as it is and is '
                'not written over; move it away, or call ~/save_memory')

    def save(self, timeout_s: float) -> None:
        """Save at the end, if the file is to be gone on with next time; wait for it."""
        if not self._parameters['checkpoint.restore'] or self.refused or \
                self._engine.memory is None:
            return
        try:
            path = self._checkpoints.path()
            self._engine.call(lambda: self._checkpoints.save(path), timeout_s)
        except Exception as error:  # whatever it is, the node can be cleaned up
            self._logger.error(f'the memory is not saved: {describe(error)}')

    def save_in_time(self) -> None:
        """Have it saved once more, if it is time to."""
        if 0 < self._parameters['checkpoint.period_s'] <= time.monotonic() - self._saved:
            self.restart()
            if not self.refused:
                self._engine.post(self._save_once_more)

    def _save_once_more(self) -> None:
        try:
            self._checkpoints.save(self._checkpoints.path())
        except InfinipotError as error:
            self._on_error('checkpoint', error)
