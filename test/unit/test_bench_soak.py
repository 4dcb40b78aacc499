# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A short soak of a real memory is flat, and a leak of one small tensor a frame is not."""

from infinipot_ros.bench.random_models import memory_model, stock_model
from infinipot_ros.bench.soak import growth, is_flat, live_tensors, soak, SoakRow
from infinipot_ros.bench.speed import new_memory, QUESTION, Setup
import pytest
import torch

SETUP = Setup('qwen2_vl_micro', 160, ())


@pytest.fixture
def memory():
    stock, tokenizer = stock_model(SETUP.config, 'cpu', torch.float32)
    return new_memory(memory_model(stock, tokenizer, SETUP.config), SETUP)


def test_a_memory_is_flat(memory):
    rows = soak(memory, 80, 8, lambda held: held.ask(QUESTION))
    assert [row.frames for row in rows] == list(range(10, 81, 10))
    grown = growth(rows)
    assert grown['held_bytes'] == grown['tensors'] == grown['tensor_bytes'] == 0
    assert is_flat(rows)


def test_a_leak_is_seen(memory):
    leaked = []

    def leak(held):
        leaked.append(torch.zeros(3))

    rows = soak(memory, 40, 8, leak)
    assert growth(rows)['tensors'] >= 5
    assert not is_flat(rows)


def test_tensors_that_share_storage_are_counted_once():
    before = live_tensors()
    base = torch.zeros(1000)
    views = [base[k:] for k in range(5)]
    after = live_tensors()
    assert after[0] - before[0] == 1 + len(views)
    assert after[1] - before[1] == base.untyped_storage().nbytes()


def test_resident_memory_may_drift_a_little_and_no_more():
    def row(frames, resident):
        return SoakRow(frames, 10, 10, 5, 100, resident, 1.0)

    assert is_flat([row(k, 10**8 + 1000 * k) for k in range(10)])
    assert not is_flat([row(k, 10**8 + 10**6 * k) for k in range(10)])
