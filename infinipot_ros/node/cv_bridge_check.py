# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Use ``cv_bridge`` for the encodings that it reads right on this machine, and only for those.

A build against another NumPy crashes, and padded rows or big-endian pixels were wrong in some
releases. So a process of its own reads small pictures of every encoding with it and compares them
with ours; a crash there costs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
import importlib
import importlib.util
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from infinipot_ros.errors import ImageFormatError
from infinipot_ros.node.images import (
    check_size,
    image_to_rgb,
    ImageLike,
    ImageRules,
    Rgb,
    SUPPORTED_ENCODINGS,
)
import numpy as np


def right_encodings(timeout_s: float = 20.0) -> tuple[str, ...]:
    """Return the encodings whose pixels cv_bridge gets exactly right; () where it is not there."""
    if importlib.util.find_spec('cv_bridge') is None:
        return ()
    try:
        check = subprocess.run([sys.executable, '-m', __name__], capture_output=True, text=True,
                               timeout=timeout_s, check=True)
        return tuple(json.loads(check.stdout.splitlines()[-1]))
    except (subprocess.SubprocessError, OSError, ValueError, IndexError):
        return ()


def image_reader(encodings: tuple[str, ...]) -> Callable[[ImageLike, ImageRules], Rgb]:
    """Return a function like image_to_rgb that reads the given encodings with cv_bridge."""
    if not encodings:
        return image_to_rgb
    bridge = importlib.import_module('cv_bridge').CvBridge()

    def read(message: ImageLike, rules: ImageRules) -> Rgb:
        check_size(int(message.width), int(message.height), rules)
        # cv_bridge takes data that is too long without a word
        if message.encoding in encodings and len(message.data) == message.step * message.height:
            try:
                return np.array(bridge.imgmsg_to_cv2(message, 'rgb8'))
            except Exception as error:
                raise ImageFormatError(f'cv_bridge cannot read this image of encoding '
                                       f"'{message.encoding}': {error}") from error
        return image_to_rgb(message, rules)

    return read


def _samples(encoding: str) -> list[SimpleNamespace]:
    """Make 8x6 px of noise, with and without padding, in both byte orders."""
    noise = np.random.default_rng(0)
    samples = []
    for step in (8, 16, 24, 32, 36, 48, 52, 64, 68):
        for rows in (6, 9, 18):
            for big in (0, 1):
                data = noise.integers(0, 256, step * rows, np.uint8).tobytes()
                samples.append(SimpleNamespace(width=8, height=6, encoding=encoding, data=data,
                                               step=step, is_bigendian=big, header=None))
    return samples


def _agrees(bridge: Any, encoding: str) -> bool:
    readable = 0
    for sample in _samples(encoding):
        try:
            ours = image_to_rgb(sample, ImageRules(min_side_px=1))
        except ImageFormatError:
            continue
        readable += 1
        try:
            theirs = bridge.imgmsg_to_cv2(sample, 'rgb8')
        except Exception:
            return False
        if not np.array_equal(ours, theirs):
            return False
    return readable > 0


def main() -> int:
    """Print the encodings that agree, as JSON."""
    bridge = importlib.import_module('cv_bridge').CvBridge()
    print(json.dumps([name for name in SUPPORTED_ENCODINGS if _agrees(bridge, name)]))
    return 0


if __name__ == '__main__':
    sys.exit(main())
