# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The thresholds of g(CV) that `infinipot calibrate` measured on a model, as a file beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
import json
import math
from pathlib import Path
from typing import Any

from infinipot_ros.errors import ModelLoadError
import torch
from torch import Tensor

#: The file in a model's folder that is read without being named.
FILE_NAME = 'infinipot_calibration.json'
#: Given instead of a path: use none, not even the folder's own.
NONE = 'none'
_SAMPLE = 32
# bfloat16 keeps 8 bits: the same weights in another dtype differ by 0.4 % at most.
_TOLERANCE = 0.01


@dataclass(frozen=True)
class Calibration:
    """
    What one model's value norms are like.

    `cv_thresholds` (tau1, tau2, tau3) choose VaN's kernel, InfiniPot-V's g(CV). `weights` are some
    numbers of the model measured, by which it is known again in whatever dtype it is loaded.
    """

    model: str
    layers: int
    weights: tuple[tuple[float, ...], ...]
    source: str
    cv_thresholds: tuple[float, float, float]

    def write(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        path.write_text(json.dumps(asdict(self), indent=2) + '\n', encoding='utf-8')

    def check(self, path: Path, name: str, layers: int,
              weights: Sequence[Sequence[float]]) -> None:
        """Raise ModelLoadError unless it was measured on the model of that name."""
        seen = f"calibration '{path}' was measured on the model {self.model!r}"
        advice = f"calibrate {name!r}, or give calibration '{NONE}'"
        if self.layers != layers:
            raise ModelLoadError(
                f'{seen} of {self.layers} layers, and {name!r} has {layers}: {advice}')
        if len(weights) != len(self.weights) or not all(
                map(_same_numbers, weights, self.weights)):
            raise ModelLoadError(f'{seen} with other weights than those of {name!r}: {advice}')


def read_calibration(path: Path) -> Calibration:
    """Return what a file holds. Raises ModelLoadError where it is missing or something else."""
    try:
        found = json.loads(path.read_text(encoding='utf-8'))
        low, middle, high = (_number(tau) for tau in found['cv_thresholds'])
        if not low <= middle <= high:
            raise ValueError(f'cv_thresholds {[low, middle, high]} do not rise')
        return Calibration(
            model=str(found['model']),
            layers=int(found['layers']),
            weights=tuple(tuple(map(_number, part)) for part in found['weights']),
            source=str(found['source']),
            cv_thresholds=(low, middle, high),
        )
    except OSError as error:
        raise ModelLoadError(f"calibration '{path}' cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelLoadError(
            f"calibration '{path}' is no file of 'infinipot calibrate' ({error!r}): make it "
            f"again, take it away, or give calibration '{NONE}'"
        ) from error


def find_calibration(calibration: str | Path, folder: Path | None) -> Path | None:
    """Return the file that is named, or the one in a model's folder, or None."""
    if str(calibration) == NONE:
        return None
    if str(calibration):
        return Path(calibration).expanduser()
    own = None if folder is None else folder / FILE_NAME
    return own if own is not None and own.exists() else None


def sample_of(*weights: Tensor) -> tuple[tuple[float, ...], ...]:
    """Return some numbers of each tensor."""
    parts = [weight.detach().reshape(-1) for weight in weights]
    some = [part[:: max(1, part.numel() // _SAMPLE)][:_SAMPLE] for part in parts]
    return tuple(tuple(part.to('cpu', torch.float32).tolist()) for part in some)


def _same_numbers(some: Sequence[float], others: Sequence[float]) -> bool:
    # On the scale of the largest: what is near 0 has lost its digits in bfloat16.
    room = _TOLERANCE * max(map(abs, some), default=0.0)
    return len(some) == len(others) and all(
        math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=room)
        for one, other in zip(some, others, strict=True))


def _number(value: Any) -> float:
    number = float(value)
    if isinstance(value, str | bool) or not math.isfinite(number):
        raise ValueError(f'{value!r} is no finite number')
    return number
