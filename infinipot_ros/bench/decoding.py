# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
How fast answers come from a full memory, beside `generate()` with a `DynamicCache` as long.

Both run on one model in one process and take turns, so that a busy machine slows both: the ratio
is that of neighbouring turns.
"""

from __future__ import annotations

from dataclasses import dataclass
import statistics

from infinipot_ros.bench.random_models import memory_model, stock_model
from infinipot_ros.bench.speed import answer, feed, new_memory, Setup
from infinipot_ros.bench.speed_stock import Stock
from infinipot_ros.models.hf_attention import STREAM_ATTENTION
import numpy as np
import torch

TURNS = 15


@dataclass(frozen=True)
class DecodingRow:
    """
    Tokens a second after so many tokens, ours and those of `generate()`: medians over turns.

    `ratio` is the median of ours over its neighbour's, with the quartiles around it.
    """

    config: str
    context_tokens: int
    turns: int
    ours_per_s: float
    generate_per_s: float
    ratio: float
    ratio_low: float
    ratio_high: float


def measure_decoding(setup: Setup, turns: int = TURNS) -> DecodingRow:
    """Fill a memory, and let it and `generate()` answer in turn."""
    model, tokenizer = stock_model(setup.config, setup.device, setup.torch_dtype)
    stock = Stock(setup, model, tokenizer)
    wrapped = memory_model(model, tokenizer, setup.config)
    memory = new_memory(wrapped, setup)
    status = memory.status()
    blank = np.zeros((*wrapped.default_frame_size_px, 3), np.uint8)
    feed(memory, blank, 0, status.capacity_tokens // status.tokens_per_frame, setup.device)
    read = memory.status().held_tokens + len(wrapped.prefix_ids())
    ours, theirs = [], []
    # The first turn of each is slower than all others.
    for _ in range(turns + 1):
        model.set_attn_implementation({'text_config': STREAM_ATTENTION})
        ours.append(answer(memory, setup.device)[1])
        model.set_attn_implementation({'text_config': 'sdpa'})
        with torch.inference_mode():
            theirs.append(stock.generate(read))
    return summary(setup.config, read, ours[1:], theirs[1:])


def summary(config: str, read: int, ours: list[float], theirs: list[float]) -> DecodingRow:
    """Return the row of rates that were measured in turn, at least two of each."""
    low, middle, high = statistics.quantiles(
        [mine / other for mine, other in zip(ours, theirs, strict=True)], n=4, method='inclusive')
    return DecodingRow(
        config, read, len(ours), round(statistics.median(ours), 2),
        round(statistics.median(theirs), 2), round(middle, 3), round(low, 3), round(high, 3))


def decoding_text(row: DecodingRow) -> str:
    """Say how fast answers come, beside `generate()`."""
    return (f'decoding after {row.context_tokens} tokens, medians of {row.turns} turns: '
            f'{row.ours_per_s:.1f} tokens a second, generate() with a DynamicCache '
            f'{row.generate_per_s:.1f}; neighbouring turns {row.ratio:.2f} of it '
            f'[{row.ratio_low:.2f}, {row.ratio_high:.2f}] (target: at least 1.00)')
