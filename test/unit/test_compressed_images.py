# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Compressed images: the bytes decide, half a picture is no picture, a bomb is not unpacked."""

from __future__ import annotations

from array import array
import io
import struct
import tracemalloc
from types import SimpleNamespace
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st
from infinipot_ros.errors import ImageFormatError
from infinipot_ros.node.compressed_images import compressed_to_rgb, rgb_to_jpeg
from infinipot_ros.node.images import ImageRules
import numpy as np
from PIL import Image
import pytest

GRADIENT = np.stack([*np.meshgrid(np.arange(160), np.arange(120)), np.full((120, 160), 90)],
                    axis=2).astype(np.uint8)


def message(data: bytes, label: str = 'jpeg') -> SimpleNamespace:
    """Make a message as rclpy hands it over: data in an array.array."""
    return SimpleNamespace(format=label, data=array('B', data))


def encoded(picture: np.ndarray, kind: str, mode: str | None = None) -> bytes:
    """Encode with Pillow."""
    stream = io.BytesIO()
    image = Image.fromarray(picture)
    (image.convert(mode) if mode else image).save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize('kind', ['PNG', 'TIFF', 'JPEG', 'WEBP'])
def test_the_bytes_decide_what_a_picture_is(kind: str) -> None:
    for label in ('', 'jpeg', 'png', 'rgb8; jpeg compressed bgr8', 'nonsense'):
        rgb = compressed_to_rgb(message(encoded(GRADIENT, kind), label))
        assert rgb.shape == (120, 160, 3) and rgb.dtype == np.uint8
        assert np.abs(rgb.astype(int) - GRADIENT).max() <= (0 if kind in ('PNG', 'TIFF') else 24)


@pytest.mark.parametrize('mode', ['L', 'LA', 'RGBA', 'P', '1', 'CMYK'])
def test_every_mode_becomes_rgb(mode: str) -> None:
    kind = 'TIFF' if mode == 'CMYK' else 'PNG'
    rgb = compressed_to_rgb(message(encoded(GRADIENT, kind, mode), 'png'))
    assert rgb.shape == (120, 160, 3)


def test_16_bit_png_is_scaled() -> None:
    deep = np.tile(np.array([[0, 32768, 65535]], np.uint16), (8, 4))
    rgb = compressed_to_rgb(message(encoded(deep, 'PNG'), 'mono16; png compressed '))
    assert rgb[0, :3, 0].tolist() == [0, 128, 255]
    with pytest.raises(ImageFormatError, match='depth'):
        compressed_to_rgb(message(encoded(deep, 'PNG'), '16UC1; png compressed '))


def test_a_bayer_mosaic_in_a_jpeg_is_demosaiced() -> None:
    mosaic = np.tile(np.array([[200, 100], [100, 30]], np.uint8), (8, 8))
    label = 'bayer_rggb8; png compressed '
    rgb = compressed_to_rgb(message(encoded(mosaic, 'PNG'), label))
    assert rgb[5, 5].tolist() == [200, 100, 30]
    grey = compressed_to_rgb(message(encoded(mosaic, 'PNG'), 'mono8; png compressed '))
    assert grey[5, 5].tolist() == [30, 30, 30]


@pytest.mark.parametrize('data', [b'', bytes(160 * 120 * 3), b'\x00' * 5, b'RIFF', b'no picture'])
def test_bytes_that_are_no_picture(data: bytes) -> None:  # rosbag2video#35, F05
    with pytest.raises(ImageFormatError, match=rf'not a decodable jpeg/png.*\({len(data)} bytes'):
        compressed_to_rgb(message(data))


@pytest.mark.parametrize('kind', ['JPEG', 'PNG', 'WEBP', 'TIFF'])
def test_half_a_picture_is_no_picture(kind: str) -> None:  # opencv#17862, F05
    whole = encoded(GRADIENT, kind)
    with pytest.raises(ImageFormatError, match=rf'\({len(whole) // 2} bytes\)'):
        compressed_to_rgb(message(whole[:len(whole) // 2]))


@pytest.mark.parametrize('start', [b'\xff\xd8\xff', b'\x89PNG\r\n\x1a\n', b'II*\x00'])
def test_bytes_that_only_begin_like_a_picture_are_told_in_words(start: bytes) -> None:
    with pytest.raises(ImageFormatError, match=rf'\({len(start) + 50} bytes\): no header;'):
        compressed_to_rgb(message(start + bytes(50)))


def _png_bomb(side: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (struct.pack('>I', len(body)) + kind + body
                + struct.pack('>I', zlib.crc32(kind + body)))
    header = struct.pack('>IIBBBBB', side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(1000))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + chunk(b'IDAT', rows)
            + chunk(b'IEND', b''))


@pytest.mark.filterwarnings('ignore::PIL.Image.DecompressionBombWarning')
@pytest.mark.parametrize('side', [8200, 12000, 60000])
def test_a_png_bomb_is_not_unpacked(side: int) -> None:  # F05
    tracemalloc.start()
    try:
        with pytest.raises(ImageFormatError, match=r'larger than|exceeds limit'):
            compressed_to_rgb(message(_png_bomb(side), 'png'))
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()


def test_the_pixel_limit_is_a_rule() -> None:
    with pytest.raises(ImageFormatError, match='max_image_pixels'):
        compressed_to_rgb(message(encoded(GRADIENT, 'PNG')), ImageRules(max_pixels=160 * 120 - 1))
    compressed_to_rgb(message(encoded(GRADIENT, 'PNG')), ImageRules(max_pixels=160 * 120))


def test_compressed_depth_is_refused_by_name() -> None:  # F04
    bad = message(b'\x00' * 12 + encoded(GRADIENT, 'PNG'), '16UC1; compressedDepth png')
    with pytest.raises(ImageFormatError, match='depth image'):
        compressed_to_rgb(bad)


def test_what_we_publish_we_can_read() -> None:
    rgb = compressed_to_rgb(message(rgb_to_jpeg(GRADIENT, 95)))
    assert np.abs(rgb.astype(int) - GRADIENT).mean() < 3


@pytest.mark.filterwarnings('ignore::UserWarning')
@settings(max_examples=120, deadline=None)
@given(position=st.integers(0, 2000), value=st.integers(0, 255), cut=st.integers(0, 2000),
       kind=st.sampled_from(['JPEG', 'PNG', 'WEBP', 'TIFF']))
def test_damaged_bytes_give_a_picture_or_a_reason(position: int, value: int, cut: int,
                                                  kind: str) -> None:
    data = bytearray(encoded(GRADIENT[:40, :40], kind))
    data[position % len(data)] = value
    try:
        rgb = compressed_to_rgb(message(bytes(data[:len(data) - cut % len(data)])))
    except ImageFormatError as refused:
        assert str(refused)
    else:
        assert rgb.ndim == 3 and rgb.shape[2] == 3
