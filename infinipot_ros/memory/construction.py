# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Building caches from embeddings: the sinks, the cumulative cache, the instant cache.

This is DSCache's operator phi: keys and values of new tokens, given what they may attend to.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from infinipot_ros.errors import NumericError
from infinipot_ros.memory.attention import Context, Piece, Workspace
from infinipot_ros.memory.camera_memory import CameraMemory
from infinipot_ros.memory.compression import Choice
from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.model import VisionLanguageModel
from infinipot_ros.memory.positions import PositionScheme, Rotation


@dataclass
class Construction:
    """What every pass of one memory needs; `scratch` holds new tokens on their way."""

    model: VisionLanguageModel
    scheme: PositionScheme
    rotation: Rotation
    workspace: Workspace
    scratch: LayerCache
    sink_tokens: int
    instant_frames: int

    def sink_piece(self, camera: CameraMemory) -> Piece:
        """Return the attention sinks as a camera's cache holds them."""
        coordinates = self.scheme.text(self.sink_tokens, 0)
        return Piece(camera.past, 0, self.sink_tokens, coordinates)

    def past_piece(
        self,
        camera: CameraMemory,
        base: int,
        recent_frames: int,
        choice: Choice | None = None,
    ) -> tuple[Piece, int]:
        """Return a camera's cumulative cache (or what a choice leaves of it) and the next rank."""
        past = camera.past
        frames, patches, rows = past.frames, past.patches, None
        if choice is not None:
            rows = choice.rows
            index = torch.stack(rows)
            frames, patches = frames.gather(2, index), patches.gather(2, index)
        room = max(1, self.instant_frames)
        coordinates, following = self.scheme.past(frames, patches, base, room, recent_frames)
        stop = past.prefix + past.stored_tokens
        return Piece(past, past.prefix, stop, coordinates, rows), following

    def build_sinks(self, cameras: list[CameraMemory]) -> None:
        """Run the prompt up to the video once and put its keys and values before every cache."""
        ids = self.model.prefix_ids()
        context = Context([], self.scratch, self.rotation, self.workspace)
        context.begin(self.scheme.text(len(ids), 0), len(ids))
        states = self.model.backbone(self.model.embed(ids), context)
        checked(states, 'the prompt')
        for camera in cameras:
            for layer, (keys, values) in enumerate(
                zip(self.scratch.keys, self.scratch.values, strict=True)
            ):
                camera.past.write_prefix(layer, keys[:, : len(ids)], values[:, : len(ids)])

    def append(
        self,
        camera: CameraMemory,
        frame: int,
        embeddings: Tensor,
        recent_frames: int,
        choice: Choice | None,
    ) -> None:
        """Forward a frame over [sinks, cumulative cache, itself] and add it to the cumulative cache.

        With a choice the frame sees only what that choice keeps, and the rest is dropped when the
        frame has passed. Whatever fails before that leaves the cache as it was.
        """
        past, count = camera.past, embeddings.shape[0]
        piece, following = self.past_piece(camera, self.sink_tokens, recent_frames, choice)
        target = past if choice is None else self.scratch
        pieces = [self.sink_piece(camera), piece]
        context = Context(pieces, target, self.rotation, self.workspace)
        context.begin(self.scheme.frames(1, self.sink_tokens, following), count)
        checked(self.model.backbone(embeddings, context), 'a frame')
        if choice is not None:
            self.drop(camera, choice)
            for layer, (keys, values) in enumerate(
                zip(self.scratch.keys, self.scratch.values, strict=True)
            ):
                past.write(layer, 0, keys[:, :count], values[:, :count])
        past.commit(count, frame)

    def drop(self, camera: CameraMemory, choice: Choice) -> None:
        """Leave in a cumulative cache only what a choice keeps."""
        past = camera.past
        spare_keys, spare_values = self.workspace.keys(0), self.workspace.values
        for layer, rows in enumerate(choice.rows):
            past.keep(layer, rows, spare_keys, spare_values)
        past.crop(choice.rows[0].shape[1])
        camera.policy_state = choice.state

    def build_instant(self, camera: CameraMemory) -> None:
        """Encode the feature buffer over the sinks alone, unless that is done already."""
        if camera.instant_valid or not camera.buffer.frame_ids:
            return
        count = len(camera.buffer.frame_ids)
        embeddings = camera.buffer.ordered()
        camera.instant.crop(0)
        pieces = [self.sink_piece(camera)]
        context = Context(pieces, camera.instant, self.rotation, self.workspace)
        context.begin(self.scheme.frames(count, self.sink_tokens, 0), embeddings.shape[0])
        checked(self.model.backbone(embeddings, context), 'the newest frames')
        camera.instant.commit(embeddings.shape[0])
        camera.instant_valid = True


def checked(states: Tensor, what: str) -> Tensor:
    """Return the states if all are finite numbers, else raise NumericError."""
    if not bool(torch.isfinite(states).all()):
        raise NumericError(
            f'the model gave NaN or infinite states for {what}; use dtype float32 or bfloat16, '
            'or check the weights'
        )
    return states
