# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The coloured things of the demo world, and how each one looks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

COLOURS: dict[str, tuple[int, int, int]] = {
    'red': (214, 40, 40),
    'orange': (240, 130, 20),
    'yellow': (248, 214, 50),
    'green': (56, 158, 66),
    'cyan': (60, 200, 212),
    'blue': (44, 86, 214),
    'purple': (132, 58, 180),
    'pink': (244, 128, 186),
}
SHAPES: tuple[str, ...] = ('ball', 'box', 'cone', 'star', 'ring', 'cross', 'diamond', 'heart')

_SUPERSAMPLE = 4


@dataclass(frozen=True)
class Thing:
    """
    One coloured thing, fixed in the world.

    ``x``, ``y`` are the world pixels (scale 1) of its upper left corner and ``size`` its side;
    it is there from frame ``appears`` up to, not including, frame ``leaves``. A ``fixture`` is
    part of the furniture: it can be seen, and is the topic of a question only as a negative.
    """

    index: int
    colour: str
    shape: str
    x: float
    y: float
    size: int
    appears: int = 0
    leaves: int = 1 << 30
    fixture: bool = False

    @property
    def name(self) -> str:
        """Return 'colour shape', the words that the model uses."""
        return f'{self.colour} {self.shape}'


@lru_cache(maxsize=4096)
def sprite(shape: str, colour: str, size_px: int) -> np.ndarray:
    """
    Draw one thing as a picture with transparency.

    :returns: float32 ``[size_px, size_px, 4]``; RGB in 0..255, alpha in 0..1.
    """
    side = size_px * _SUPERSAMPLE
    mask = Image.new('L', (side, side), 0)
    _draw_shape(ImageDraw.Draw(mask), shape, side)
    inner = mask.filter(ImageFilter.BoxBlur(side / 24))
    rows, cols = np.mgrid[0:side, 0:side] / side
    # Light from the upper left: a soft shade over the body and a darker rim make it look solid.
    light = 1.12 - 0.38 * np.hypot(rows - 0.3, cols - 0.3)
    rim = np.where(np.asarray(inner) > 225, 1.0, 0.62)
    rgb = np.asarray(COLOURS[colour], np.float32) * (light * rim)[..., None]
    picture = np.dstack([np.clip(rgb, 0, 255), np.asarray(mask, np.float32)])
    small = picture.reshape(size_px, _SUPERSAMPLE, size_px, _SUPERSAMPLE, 4)
    alpha = small[..., 3:] / 255.0
    weight = np.maximum(alpha.sum((1, 3)), 1e-6)
    body = (small[..., :3] * alpha).sum((1, 3)) / weight
    return np.dstack([body, alpha.mean((1, 3))]).astype(np.float32)


@lru_cache(maxsize=1024)
def shadow(shape: str, size_px: int) -> np.ndarray:
    """Draw the soft shadow that a thing throws on the wall behind it (RGBA like ``sprite``)."""
    picture = sprite(shape, next(iter(COLOURS)), size_px).copy()
    picture[..., :3] = 20
    picture[..., 3] *= 0.28
    return picture


def paste(canvas: np.ndarray, picture: np.ndarray, left: int, top: int) -> None:
    """Blend an RGBA sprite into a float32 canvas in place; what lies outside is cut off."""
    height, width = picture.shape[:2]
    y0, y1 = max(top, 0), min(top + height, canvas.shape[0])
    x0, x1 = max(left, 0), min(left + width, canvas.shape[1])
    if y0 >= y1 or x0 >= x1:
        return
    part = picture[y0 - top:y1 - top, x0 - left:x1 - left]
    alpha = part[..., 3:]
    canvas[y0:y1, x0:x1] += alpha * (part[..., :3] - canvas[y0:y1, x0:x1])


def _draw_shape(draw: ImageDraw.ImageDraw, shape: str, side: int) -> None:
    """Fill one shape of the given side into a mask."""
    s = side - 1
    c = s / 2
    if shape == 'ball':
        draw.ellipse((0, 0, s, s), fill=255)
    elif shape == 'box':
        draw.rounded_rectangle((0.06 * s, 0.06 * s, 0.94 * s, 0.94 * s), 0.06 * s, fill=255)
    elif shape == 'cone':
        draw.polygon([(c, 0), (s, 0.96 * s), (0, 0.96 * s)], fill=255)
    elif shape == 'star':
        draw.polygon(_star(c, 0.54 * s, 0.23 * s, 5), fill=255)
    elif shape == 'ring':
        draw.ellipse((0, 0, s, s), fill=255)
        draw.ellipse((0.3 * s, 0.3 * s, 0.7 * s, 0.7 * s), fill=0)
    elif shape == 'cross':
        draw.rectangle((0.33 * s, 0, 0.67 * s, s), fill=255)
        draw.rectangle((0, 0.33 * s, s, 0.67 * s), fill=255)
    elif shape == 'diamond':
        draw.polygon([(c, 0), (0.88 * s, c), (c, s), (0.12 * s, c)], fill=255)
    elif shape == 'heart':
        draw.ellipse((0, 0.05 * s, 0.53 * s, 0.57 * s), fill=255)
        draw.ellipse((0.47 * s, 0.05 * s, s, 0.57 * s), fill=255)
        draw.polygon([(0.035 * s, 0.42 * s), (0.965 * s, 0.42 * s), (c, 0.98 * s)], fill=255)
    else:
        raise KeyError(f'unknown shape {shape!r}; the demo world has {", ".join(SHAPES)}')


def _star(centre: float, outer: float, inner: float, points: int) -> list[tuple[float, float]]:
    corners = []
    for k in range(2 * points):
        radius = outer if k % 2 == 0 else inner
        angle = math.pi * k / points - math.pi / 2
        corners.append((centre + radius * math.cos(angle),
                        1.04 * centre + radius * math.sin(angle)))
    return corners
