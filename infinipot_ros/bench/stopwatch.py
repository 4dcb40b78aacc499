# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The time of every call of one function, and waiting for an accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import time
from typing import Any

import torch


def synchronize(device: str) -> None:
    """Wait until an accelerator has done what it was told."""
    if torch.device(device).type == 'cuda':
        torch.cuda.synchronize()


@contextmanager
def stopwatch(
    spent: dict[str, float], name: str, owner: Any, function: str, device: str,
) -> Iterator[None]:
    """Add the time of every call of `owner.function` to `spent[name]`."""
    original: Callable[..., Any] = getattr(owner, function)

    def timed(*args: Any, **kwargs: Any) -> Any:
        synchronize(device)
        start = time.perf_counter()
        result = original(*args, **kwargs)
        synchronize(device)
        spent[name] += time.perf_counter() - start
        return result

    setattr(owner, function, timed)
    try:
        yield
    finally:
        setattr(owner, function, original)
