# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the node publishes about its memory: status, descriptions, pictures and a map."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import cv2
from infinipot_ros.msg import MemoryStatus as MemoryStatusMessage
from infinipot_ros.msg import SceneDescription
from infinipot_ros.node.compressed_images import rgb_to_jpeg
from infinipot_ros.node.engine_thread import EngineThread
from infinipot_ros.node.guarding import guarded
from infinipot_ros.node.images import Rgb
from infinipot_ros.node.messages import (
    description_message,
    jpeg_message,
    map_message,
    status_message,
)
from infinipot_ros.node.overlays import no_picture, sheet, Tile
from infinipot_ros.node.past_frames import ago, pictured, shown
from infinipot_ros.node.sampling import SECOND_NS
from infinipot_ros.node.work import Frame
from infinipot_ros.wording import utc
import numpy as np
from PIL import Image as Pillow
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, PointCloud2

if TYPE_CHECKING:
    from infinipot_ros.memory import Answer, Evidence, FrameReceipt, VideoMemory

# JPEGs for the sheets, which are the node's and not in the budget of the memory
MOST_PICTURES, PICTURE_PX = 256, 224
SHEET_TILES = 12


class Outputs:
    """
    Publish; whatever needs the memory itself runs in the engine thread, by the on_ methods.

    Sheets and the map are only made while someone subscribes, and no more often than `refresh` is
    called.
    """

    def __init__(self, node: Node, engine: EngineThread) -> None:
        """Create the publishers."""
        self._node = node
        self._engine = engine
        self._pictures: dict[int, bytes] = {}
        self._changed = self._draws = False
        self._listeners = 0
        self._draw_guarded = guarded(self._draw, node.get_logger())
        self._newest: Frame | None = None
        self._novelty = 0.0
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL,
                             reliability=ReliabilityPolicy.RELIABLE)
        self._status = node.create_publisher(MemoryStatusMessage, '~/memory_status', latched)
        self._description = node.create_publisher(SceneDescription, 'scene_description', 10)
        self._retained = node.create_publisher(CompressedImage, '~/retained', latched)
        self._evidence = node.create_publisher(CompressedImage, '~/evidence/image/compressed',
                                               latched)
        self._map = node.create_publisher(PointCloud2, '~/memory_map', latched)

    def forget(self) -> None:
        """Forget the pictures of a memory that is gone."""
        self._pictures.clear()
        self._newest = None
        self._changed = True

    def publish_status(self) -> None:
        """Publish the state of the memory, if there is one."""
        status = self._engine.status
        if status is not None:
            self._status.publish(status_message(status, self._now_ns()))

    def refresh(self) -> None:
        """Have sheet and map drawn, if the memory has changed or someone new listens."""
        listeners = (self._retained.get_subscription_count()
                     + self._map.get_subscription_count())
        if listeners > self._listeners:
            self._changed = True
        self._listeners = listeners
        if self._changed and listeners and not self._draws:
            self._draws = True
            self._engine.post(self._draw_guarded, urgent=False)

    def on_frame(self, frame: Frame, receipt: FrameReceipt) -> None:
        """Take note of a frame that the memory has taken in."""
        self._newest, self._novelty = frame, receipt.novelty
        self._pictures[receipt.frame_id] = rgb_to_jpeg(_small(frame.rgb), 80)
        self._changed = True
        if self._engine.memory is not None and len(self._pictures) > MOST_PICTURES:
            self._forget_some(self._engine.memory)

    def on_answer(self, question: str, answer: Answer) -> None:
        """Publish the frames that an answer rests on."""
        memory = self._engine.memory
        if memory is None or not answer.evidence or not self._evidence.get_subscription_count():
            return
        total = sum(evidence.relevance for evidence in answer.evidence)
        tiles = [self._evidence_tile(memory, evidence, total)
                 for evidence in answer.evidence[:SHEET_TILES]]
        best = answer.evidence[0]
        drawn = sheet(f'{question}  ->  {answer.text}', tiles,
                      bar='attention (bar: among these frames)', note=self._note())
        self._evidence.publish(jpeg_message(drawn, best.stamp_ns, best.frame_id))

    def on_description(self, answer: Answer, cameras: tuple[str, ...]) -> None:
        """Publish what is seen now."""
        frame_id = self._newest.frame_id if self._newest is not None else ''
        self._description.publish(description_message(answer, frame_id, cameras, self._novelty))

    def _draw(self) -> None:
        """Publish sheet and map; in the engine thread."""
        self._draws = self._changed = False
        memory = self._engine.memory
        if memory is None:
            return
        if self._retained.get_subscription_count():
            self._publish_retained(memory)
        if self._map.get_subscription_count():
            cloud = map_message(memory.frames(), self._now_ns())
            if cloud is not None:
                self._map.publish(cloud)

    def _publish_retained(self, memory: VideoMemory) -> None:
        """Show the newest frame, and what compressions have left of the past."""
        status, newest = memory.status(), self._newest
        whole = status.tokens_per_frame
        frames = shown([frame for frame in memory.frames() if frame.frame in self._pictures],
                       whole, SHEET_TILES)
        tiles = [Tile(_unpack(self._pictures[frame.frame]), memory.retained(frame.frame),
                      f'{frame.camera}  {self._ago(frame.stamp_ns)}', frame.kept_tokens / whole,
                      f'{100 * frame.kept_tokens / whole:.0f} %') for frame in frames]
        title = (f'kept: {status.frames_kept} of {status.frames_seen} frames, '
                 f'{status.held_tokens} tokens, {status.held_bytes / 2**20:.2f} of '
                 f'{status.budget_bytes / 2**20:.2f} MiB; here the newest and some of the past')
        drawn = sheet(title, tiles, bar='share of the frame that is kept', note=self._note())
        self._retained.publish(jpeg_message(
            drawn, self._now_ns() if newest is None else newest.stamp_ns,
            '' if newest is None else newest.frame_id))

    def _note(self) -> str:
        """Say of what a sheet is the newest frame."""
        if self._newest is None:
            return ''
        stamp_ns = self._newest.stamp_ns
        when = utc(stamp_ns) or f'stamp {stamp_ns / SECOND_NS:.3f} s'
        return f'now: {self._newest.camera}, {when}'

    def _forget_some(self, memory: VideoMemory) -> None:
        """Keep the pictures that sheets may show later."""
        worth = pictured([frame for frame in memory.frames() if frame.frame in self._pictures],
                         memory.status().tokens_per_frame, MOST_PICTURES * 3 // 4)
        self._pictures = {frame.frame: self._pictures[frame.frame] for frame in worth}

    def _evidence_tile(self, memory: VideoMemory, evidence: Evidence, total: float) -> Tile:
        packed = self._pictures.get(evidence.frame)
        rgb = evidence.thumbnail if packed is None else _unpack(packed)
        shares = None if rgb is None else memory.retained(evidence.frame)
        return Tile(no_picture(PICTURE_PX) if rgb is None else rgb, shares,
                    f'{evidence.camera}  {self._ago(evidence.stamp_ns)}',
                    evidence.relevance / total if total else 0.0,
                    f'{100 * evidence.relevance:.1f} %')

    def _ago(self, stamp_ns: int) -> str:
        newest_ns = self._newest.stamp_ns if self._newest is not None else stamp_ns
        return ago((newest_ns - stamp_ns) / SECOND_NS)

    def _now_ns(self) -> int:
        return int(self._node.get_clock().now().nanoseconds)


def _small(rgb: Rgb) -> Rgb:
    scale = PICTURE_PX / max(rgb.shape[:2])
    if scale >= 1:
        return rgb
    size = (max(1, round(rgb.shape[1] * scale)), max(1, round(rgb.shape[0] * scale)))
    # halving is so fast that this takes an eighth of the time of going there at once
    while max(rgb.shape[:2]) >= 2 * PICTURE_PX and min(rgb.shape[:2]) > 1:
        half = (rgb.shape[1] // 2, rgb.shape[0] // 2)
        rgb = np.asarray(cv2.resize(rgb, half, interpolation=cv2.INTER_AREA), np.uint8)
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_LINEAR), np.uint8)


def _unpack(jpeg: bytes) -> Rgb:
    return np.asarray(Pillow.open(io.BytesIO(jpeg)).convert('RGB'), np.uint8)
