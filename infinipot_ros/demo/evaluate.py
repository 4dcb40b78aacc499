# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Measure the demo model on held-out clips, by question family, and write its model card.

``python -m infinipot_ros.demo.evaluate`` prints the table; ``--card`` also writes the card.
Clips go through the product's own memory, whole (no compression), first as one cumulative cache
and then with the four newest frames apart (DSCache), since both are what users run.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
import math
from pathlib import Path

from infinipot_ros.demo.questions import FAMILIES, is_right, make_question, Question, Sightings
from infinipot_ros.demo.settings import WORLD_SETTINGS
from infinipot_ros.demo.world import Drive
from infinipot_ros.memory import MemoryConfig, VideoMemory
from infinipot_ros.memory.model import VisionLanguageModel
from infinipot_ros.models import load_model
import numpy as np
import torch

HELD_OUT_SEED = 9_000_000
CLIP_FRAMES = 24
# Things stand denser than in `calm`, so that 24 frames hold some to confuse.
CLIP_SETTING = replace(WORLD_SETTINGS['calm'], spacing_px=(60, 110), unique_shapes=False)
KINDS: dict[str, tuple[str | None, ...]] = {
    'did': ('yes', 'yes-shared', 'no', 'no-recombined'),
    'now': ('yes', 'yes-shared', 'no', 'no-recombined'),
    'colour': ('seen', 'never'), 'shape': ('seen', 'never')}

Tally = dict[str, tuple[int, int]]


def evaluate_clips(
    model: VisionLanguageModel, clips: int, first_seed: int, instant_frames: int,
) -> Tally:
    """
    Ask about every clip whatever its families allow.

    :returns: for every family, and every kind of it, (right answers, questions).
    """
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + clips):
        drive = Drive(seed, CLIP_SETTING, CLIP_FRAMES)
        memory = _memory(model, instant_frames)
        sightings = Sightings()
        for index in range(CLIP_FRAMES):
            frame = drive.frame(index)
            memory.add_frame(frame.rgb, stamp=index / drive.fps)
            sightings.add(frame.visible)
        for question in _questions(sightings, np.random.default_rng([seed, 5])):
            good = is_right(question, memory.ask(question.text).text)
            for name in (question.family, f'{question.family} {question.kind}'):
                asked[name] += 1
                right[name] += good
    return {name: (right[name], asked[name]) for name in sorted(asked)}


def wilson(right: int, asked: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share."""
    z, share = 1.96, right / asked
    middle = share + z * z / (2 * asked)
    spread = z * math.sqrt(share * (1 - share) / asked + z * z / (4 * asked * asked))
    return (middle - spread) / (1 + z * z / asked), (middle + spread) / (1 + z * z / asked)


def table(tallies: dict[str, Tally]) -> str:
    """Format tallies of the same questions side by side as a Markdown table."""
    names = list(tallies)
    lines = ['| questions | n | ' + ' | '.join(f'{name}, % right [95 %]' for name in names) + ' |',
             '|---|---|' + '---|' * len(names)]
    for row in tallies[names[0]]:
        cells = []
        for name in names:
            right, asked = tallies[name][row]
            low, high = wilson(right, asked)
            cells.append(f'{100 * right / asked:.1f} [{100 * low:.1f}, {100 * high:.1f}]')
        lines.append(f'| {row} | {tallies[names[0]][row][1]} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Print the table, and write the card where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--model', default='demo', help="'demo' or a folder")
    parser.add_argument('--clips', type=int, default=400)
    parser.add_argument('--first-seed', type=int, default=HELD_OUT_SEED)
    parser.add_argument('--card', type=Path, help='model card to write the table into')
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    model = load_model(options.model)
    text = table({
        name: evaluate_clips(model, options.clips, options.first_seed, instant_frames)
        for name, instant_frames in (('one cache', 0), ('4 frames apart', 4))})
    header = (f'{options.clips} held-out clips of {CLIP_FRAMES} frames, seeds '
              f'{options.first_seed} to {options.first_seed + options.clips - 1}.')
    print(f'{header}\n\n{text}')
    if options.card is not None:
        write_section(options.card, 'clips', f'{header}\n\n{text}')


def write_section(card: Path, name: str, text: str) -> None:
    """Replace what stands between the two marks of a section of the card."""
    start, end = f'<!-- {name}: written by a command -->', f'<!-- end of {name} -->'
    page = card.read_text()
    if start not in page or end not in page:
        raise ValueError(f'{card} has no section {name!r} between {start!r} and {end!r}')
    before, rest = page.split(start, 1)
    card.write_text(f'{before}{start}\n{text}\n{end}{rest.split(end, 1)[1]}')


def _memory(model: VisionLanguageModel, instant_frames: int) -> VideoMemory:
    """Make a memory that holds a whole clip, so that reading is measured and not forgetting."""
    return VideoMemory(model, MemoryConfig(budget_mib=3, policy='tar', thumbnail_px=0,
                                           instant_frames=instant_frames, max_new_tokens=16))


def _questions(sightings: Sightings, rng: np.random.Generator) -> list[Question]:
    made: dict[str, Question] = {}
    for family in FAMILIES:
        for kind in KINDS.get(family, (None,)):
            for _ in range(4):
                question = make_question(family, sightings, rng, kind)
                if question is not None:
                    made.setdefault(f'{question.text}', question)
                    break
    return list(made.values())


if __name__ == '__main__':
    main()
