# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Turn ``sensor_msgs/CompressedImage`` into RGB, and RGB into one.

Pillow decodes, because it raises on a truncated picture. The bytes decide what a picture is; its
label is only asked about mosaics and depth.
"""

from __future__ import annotations

import io
from typing import Any, Protocol

from infinipot_ros.errors import ImageFormatError
from infinipot_ros.node.images import (
    BAYER_PATTERNS,
    bayer_to_rgb,
    check_size,
    DEFAULT_RULES,
    ImageRules,
    Rgb,
)
import numpy as np
from PIL import Image as Pillow
from PIL import UnidentifiedImageError

_MAGIC = (
    (b'\xff\xd8\xff', 'JPEG'),
    (b'\x89PNG\r\n\x1a\n', 'PNG'),
    (b'II*\x00', 'TIFF'),
    (b'MM\x00*', 'TIFF'),
)


class CompressedImageLike(Protocol):
    """Name the fields of ``sensor_msgs/CompressedImage`` that are read here."""

    format: str  # noqa: A003
    data: Any


def compressed_to_rgb(message: CompressedImageLike, rules: ImageRules = DEFAULT_RULES) -> Rgb:
    """
    Decode one compressed image.

    :returns: uint8 [height, width, 3], contiguous, sharing no memory with the message.
    :raises ImageFormatError: what was seen, what is allowed and what to change.
    """
    label, data = str(message.format), bytes(message.data)
    if 'compressedDepth' in label:
        raise ImageFormatError(
            f"format '{label[:80]}' is a depth image; give the camera's colour topic, or its raw "
            f'depth topic with depth_range_m above 0')
    kind = _sniff(data, label)
    try:
        picture = Pillow.open(io.BytesIO(data), formats=(kind,))
        check_size(*picture.size, rules)
        picture.load()
    except ImageFormatError:
        raise
    except Exception as error:  # Pillow's plugins raise what they like on bad bytes
        # which names an object in memory
        why = 'no header' if isinstance(error, UnidentifiedImageError) else error
        raise ImageFormatError(
            f'not a decodable {kind.lower()} ({len(data)} bytes): {why}; the picture is cut off '
            f'or damaged, check the link to the camera') from error
    return _to_rgb(picture, label)


def rgb_to_jpeg(rgb: Rgb, quality: int = 85) -> bytes:
    """Encode uint8 [height, width, 3] as the data of a CompressedImage of format 'jpeg'."""
    stream = io.BytesIO()
    Pillow.fromarray(rgb).save(stream, 'JPEG', quality=quality)
    return stream.getvalue()


def _sniff(data: bytes, label: str) -> str:
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    if data[:4] == b'RIFF' and data[8:12] == b'WEBP':
        return 'WEBP'
    raise ImageFormatError(
        f"not a decodable jpeg/png/tiff/webp ({len(data)} bytes, format '{label[:80]}'); video "
        f'transports (h264, ffmpeg, theora) have to be republished as raw or compressed')


def _to_rgb(picture: Pillow.Image, label: str) -> Rgb:
    original = label.split(';')[0].strip()
    if picture.mode == 'L' and original.startswith('bayer_') and original[6:10] in BAYER_PATTERNS:
        return bayer_to_rgb(np.array(picture, np.uint8), original[6:10])
    if picture.mode.startswith('I') or picture.mode == 'F':
        deep = np.array(picture)
        if original in ('16UC1', '32FC1') or picture.mode == 'F' or deep.max(initial=0) > 65535:
            raise ImageFormatError(
                f"'{label[:80]}' is a depth image, not a picture; give the camera's colour topic")
        grey = (deep.astype(np.uint32) * 255 + 32767) // 65535
        return np.repeat(grey.astype(np.uint8)[..., None], 3, axis=2)
    return np.array(picture.convert('RGB'), np.uint8)
