# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
The demo world: a robot's drive past coloured things, with the truth known for every frame.

A drive is a pure function of its seed, its setting and its length, so that a benchmark or a bug
report names a stream by three words. Five settings differ in what they ask of a memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from infinipot_ros.demo.placement import blob_times, place_screens, place_things
from infinipot_ros.demo.rooms import (
    muted_rooms,
    screen_picture,
    striped_blob,
    VIEW_PX,
    vivid_panels,
)
from infinipot_ros.demo.settings import Setting, SETTINGS, WORLD_SETTINGS
from infinipot_ros.demo.things import paste, shadow, sprite, Thing
import numpy as np

SEEN_FRACTION = 0.6
PX_PER_METRE = 56.0


@dataclass(frozen=True)
class Visible:
    """A thing in view: its box (x0, y0, x1, y1 in pixels of scale 1) and how much is inside."""

    thing: Thing
    box: tuple[float, float, float, float]
    fraction: float

    @property
    def centre_x(self) -> float:
        """Return the column of the thing's centre, in pixels of scale 1."""
        return (self.box[0] + self.box[2]) / 2


@dataclass(frozen=True)
class Frame:
    """One camera picture (uint8 ``[112 * scale, 112 * scale, 3]``) with pose and truth."""

    rgb: np.ndarray
    pose: tuple[float, float, float]
    visible: list[Visible]


class Drive:
    """
    One stream of the demo world.

    :param setting: a name in ``SETTINGS``, or a ``Setting`` of one's own.
    :param scale: pictures are ``112 * scale`` pixels wide and high; the model reads scale 1.
    """

    fps = 2.0

    def __init__(
        self, seed: int, setting: str | Setting = 'calm', num_frames: int = 300, scale: int = 1,
    ) -> None:
        """Lay out the whole drive; pictures are drawn when they are asked for."""
        if isinstance(setting, str):
            if setting not in WORLD_SETTINGS:
                raise ValueError(f'unknown setting {setting!r}; known: {", ".join(SETTINGS)}')
            tag = SETTINGS.index(setting)
            setting = WORLD_SETTINGS[setting]
        else:
            tag = len(SETTINGS)
        if num_frames < 1 or scale < 1:
            raise ValueError(f'num_frames and scale must be at least 1, got {num_frames}, {scale}')
        self.setting = setting
        self.num_frames = num_frames
        self.scale = scale
        self._seed = (seed, tag)
        rng = np.random.default_rng([seed, tag, num_frames])
        self._left = _camera_path(rng, setting, num_frames)
        self._width = int(np.ceil(self._left[-1])) + VIEW_PX
        self.things: tuple[Thing, ...] = tuple(
            place_things(rng, setting, self._width, num_frames))
        self._gain = _camera_gain(rng, num_frames)
        self._noise_level = rng.uniform(1.5, 5.0)
        self._screens = place_screens(rng, setting)
        self._blobs = blob_times(rng, setting, num_frames)
        self._strip = self._paint(np.random.default_rng([seed, tag, 1]))

    def pose(self, index: int) -> tuple[float, float, float]:
        """Return where the robot is: x, y in metres and heading in radians (it looks sideways)."""
        return float(self._left[index]) / PX_PER_METRE, 0.0, 0.0

    def visible(self, index: int) -> list[Visible]:
        """Return what is in view of a frame, from left to right, without drawing it."""
        left = float(self._left[index])
        found = []
        for thing in self.things:
            if not thing.appears <= index < thing.leaves:
                continue
            x0 = thing.x - left
            inside = min(x0 + thing.size, VIEW_PX) - max(x0, 0.0)
            if inside > 0:
                box = (x0, thing.y, x0 + thing.size, thing.y + thing.size)
                found.append(Visible(thing, box, inside / thing.size))
        return sorted(found, key=lambda item: item.centre_x)

    def frame(self, index: int) -> Frame:
        """Draw one frame; any frame can be drawn at any time and is always the same."""
        scale, left = self.scale, round(float(self._left[index]) * self.scale)
        view = self._strip[:, left:left + VIEW_PX * scale].astype(np.float32)
        rng = np.random.default_rng([*self._seed, 2, index])
        self._draw_moving(view, index, rng)
        view *= self._gain[index]
        view += _noise(rng, view.shape, self._noise_level)
        rgb = np.clip(view, 0, 255).astype(np.uint8)
        return Frame(rgb, self.pose(index), self.visible(index))

    def last_seen(self, thing: Thing, until: int) -> int | None:
        """Return the newest frame up to ``until`` that shows the thing, or ``None``."""
        for index in range(until, -1, -1):
            for item in self.visible(index):
                if item.thing == thing and item.fraction >= SEEN_FRACTION:
                    return index
        return None

    def seen_until(self, until: int) -> set[Thing]:
        """Return all things that some frame up to ``until`` shows."""
        return {item.thing for index in range(until + 1) for item in self.visible(index)
                if item.fraction >= SEEN_FRACTION}

    def _paint(self, rng: np.random.Generator) -> np.ndarray:
        if self.setting.vividness is None:
            strip = muted_rooms(rng, self._width, self.scale)
        else:
            strip = vivid_panels(rng, self._width, self.scale, self.setting.vividness)
        for thing in self.things:
            if thing.appears == 0 and thing.leaves > self.num_frames:
                self._put(strip, thing, 0.0)
        return np.clip(strip, 0, 255).astype(np.uint8)

    def _put(self, view: np.ndarray, thing: Thing, left: float) -> None:
        scale = self.scale
        size = thing.size * scale
        x, y = round((thing.x - left) * scale), round(thing.y * scale)
        paste(view, shadow(thing.shape, size), x + 2 * scale, y + 2 * scale)
        paste(view, sprite(thing.shape, thing.colour, size), x, y)

    def _draw_moving(self, view: np.ndarray, index: int, rng: np.random.Generator) -> None:
        for x, y, size in self._screens:
            paste(view, screen_picture(rng, size, self.scale), x * self.scale, y * self.scale)
        for thing in self.things:
            popped = thing.appears > 0 or thing.leaves <= self.num_frames
            if popped and thing.appears <= index < thing.leaves:
                self._put(view, thing, float(self._left[index]))
        for start, frames, y, blob_seed in self._blobs:
            if start <= index < start + frames:
                picture = striped_blob(np.random.default_rng(blob_seed), self.scale)
                across = (index - start + 0.5) / frames * (VIEW_PX + 24) - 24
                paste(view, picture, round(across * self.scale), y * self.scale)


def _camera_path(rng: np.random.Generator, setting: Setting, num_frames: int) -> np.ndarray:
    """Return the left edge of every frame: static stretches and drives, world pixels."""
    if not setting.moving:
        return np.zeros(num_frames)
    steps: list[float] = []
    driving = bool(rng.uniform() < 0.7)
    while len(steps) < num_frames:
        if driving:
            length = int(rng.integers(8, 31))
            speed = rng.uniform(*setting.speed_px)
            steps += list(speed * rng.uniform(0.85, 1.15, length))
        else:
            steps += [0.0] * int(rng.integers(4, 16))
        driving = not driving
    return np.concatenate([[0.0], np.cumsum(steps)])[:num_frames]


def _camera_gain(rng: np.random.Generator, num_frames: int) -> np.ndarray:
    """Return exposure per frame: a slow drift and a little flicker."""
    frames = np.arange(num_frames)
    drift = 0.07 * np.sin(frames / rng.uniform(20, 60) + rng.uniform(0, 6))
    return np.asarray(1.0 + drift + rng.normal(0, 0.012, num_frames), np.float32)


_NOISE = np.random.default_rng(7).normal(0, 1, 1 << 20).astype(np.float32)


def _noise(rng: np.random.Generator, shape: tuple[int, ...], level: float) -> np.ndarray:
    """Cut sensor noise out of a fixed pool: a fresh normal draw would cost more than the frame."""
    size = int(np.prod(shape))
    if size >= len(_NOISE):
        return rng.normal(0, level, shape).astype(np.float32)
    start = int(rng.integers(len(_NOISE) - size))
    return level * _NOISE[start:start + size].reshape(shape)
