# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""`infinipot calibrate`: measure the thresholds of g(CV), by which VaN chooses its kernel."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
import os
from pathlib import Path
import sys
from typing import Any

from infinipot_ros.ask_command import add_source_arguments, sampled_pictures
from infinipot_ros.bench.tables import plain_table
from infinipot_ros.errors import ConfigError
from infinipot_ros.models.calibration import Calibration, FILE_NAME, NONE
import numpy as np

FEW_COMPRESSIONS = 8
_HOW_TO_USE = ('--calibration, the node by its parameter calibration, and Python by '
               'load_model(..., calibration=...)')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument('file', type=Path, nargs='?', help='a video file, or the folder or file '
                        'of a bag (default: a drive through the demo world)')
    add_source_arguments(parser)
    parser.add_argument('--frames', type=int, default=300, help='frames of the demo world')
    parser.add_argument('--budget-mib', type=float, default=8.0,
                        help='a full memory of this size is measured')
    parser.add_argument('--out', type=Path, help='JSON file to write (default: '
                        f"{FILE_NAME} in the model's folder)")


def run(options: argparse.Namespace, _: Sequence[str]) -> int:
    """Measure on a recording, print the CV of every layer, and write the thresholds."""
    path = writable(options.out) if options.out else _own_path(options.model)
    from infinipot_ros.models import load_model
    pictures = _demo_pictures(options) if options.file is None else (
        picture.rgb for picture in sampled_pictures(options))
    model = load_model(options.model, options.device, options.dtype, calibration=NONE)
    variations = measure(model, pictures, options.budget_mib)
    thresholds = thresholds_of(variations)
    rows = [[str(layer), str(len(found)), f'{np.mean(found):.3f}', f'{min(found):.3f}',
             f'{max(found):.3f}'] for layer, found in enumerate(variations)]
    print(plain_table(['layer', 'compressions', 'mean CV', 'least', 'most'], rows))
    print('thresholds (quartiles over layers and compressions): '
          + ', '.join(f'{tau:.4f}' for tau in thresholds))
    if min(map(len, variations)) < FEW_COMPRESSIONS:
        print(f'that is little to go by: give a longer recording or a smaller --budget-mib, for '
              f'{FEW_COMPRESSIONS} compressions or more', file=sys.stderr)
    calibration = Calibration(
        options.model, model.shape.layers, model.weights_sample,
        str(options.file or 'demo world'), thresholds)
    try:
        calibration.write(path)
    except OSError as error:
        raise ConfigError(f'out: {path} cannot be written: {error}') from error
    print(f'{path} written; ' + (
        f'infinipot ask reads it by {_HOW_TO_USE}' if options.out
        else 'whatever loads this folder uses it from now on'))
    return 0


def _own_path(model: str) -> Path:
    """Return where a model's own file is. Raises ConfigError where none can be."""
    if not Path(model).expanduser().is_dir():
        raise ConfigError(f'out: {model!r} is no folder to put {FILE_NAME} into; give --out. '
                          f'infinipot ask reads such a file by {_HOW_TO_USE}')
    return writable(Path(model).expanduser() / FILE_NAME)


def writable(path: Path) -> Path:
    """Make the folder of a file; raise ConfigError, before hours of work, if it is read-only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        wrong = path.is_dir() or not os.access(path.parent, os.W_OK)
    except OSError as error:
        raise ConfigError(f'out: {path} cannot be written: {error}; give --out') from error
    if wrong:
        raise ConfigError(f'out: {path} cannot be written; give another place with --out')
    return path


def measure(model: Any, pictures: Iterator[np.ndarray], budget_mib: float) -> list[list[float]]:
    """
    Return the CV of every layer's value norms at every compression, a list for each layer.

    Raises `ConfigError` where the pictures never fill the memory.
    """
    from infinipot_ros.bench.probe import Probe
    from infinipot_ros.memory import MemoryConfig, VideoMemory
    from infinipot_ros.memory.policies.rows import row_norms
    from infinipot_ros.memory.policies.van import coefficient_of_variation
    variations: list[list[float]] = [[] for _ in range(model.shape.layers)]
    with Probe('infinipot_v', lambda view, kept: variations[view.layer].append(
            coefficient_of_variation(row_norms(view.values)))) as policy:
        memory = VideoMemory(model, MemoryConfig(
            budget_mib=budget_mib, policy=policy, instant_frames=0, thumbnail_px=0))
        for index, rgb in enumerate(pictures):
            memory.add_frame(rgb, stamp=float(index))
    if not variations[0]:
        status = memory.status()
        raise ConfigError(
            f'{status.frames_seen} frames do not fill a memory of {status.capacity_tokens} tokens '
            f'({status.tokens_per_frame} a frame), so nothing was compressed: give a longer '
            'recording, a higher --sample-fps or a lower --budget-mib')
    return variations


def thresholds_of(variations: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return the three quartiles of all values, rising."""
    everything = np.concatenate([np.asarray(found) for found in variations])
    low, middle, high = (float(tau) for tau in np.quantile(everything, [0.25, 0.5, 0.75]))
    return low, middle, high


def _demo_pictures(options: argparse.Namespace) -> Iterator[np.ndarray]:
    from infinipot_ros.bench.streams import make_streams
    drive = make_streams('calm', 1, options.frames, tuning=True)[0].drive()
    return (drive.frame(index).rgb for index in range(drive.num_frames))
