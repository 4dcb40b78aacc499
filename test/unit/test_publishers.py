# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One look at the ROS graph serves all who ask about it in the same moment."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from infinipot_ros.node import publishers  # noqa: E402, I100
from infinipot_ros.node.publishers import (  # noqa: E402
    COMPRESSED,
    FRESH_S,
    Publishers,
    RAW,
    SEVERAL_AFTER_S,
    STATUS,
)


class Graph:
    """A node in a graph of two topics, and a steady clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.drivers = ['front', 'rear']
        self.topics: list[tuple[str, list[str]]] = []
        self.looks: Counter[str] = Counter()

    def monotonic(self) -> float:
        return self.now

    def get_publishers_info_by_topic(self, topic: str) -> list[Any]:
        self.looks['publishers'] += 1
        return [SimpleNamespace(node_namespace='/', node_name=name, topic_type=RAW)
                for name in self.drivers]

    def get_topic_names_and_types(self) -> list[tuple[str, list[str]]]:
        self.looks['topics'] += 1
        return [*self.topics, ('/image', [RAW]), ('/other', [RAW])]

    def count_publishers(self, topic: str) -> int:
        return 1


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> Graph:
    graph = Graph()
    monkeypatch.setattr(publishers, 'time', graph)
    return graph


def test_the_log_and_the_diagnostics_share_a_look_and_the_next_second_looks_again(
        graph: Graph) -> None:
    seen: Any = Publishers(graph, '/image')  # type: ignore[arg-type]
    for _ in range(2):
        assert seen.names() == ['/front', '/rear'] and seen.kinds() == [RAW]
        assert seen.rivals() == [] and seen.elsewhere() == ['/other']
    assert graph.looks == {'publishers': 1, 'topics': 1}
    graph.now += 1.0
    graph.drivers = []
    assert seen.names() == [] and seen.elsewhere() == ['/other']
    assert graph.looks == {'publishers': 2, 'topics': 2}


def test_rivals_are_told_once_they_have_been_several_for_a_while(graph: Graph) -> None:
    seen: Any = Publishers(graph, '/image')  # type: ignore[arg-type]
    assert seen.rivals() == []
    graph.now += SEVERAL_AFTER_S
    assert seen.rivals() == ['/front', '/rear']
    graph.drivers = ['front']
    graph.now += 2 * FRESH_S
    assert seen.rivals() == []


def test_cameras_are_offered_by_likeness_and_no_picture_that_a_memory_draws(graph: Graph) -> None:
    for memory in ('/infinipot', '/robot1/memory'):
        graph.topics += [(f'{memory}/memory_status', [STATUS]),
                         (f'{memory}/retained', [COMPRESSED]),
                         (f'{memory}/evidence/image/compressed', [COMPRESSED])]
    graph.topics += [('/a/retained', [RAW]), ('/camera/image_raw', [RAW]), ('/odom', ['x'])]
    seen = Publishers(graph, '/cam/image_raw')  # type: ignore[arg-type]
    assert seen.elsewhere() == ['/camera/image_raw', '/image', '/a/retained', '/other']


def test_a_memory_status_is_known_by_its_type() -> None:
    messages = pytest.importorskip('infinipot_ros.msg')
    kind = messages.MemoryStatus
    assert f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}" == STATUS
