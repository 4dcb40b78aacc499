# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What counts as a picture."""

from infinipot_ros.errors import ImageFormatError
from infinipot_ros.memory.model import RgbImage
import numpy as np


def checked_rgb(rgb: object) -> RgbImage:
    """Return the picture if it is uint8 [height, width, 3] with at least one pixel, else raise."""
    if not isinstance(rgb, np.ndarray):
        raise ImageFormatError(
            f'a frame is a {type(rgb).__name__}: give a NumPy array, uint8 [height, width, 3]'
        )
    if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3:
        raise ImageFormatError(
            f'a frame is {rgb.dtype} {list(rgb.shape)}: give uint8 [height, width, 3] in RGB order'
        )
    if rgb.shape[0] == 0 or rgb.shape[1] == 0:
        raise ImageFormatError(f'a frame is empty: its shape is {list(rgb.shape)}')
    return rgb
