# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From a camera's RGB picture to a normalised array, with a model's own settings."""

from dataclasses import dataclass

from infinipot_ros.memory.model import RgbImage
import numpy as np
import numpy.typing as npt
from PIL import Image


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


def centre_cropped(rgb: RgbImage, side_px: int, resample: int) -> RgbImage:
    """Return the middle square of a picture whose shorter side becomes `side_px`."""
    height, width = rgb.shape[:2]
    shorter = min(height, width)
    size = (max(side_px, height * side_px // shorter), max(side_px, width * side_px // shorter))
    whole = resized(rgb, size, resample)
    top, left = (size[0] - side_px) // 2, (size[1] - side_px) // 2
    return np.ascontiguousarray(whole[top:top + side_px, left:left + side_px])


def normalised(rgb: RgbImage, settings: PixelSettings) -> npt.NDArray[np.float32]:
    """Return [3, height, width] float32 as the model's image processor does."""
    mean = np.asarray(settings.mean, np.float32)
    std = np.asarray(settings.std, np.float32)
    scaled = rgb.astype(np.float32) * np.float32(settings.scale)
    return np.ascontiguousarray(((scaled - mean) / std).transpose(2, 0, 1))
