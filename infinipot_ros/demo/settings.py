# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The settings of the demo world: what a stream looks like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """
    What a stream looks like.

    ``spacing_px`` is the distance between things along a drive (``None``: ``things`` of them
    spread over the whole drive, one shape each); a setting that does not move shows its
    ``things`` one after the other, each for ``stay_frames``.
    """

    moving: bool = True
    vividness: tuple[float, float] | None = None
    things: int = 8
    spacing_px: tuple[int, int] | None = None
    unique_shapes: bool = True
    target_shapes: int = 0
    fixtures: tuple[int, int] | None = None
    screens: tuple[int, int] | None = None
    stay_frames: tuple[int, int] = (6, 18)
    speed_px: tuple[float, float] = (6.0, 18.0)
    share_colour: float = 0.4


WORLD_SETTINGS: dict[str, Setting] = {
    'calm': Setting(),
    'still': Setting(moving=False, things=6, fixtures=(4, 5)),
    'crowd': Setting(spacing_px=(50, 82), unique_shapes=False, target_shapes=4),
    'screen': Setting(moving=False, screens=(1, 2)),
    'vivid': Setting(vividness=(0.4, 1.0)),
}
SETTINGS: tuple[str, ...] = tuple(WORLD_SETTINGS)
