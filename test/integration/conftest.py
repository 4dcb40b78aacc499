# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""ROS contexts for tests; the imports are inside, since tests without ROS 2 are skipped first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dds_world import World


@pytest.fixture
def world() -> Iterator[World]:
    """Give one test a ROS context of its own."""
    yield from _world()


@pytest.fixture(scope='module')
def shared_world() -> Iterator[World]:
    """Give the tests of one file a ROS context."""
    yield from _world()


def _world() -> Iterator[World]:
    from dds_world import World
    world = World()
    yield world
    world.close()
