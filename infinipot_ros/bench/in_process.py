# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Work in a fresh process, so that its memory and its threads are its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
from typing import TypeVar

import torch

Result = TypeVar('Result')


def in_process(threads: int, work: Callable[..., Result], *arguments: object) -> Result:
    """Run work with so many threads in a process that ends with it."""
    context = multiprocessing.get_context('spawn')
    with ProcessPoolExecutor(1, mp_context=context, initializer=torch.set_num_threads,
                             initargs=(threads,)) as pool:
        return pool.submit(work, *arguments).result()
