# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Where the things of a drive stand, what they are called, and when they come and go."""

from __future__ import annotations

from infinipot_ros.demo.rooms import VIEW_PX
from infinipot_ros.demo.settings import Setting
from infinipot_ros.demo.things import COLOURS, SHAPES, Thing
import numpy as np


def place_things(
    rng: np.random.Generator, setting: Setting, width: int, num_frames: int,
) -> list[Thing]:
    """Place everything that has a name: fixtures first, then the things of the setting."""
    things: list[Thing] = []
    if setting.fixtures is not None:
        things += _fixtures(rng, setting)
    if setting.moving:
        things += _along_the_drive(rng, setting, width, len(things))
    else:
        things += _one_after_the_other(rng, setting, num_frames, things)
    return things


def _along_the_drive(
    rng: np.random.Generator, setting: Setting, width: int, first_index: int,
) -> list[Thing]:
    if setting.spacing_px is None:
        count = int(np.clip(width // 60, 1, setting.things))
        pitch = width / count
        lefts = [(k + rng.uniform(0.1, 0.9)) * pitch - 20 for k in range(count)]
    else:
        lefts, at = [], rng.uniform(0, setting.spacing_px[0])
        while at < width - 30:
            lefts.append(at)
            at += rng.uniform(*setting.spacing_px)
    names = _names(rng, setting, len(lefts))
    placed = []
    for k, (left, (colour, shape)) in enumerate(zip(lefts, names)):
        size = int(rng.integers(30, 45))
        x = float(np.clip(left, 0, max(width - size, 0)))
        placed.append(Thing(first_index + k, colour, shape, x, float(rng.integers(4, 106 - size)),
                            size))
    return placed


def _names(
    rng: np.random.Generator, setting: Setting, count: int, shapes: list[str] | None = None,
) -> list[tuple[str, str]]:
    """Draw colours and shapes; a part of the things shares its colour with an earlier one."""
    pool = list(rng.permutation(SHAPES)) if shapes is None else shapes
    targets, rest = pool[:setting.target_shapes], pool[setting.target_shapes:]
    is_target = np.zeros(count, bool)
    if targets:
        is_target[rng.permutation(count)[:len(targets)]] = True
    names: list[tuple[str, str]] = []
    for k in range(count):
        if is_target[k]:
            shape = targets.pop()
        elif setting.unique_shapes:
            shape = pool[k % len(pool)]
        else:
            shape = str(rng.choice(rest))
        used = [colour for colour, _ in names]
        if used and rng.uniform() < setting.share_colour:
            colour = used[int(rng.integers(len(used)))]
        else:
            colour = list(COLOURS)[int(rng.integers(len(COLOURS)))]
        names.append((colour, str(shape)))
    return names


def _fixtures(rng: np.random.Generator, setting: Setting) -> list[Thing]:
    """Place permanent furniture of two shapes on a jittered grid of 3 x 2 places."""
    assert setting.fixtures is not None
    count = int(rng.integers(setting.fixtures[0], setting.fixtures[1] + 1))
    shapes = list(rng.permutation(SHAPES)[:2])
    places = rng.permutation(6)[:count]
    fixtures = []
    for k, place in enumerate(places):
        size = int(rng.integers(30, 35))
        x = 3 + (place % 3) * 37 + int(rng.integers(-2, 3))
        y = 12 + (place // 3) * 48 + int(rng.integers(-8, 9))
        colour = list(COLOURS)[int(rng.integers(len(COLOURS)))]
        fixtures.append(Thing(k, colour, str(shapes[k % 2]), float(np.clip(x, 0, VIEW_PX - size)),
                              float(y), size, fixture=True))
    return fixtures


def _one_after_the_other(
    rng: np.random.Generator, setting: Setting, num_frames: int, fixtures: list[Thing],
) -> list[Thing]:
    taken = {thing.shape for thing in fixtures}
    shapes = [str(shape) for shape in rng.permutation(SHAPES) if shape not in taken]
    count = min(setting.things, max(1, num_frames // 8))
    names = _names(rng, setting, count, shapes)
    pitch = num_frames / count
    placed = []
    for k, (colour, shape) in enumerate(names):
        stay = int(min(rng.integers(setting.stay_frames[0], setting.stay_frames[1] + 1),
                       max(2, pitch - 1)))
        appears = int(k * pitch + rng.uniform(0, max(pitch - stay, 0.0)))
        size = int(rng.integers(30, 45))
        placed.append(Thing(len(fixtures) + k, colour, shape,
                            float(rng.integers(0, VIEW_PX - size)),
                            float(rng.integers(4, 106 - size)), size,
                            max(appears, 1), appears + stay))
    return placed


def place_screens(
    rng: np.random.Generator, setting: Setting,
) -> list[tuple[int, int, int]]:
    """Return (column, row, side) of each flickering screen."""
    if setting.screens is None:
        return []
    count = int(rng.integers(setting.screens[0], setting.screens[1] + 1))
    sides = rng.permutation(2)[:count]
    return [(int(4 + 60 * side + rng.integers(0, 12)), int(rng.integers(6, 44)),
             int(rng.integers(24, 36))) for side in sides]


def blob_times(
    rng: np.random.Generator, setting: Setting, num_frames: int,
) -> list[tuple[int, int, int, int]]:
    """Return (first frame, frames to cross, row, seed) of each blob that crosses the view."""
    blobs: list[tuple[int, int, int, int]] = []
    if setting.screens is None:
        return blobs
    at = int(rng.integers(0, 20))
    while at < num_frames:
        blobs.append((at, int(rng.integers(6, 13)), int(rng.integers(20, 76)),
                      int(rng.integers(1 << 30))))
        at += int(rng.integers(8, 31))
    return blobs
