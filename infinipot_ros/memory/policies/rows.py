# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Norms and cosines of many rows in a small, fixed workspace."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

#: Elements of a row block: 1 MiB in single precision, which a core's cache can hold.
BLOCK_ELEMENTS = 1 << 18
#: Norms below this count as zero, as in `torch.nn.functional.normalize`.
_LEAST_NORM = 1e-12


def unit_rows(rows: Tensor) -> Tensor:
    """Return rows of length 1, [..., D], in at least single precision; zero rows stay zero."""
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    unit: Tensor = rows / norms.clamp_min_(_LEAST_NORM)
    return unit


def row_norms(rows: Tensor) -> Tensor:
    """Return the Euclidean norm of each row: [H, N, D] -> [H, N], in at least single precision."""
    norms = rows.new_empty(rows.shape[:2], dtype=torch.promote_types(rows.dtype, torch.float32))
    for block in _blocks(rows):
        norms[:, block] = torch.linalg.vector_norm(rows[:, block].to(norms.dtype), dim=-1)
    return norms


def cosines_to_rows(rows: Tensor, others: Tensor, which: Tensor) -> Tensor:
    """
    Return normalised rows times `others[h, which[h, n]]`: [H, N, D], [H, P, D] -> [H, N].

    A cosine where `others` has length 1, and a mean of cosines where it is a mean of such rows.
    """
    heads, patches, _ = others.shape
    flat = others.flatten(0, 1)
    place = which + patches * torch.arange(heads, device=which.device).unsqueeze(-1)
    cosines = others.new_empty(which.shape)
    for block in _blocks(rows):
        part = rows[:, block].to(others.dtype)
        norms = torch.linalg.vector_norm(part, dim=-1).clamp_min_(_LEAST_NORM)
        other = flat.index_select(0, place[:, block].flatten()).view_as(part)
        cosines[:, block] = other.mul_(part).sum(-1) / norms
    # Keys too large to square would give inf / inf.
    return cosines.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _blocks(rows: Tensor) -> Iterator[slice]:
    step = max(1, BLOCK_ELEMENTS // (rows.shape[0] * rows.shape[2]))
    for start in range(0, rows.shape[1], step):
        yield slice(start, start + step)
