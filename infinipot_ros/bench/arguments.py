# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Types of command-line arguments that refuse, before hours of work, what cannot go well."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
import os
from pathlib import Path

import torch


def at_least(least: int) -> Callable[[str], int]:
    """Return a type for whole numbers from `least` on."""
    def whole_number(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise ArgumentTypeError(f'{text!r} is no whole number of at least {least}')
        return number
    return whole_number


def device(text: str) -> str:
    """Return the name of a device that there is."""
    try:
        torch.empty(0, device=text)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ArgumentTypeError(f'{text!r} cannot be used: {reason}') from error
    return text


def folder(text: str) -> Path:
    """Return a folder that can be written to, made where it is missing."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentTypeError(f'{text!r} cannot be made: {error.strerror}') from error
    if not os.access(path, os.W_OK):
        raise ArgumentTypeError(f'{text!r} cannot be written to')
    return path
