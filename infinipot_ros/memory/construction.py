# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Building caches from embeddings: the sinks, the cumulative cache, the instant cache.

This is DSCache's operator phi: keys and values of new tokens, given what they may attend to.
"""

from dataclasses import dataclass
import time

from infinipot_ros.errors import NumericError
from infinipot_ros.memory.attention import Context, Piece, Watcher, Workspace
from infinipot_ros.memory.budget import Sizes
from infinipot_ros.memory.camera_memory import CameraMemory, InstantFrame
from infinipot_ros.memory.compression import Choice
from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.model import VisionLanguageModel
from infinipot_ros.memory.positions import Coordinates, joined, Rotation
import torch
from torch import Tensor


@dataclass
class Construction:
    """What every pass of one memory needs; `scratch` holds new tokens on their way."""

    model: VisionLanguageModel
    sizes: Sizes
    rotation: Rotation
    workspace: Workspace
    scratch: LayerCache
    frame_size_px: tuple[int, int]

    def __post_init__(self) -> None:
        """Name what is used most."""
        self.scheme = self.sizes.scheme
        self.config = self.sizes.config
        self.sink_tokens = self.sizes.sink_tokens
        height, width = self.frame_size_px
        scale = self.config.newest_scale
        self.newest_size_px = (height * scale, width * scale)

    def sink_piece(self, camera: CameraMemory) -> Piece:
        """Return the attention sinks as a camera's cache holds them."""
        coordinates = self.scheme.text(self.sink_tokens, 0)
        return Piece(camera.past, 0, self.sink_tokens, coordinates)

    def past_piece(
        self,
        camera: CameraMemory,
        base: int,
        recent_frames: int,
        attended: Tensor | None = None,
    ) -> tuple[Piece, int]:
        """Return a camera's cumulative cache and what follows it."""
        past = camera.past
        coordinates, following = self.scheme.past(
            past.frames, past.patches, base, self.rank_room, recent_frames, attended
        )
        stop = past.prefix + past.stored_tokens
        hidden = None if attended is None else ~attended
        return Piece(past, past.prefix, stop, coordinates, hidden), following

    @property
    def rank_room(self) -> int:
        """Ranks that the cumulative cache leaves to newer frames."""
        return max(1, self.sizes.instant_frames)

    def build_sinks(self, cameras: list[CameraMemory]) -> None:
        """Run the prompt up to the video once and put its keys and values before every cache."""
        ids = self.model.prefix_ids()
        if not ids:
            return
        context = Context([], self.scratch, self.rotation, self.workspace)
        context.begin(self.scheme.text(len(ids), 0), len(ids))
        checked(self.model.backbone(self.model.embed(ids), context), 'the prompt')
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
        watcher: Watcher | None = None,
        patches: Tensor | None = None,
    ) -> float:
        """
        Forward a frame over [sinks, cumulative cache, itself] and add it to the cumulative cache.

        embeddings [n, hidden] are those of `patches` [n], or of all. With a choice the frame sees
        only what that keeps; the rest waits in free space until the frame has passed. Whatever
        fails leaves the cache, and a store in host memory, as they were. Returns the seconds spent
        moving.
        """
        past, count, stored = camera.past, embeddings.shape[0], camera.past.stored_tokens
        if patches is None:
            patches = torch.arange(count, device=embeddings.device)
        room = (self.workspace.values, self.scratch, count)
        past.parted = False
        started = time.perf_counter()
        try:
            if choice is not None:
                past.keep(choice.rows, *room)
            moving_s = time.perf_counter() - started
            self._read(camera, embeddings, patches, recent_frames, watcher)
            past.commit(count, frame, patches)
        except BaseException:
            if choice is not None:
                past.put_back(choice.rows, stored, *room)
            raise
        if choice is not None:
            camera.policy_state = choice.state
        if camera.store is not None:
            camera.store.commit(frame)
        return moving_s

    def _read(
        self,
        camera: CameraMemory,
        embeddings: Tensor,
        patches: Tensor,
        recent_frames: int,
        watcher: Watcher | None,
    ) -> None:
        """Put the keys and values of a frame's patches into the free rows of the past."""
        past, sinks = camera.past, self.config.sinks_in_cumulative
        base = self.sink_tokens if sinks else 0
        piece, following = self.past_piece(camera, base, recent_frames)
        pieces = [self.sink_piece(camera), piece] if sinks else [piece]
        context = Context(pieces, past, self.rotation, self.workspace, watcher=watcher)
        coordinates = self.scheme.frame(self.scheme.grid, base, following)
        if len(patches) < self.sizes.tokens_per_frame:
            coordinates = coordinates.pick(patches)
        context.begin(coordinates, len(patches))
        checked(self.model.backbone(embeddings, context), 'a frame')
        if camera.store is not None:
            camera.store.write(past, past.prefix + past.stored_tokens)

    def drop(self, camera: CameraMemory, choice: Choice) -> None:
        """Leave in a cumulative cache only what a choice keeps."""
        past, spare = camera.past, self.workspace.values
        if spare.shape[1] < past.stored_tokens:
            # A memory that was saved larger than it may be now.
            spare = torch.empty_like(past.keys[0])
        past.keep(choice.rows, spare, self.scratch)
        camera.policy_state = choice.state

    def build_instant(self, camera: CameraMemory, recent_frames: int) -> None:
        """
        Encode the feature buffer over the sinks alone, unless that is done already.

        The first frame of a pair whose second has not come takes part as the newest; the newest is
        encoded again where it is to be sharper. Without `decouple`, and for such a first frame
        where there is no buffer, the past is read as well.
        """
        if camera.instant_frames is not None:
            return
        found, embeddings = self._instant_features(camera)
        if found:
            sinks = self.config.sinks_in_instant
            base, following = (self.sink_tokens if sinks else 0), 0
            pieces = [self.sink_piece(camera)] if sinks else []
            if not self.config.decouple or self.config.instant_frames == 0:
                piece, following = self.past_piece(camera, base, recent_frames)
                pieces.append(piece)
            coordinates, _ = self.instant_coordinates(found, base, following)
            context = Context(pieces, camera.instant, self.rotation, self.workspace)
            camera.instant.crop(0)
            context.begin(coordinates, embeddings.shape[0])
            checked(self.model.backbone(embeddings, context), 'the newest frames')
            camera.instant.commit(embeddings.shape[0])
        else:
            camera.instant.crop(0)
        camera.instant_frames = tuple(found)

    def _instant_features(self, camera: CameraMemory) -> tuple[list[InstantFrame], Tensor]:
        grid, size = self.scheme.grid, self.frame_size_px
        found = [InstantFrame(frame, grid) for frame in camera.buffer.frame_ids]
        features = list(camera.buffer.ordered())
        if camera.pending is not None:
            found.append(InstantFrame(camera.pending, grid))
            features.append(self.model.encode([camera.pending_picture], size))
        if found and self.config.newest_scale > 1:
            found[-1] = InstantFrame(found[-1].frame, self.sizes.newest_grid)
            features[-1] = self.model.encode([camera.newest_picture], self.newest_size_px)
        if not features:
            return [], camera.buffer.features[:0, 0]
        return found, checked(torch.cat(features), 'the newest pictures')

    def instant_coordinates(
        self,
        frames: list[InstantFrame],
        base: int,
        following: int,
        attended: list[bool] | None = None,
    ) -> tuple[Coordinates, int]:
        """Return the positions of the instant frames, those not attended to taking no place."""
        parts = []
        for place, frame in enumerate(frames):
            parts.append(self.scheme.frame(frame.grid, base, following))
            if attended is None or attended[place]:
                following = self.scheme.after(following, frame.grid)
        return joined(parts), following


def checked(states: Tensor, what: str) -> Tensor:
    """Return the states if all are finite numbers, else raise NumericError."""
    if not bool(torch.isfinite(states).all()):
        raise NumericError(
            f'the model gave NaN or infinite states for {what}; use dtype float32 or bfloat16, '
            'or check the weights'
        )
    return states
