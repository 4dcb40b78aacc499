# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""LLaVA-OneVision and LLaVA-NeXT-Video: one-dimensional positions, a fixed square picture."""

from collections.abc import Sequence
from typing import Any

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.model import RgbImage
from infinipot_ros.models.base import HuggingFaceModel
from infinipot_ros.models.pixels import centre_cropped, normalised, resized
import torch
from torch import Tensor

TRAINED_TOKENS = 32_768
# Not a token of the vocabulary: stands for the learned vector that ends a video.
NEWLINE = -1


class Llava(HuggingFaceModel):
    """What both LLaVA families share: a square picture whose tokens lie on a square grid."""

    begin_of_text = False

    def __init__(
        self, model: Any, tokenizer: Any, image_processor: Any, name: str, fingerprint: str
    ) -> None:
        """Take a loaded model."""
        super().__init__(
            model,
            tokenizer,
            image_processor,
            name,
            fingerprint,
            trained_tokens=TRAINED_TOKENS,
            trained_ranks=0,
            begin_of_text=self.begin_of_text,
        )
        vision = model.config.vision_config
        self.frames_per_step = 1
        self._side_px = int(vision.image_size)
        self._patches = self._side_px // int(vision.patch_size)
        self.default_frame_size_px = (self._side_px, self._side_px)

    def _side_tokens(self, frame_size_px: tuple[int, int]) -> int:
        """Return the tokens along a side. Raises ConfigError for a size it does not read."""
        raise NotImplementedError

    def grid(self, frame_size_px: tuple[int, int]) -> tuple[int, int]:
        """Return (rows, columns) of tokens."""
        side = self._side_tokens(frame_size_px)
        return side, side

    def picture_size_px(self, frame_size_px: tuple[int, int]) -> tuple[int, int]:
        """Return the one size that the vision tower reads."""
        return self.default_frame_size_px

    def _pixel_values(self, frames: Sequence[RgbImage], frame_size_px: tuple[int, int]) -> Tensor:
        (rgb,) = frames
        array = normalised(self.prepare(rgb, frame_size_px), self.pixels)
        return torch.from_numpy(array).to(self.shape.device, self.shape.dtype)[None, None]

    def prepare(self, rgb: RgbImage, frame_size_px: tuple[int, int]) -> RgbImage:
        """Return the picture as a square."""
        return resized(rgb, self.default_frame_size_px, self.pixels.resample)

    def _unsupported(self, frame_size_px: tuple[int, int], more: str = '') -> ConfigError:
        return ConfigError(
            f'frame_size_px is {frame_size_px}: {self.name} reads {self._side_px} x '
            f'{self._side_px} px and nothing else{more}; leave frame_size_px unset'
        )


class LlavaOnevision(Llava):
    """LLaVA-OneVision: 27 x 27 patches pooled to 14 x 14; not pooled at twice the frame size."""

    def _side_tokens(self, frame_size_px: tuple[int, int]) -> int:
        if frame_size_px == self.default_frame_size_px:
            return -(-self._patches // 2)
        if frame_size_px == (2 * self._side_px, 2 * self._side_px):
            return self._patches
        raise self._unsupported(frame_size_px, ' (or twice that, for newest_scale 2)')

    def encode(self, frames: Sequence[RgbImage], frame_size_px: tuple[int, int]) -> Tensor:
        """Return [rows x columns, hidden] of one frame, without the newline that ends a video."""
        pixels = self._pixel_values(frames, frame_size_px)
        model: Any = self._model.model
        if frame_size_px == self.default_frame_size_px:
            pooled: Tensor = model.get_video_features(pixels).pooler_output
            return pooled[0, :-1].to(self.shape.dtype)
        config = self._model.config
        outputs = model.vision_tower(pixels[0], output_hidden_states=True)
        features = outputs.hidden_states[config.vision_feature_layer]
        projected: Tensor = model.multi_modal_projector(features)
        return projected[0].to(self.shape.dtype)

    def suffix_ids(self, question: str, history: Sequence[tuple[str, str]] = ()) -> list[int]:
        """Return the newline that ends the video, and the ids to where the answer starts."""
        return [NEWLINE, *super().suffix_ids(question, history)]

    def embed(self, ids: Sequence[int]) -> Tensor:
        """Return [n, hidden]."""
        embeddings = super().embed([0 if token == NEWLINE else token for token in ids])
        for place, token in enumerate(ids):
            if token == NEWLINE:
                embeddings[place] = self._model.model.image_newline
        return embeddings


class LlavaNextVideo(Llava):
    """LLaVA-NeXT-Video: the middle of the picture, 24 x 24 patches pooled to 12 x 12."""

    begin_of_text = True

    def _side_tokens(self, frame_size_px: tuple[int, int]) -> int:
        if frame_size_px != self.default_frame_size_px:
            raise self._unsupported(frame_size_px)
        return self._patches // int(self._model.config.spatial_pool_stride)

    def prepare(self, rgb: RgbImage, frame_size_px: tuple[int, int]) -> RgbImage:
        """Return the middle square of the picture."""
        return centre_cropped(rgb, self._side_px, self.pixels.resample)

    def encode(self, frames: Sequence[RgbImage], frame_size_px: tuple[int, int]) -> Tensor:
        """Return [rows x columns, hidden] of one frame."""
        pixels = self._pixel_values(frames, frame_size_px)
        features: Tensor = self._model.model.get_video_features(pixels).pooler_output
        return features[0].to(self.shape.dtype)
