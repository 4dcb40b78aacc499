# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine tells Python's logging, in the log of the node that it works for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import logging
import threading

from rclpy.impl.rcutils_logger import RcutilsLogger


@contextmanager
def engine_logs_to(logger: RcutilsLogger) -> Iterator[None]:
    """Log with a node's logger what this thread tells the loggers of this package."""
    package = logging.getLogger('infinipot_ros')
    handler = _ToRos(logger)
    package.addHandler(handler)
    try:
        yield
    finally:
        package.removeHandler(handler)


class _ToRos(logging.Handler):
    """Pass on the records of the thread that made it: other nodes have threads of their own."""

    def __init__(self, logger: RcutilsLogger) -> None:
        super().__init__()
        self._logger = logger
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self._thread:
            return
        # rclpy raises where one line of code logs at two levels
        if record.levelno >= logging.ERROR:
            self._logger.error(record.getMessage())
        elif record.levelno >= logging.WARNING:
            self._logger.warning(record.getMessage())
        else:
            self._logger.info(record.getMessage())
