# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The way of a frame: picture, embeddings, feature buffer, cumulative cache."""

import copy
import time

from infinipot_ros.memory.camera_memory import CameraMemory, put_picture
from infinipot_ros.memory.construction import checked
from infinipot_ros.memory.model import RgbImage
from infinipot_ros.memory.observation import Observation, QueryWindow
from infinipot_ros.memory.records import FrameReceipt, Pose
from infinipot_ros.memory.state import MemoryState
import torch
from torch import Tensor


def add_frame(
    state: MemoryState,
    camera: CameraMemory,
    rgb: RgbImage,
    stamp_ns: int,
    frame_id: str,
    pose: Pose | None,
) -> FrameReceipt:
    """Take a checked picture in; what fails leaves the memory as it was."""
    started = time.perf_counter()
    model, table = state.model, state.table
    table.reserve()
    small = table.small(rgb)
    picture = model.prepare(rgb, state.frame_size_px)
    sharp = (
        model.prepare(rgb, state.build.newest_size_px) if camera.newest_picture.size else None
    )
    completes = camera.pending is not None
    holds_back = model.frames_per_step > 1 and not completes
    compressed, spent, novelty = False, 0.0, 0.0
    frame = state.next_frame if camera.pending is None else camera.pending
    embeddings = None
    if not holds_back:
        with torch.inference_mode():
            pictures = [camera.pending_picture, picture] if completes else [picture]
            embeddings = checked(model.encode(pictures, state.frame_size_px), 'a picture')
            novelty = _novelty(camera, embeddings)
            if camera.buffer.capacity == 0:
                compressed, spent = _remember(state, camera, frame, embeddings)
            elif camera.buffer.full:
                compressed, spent = _remember(state, camera, *camera.buffer.oldest())

    # Nothing below can fail: this is where the frame becomes part of the memory.
    went_back = camera.newest_stamp_ns is not None and stamp_ns < camera.newest_stamp_ns
    state.stamps_gone_back += went_back
    camera.newest_stamp_ns = stamp_ns
    camera.frames_seen += 1
    camera.instant_frames = None
    if sharp is not None:
        put_picture(camera.newest_picture, sharp)
    if embeddings is None:
        put_picture(camera.pending_picture, picture)
        camera.pending = frame
    else:
        camera.buffer.push(frame, embeddings)
        camera.pending = None
    if completes:
        # A pair is one frame, with the stamp and the pose of its newer picture.
        table.replace(frame, stamp_ns, frame_id, pose, went_back, small)
    else:
        kept = float(state.sizes.tokens_per_frame)
        table.add(frame, stamp_ns, camera.index, frame_id, pose, kept, went_back, small)
        state.next_frame += 1
    if compressed:
        counting = time.perf_counter()
        retain_rows(state, camera)
        spent += time.perf_counter() - counting
    total = time.perf_counter() - started
    return FrameReceipt(frame, compressed, novelty, spent, total, went_back)


def _remember(
    state: MemoryState, camera: CameraMemory, frame: int, embeddings: Tensor
) -> tuple[bool, float]:
    """Move a frame into the cumulative cache, compressing that first where it is full."""
    compression, build = state.compression, state.build
    recent = compression.recent_frames(camera)
    choice, spent = None, 0.0
    if compression.needed(camera):
        started = time.perf_counter()
        target = compression.target(compression.usable(camera.past.capacity))
        choice = compression.choose(camera, target, Observation(build))
        spent = time.perf_counter() - started
    filtered, patches = copy.deepcopy(camera.token_filter), None
    if filtered is not None:
        patches = torch.nonzero(filtered.keep(embeddings)).flatten()
        embeddings = embeddings[patches]
    tokens = compression.policy.observe_tokens
    window = QueryWindow(tokens) if tokens else None
    judged_until = int(camera.past.frames[..., -1].max()) if choice else camera.judged_until
    moving_s = build.append(camera, frame, embeddings, recent, choice, window, patches)
    camera.token_filter = filtered
    if window is not None:
        window.settle(camera)
    if choice is not None:
        camera.compressions += 1
        camera.judged_until = judged_until
        spent += moving_s
    return choice is not None, spent


def shrink(state: MemoryState, tokens: list[int]) -> None:
    """Compress each camera to at most so many tokens, all of them or none."""
    observe = Observation(state.build)
    with torch.inference_mode():
        choices = [
            state.compression.choose(camera, count, observe)
            if camera.past.stored_tokens > count
            else None
            for camera, count in zip(state.cameras, tokens, strict=True)
        ]
        for camera, choice in zip(state.cameras, choices, strict=True):
            if choice is not None:
                camera.judged_until = int(camera.past.frames[..., -1].max())
                state.build.drop(camera, choice)
                camera.compressions += 1
                retain_rows(state, camera)
                camera.instant_frames = None


def _novelty(camera: CameraMemory, embeddings: Tensor) -> float:
    """Return the mean of 1 - cos between a frame's embeddings and the last frame's, per patch."""
    newest = camera.buffer.newest
    if newest is None:
        return 1.0
    cos = torch.nn.functional.cosine_similarity(embeddings.float(), newest.float(), dim=-1)
    return float(1.0 - cos.mean())


def retain_rows(state: MemoryState, camera: CameraMemory) -> None:
    """
    Drop the table rows of frames that have no token left, and count those of the rest.

    A frame in a store in host memory keeps all its tokens, and its row.
    """
    if camera.store is not None:
        return
    # Those outside the cumulative cache are the camera's newest.
    whole_from = min(camera.whole_frames(), default=state.next_frame)
    state.table.retain(camera.index, camera.past, whole_from, state.sizes.tokens_per_frame)
