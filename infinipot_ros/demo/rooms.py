# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The background of the demo world: rooms along a strip, panels, screens."""

from __future__ import annotations

from colorsys import hsv_to_rgb

from infinipot_ros.demo.things import paste
import numpy as np

VIEW_PX = 112
FLOOR_TOP_PX = 88


def muted_rooms(rng: np.random.Generator, width: int, scale: int) -> np.ndarray:
    """
    Paint a strip of quiet rooms: shaded walls, floor, doors, posters.

    :returns: float32 ``[VIEW_PX * scale, width * scale, 3]``, RGB in 0..255.
    """
    strip = np.zeros((VIEW_PX * scale, width * scale, 3), np.float32)
    left = 0
    while left < width:
        room = int(rng.integers(150, 340))
        right = min(left + room, width)
        _paint_room(rng, strip, left, right, scale)
        left = right
    return strip


def vivid_panels(
    rng: np.random.Generator, width: int, scale: int, vividness: tuple[float, float],
) -> np.ndarray:
    """
    Paint a strip tiled with patterned panels.

    :param vividness: lowest and highest blend from grey (0) to a pure colour (1).
    :returns: float32 ``[VIEW_PX * scale, width * scale, 3]``.
    """
    strip = np.zeros((VIEW_PX * scale, width * scale, 3), np.float32)
    top = 0
    while top < VIEW_PX:
        height = min(int(rng.integers(22, 39)), VIEW_PX - top)
        left = 0
        while left < width:
            panel = min(int(rng.integers(20, 41)), width - left)
            blend = rng.uniform(*vividness)
            first, second = (_blend(rng, blend) for _ in range(2))
            strip[top * scale:(top + height) * scale, left * scale:(left + panel) * scale] = (
                _pattern(int(rng.integers(6)), height * scale, panel * scale, scale,
                         first, second))
            left += panel
        top += height
    return strip


def screen_picture(rng: np.random.Generator, size: int, scale: int) -> np.ndarray:
    """
    Draw what a flickering screen shows for one frame.

    :returns: float32 ``[size * scale, size * scale, 4]`` with a dark frame around it.
    """
    side = size * scale
    picture = np.ones((side, side, 4), np.float32)
    picture[..., :3] = 28
    rim = 2 * scale
    inner = side - 2 * rim
    first, second = _blend(rng, 1.0), _blend(rng, 1.0)
    picture[rim:side - rim, rim:side - rim, :3] = _pattern(
        int(rng.integers(6)), inner, inner, scale, first, second)
    return picture


def striped_blob(rng: np.random.Generator, scale: int) -> np.ndarray:
    """
    Draw a striped oval that crosses the view; it has no name in the model's language.

    :returns: float32 ``[h, w, 4]``.
    """
    height, width = int(rng.integers(22, 34)) * scale, int(rng.integers(16, 26)) * scale
    rows, cols = np.mgrid[0:height, 0:width]
    alpha = (((rows + 0.5) / height * 2 - 1) ** 2 + ((cols + 0.5) / width * 2 - 1) ** 2) < 1
    stripes = ((rows // (4 * scale)) % 2 == 0)[..., None]
    rgb = np.where(stripes, _blend(rng, 0.7), _blend(rng, 0.2))
    return np.dstack([rgb, alpha]).astype(np.float32)


def _blend(rng: np.random.Generator, vividness: float) -> np.ndarray:
    grey = rng.uniform(90, 200)
    pure = np.asarray(hsv_to_rgb(rng.uniform(), 0.85, rng.uniform(0.6, 1.0)), np.float32) * 255
    return (grey + vividness * (pure - grey)).astype(np.float32)


def _pattern(
    kind: int, height: int, width: int, scale: int, first: np.ndarray, second: np.ndarray,
) -> np.ndarray:
    rows, cols = np.mgrid[0:height, 0:width]
    stripe = 5 * scale
    if kind == 0:
        edge = np.minimum(np.minimum(rows, height - 1 - rows), np.minimum(cols, width - 1 - cols))
        pick = edge < 3 * scale
    elif kind == 1:
        pick = (cols // stripe) % 2 == 0
    elif kind == 2:
        pick = (rows // stripe) % 2 == 0
    elif kind == 3:
        pick = (rows // (2 * stripe) + cols // (2 * stripe)) % 2 == 0
    elif kind == 4:
        pick = rows > height * 0.6
    else:
        return first + (second - first) * (cols / max(width - 1, 1))[..., None]
    return np.where(pick[..., None], first, second)


def _paint_room(
    rng: np.random.Generator, strip: np.ndarray, left: int, right: int, scale: int,
) -> None:
    """Paint one room between two world columns of the strip, in place."""
    wall = np.asarray(hsv_to_rgb(rng.uniform(), rng.uniform(0.04, 0.2),
                                 rng.uniform(0.62, 0.9)), np.float32) * 255
    floor = np.asarray(hsv_to_rgb(rng.uniform(0.05, 0.12), rng.uniform(0.1, 0.34),
                                  rng.uniform(0.35, 0.62)), np.float32) * 255
    horizon = FLOOR_TOP_PX * scale
    view = strip[:, left * scale:right * scale]
    height, width = view.shape[:2]
    rows = np.arange(height, dtype=np.float32)[:, None]
    cols = np.arange(width, dtype=np.float32)[None, :]
    # A lamp in the middle of the room lights the wall; corners are darker.
    lamp = 1.08 - 0.3 * np.hypot((cols / width - 0.5) * 0.9, (rows / height - 0.15) * 0.7)
    view[:] = wall * lamp[..., None]
    texture = rng.normal(0, 2.2, (height // scale, width // scale)).repeat(scale, 0)
    view[:texture.shape[0]] += texture.repeat(scale, 1)[..., None]
    for _ in range(max(1, (right - left) // 90)):
        _paint_furniture(rng, view, wall, horizon, scale)
    depth = (np.arange(horizon, height) - horizon) / max(height - horizon, 1)
    shade = (0.72 + 0.42 * depth)[:, None, None]
    planks = np.where((np.arange(width) // (26 * scale)) % 2 == 0, 1.0, 0.955)[None, :, None]
    view[horizon:] = floor * shade * planks
    view[horizon - 3 * scale:horizon] = wall * 0.62
    view[:, :2 * scale] *= 0.7


def _paint_furniture(
    rng: np.random.Generator, view: np.ndarray, wall: np.ndarray, horizon: int, scale: int,
) -> None:
    """Paint a muted door, poster or window: background that must not look like a thing."""
    width = view.shape[1] // scale
    kind = int(rng.integers(3))
    if kind == 0 and width > 50:
        x = int(rng.integers(4, width - 36))
        door = wall * rng.uniform(0.66, 0.82)
        _box(view, x, 26, 30, horizon // scale - 26, door * 0.78, scale)
        _box(view, x + 2, 28, 26, horizon // scale - 28, door, scale)
        _box(view, x + 5, 32, 20, 20, door * 0.92, scale)
        _box(view, x + 23, 58, 2, 3, np.asarray((205, 186, 120), np.float32), scale)
    elif kind == 1 and width > 40:
        x, y = int(rng.integers(4, width - 30)), int(rng.integers(10, 34))
        paper = _blend(rng, 0.12)
        _box(view, x, y, 22, 28, paper * 0.55, scale)
        _box(view, x + 2, y + 2, 18, 24, np.clip(paper * 1.12, 0, 255), scale)
        _box(view, x + 4, y + 15, 14, 8, _blend(rng, 0.2), scale)
    elif width > 60:
        x, y = int(rng.integers(4, width - 46)), int(rng.integers(8, 20))
        sky = np.asarray((196, 214, 226), np.float32) * rng.uniform(0.85, 1.0)
        _box(view, x, y, 40, 34, wall * 0.6, scale)
        _box(view, x + 2, y + 2, 17, 30, sky, scale)
        _box(view, x + 21, y + 2, 17, 30, sky * 0.97, scale)


def _box(
    view: np.ndarray, x: int, y: int, width: int, height: int, rgb: np.ndarray, scale: int,
) -> None:
    patch = np.ones((height * scale, width * scale, 4), np.float32)
    patch[..., :3] = rgb
    paste(view, patch, x * scale, y * scale)
