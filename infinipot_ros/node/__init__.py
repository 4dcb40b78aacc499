# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 nodes. Importing this package imports no ROS; its modules do where they say so."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Give `compose` without importing rclpy before it is asked for."""
    if name == 'compose':
        import importlib
        return importlib.import_module('infinipot_ros.node.composition').compose
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
