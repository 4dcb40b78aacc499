# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Training clips: a few frames of a drive with questions, as the memory would present them.

A clip may have lost a part of its older patches, as a compressed memory has. Which ones is drawn
at random and by where things are (the label), never by a key, a value or a policy's score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from infinipot_ros.demo.architecture import (
    GRID,
    IMAGE_MEAN,
    IMAGE_STD,
    MERGE,
    PATCH_PX,
    TOKENS_PER_FRAME,
)
from infinipot_ros.demo.questions import FAMILIES, make_question, Question, SIDES, Sightings
from infinipot_ros.demo.rooms import VIEW_PX
from infinipot_ros.demo.settings import Setting, WORLD_SETTINGS
from infinipot_ros.demo.things import COLOURS, SHAPES
from infinipot_ros.demo.world import Drive, Visible
import numpy as np

CELL_PX = PATCH_PX * MERGE
IGNORED = -100
NO_THING = len(COLOURS)

_MIX: dict[str, float] = {'calm': 0.33, 'still': 0.18, 'crowd': 0.2, 'screen': 0.12,
                          'vivid': 0.17}
_FAMILY_SHARE: dict[str, float] = {'colour': 0.2, 'shape': 0.16, 'did': 0.29, 'now': 0.11,
                                   'see': 0.1, 'where': 0.1, 'first': 0.04}


@dataclass
class Clip:
    """
    What one training example is made of; n frames of 16 patches.

    ``frames`` uint8 ``[n, 112, 112, 3]``; ``kept`` bool ``[n, 16]``; the label arrays int64
    ``[n, 16]`` (``IGNORED`` where a patch shows only a part of a thing, ``NO_THING`` for
    background); ``instant`` newest frames are encoded apart from the older ones (DSCache);
    ``asked_at[k]`` is the frame after which question k comes.
    """

    frames: np.ndarray
    kept: np.ndarray
    colour: np.ndarray
    shape: np.ndarray
    side: np.ndarray
    instant: int
    questions: list[Question]
    asked_at: list[int]


def draw_clip(
    rng: np.random.Generator, num_frames: int, num_questions: int, see_share: float | None = None,
) -> Clip:
    """
    Draw a clip of ``num_frames`` with up to ``num_questions`` questions.

    :param see_share: share of 'what do you see now'; ``None`` for the standard mix.
    """
    drive, picked = _draw_frames(rng, num_frames)
    views = [drive.visible(index) for index in picked]
    instant = int(rng.integers(1, 5)) if num_frames > 5 and rng.uniform() < 0.3 else 0
    labels = [cell_labels(view) for view in views]
    recent = max(instant, int(rng.integers(1, 4)))
    kept = np.ones((num_frames, TOKENS_PER_FRAME), bool)
    dropped = num_frames > 2 and rng.uniform() < 0.6
    if dropped:
        older = max(num_frames - recent, 0)
        kept[:older] = _draw_kept(rng, np.stack([label[0] for label in labels])[:older])
    first_time = num_frames - 1 if instant else num_frames - recent if dropped else 0
    times = np.sort(np.where(rng.uniform(size=num_questions) < 0.4, num_frames - 1,
                             rng.integers(first_time, num_frames, num_questions)))
    questions, asked_at = _ask(rng, views, kept, times, see_share)
    return Clip(np.stack([drive.frame(index).rgb for index in picked]), kept,
                *(np.stack([label[k] for label in labels]) for k in range(3)),
                instant, questions, asked_at)


def cell_labels(view: list[Visible]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Say what each patch of a frame shows: colour, shape and side of the view, each ``[16]``."""
    colour = np.full(TOKENS_PER_FRAME, NO_THING)
    shape = np.full(TOKENS_PER_FRAME, len(SHAPES))
    side = np.full(TOKENS_PER_FRAME, IGNORED)
    best = np.zeros(TOKENS_PER_FRAME)
    for item in view:
        inside = _cell_overlap(item)
        share = inside / CELL_PX ** 2
        shown = (share > 0.3) | (inside > 0.24 * item.thing.size ** 2)
        take = shown & (share > best)
        partly = ~shown & (share > 0.06) & (best == 0)
        for label in (colour, shape):
            label[partly] = IGNORED
        colour[take] = list(COLOURS).index(item.thing.colour)
        shape[take] = SHAPES.index(item.thing.shape)
        side[take] = int(np.clip(item.centre_x * len(SIDES) / VIEW_PX, 0, len(SIDES) - 1))
        best = np.where(take, share, best)
    return colour, shape, side


def to_patches(frames: np.ndarray) -> np.ndarray:
    """
    Cut frames into normalised patches in the order of the Qwen2-VL image processor.

    :param frames: uint8 ``[n, 112, 112, 3]``.
    :returns: float32 ``[n, 64, 588]``.
    """
    n, step = len(frames), VIEW_PX // PATCH_PX
    x = (frames.astype(np.float32) / 255.0 - IMAGE_MEAN) / IMAGE_STD
    x = x.reshape(n, GRID, MERGE, PATCH_PX, GRID, MERGE, PATCH_PX, 3)
    x = x.transpose(0, 1, 4, 2, 5, 7, 3, 6)
    return np.ascontiguousarray(x.reshape(n, step * step, 3 * PATCH_PX ** 2))


def _draw_frames(rng: np.random.Generator, num_frames: int) -> tuple[Drive, list[int]]:
    """Draw a drive and the frames of it that the clip shows, in order of time."""
    name = str(rng.choice(list(_MIX), p=list(_MIX.values())))
    setting = _vary(rng, WORLD_SETTINGS[name])
    gapped = num_frames > 3 and rng.uniform() < 0.5
    length = num_frames * int(rng.integers(2, 5)) if gapped else num_frames
    drive = Drive(int(rng.integers(1 << 40)), setting, length)
    if not gapped:
        return drive, list(range(num_frames))
    picked = np.sort(rng.permutation(length)[:num_frames])
    return drive, [int(index) for index in picked]


def _vary(rng: np.random.Generator, setting: Setting) -> Setting:
    """Vary how many things there are, so that short clips are as rich as long streams."""
    setting = replace(setting, share_colour=float(rng.uniform(0.2, 0.7)))
    if setting.moving and setting.target_shapes == 0:
        low = int(rng.integers(36, 100))
        return replace(setting, spacing_px=(low, low + 50),
                       unique_shapes=bool(rng.uniform() < 0.5), speed_px=(6.0, 30.0))
    return setting


def _draw_kept(rng: np.random.Generator, colour: np.ndarray) -> np.ndarray:
    """Draw which patches ``[n, 16]`` a compressed memory still holds."""
    keep_background, keep_things = rng.uniform(0.03, 0.6), rng.uniform(0.25, 1.0)
    probability = np.where(colour == NO_THING, keep_background, keep_things)
    return rng.uniform(size=colour.shape) < probability


def _ask(
    rng: np.random.Generator, views: list[list[Visible]], kept: np.ndarray, times: np.ndarray,
    see_share: float | None,
) -> tuple[list[Question], list[int]]:
    shares = np.asarray([_FAMILY_SHARE[family] for family in FAMILIES])
    if see_share is not None:
        is_see = np.asarray([family == 'see' for family in FAMILIES])
        shares = np.where(is_see, see_share, shares / shares[~is_see].sum() * (1 - see_share))
    sightings = Sightings()
    questions, asked_at = [], []
    for index, (view, keep) in enumerate(zip(views, kept)):
        sightings.add([replace(item, fraction=_shown_fraction(item, keep)) for item in view])
        for _ in range(int((times == index).sum())):
            family = str(rng.choice(FAMILIES, p=shares))
            question = make_question(family, sightings, rng, phrase=None)
            if question is not None:
                questions.append(question)
                asked_at.append(index)
    return questions, asked_at


def _shown_fraction(item: Visible, keep: np.ndarray) -> float:
    """Return how much of a thing is in view and on a patch that is still held."""
    if keep.all():
        return item.fraction
    inside = _cell_overlap(item)
    return float(item.fraction * (inside * keep).sum() / max(inside.sum(), 1e-6))


def _cell_overlap(item: Visible) -> np.ndarray:
    """Return the pixels of a thing's box in each patch ``[16]``."""
    x0, y0, x1, y1 = item.box
    edge = np.arange(GRID) * CELL_PX
    across = np.clip(np.minimum(x1, edge + CELL_PX) - np.maximum(x0, edge), 0, None)
    down = np.clip(np.minimum(y1, edge + CELL_PX) - np.maximum(y0, edge), 0, None)
    return np.outer(down, across).reshape(-1)
