# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The small picture that is kept of every frame is cheap to make, and like the frame."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs rclpy, from a ROS installation or its wheels')

from infinipot_ros.node.outputs import _small, Outputs  # noqa: E402, I100


@pytest.mark.parametrize(('size', 'wanted'), [
    ((112, 112), (112, 112)), ((448, 448), (224, 224)), ((480, 640), (168, 224)),
    ((720, 1280), (126, 224)), ((1, 5000), (1, 224))])
def test_a_frame_is_made_small_by_halves_which_costs_little(
        monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], wanted: tuple[int, int]) -> None:
    resize, factors = cv2.resize, []

    def noted(rgb: Any, to: tuple[int, int], **how: Any) -> Any:
        factors.append(rgb.shape[1] / to[0])
        return resize(rgb, to, **how)
    monkeypatch.setattr(cv2, 'resize', noted)
    rows, columns = np.mgrid[:size[0], :size[1]]
    rgb = np.stack([255 * rows // size[0], 255 * columns // size[1], 0 * rows], -1)
    small = _small(rgb.astype(np.uint8))
    assert small.shape == (*wanted, 3)
    exact = resize(rgb.astype(np.uint8), wanted[::-1], interpolation=cv2.INTER_AREA)
    assert np.abs(small.astype(int) - exact).max() <= 3
    assert size[0] == 1 or max(factors, default=0.0) <= 2.0


@pytest.mark.parametrize(('stamp_ns', 'words'), [
    (1_700_000_000_400_000_000, 'now: front, 2023-11-14 22:13:20 UTC'),
    (17_358_000_000, 'now: front, stamp 17.358 s')])
def test_a_sheet_says_of_what_time_it_is_as_a_person_would(stamp_ns: int, words: str) -> None:
    outputs = object.__new__(Outputs)
    newest: Any = SimpleNamespace(camera='front', stamp_ns=stamp_ns)
    outputs._newest = newest
    assert outputs._note() == words
