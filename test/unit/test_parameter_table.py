# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every parameter has a default that is allowed, and says what is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from infinipot_ros.node.parameter_table import (
    CAMERA_PARAMETERS,
    camera_parameters,
    contradiction,
    image_topic,
    markdown,
    NODE_PARAMETERS,
    Spec,
)
import pytest

ALL = (*NODE_PARAMETERS, *CAMERA_PARAMETERS)
DEFAULTS = {spec.name: spec.default for spec in NODE_PARAMETERS}


@pytest.mark.parametrize('spec', ALL, ids=lambda spec: spec.name)
def test_defaults_are_allowed_and_every_other_type_is_not(spec: Spec) -> None:
    assert spec.problem(spec.default) == ''
    assert spec.text and spec.allowed()
    wrong: list[Any] = {'bool': [1, 'true', None], 'int': [True, 1.0, '1', None],
                        'double': [True, '1', None, math.nan, math.inf, -math.inf],
                        'string': [1, None, b'x', ['x']],
                        'string[]': ['x', [], [''], ['a', 'a'], ['a b'], [1], None]}[spec.kind]
    for value in wrong:
        problem = spec.problem(value)
        assert spec.name in problem and spec.allowed() in problem


@pytest.mark.parametrize('spec', [s for s in ALL if s.kind in ('int', 'double')],
                         ids=lambda spec: spec.name)
def test_ranges_are_closed(spec: Spec) -> None:
    assert spec.low is not None and spec.high is not None
    number = int if spec.kind == 'int' else float
    for edge, beyond in ((spec.low, spec.low - 1), (spec.high, spec.high + 1)):
        assert spec.problem(number(edge)) == ''
        assert spec.name in spec.problem(number(beyond))


def test_a_whole_number_serves_as_a_double() -> None:  # rclcpp#979
    spec = next(s for s in NODE_PARAMETERS if s.name == 'sample_fps')
    assert spec.problem(2) == ''
    assert type(spec.typed(2)) is float


@pytest.mark.parametrize(('changed', 'words'), [
    ({'frame_width': 112}, 'frame_height is 0'),
    ({'recent_ratio': 0.5, 'keep_ratio': 0.4}, 'recent frames'),
    ({'checkpoint.restore': True}, 'checkpoint.directory'),
    ({'cameras': ('front', 'qa')}, "'qa'"),
])
def test_values_that_do_not_go_together(changed: dict[str, Any], words: str) -> None:
    assert contradiction(DEFAULTS) == ''
    assert words in contradiction({**DEFAULTS, **changed})


def test_cameras_have_parameters_of_their_own() -> None:
    names = [spec.name for spec in camera_parameters(('front', 'rear'))]
    assert names == ['front.topic', 'front.transport', 'front.share',
                     'rear.topic', 'rear.transport', 'rear.share']
    assert image_topic('camera', '', ('camera',)) == 'image'
    assert image_topic('rear', '', ('front', 'rear')) == 'rear/image'
    assert image_topic('rear', '/back', ('front', 'rear')) == '/back'


def test_the_document_is_the_table() -> None:
    document = Path(__file__).parents[2] / 'docs' / 'parameters.md'
    assert document.read_text(encoding='utf-8') == markdown()


def test_an_empty_list_is_called_empty() -> None:
    """ROS hands it over as a parameter that is not set."""
    spec = next(spec for spec in NODE_PARAMETERS if spec.name == 'cameras')
    assert spec.problem(None).startswith('cameras is empty; it has to be one or more')
