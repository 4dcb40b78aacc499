# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Pictures of what the memory holds: kept patches shine, evicted ones are dark and grey.

Nothing here imports ROS or torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
from infinipot_ros.node.images import Rgb
import numpy as np
from numpy.typing import NDArray

BACKGROUND = (24, 26, 30)
INK = (235, 235, 230)
FAINT = (150, 152, 156)
ACCENT = (255, 190, 60)
MARGIN, CAPTION = 8, 22


@dataclass(frozen=True)
class Tile:
    """
    One frame of a sheet.

    :param rgb: uint8 [height, width, 3].
    :param shares: float [rows, columns], how much of each patch is kept; None shows it as it is.
    :param value: 0 to 1, drawn as a bar below (relevance, or tokens kept).
    """

    rgb: Rgb
    shares: NDArray[np.float32] | None
    caption: str
    value: float


def mark_patches(rgb: Rgb, shares: NDArray[np.float32]) -> Rgb:
    """
    Darken what is evicted, and draw the border between kept and evicted patches.

    :param shares: float [rows, columns], 0 (no cache holds the patch) to 1 (all do).
    """
    height, width = rgb.shape[:2]
    share = cv2.resize(np.clip(shares, 0, 1).astype(np.float32), (width, height),
                       interpolation=cv2.INTER_NEAREST)[..., None]
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)[..., None].astype(np.float32)
    colour = rgb.astype(np.float32)
    shown = share * colour + (1 - share) * (0.25 * colour + 0.75 * grey) * 0.3
    marked = np.ascontiguousarray(np.clip(shown, 0, 255).astype(np.uint8))
    kept = (share[..., 0] > 0).astype(np.uint8)
    if 0 < kept.sum() < kept.size:
        outlines, _ = cv2.findContours(kept, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(marked, outlines, -1, ACCENT, 1)
    return marked


def sheet(title: str, tiles: Sequence[Tile], tile_px: int = 224, columns: int = 4) -> Rgb:
    """
    Lay frames out under a title, with a caption and a bar each.

    :returns: uint8 [height, width, 3]; its size depends on the number of tiles only by rows.
    """
    columns = max(1, min(columns, len(tiles)))
    rows = -(-len(tiles) // columns)
    cells = [_cell(tile, tile_px) for tile in tiles]
    cell_height = max((cell.shape[0] for cell in cells), default=0)
    width = max(columns * (tile_px + MARGIN) + MARGIN, 360)
    canvas = np.empty((CAPTION + 2 * MARGIN + rows * (cell_height + MARGIN), width, 3), np.uint8)
    canvas[:] = BACKGROUND
    _write(canvas, title, (MARGIN, MARGIN + 15), INK, width - 2 * MARGIN, 0.5)
    for index, cell in enumerate(cells):
        top = CAPTION + 2 * MARGIN + index // columns * (cell_height + MARGIN)
        left = MARGIN + index % columns * (tile_px + MARGIN)
        canvas[top:top + cell.shape[0], left:left + tile_px] = cell
    return canvas


def _cell(tile: Tile, width: int) -> Rgb:
    """Draw one frame `width` px wide with its bar and its caption."""
    height = max(1, round(width * tile.rgb.shape[0] / tile.rgb.shape[1]))
    scaling = cv2.INTER_AREA if width < tile.rgb.shape[1] else cv2.INTER_CUBIC
    picture = np.asarray(cv2.resize(tile.rgb, (width, height), interpolation=scaling), np.uint8)
    if tile.shares is not None:
        picture = mark_patches(picture, tile.shares)
    cell = np.empty((height + CAPTION + 4, width, 3), np.uint8)
    cell[:] = BACKGROUND
    cell[:height] = picture
    cell[height:height + 4] = (50, 54, 60)
    cell[height:height + 4, :round(width * min(1.0, max(0.0, tile.value)))] = ACCENT
    _write(cell, tile.caption, (2, height + 4 + 15), FAINT, width - 4, 0.42)
    return cell


def _write(canvas: Rgb, text: str, at: tuple[int, int], colour: tuple[int, int, int],
           room_px: int, scale: float) -> None:
    """Write one line, shortened to its room."""
    text = ''.join(c if 32 <= ord(c) < 127 else '?' for c in text)
    font = cv2.FONT_HERSHEY_DUPLEX
    while text and cv2.getTextSize(text, font, scale, 1)[0][0] > room_px:
        text = text[:-4] + '...' if len(text) > 4 else ''
    cv2.putText(canvas, text, at, font, scale, colour, 1, cv2.LINE_AA)
