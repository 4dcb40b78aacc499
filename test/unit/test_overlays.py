# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of what is kept: bright where it is, dark where it is not."""

from __future__ import annotations

from infinipot_ros.node import overlays
from infinipot_ros.node.overlays import (
    ACCENT,
    BACKGROUND,
    LEGEND_GAP,
    MARGIN,
    mark_patches,
    no_picture,
    sheet,
    SWATCH_PX,
    TEXT_SCALE,
    Tile,
)
import numpy as np
import pytest

PICTURE = np.full((64, 96, 3), (200, 120, 40), np.uint8)


def test_kept_patches_stay_as_they_are_and_evicted_ones_are_dark_and_grey() -> None:
    shares = np.zeros((4, 6), np.float32)
    shares[1, 2] = 1.0
    marked = mark_patches(PICTURE, shares)
    assert marked[24, 40].tolist() == [200, 120, 40]
    evicted = marked[56, 8].astype(int)
    assert evicted.max() < 70 and evicted.max() - evicted.min() < 40
    assert (marked == ACCENT).all(axis=2).sum() > 40
    assert (PICTURE == (200, 120, 40)).all()


@pytest.mark.parametrize('share', [0.0, 1.0])
def test_a_frame_kept_whole_or_not_at_all_has_no_border(share: float) -> None:
    marked = mark_patches(PICTURE, np.full((4, 4), share, np.float32))
    assert not (marked == ACCENT).all(axis=2).any()
    assert np.array_equal(marked, PICTURE) == (share == 1.0)


def test_brightness_grows_with_the_share() -> None:
    levels = [mark_patches(PICTURE, np.full((1, 1), share, np.float32)).mean()
              for share in (0.0, 0.25, 0.5, 1.0)]
    assert levels == sorted(levels) and levels[0] < levels[-1] / 2
    assert levels[1] > 1.7 * levels[0], 'what is kept by few caches is told from what is gone'
    assert levels[-1] > 1.3 * levels[2]


@pytest.mark.parametrize('count', [0, 1, 4, 5, 12])
def test_a_sheet_has_room_for_every_tile_title_and_caption(count: int) -> None:
    rng = np.random.default_rng(count)
    tiles = [Tile(rng.integers(0, 256, (int(rng.integers(20, 300)), 100, 3)).astype(np.uint8),
                  None, 'camera  1.5 s ago ' * 20, 2.0) for _ in range(count)]
    drawn = sheet('wie heißt der Ball? ' * 40, tiles, tile_px=80)
    assert drawn.dtype == np.uint8 and drawn.shape[1] >= 360
    rows = -(-count // {0: 1, 5: 3}.get(count, min(count, 4)))
    assert drawn.shape[0] >= rows * 80 * 0.2
    assert drawn[:30].max() > 200


@pytest.mark.parametrize(('count', 'columns'), [
    (1, 1), (4, 4), (5, 3), (6, 3), (7, 4), (9, 3), (10, 4), (12, 4)])
def test_few_cells_of_a_sheet_stay_empty(count: int, columns: int) -> None:
    drawn = sheet('t', [Tile(PICTURE, None, '', 0.0)] * count, tile_px=150)
    assert drawn.shape[1] == max(360, columns * (150 + MARGIN) + MARGIN)


def test_the_samples_of_the_legend_are_bright_half_and_dark() -> None:
    legend = sheet('t', [Tile(PICTURE, None, '', 0.0)] * 4)[-22:]
    found, x = [], MARGIN
    for text in ('kept', 'kept in part', 'forgotten'):
        found.append(int(legend[4, x + 2].max()))
        x += SWATCH_PX + 6 + overlays._width(text, TEXT_SCALE) + LEGEND_GAP
    assert found[0] > 200 and 120 < found[1] < 180 and found[2] < 60


def test_a_legend_says_what_patches_and_bars_mean_and_wraps_to_the_width() -> None:
    tiles = [Tile(PICTURE, None, 'camera  now', 0.5, '50 %')]
    plain = sheet('t', tiles)
    barred = sheet('t', tiles, bar='share of it', note='now: front, stamp 1700000000.000 s')
    assert barred.shape[1] == plain.shape[1] and barred.shape[0] > plain.shape[0]
    wide = sheet('t', tiles * 4, bar='share of it', note='now: front')
    assert wide.shape[0] < barred.shape[0]
    swatches = wide[-44:-2]
    assert (swatches == ACCENT).all(axis=2).any(), 'the frame and the bar'
    assert (swatches != BACKGROUND).any(axis=2)[:, :30].sum() > 200, 'kept is the first'


def test_a_long_caption_gives_way_to_the_figure() -> None:
    short, long = (sheet('t', [Tile(PICTURE, None, caption, 0.0, '31 %')], tile_px=100)
                   for caption in ('', 'a_camera_of_a_long_name  17.6 s ago'))
    right = slice(8 + 65, 8 + 100)
    assert np.array_equal(short[:, right], long[:, right])
    assert not np.array_equal(short, long)


def test_a_missing_picture_says_so() -> None:
    drawn = no_picture(224)
    assert drawn.shape == (224, 224, 3) and (drawn == 200).mean() > 0.9
    assert (drawn[100:124] < 100).any()
