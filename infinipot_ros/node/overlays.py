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
FAINT = (178, 180, 184)
ACCENT = (255, 190, 60)
SAMPLE_WALL, SAMPLE_THING = (225, 222, 210), (240, 135, 30)
TROUGH = (50, 54, 60)
MARGIN, CAPTION, BAR = 8, 24, 4
LEGEND_LINE, SWATCH_PX, LEGEND_GAP = 22, 16, 18
TITLE_SCALE, TEXT_SCALE = 0.5, 0.45
# How bright a forgotten patch is, and what the smallest share kept adds, to be told from it.
DARK, LEAST_SHINE = 0.2, 0.2
FONT = cv2.FONT_HERSHEY_DUPLEX


@dataclass(frozen=True)
class Tile:
    """
    One frame of a sheet.

    :param rgb: uint8 [height, width, 3].
    :param shares: float [rows, columns], how much of each patch is kept; None shows it as it is.
    :param value: 0 to 1, drawn as a bar below (relevance, or tokens kept).
    :param figure: the value in words, at the right below the bar; the caption gives way to it.
    """

    rgb: Rgb
    shares: NDArray[np.float32] | None
    caption: str
    value: float
    figure: str = ''


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
    shine = np.where(share > 0, LEAST_SHINE + (1 - LEAST_SHINE) * share, 0)
    shown = shine * colour + (1 - shine) * (0.25 * colour + 0.75 * grey) * DARK
    marked = np.ascontiguousarray(np.clip(shown, 0, 255).astype(np.uint8))
    kept = (share[..., 0] > 0).astype(np.uint8)
    if 0 < kept.sum() < kept.size:
        outlines, _ = cv2.findContours(kept, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(marked, outlines, -1, ACCENT, 1)
    return marked


def sheet(title: str, tiles: Sequence[Tile], bar: str = '', note: str = '', tile_px: int = 224,
          columns: int = 4) -> Rgb:
    """
    Lay frames out under a title, with a caption and a bar each, over a legend.

    :param bar: what the length of a bar means.
    :param note: one more line of the legend.
    :param columns: at most so many; fewer where that leaves fewer cells empty.
    :returns: uint8 [height, width, 3].
    """
    columns = _columns(len(tiles), columns)
    rows = -(-len(tiles) // columns)
    cells = [_cell(tile, tile_px) for tile in tiles]
    cell_height = max((cell.shape[0] for cell in cells), default=0)
    width = max(columns * (tile_px + MARGIN) + MARGIN, 360)
    legend = _legend(bar, note, width)
    top = CAPTION + 2 * MARGIN
    canvas = _blank(top + rows * (cell_height + MARGIN) + legend.shape[0], width)
    _write(canvas, title, (MARGIN, MARGIN + 16), INK, width - 2 * MARGIN, TITLE_SCALE)
    for index, cell in enumerate(cells):
        y = top + index // columns * (cell_height + MARGIN)
        x = MARGIN + index % columns * (tile_px + MARGIN)
        canvas[y:y + cell.shape[0], x:x + tile_px] = cell
    canvas[canvas.shape[0] - legend.shape[0]:] = legend
    return canvas


def _columns(tiles: int, most: int) -> int:
    """Return how many columns, more than half of the most, leave the fewest cells empty."""
    if tiles <= most:
        return max(1, tiles)
    return min(range(most, most // 2, -1), key=lambda columns: -tiles % columns)


def no_picture(side_px: int) -> Rgb:
    """Return what stands for a frame whose picture is gone."""
    drawn = np.full((side_px, side_px, 3), 200, np.uint8)
    text = 'no picture kept'
    _write(drawn, text, ((side_px - _width(text, TEXT_SCALE)) // 2, side_px // 2), BACKGROUND,
           side_px, TEXT_SCALE)
    return drawn


def _legend(bar: str, note: str, width: int) -> Rgb:
    """Draw what bright, dark and framed patches and the bars mean; wrapped to the width."""
    sample = np.full((SWATCH_PX, SWATCH_PX, 3), SAMPLE_WALL, np.uint8)
    sample[5:11, 5:11] = SAMPLE_THING
    edge = np.zeros((4, 4), np.float32)
    edge[1:3, 1:3] = 1.0
    entries: list[tuple[Rgb | None, str]] = [
        (mark_patches(sample, np.full((1, 1), share, np.float32)), text)
        for share, text in ((1.0, 'kept'), (0.5, 'kept in part'), (0.0, 'forgotten'))]
    entries.append((mark_patches(sample, edge), 'edge of what is kept'))
    if bar:
        stripe = _blank(SWATCH_PX, SWATCH_PX)
        stripe[6:6 + BAR] = TROUGH
        stripe[6:6 + BAR, :SWATCH_PX * 2 // 3] = ACCENT
        entries.append((stripe, bar))
    if note:
        entries.append((None, note))
    lines, x = [_blank(LEGEND_LINE, width)], MARGIN
    for swatch, text in entries:
        icon_px = 0 if swatch is None else SWATCH_PX + 6
        wide = icon_px + _width(text, TEXT_SCALE)
        if x > MARGIN and x + wide > width - MARGIN:
            lines.append(_blank(LEGEND_LINE, width))
            x = MARGIN
        if swatch is not None:
            lines[-1][2:2 + SWATCH_PX, x:x + SWATCH_PX] = swatch
        _write(lines[-1], text, (x + icon_px, 15), FAINT, width - x - icon_px, TEXT_SCALE)
        x += wide + LEGEND_GAP
    return np.concatenate(lines)


def _cell(tile: Tile, width: int) -> Rgb:
    """Draw one frame `width` px wide with its bar and its caption."""
    height = max(1, round(width * tile.rgb.shape[0] / tile.rgb.shape[1]))
    scaling = cv2.INTER_AREA if width < tile.rgb.shape[1] else cv2.INTER_CUBIC
    picture = np.asarray(cv2.resize(tile.rgb, (width, height), interpolation=scaling), np.uint8)
    if tile.shares is not None:
        picture = mark_patches(picture, tile.shares)
    cell = _blank(height + BAR + CAPTION, width)
    cell[:height] = picture
    cell[height:height + BAR] = TROUGH
    cell[height:height + BAR, :round(width * min(1.0, max(0.0, tile.value)))] = ACCENT
    baseline = height + BAR + 16
    taken = _width(tile.figure, TEXT_SCALE)
    _write(cell, tile.figure, (max(0, width - taken - 2), baseline), INK, width, TEXT_SCALE)
    _write(cell, tile.caption, (2, baseline), FAINT, width - taken - 12, TEXT_SCALE)
    return cell


def _blank(height: int, width: int) -> Rgb:
    canvas = np.empty((height, width, 3), np.uint8)
    canvas[:] = BACKGROUND
    return canvas


def _width(text: str, scale: float) -> int:
    return int(cv2.getTextSize(text, FONT, scale, 1)[0][0])


def _write(canvas: Rgb, text: str, at: tuple[int, int], colour: tuple[int, int, int],
           room_px: int, scale: float) -> None:
    """Write one line, shortened to its room."""
    text = ''.join(c if 32 <= ord(c) < 127 else '?' for c in text)
    while text and _width(text, scale) > room_px:
        text = text[:-4] + '...' if len(text) > 4 else ''
    cv2.putText(canvas, text, at, FONT, scale, colour, 1, cv2.LINE_AA)
