# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Read pictures and their times from a video file (OpenCV) or a rosbag2 bag (rosbags)."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import cv2
from infinipot_ros.errors import ConfigError, ImageFormatError
from infinipot_ros.node.compressed_images import compressed_to_rgb
from infinipot_ros.node.images import image_to_rgb, Rgb
import numpy as np

BAG_SUFFIXES = ('.mcap', '.db3')
_IMAGE_TYPES: dict[str, Callable[[Any], Rgb]] = {
    'sensor_msgs/msg/Image': image_to_rgb, 'sensor_msgs/msg/CompressedImage': compressed_to_rgb}


@dataclass(frozen=True)
class Picture:
    """
    One picture of a recording.

    :param rgb: uint8 `[height, width, 3]`.
    :param stamp_ns: when it was taken, by the recording's own clock.
    :param frame_id: coordinate frame of the camera, '' where the recording does not say.
    """

    rgb: Rgb
    stamp_ns: int
    frame_id: str = ''


class Recording(Protocol):
    """
    Pictures in the order of the recording; can be read from the start any number of times.

    `has_stamps` says whether it knows when a picture was taken, and not only how far in it is.
    """

    has_stamps: bool
    skipped: int

    def pictures(self) -> Iterator[Picture]:
        """Yield every picture that can be decoded; `skipped` counts the others."""

    def describe(self) -> str:
        """Say in a few words what this is."""


def open_recording(path: Path, topic: str = '') -> Recording:
    """
    Open a video file, a bag's folder, or one of a bag's files.

    :param topic: image topic of a bag; '' takes the only one.
    :raises ConfigError: there is no such file, it holds no pictures, or `topic` is not in it.
    """
    try:
        there = path.exists()
    except OSError:  # a name that is too long for one
        there = False
    if not there:
        raise ConfigError(f"video: there is no file or folder '{str(path)[:200]}'")
    if path.is_dir() or path.suffix in BAG_SUFFIXES:
        return Bag(path, topic)
    if topic:
        raise ConfigError(f"topic: '{path}' is a video file and has no topics; leave topic empty")
    return VideoFile(path)


def shrink(rgb: Rgb, max_side_px: int) -> Rgb:
    """Scale a picture down so that its longer side is at most `max_side_px` (0: as it is)."""
    height, width = rgb.shape[:2]
    longer = max(height, width)
    if max_side_px <= 0 or longer <= max_side_px:
        return rgb
    size = (max(1, round(width * max_side_px / longer)),
            max(1, round(height * max_side_px / longer)))
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)


class VideoFile:
    """A video file that OpenCV can decode."""

    has_stamps = False

    def __init__(self, path: Path) -> None:
        """Open the file and look at its first picture."""
        self.path = path
        self.skipped = 0
        reader = cv2.VideoCapture(str(path))
        rate_hz = reader.get(cv2.CAP_PROP_FPS)
        readable, _ = reader.read()
        reader.release()
        if not readable:
            raise ConfigError(
                f"video: OpenCV finds no picture in '{path}' ({path.stat().st_size} bytes); it "
                'reads what its FFmpeg reads (mp4, mkv, avi, webm ...), and a rosbag2 bag is its '
                f"folder or a file ending in {' or '.join(BAG_SUFFIXES)}")
        self.rate_hz = rate_hz if 0 < rate_hz < 1000 else 30.0

    def pictures(self) -> Iterator[Picture]:
        """Yield every picture; its time is its number divided by the file's rate."""
        reader = cv2.VideoCapture(str(self.path))
        try:
            index = 0
            while True:
                readable, bgr = reader.read()
                if not readable:
                    return
                rgb = np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)
                yield Picture(rgb, round(index * 1e9 / self.rate_hz))
                index += 1
        finally:
            reader.release()

    def describe(self) -> str:
        """Say in a few words what this is."""
        return f'video {self.path} at {self.rate_hz:g} pictures per second'


class Bag:
    """One image topic of a rosbag2 bag (sqlite3 or mcap)."""

    has_stamps = True

    def __init__(self, path: Path, topic: str = '') -> None:
        """Open the bag and choose the topic."""
        try:
            from rosbags.highlevel import AnyReader
            from rosbags.typesys import get_typestore, Stores
        except ImportError as error:
            raise ConfigError(
                "video: reading a bag needs the Python package 'rosbags': pip install rosbags"
            ) from error
        self.path = path
        self.skipped = 0
        self._reader: Callable[[], Any] = lambda: AnyReader(
            [path], default_typestore=get_typestore(Stores.ROS2_JAZZY))
        with self._opened() as reader:
            image_topics = sorted({c.topic for c in reader.connections
                                   if c.msgtype in _IMAGE_TYPES and c.msgcount})
        self.topic = topic or (image_topics[0] if len(image_topics) == 1 else '')
        if self.topic not in image_topics:
            there = ', '.join(image_topics) or 'none'
            wanted = f"no pictures on '{topic}'" if topic else 'not exactly one image topic'
            raise ConfigError(f"topic: '{path}' has {wanted}; its image topics are: {there}")

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            reader = self._reader()
            reader.open()
        except Exception as error:  # a torn file raises whatever its parser trips over
            raise ConfigError(
                f"video: '{self.path}' cannot be read as a rosbag2 bag: {error}; name the bag's "
                'folder, the one with metadata.yaml') from error
        try:
            yield reader
        finally:
            reader.close()

    def pictures(self) -> Iterator[Picture]:
        """Yield every picture with the stamp of its header."""
        from rosbags.serde import SerdeError
        with self._opened() as reader:
            chosen = [c for c in reader.connections if c.topic == self.topic]
            for connection, received_ns, raw in reader.messages(connections=chosen):
                try:
                    message = reader.deserialize(raw, connection.msgtype)
                    rgb = _IMAGE_TYPES[connection.msgtype](message)
                except (ImageFormatError, SerdeError):
                    self.skipped += 1
                    continue
                stamp = message.header.stamp
                stamp_ns = stamp.sec * 1_000_000_000 + stamp.nanosec
                yield Picture(rgb, stamp_ns or received_ns, message.header.frame_id)

    def describe(self) -> str:
        """Say in a few words what this is."""
        return f'topic {self.topic} of bag {self.path}'
