# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Raw images: every encoding gives the right RGB, every wrong message is refused with a reason."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any

import cv2
from hypothesis import given, settings
from hypothesis import strategies as st
from infinipot_ros.errors import ImageFormatError
from infinipot_ros.node.images import (
    encoding_note,
    image_to_rgb,
    ImageRules,
    SUPPORTED_ENCODINGS,
)
import numpy as np
import pytest

ANY_SIZE = ImageRules(min_side_px=1)


def message(data: Any, width: int, height: int, encoding: str, step: int | None = None,
            is_bigendian: int = 0) -> SimpleNamespace:
    """Make a message as rclpy hands it over: data in an array.array."""
    raw = np.ascontiguousarray(data).tobytes() if not isinstance(data, bytes) else data
    return SimpleNamespace(height=height, width=width, encoding=encoding, data=array('B', raw),
                           is_bigendian=is_bigendian,
                           step=len(raw) // height if step is None else step)


def padded(pixels: np.ndarray, padding: int) -> bytes:
    """Write pixels [h, w, ...] row by row with bytes of padding that no one may read."""
    rows = [row.tobytes() + b'\xAA' * padding for row in pixels]
    return b''.join(rows)


def test_padded_rows_are_read_with_step() -> None:  # vision_opencv#115
    rows = np.stack([np.full((4, 3), 10 * y, np.uint8) for y in range(3)])
    rgb = image_to_rgb(message(padded(rows, 4), 4, 3, 'rgb8', step=16), ANY_SIZE)
    assert rgb[:, 0, 0].tolist() == [0, 10, 20]
    assert np.array_equal(rgb, rows)


def test_endian_flag_means_nothing_for_8_bits() -> None:  # vision_opencv#556
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    rgb = image_to_rgb(message(pixels, 2, 2, 'rgb8', is_bigendian=1), ANY_SIZE)
    assert np.array_equal(rgb, pixels)


def test_wrong_length_names_expected_and_seen() -> None:  # vision_opencv#253, F01
    for size in (110592, 480 * 1920 + 1, 0):
        bad = message(bytes(size), 640, 480, 'rgb8', step=1920)
        with pytest.raises(ImageFormatError, match=rf'{size} bytes, expected 921600'):
            image_to_rgb(bad)


@pytest.mark.parametrize('encoding', ['yuv422_yuy2', 'yuyv', 'uyvy', 'yuv422'])
def test_neutral_chroma_gives_grey(encoding: str) -> None:  # yolo_ros#74
    luma = np.array([[16, 60, 126, 235]] * 2, np.uint8)
    chroma = np.full_like(luma, 128)
    first_luma = encoding.startswith('yuy') or encoding == 'yuv422_yuy2'
    pairs = np.stack([luma, chroma] if first_luma else [chroma, luma], axis=2)
    rgb = image_to_rgb(message(pairs, 4, 2, encoding), ANY_SIZE)
    assert rgb.shape == (2, 4, 3)
    assert (rgb.max(axis=2) == rgb.min(axis=2)).all()
    assert rgb[0, 0, 0] == 0 and rgb[0, 3, 0] == 255


@pytest.mark.parametrize('big', [0, 1])
def test_mono16_ramp(big: int) -> None:  # vision_opencv#83
    ramp = np.array([[0, 32768, 65535]], '>u2' if big else '<u2')
    rgb = image_to_rgb(message(ramp, 3, 1, 'mono16', is_bigendian=big), ANY_SIZE)
    assert rgb[0, :, 0].tolist() == [0, 128, 255]
    assert (rgb.max(axis=2) == rgb.min(axis=2)).all()


def test_8uc1_is_a_grey_camera_and_says_so() -> None:  # vision_opencv#175
    rgb = image_to_rgb(message(np.array([[1, 2], [3, 4]], np.uint8), 2, 2, '8UC1'), ANY_SIZE)
    assert rgb[..., 0].tolist() == [[1, 2], [3, 4]]
    assert 'mono8' in encoding_note('8UC1')
    assert encoding_note('rgb8') == ''


def test_a_tiny_side_is_taken_or_refused_by_rule() -> None:  # lmms-eval#598
    assert image_to_rgb(message(np.zeros((16, 16, 3), np.uint8), 16, 16, 'rgb8')).shape[0] == 16
    with pytest.raises(ImageFormatError, match='at least 8 px'):
        image_to_rgb(message(np.zeros((7, 16, 3), np.uint8), 16, 7, 'rgb8'))


@pytest.mark.parametrize('encoding', ['h264', 'foo', '', 'x' * 4096, 'bayer_rggb12', 'bayer_xxxx8',
                                      '8UC2', '8UC5', '8SC3', '32FC3', 'i420', 'RGB8'])
def test_unknown_encodings_list_what_is_supported(encoding: str) -> None:  # F02
    with pytest.raises(ImageFormatError) as refused:
        image_to_rgb(message(np.zeros((8, 8, 3), np.uint8), 8, 8, encoding))
    text = str(refused.value)
    assert encoding[:40] in text and len(text) < 900
    assert all(name in text for name in SUPPORTED_ENCODINGS)


@pytest.mark.parametrize(('width', 'height'), [(0, 480), (640, 0), (1, 1), (3, 3), (70000, 70000)])
def test_impossible_sizes_are_refused_before_any_allocation(width: int, height: int) -> None:
    bad = SimpleNamespace(width=width, height=height, encoding='rgb8', is_bigendian=0,
                          step=2**32 - 1, data=array('B'))  # F03
    with pytest.raises(ImageFormatError, match=f'{width}x{height}'):
        image_to_rgb(bad)


def test_a_step_near_the_limit_is_refused_by_its_length() -> None:  # F03
    bad = message(bytes(64), 16, 16, 'rgb8', step=2**32 - 1)
    with pytest.raises(ImageFormatError, match='64 bytes, expected'):
        image_to_rgb(bad)
    with pytest.raises(ImageFormatError, match='step is 0 bytes'):
        image_to_rgb(message(bytes(64), 16, 16, 'rgb8', step=0))


def test_depth_is_refused_unless_allowed() -> None:  # F04
    millimetres = np.full((8, 8), 1000, np.uint16)
    millimetres[0, 0] = 0
    metres = np.full((8, 8), 1.0, np.float32)
    metres[0, :3] = np.nan, np.inf, -1
    shown = ImageRules(depth_range_m=4.0)
    for encoding, depth in (('16UC1', millimetres), ('32FC1', metres)):
        with pytest.raises(ImageFormatError, match='depth_range_m'):
            image_to_rgb(message(depth, 8, 8, encoding))
        rgb = image_to_rgb(message(depth, 8, 8, encoding), shown)
        assert rgb[4, 4].tolist() == [191, 191, 191]
        assert rgb[0, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize('bits', [8, 16])
@pytest.mark.parametrize('pattern', ['rggb', 'bggr', 'gbrg', 'grbg'])
def test_bayer_patterns_put_red_green_and_blue_where_they_are(pattern: str, bits: int) -> None:
    colour = {'r': 200, 'g': 100, 'b': 30}
    tile = np.array([[colour[pattern[0]], colour[pattern[1]]],
                     [colour[pattern[2]], colour[pattern[3]]]], np.uint16)
    mosaic = np.tile(tile, (4, 4))
    raw = (mosaic * 257 if bits == 16 else mosaic).astype(f'<u{bits // 8}')
    rgb = image_to_rgb(message(raw, 8, 8, f'bayer_{pattern}{bits}'))
    assert rgb[3, 3].tolist() == [200, 100, 30]


def _nv_planes(name: str, step: int = 8) -> bytes:
    """Make 8x8 px of pure red in limited-range BT.601 (Y 81, U 90, V 240)."""
    luma = np.full((8, 8), 81, np.uint8)
    pair = {'nv12': (90, 240), 'nv21': (240, 90), 'nv24': (240, 90)}[name]
    rows, columns = (8, 8) if name == 'nv24' else (4, 4)
    chroma = np.tile(np.array(pair, np.uint8), (rows, columns))
    scale = 2 if name == 'nv24' else 1
    return padded(luma, step - 8) + padded(chroma, scale * (step - 8))


@pytest.mark.parametrize('name', ['nv12', 'nv21', 'nv24'])
def test_planar_yuv_in_all_layouts_that_drivers_use(name: str) -> None:
    rows = 24 if name == 'nv24' else 12
    for step, height, data in ((8, 8, _nv_planes(name)), (16, 8, _nv_planes(name, 16)),
                               (rows, 8, _nv_planes(name)), (8, rows, _nv_planes(name))):
        rgb = image_to_rgb(message(data, 8, height, name, step=step))
        assert rgb.shape == (8, 8, 3)
        assert np.abs(rgb[4, 4].astype(int) - (255, 0, 0)).max() <= 2
    with pytest.raises(ImageFormatError, match='expected'):
        image_to_rgb(message(data[:-1], 8, 8, name, step=8))


def test_odd_sides_are_refused_where_pixels_share_colour() -> None:
    with pytest.raises(ImageFormatError, match='even'):
        image_to_rgb(message(bytes(9 * 8 * 2), 9, 8, 'yuyv'))
    with pytest.raises(ImageFormatError, match='even'):
        image_to_rgb(message(bytes(10 * 9 * 3 // 2), 10, 9, 'nv12', step=10))


PLAIN = {'mono8': 1, '8UC1': 1, 'rgb8': 3, 'bgr8': 3, '8UC3': 3, 'rgba8': 4, 'bgra8': 4,
         '8UC4': 4, 'mono16': 1, 'rgb16': 3, 'bgr16': 3, '16UC3': 3, 'rgba16': 4, 'bgra16': 4}


@settings(max_examples=150, deadline=None)
@given(encoding=st.sampled_from(sorted(PLAIN)), width=st.integers(1, 9),
       height=st.integers(1, 9), padding=st.integers(0, 5),
       big=st.integers(0, 1), seed=st.integers(0, 2**16))
def test_plain_encodings_agree_with_opencv(encoding: str, width: int, height: int, padding: int,
                                           big: int, seed: int) -> None:
    channels = PLAIN[encoding]
    deep = '16' in encoding
    rng = np.random.default_rng(seed)
    native = rng.integers(0, 65536 if deep else 256, (height, width, channels)).astype(
        np.uint16 if deep else np.uint8)
    stored = native.astype('>u2' if big else '<u2') if deep else native
    data = padded(stored, padding)
    image = message(data, width, height, encoding, is_bigendian=big)
    rgb = image_to_rgb(image, ANY_SIZE)
    assert rgb.dtype == np.uint8 and rgb.flags.c_contiguous
    assert not np.shares_memory(rgb, np.frombuffer(image.data, np.uint8))
    shallow = np.rint(native.astype(np.float64) * 255 / 65535).astype(np.uint8) if deep else native
    code = {1: cv2.COLOR_GRAY2RGB, 3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGB}[channels]
    is_rgb = encoding.startswith('rgb')
    expected = shallow[..., :3] if is_rgb else cv2.cvtColor(shallow, code)
    assert np.abs(rgb.astype(int) - expected).max() <= (1 if deep else 0)


@settings(max_examples=200, deadline=None)
@given(width=st.integers(0, 2**32 - 1), height=st.integers(0, 2**32 - 1),
       step=st.integers(0, 2**32 - 1), size=st.integers(0, 4096), big=st.integers(0, 255),
       encoding=st.one_of(st.sampled_from(SUPPORTED_ENCODINGS), st.text(max_size=20)))
def test_no_message_does_anything_but_give_a_picture_or_a_reason(
        width: int, height: int, step: int, size: int, big: int, encoding: str) -> None:
    noise = message(bytes(size), width, max(height, 1), encoding, step=step, is_bigendian=big)
    noise.height = height
    for rules in (ImageRules(), ImageRules(min_side_px=1, depth_range_m=1.0)):
        try:
            rgb = image_to_rgb(noise, rules)
        except ImageFormatError as refused:
            assert str(refused)
        else:
            assert rgb.shape[2] == 3


@settings(max_examples=150, deadline=None)
@given(width=st.integers(1, 6), height=st.integers(1, 6), data=st.data(),
       encoding=st.sampled_from(SUPPORTED_ENCODINGS))
def test_small_messages_of_right_length_never_crash(width: int, height: int, data: Any,
                                                    encoding: str) -> None:
    step = data.draw(st.integers(width, width * 8 + 3))
    extra = data.draw(st.sampled_from([2, 3, 6]))
    raw = bytes(step * height * extra // 2)
    try:
        rgb = image_to_rgb(message(raw, width, height, encoding, step=step), ANY_SIZE)
    except ImageFormatError:
        return
    assert rgb.shape[2] == 3
