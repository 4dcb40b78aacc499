# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the speed benchmark measures is what it says: lengths, bytes, parts that add up."""

from infinipot_ros.bench.decoding import decoding_text, measure_decoding, summary
from infinipot_ros.bench.peak import PeakMemory
from infinipot_ros.bench.random_models import stock_model
from infinipot_ros.bench.speed import measure_memory, parse_lengths, Setup
from infinipot_ros.bench.speed_stock import measure_stock, Stock
from infinipot_ros.errors import ConfigError
from infinipot_ros.memory import attention
import pytest
import torch

SETUP = Setup('qwen2_vl_micro', 160, (640, 1280))
# Keys and values of two layers with two heads of 16 numbers, in single precision.
TOKEN_BYTES = 2 * 2 * 2 * 16 * 4


def test_a_memory_stays_as_large_as_it_is_and_a_growing_cache_grows():
    rotate = attention.rotate
    rows, split = measure_memory(SETUP)
    assert attention.rotate is rotate
    assert [row.context_tokens for row in rows] == [640, 1280]
    assert rows[0].kv_bytes == rows[1].kv_bytes
    assert rows[0].kv_bytes >= 160 * TOKEN_BYTES
    assert all(row.frame_ms > 0 and row.tokens_per_s > 0 for row in rows)
    parts = split.vision_ms + split.layers_ms + split.rotation_ms + split.compression_ms
    assert parts == pytest.approx(split.total_ms, abs=0.01)
    assert split.rotation_ms > 0
    assert split.compression_ms > 0

    stock = measure_stock(SETUP)
    for row, length in zip(stock, SETUP.lengths):
        # Up to one answer more than asked for; the first of two answers stays in the cache.
        assert length <= row.context_tokens <= length + 64
        assert row.kv_bytes == row.context_tokens * TOKEN_BYTES
    assert stock[1].kv_bytes > stock[0].kv_bytes


def test_the_stock_model_reads_what_is_in_its_cache():
    def stock_of_its_own():
        return Stock(SETUP, *stock_model(SETUP.config, 'cpu', torch.float32))

    with torch.inference_mode():
        stock = stock_of_its_own()
        stock.fill(100)
        assert stock.cache.get_seq_length() == 100
        frame = torch.zeros(1, stock.frame_tokens, stock.shape.hidden)
        filled = stock._forward(frame)
        empty = stock_of_its_own()
        assert not torch.allclose(filled, empty._forward(frame))
        assert stock.generate(64) > 0


def test_decoding_takes_turns_on_one_model_and_tells_the_spread():
    row = measure_decoding(SETUP, turns=2)
    assert (row.config, row.turns) == (SETUP.config, 2)
    # What the memory holds and the prompt before it.
    assert 160 <= row.context_tokens <= 160 + 32
    assert row.ours_per_s > 0 and row.generate_per_s > 0
    # A machine that slows down between turns changes the rates, and not the ratio.
    row = summary('demo', 500, [100.0, 50.0, 10.0], [80.0, 40.0, 8.0])
    assert (row.ours_per_s, row.generate_per_s) == (50.0, 40.0)
    assert row.ratio == row.ratio_low == row.ratio_high == 1.25
    assert 'neighbouring turns 1.25 of it [1.25, 1.25]' in decoding_text(row)


def test_the_peak_is_what_was_taken_in_between():
    peak = PeakMemory('cpu')
    size = 64 * 2**20
    torch.ones(size // 4).sum()
    assert size * 0.8 < peak.highest() < size * 1.5
    peak.restart()
    assert peak.highest() < size * 0.5


def test_lengths_rise():
    assert parse_lengths('5000,25000') == (5000, 25000)
    for text in ('', 'x', '5,4', '0', '3,3'):
        with pytest.raises(ConfigError, match='rising'):
            parse_lengths(text)
