# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo world is a pure function of its seed, and its truth is what its pictures show."""

from infinipot_ros.demo.things import COLOURS
from infinipot_ros.demo.world import Drive, SETTINGS
import numpy as np
import pytest


@pytest.mark.parametrize('setting', SETTINGS)
def test_a_drive_is_a_pure_function_of_its_seed(setting):
    one, two = Drive(5, setting, 40), Drive(5, setting, 40)
    other = Drive(6, setting, 40)
    assert one.things == two.things != other.things
    # frames may be drawn in any order
    late = two.frame(39)
    for index in (0, 20, 39):
        assert np.array_equal(one.frame(index).rgb, two.frame(index).rgb)
    assert np.array_equal(one.frame(39).rgb, late.rgb)
    assert not np.array_equal(one.frame(20).rgb, other.frame(20).rgb)


@pytest.mark.parametrize('setting', SETTINGS)
@pytest.mark.parametrize('scale', [1, 3])
def test_pictures_have_the_promised_shape(setting, scale):
    frame = Drive(2, setting, 12, scale=scale).frame(7)
    assert frame.rgb.shape == (112 * scale, 112 * scale, 3)
    assert frame.rgb.dtype == np.uint8
    assert frame.rgb.std() > 5


@pytest.mark.parametrize('setting', ['calm', 'still', 'crowd', 'screen', 'vivid'])
def test_a_visible_thing_shows_its_colour_where_the_truth_says(setting):
    checked = 0
    for seed in range(12):
        drive = Drive(seed, setting, 60)
        for index in range(0, 60, 6):
            view = drive.frame(index)
            for item in view.visible:
                hidden = any(o is not item and _touch(o.box, item.box) for o in view.visible)
                hollow = item.thing.shape == 'ring'
                if item.fraction < 1 or hidden or drive.setting.screens or hollow:
                    continue
                x, y = round(item.centre_x), round((item.box[1] + item.box[3]) / 2)
                seen = view.rgb[y - 2:y + 3, x - 2:x + 3].mean((0, 1))
                names = list(COLOURS)
                far = [np.linalg.norm(_hue(seen) - _hue(np.array(COLOURS[c]))) for c in names]
                assert names[int(np.argmin(far))] == item.thing.colour
                checked += 1
    assert checked > 10 or drive.setting.screens


def test_the_camera_moves_only_where_the_setting_says():
    assert len({Drive(1, 'still', 50).pose(i) for i in range(50)}) == 1
    xs = [Drive(1, 'calm', 50).pose(i)[0] for i in range(50)]
    assert xs == sorted(xs)
    assert xs[-1] > xs[0]


def test_unknown_settings_are_refused_by_name():
    with pytest.raises(ValueError, match='calm, still, crowd, screen, vivid'):
        Drive(1, 'foggy')
    with pytest.raises(ValueError, match='at least 1'):
        Drive(1, 'calm', 0)


def test_last_seen_agrees_with_what_was_visible():
    drive = Drive(3, 'calm', 120)
    seen = drive.seen_until(119)
    assert seen
    for thing in drive.things:
        last = drive.last_seen(thing, 119)
        assert (last is not None) == (thing in seen)
        if last is not None:
            assert any(v.thing == thing and v.fraction >= 0.6 for v in drive.visible(last))


def _hue(rgb: np.ndarray) -> np.ndarray:
    centred = rgb.astype(float) - rgb.mean()
    return centred / max(np.linalg.norm(centred), 1e-6)


def _touch(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
