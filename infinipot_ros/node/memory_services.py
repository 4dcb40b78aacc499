# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The services ~/reset_memory, ~/save_memory and ~/load_memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from infinipot_ros.errors import InfinipotError
from infinipot_ros.node.checkpoints import Checkpoints
from infinipot_ros.node.engine_thread import EngineThread
from infinipot_ros.node.guarding import guard_service
from infinipot_ros.srv import MemoryFile
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from std_srvs.srv import Trigger

# a running question is waited for
RESET_TIMEOUT_S, FILE_TIMEOUT_S = 10.0, 60.0


class MemoryServices:
    """Serve what is done to the memory as a whole."""

    def __init__(self, node: Node, engine: EngineThread, checkpoints: Checkpoints,
                 on_reset: Callable[[], None]) -> None:
        """
        Create the services.

        :param on_reset: called in the engine thread when the memory has become another one.
        """
        self._engine = engine
        self._checkpoints = checkpoints
        self._on_reset = on_reset
        group = MutuallyExclusiveCallbackGroup()
        for kind, name, callback in ((Trigger, '~/reset_memory', self._reset),
                                     (MemoryFile, '~/save_memory', self._save),
                                     (MemoryFile, '~/load_memory', self._load)):
            service = node.create_service(kind, name, callback, callback_group=group)
            guard_service(service, node.get_logger(), _refuse)

    def _reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        def reset() -> int:
            memory = self._engine.memory
            if memory is None:
                raise InfinipotError('there is no memory yet; configure the node first')
            seen = memory.status().frames_seen
            memory.reset()
            self._on_reset()
            return seen

        self._engine.queue.drop_frames('memory reset')
        seen = self._engine.call(reset, RESET_TIMEOUT_S)
        response.success, response.message = True, f'{seen} frames are forgotten'
        return response

    def _save(self, request: MemoryFile.Request,
              response: MemoryFile.Response) -> MemoryFile.Response:
        path = self._checkpoints.path(request.path)
        self._engine.call(lambda: self._checkpoints.save(path), FILE_TIMEOUT_S)
        return self._done(response, path, 'the memory is saved')

    def _load(self, request: MemoryFile.Request,
              response: MemoryFile.Response) -> MemoryFile.Response:
        path = self._checkpoints.path(request.path)

        def load() -> None:
            self._checkpoints.load(path)
            self._on_reset()

        self._engine.call(load, FILE_TIMEOUT_S)
        return self._done(response, path, 'the memory is loaded')

    @staticmethod
    def _done(response: MemoryFile.Response, path: Path, text: str) -> MemoryFile.Response:
        response.success, response.message = True, text
        response.path, response.bytes = str(path), path.stat().st_size
        return response


def _refuse(response: Any, text: str) -> None:
    response.success, response.message = False, text
