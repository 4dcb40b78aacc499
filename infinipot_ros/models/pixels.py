# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a camera's RGB picture to a normalised array, with a model's own settings."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from infinipot_ros.memory.model import RgbImage


@dataclass(frozen=True)
class PixelSettings:
    """How a model wants its pixels: resampling filter, scale, mean and standard deviation."""

    resample: int
    scale: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


def resized(rgb: RgbImage, size_px: tuple[int, int], resample: int) -> RgbImage:
    """Return the picture at (height, width) = `size_px`."""
    height, width = size_px
    if rgb.shape[:2] == (height, width):
        return np.ascontiguousarray(rgb)
    image = Image.fromarray(np.ascontiguousarray(rgb))
    return np.asarray(image.resize((width, height), Image.Resampling(resample)))


def normalised(rgb: RgbImage, settings: PixelSettings) -> npt.NDArray[np.float32]:
    """Return [3, height, width] float32 as the model's image processor does."""
    mean = np.asarray(settings.mean, np.float32)
    std = np.asarray(settings.std, np.float32)
    scaled = rgb.astype(np.float32) * np.float32(settings.scale)
    return np.ascontiguousarray(((scaled - mean) / std).transpose(2, 0, 1))
