# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Turn any ``sensor_msgs/Image`` into RGB.

NumPy reads the bytes (row padding, byte order, channel order, 16 to 8 bits), OpenCV the Bayer and
YUV mosaics. Nothing here imports ROS: any object with the fields of the message will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import cv2
from infinipot_ros.errors import ImageFormatError
import numpy as np
from numpy.typing import NDArray

Rgb = NDArray[np.uint8]


class ImageLike(Protocol):
    """Name the fields of ``sensor_msgs/Image`` that are read here."""

    height: int
    width: int
    encoding: str
    is_bigendian: int
    step: int
    data: Any


@dataclass(frozen=True)
class ImageRules:
    """
    Limits that a picture has to keep before anything is allocated for it.

    :param min_side_px: least width and height; below that there is no picture to see.
    :param max_pixels: most pixels of one picture; 2**26 is 8192 x 8192.
    :param depth_range_m: show depth images as grey, near is bright, up to this range; 0 refuses.
    """

    min_side_px: int = 8
    max_pixels: int = 2**26
    depth_range_m: float = 0.0


DEFAULT_RULES = ImageRules()

# encoding -> bytes per channel, channels, how OpenCV makes RGB of it (None: it is RGB)
_PLAIN: dict[str, tuple[int, int, int | None]] = {
    'mono8': (1, 1, cv2.COLOR_GRAY2RGB),
    'mono16': (2, 1, cv2.COLOR_GRAY2RGB),
    'rgb8': (1, 3, None),
    'bgr8': (1, 3, cv2.COLOR_BGR2RGB),
    'rgba8': (1, 4, cv2.COLOR_RGBA2RGB),
    'bgra8': (1, 4, cv2.COLOR_BGRA2RGB),
    'rgb16': (2, 3, None),
    'bgr16': (2, 3, cv2.COLOR_BGR2RGB),
    'rgba16': (2, 4, cv2.COLOR_RGBA2RGB),
    'bgra16': (2, 4, cv2.COLOR_BGRA2RGB),
}
# names that say how many channels there are and not what they mean: read as cv_bridge does
_ASSUMED = {'8UC': 'mono8', '8UC1': 'mono8', '8UC3': 'bgr8', '8UC4': 'bgra8',
            '16UC3': 'bgr16', '16UC4': 'bgra16'}
# OpenCV names a pattern by its second row
_BAYER = {'rggb': cv2.COLOR_BayerBG2RGB, 'bggr': cv2.COLOR_BayerRG2RGB,
          'gbrg': cv2.COLOR_BayerGR2RGB, 'grbg': cv2.COLOR_BayerGB2RGB}
BAYER_PATTERNS = tuple(_BAYER)
_YUV_422 = {'uyvy': cv2.COLOR_YUV2RGB_UYVY, 'yuv422': cv2.COLOR_YUV2RGB_UYVY,
            'yuyv': cv2.COLOR_YUV2RGB_YUY2, 'yuv422_yuy2': cv2.COLOR_YUV2RGB_YUY2}
_YUV_420 = {'nv12': cv2.COLOR_YUV2RGB_NV12, 'nv21': cv2.COLOR_YUV2RGB_NV21}
_DEPTH_METRES = {'16UC1': 0.001, '32FC1': 1.0}  # one unit of the encoding, REP-118

SUPPORTED_ENCODINGS: tuple[str, ...] = (
    *_PLAIN, *_ASSUMED, *(f'bayer_{p}{bits}' for p in _BAYER for bits in (8, 16)),
    *_YUV_422, *_YUV_420, 'nv24')


def encoding_note(encoding: str) -> str:
    """Say what is assumed about an encoding that does not say it all itself; '' if nothing is."""
    assumed = _ASSUMED.get(encoding)
    if assumed is None:
        return ''
    return (f"encoding '{encoding}' does not name its colours and is read as {assumed}, as "
            f'cv_bridge does; set the camera driver to publish {assumed} to be sure')


def image_to_rgb(message: ImageLike, rules: ImageRules = DEFAULT_RULES) -> Rgb:
    """
    Convert one raw image to RGB.

    :returns: uint8 [height, width, 3], contiguous, sharing no memory with the message.
    :raises ImageFormatError: what was seen, what is allowed and what to change.
    """
    encoding = str(message.encoding)
    check_size(int(message.width), int(message.height), rules)
    name = _ASSUMED.get(encoding, encoding)
    if name in _PLAIN:
        size, channels, conversion = _PLAIN[name]
        pixels = _to_8_bits(_rows(message, size, channels))
        if conversion is None:
            return np.array(pixels)
        return np.asarray(cv2.cvtColor(pixels, conversion), np.uint8)
    if name in _YUV_422:
        _check_even(message, 'width')
        return np.asarray(cv2.cvtColor(_rows(message, 1, 2), _YUV_422[name]), np.uint8)
    if name in _YUV_420 or name == 'nv24':
        return _planar_yuv(message, name)
    if name in _DEPTH_METRES and rules.depth_range_m > 0:
        dtype = 'u2' if name == '16UC1' else 'f4'
        return depth_to_rgb(_rows(message, int(dtype[1]), 1, dtype[0])[..., 0],
                            _DEPTH_METRES[name], rules.depth_range_m)
    if name.startswith('bayer_') and name[6:10] in _BAYER and name[10:] in ('8', '16'):
        return bayer_to_rgb(_rows(message, int(name[10:]) // 8, 1)[..., 0], name[6:10])
    raise ImageFormatError(_refusal(encoding))


def check_size(width: int, height: int, rules: ImageRules) -> None:
    """Refuse a picture that is too small or too large before anything is allocated for it."""
    if min(width, height) < rules.min_side_px:
        raise ImageFormatError(
            f'image of {width}x{height} px is too small to see anything in; at least '
            f'{rules.min_side_px} px a side are needed: check the camera driver')
    if width * height > rules.max_pixels:
        raise ImageFormatError(
            f'image of {width}x{height} px is larger than the {rules.max_pixels} pixels allowed '
            f'(parameter max_image_pixels); lower the resolution of the camera')


def bayer_to_rgb(mosaic: NDArray[Any], pattern: str) -> Rgb:
    """
    Demosaic.

    :param mosaic: uint8 or uint16 [height, width].
    :param pattern: the first two rows of the sensor, 'rggb', 'bggr', 'gbrg' or 'grbg'.
    """
    if min(mosaic.shape) < 3:
        raise ImageFormatError(f'a Bayer image needs 3 px a side, this one has '
                               f'{mosaic.shape[1]}x{mosaic.shape[0]}')
    return _to_8_bits(np.asarray(cv2.cvtColor(mosaic, _BAYER[pattern])))


def depth_to_rgb(depth: NDArray[Any], unit_m: float, range_m: float) -> Rgb:
    """
    Show a depth image as grey: near is bright; beyond the range, 0, NaN and inf are black.

    :param depth: [height, width] in units of unit_m metres.
    """
    metres = depth.astype(np.float32) * unit_m
    valid = np.isfinite(metres) & (metres > 0) & (metres < range_m)
    grey = np.where(valid, 255 - 255 * np.where(valid, metres, 0) / range_m, 0)
    return np.repeat(np.rint(grey).astype(np.uint8)[..., None], 3, axis=2)


def _to_8_bits(pixels: NDArray[Any]) -> Rgb:
    if pixels.dtype.itemsize == 1:
        return pixels
    return ((pixels.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)


def _bytes(message: ImageLike, rows: int, row_bytes: int) -> NDArray[np.uint8]:
    """Check lengths, then view the data as [rows, row_bytes] without its padding."""
    step, data = int(message.step), np.frombuffer(message.data, np.uint8)
    if step < row_bytes:
        raise ImageFormatError(
            f"step is {step} bytes, but {message.width} px of '{message.encoding}' take "
            f'{row_bytes}: the camera driver fills the message wrongly')
    if data.size != step * rows:
        raise ImageFormatError(
            f'data has {data.size} bytes, expected {step * rows} ({rows} rows of step {step}): '
            f'the message is cut off or its driver fills it wrongly')
    return data.reshape(rows, step)[:, :row_bytes]


def _rows(message: ImageLike, size: int, channels: int, kind: str = 'u') -> NDArray[Any]:
    """View the data as [height, width, channels] in the byte order of this machine."""
    height, width = int(message.height), int(message.width)
    rows = np.ascontiguousarray(_bytes(message, height, width * channels * size))
    order = '>' if message.is_bigendian else '<'
    pixels = rows.view(np.dtype(f'{order}{kind}{size}')).reshape(height, width, channels)
    return pixels.astype(pixels.dtype.newbyteorder('='), copy=False)


def _check_even(message: ImageLike, *sides: str) -> None:
    for side in sides:
        if getattr(message, side) % 2:
            raise ImageFormatError(
                f"'{message.encoding}' shares colour between neighbours, so its {side} has to be "
                f'even; this image is {message.width}x{message.height} px')


def _planar_yuv(message: ImageLike, name: str) -> Rgb:
    """Convert NV12, NV21 (colour at half resolution) and NV24 (VU at full resolution)."""
    height, width, step = int(message.height), int(message.width), int(message.step)
    # bytes of the whole picture over bytes of its luma plane, times two
    planes = 6 if name == 'nv24' else 3
    size = len(memoryview(message.data).cast('B'))
    if 2 * size == planes * width * height and 2 * step == planes * width:
        step = width  # the step counts all planes of a row
    elif 2 * size != planes * step * height and size == step * height:
        height = height * 2 // planes  # the height counts the rows of all planes
    if step < width or 2 * size != planes * step * height:
        raise ImageFormatError(
            f'data has {size} bytes, expected {planes * max(step, width) * height // 2} for '
            f"'{message.encoding}' of {width}x{height} px and step {message.step}: "
            f'the camera driver fills the message wrongly')
    data = np.frombuffer(message.data, np.uint8)
    luma = data[:step * height].reshape(height, step)[:, :width]
    if name == 'nv24':
        chroma = data[step * height:].reshape(height, 2 * step)[:, :2 * width]
        vu = chroma.reshape(height, width, 2)
        # each pixel as a UYVY pair of its own: the same arithmetic as every other YUV here
        pairs = np.stack([vu[..., 1], luma, vu[..., 0], luma], axis=2)
        rgb = cv2.cvtColor(pairs.reshape(height, 2 * width, 2), cv2.COLOR_YUV2RGB_UYVY)
        return np.ascontiguousarray(rgb[:, ::2])
    if height % 2 or width % 2:
        raise ImageFormatError(f"'{message.encoding}' needs an even width and height; this image "
                               f'is {width}x{height} px')
    rows = data.reshape(height * 3 // 2, step)[:, :width]
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(rows), _YUV_420[name]), np.uint8)


def _refusal(encoding: str) -> str:
    if encoding in _DEPTH_METRES:
        return (f"'{encoding}' is a depth image, not a picture; give the camera's colour topic, "
                f'or set depth_range_m above 0 to show depth as grey')
    shown = encoding if len(encoding) <= 40 else f'{encoding[:40]}... ({len(encoding)} characters)'
    return (f'encoding {shown!r} cannot be read; supported are '
            f"{', '.join(SUPPORTED_ENCODINGS)}. Set the camera driver to one of these (rgb8 is "
            f'the simplest) or republish the topic with image_transport')
