# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Invariant 2: without compression the engine is the stock model, fed in the same chunks.

The engine packs grouped queries, so its sums run in another order than the stock kernel's. With
the stock model's queries packed as well, the caches are the same bit for bit in single precision;
with the stock kernel the logits differ by rounding, which double precision shows to be nothing
else.
"""

from pathlib import Path

from infinipot_ros.memory import MemoryConfig, VideoMemory
from infinipot_ros.models import load_model
from infinipot_ros.models.llava import NEWLINE
from memory_testing import Spy
import pytest
from tiny_models import pictures, save
import torch
from transformers import AttentionInterface, DynamicCache

FAMILIES = ['qwen2_vl', 'qwen2_5_vl', 'llava_onevision', 'llava_next_video']
FRAMES, STEPS = 6, 4
QUESTION = 'what?'


def packed_attention(module, query, key, value, attention_mask, *, scaling, **_):
    """Attend as the stock model does, with the queries of a group in one matrix."""
    _, heads, total, width = key.shape
    count = query.shape[2]
    packed = query.reshape(1, heads, -1, width)
    mask = torch.ones(count, total, dtype=torch.bool).tril(total - count)
    mask = mask.repeat(packed.shape[2] // count, 1)
    out = torch.nn.functional.scaled_dot_product_attention(
        packed, key, value, attn_mask=mask, scale=scaling)
    return out.reshape(query.shape).transpose(1, 2), None


AttentionInterface.register('packed_stock', packed_attention)


class StockStream:
    """A stock model with its own cache and rotary module, fed chunk after chunk."""

    def __init__(self, stock, model):
        self.stock, self.model = stock, model
        self.cache = DynamicCache()
        self.step = 2 if stock.config.model_type == 'qwen2_5_vl' else 1
        self.axes = model.shape.max_rank > 0
        self.grid = model.grid(model.default_frame_size_px)
        self.sinks = len(model.prefix_ids())
        self.text(model.prefix_ids(), 0)
        self.frames = 0

    def feed(self, embeddings, positions):
        language = self.stock.model.language_model
        states = language(
            inputs_embeds=embeddings[None], position_ids=positions,
            past_key_values=self.cache, use_cache=True).last_hidden_state
        return self.stock.lm_head(states)[0]

    def text(self, ids, start):
        index = torch.arange(start, start + len(ids))[None]
        positions = index.expand(3, 1, -1) if self.axes else index
        return self.feed(self.model.embed(ids), positions)

    def frame(self, rgb):
        embeddings = self.model.encode([rgb], self.model.default_frame_size_px)
        rows, columns = self.grid
        if self.axes:
            positions = self.sinks + torch.stack([
                torch.full((rows * columns,), self.frames * self.step),
                torch.arange(rows).repeat_interleave(columns),
                torch.arange(columns).repeat(rows)])[:, None]
        else:
            first = self.sinks + self.frames * rows * columns
            positions = torch.arange(first, first + rows * columns)[None]
        self.feed(embeddings, positions)
        self.frames += 1

    def ask(self, ids):
        rows, columns = self.grid
        start = self.sinks + (
            max((self.frames - 1) * self.step + 1, rows, columns) if self.axes
            else self.frames * rows * columns)
        self.text(ids[:-1], start)
        token, found = ids[-1], []
        for place in range(start + len(ids) - 1, start + len(ids) - 1 + STEPS):
            found.append(self.text([token], place)[-1])
            token = int(found[-1].argmax())
        return found


def both(folder, family, dtype, instant_frames=0, attention='sdpa'):
    stock = save(folder, family).to(getattr(torch, dtype))
    stock.set_attn_implementation({'text_config': attention})
    model = Spy(load_model(folder, dtype=dtype))
    memory = VideoMemory(model, MemoryConfig(
        budget_mib=4.0, instant_frames=instant_frames, thumbnail_px=0))
    with torch.inference_mode():
        stream = StockStream(stock, model)
        for index, rgb in enumerate(pictures(FRAMES, 0, model.default_frame_size_px)):
            memory.add_frame(rgb, stamp=index)
            stream.frame(rgb)
    return memory, stream, model


@pytest.mark.parametrize('family', FAMILIES)
def test_caches_equal_the_stock_models_bit_for_bit(tmp_path, family):
    memory, stream, _ = both(tmp_path, family, 'float32', attention='packed_stock')
    past = memory._state.cameras[0].past
    for layer, cached in enumerate(stream.cache.layers):
        stored = past.prefix + past.stored_tokens
        assert torch.equal(past.values[layer][:, :stored], cached.values[0])


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('dtype, tolerance', [('float32', 1e-5), ('float64', 1e-13)])
def test_logits_equal_the_stock_models(tmp_path, family, dtype, tolerance):
    memory, stream, model = both(tmp_path, family, dtype)
    memory.ask(QUESTION, max_new_tokens=STEPS)
    with torch.inference_mode():
        expected = stream.ask(model.suffix_ids(QUESTION))
    for found, stock in zip(model.seen, expected, strict=True):
        assert float((found - stock).abs().max() / stock.abs().max()) < tolerance


@pytest.mark.parametrize('family', FAMILIES)
def test_frames_that_are_all_instant_equal_the_stock_model_too(tmp_path, family):
    memory, stream, model = both(tmp_path, family, 'float64', instant_frames=FRAMES)
    assert memory._state.cameras[0].past.stored_tokens == 0
    memory.ask(QUESTION, max_new_tokens=STEPS)
    with torch.inference_mode():
        expected = stream.ask(model.suffix_ids(QUESTION))
    for found, stock in zip(model.seen, expected, strict=True):
        assert float((found - stock).abs().max() / stock.abs().max()) < 1e-13


@pytest.mark.parametrize('family', ['qwen2_vl', 'llava_onevision'])
def test_a_frame_one_step_off_is_noticed(tmp_path, family):
    memory, stream, model = both(tmp_path, family, 'float64')
    stream.frames += 1
    memory.ask(QUESTION, max_new_tokens=1)
    with torch.inference_mode():
        expected = stream.ask(model.suffix_ids(QUESTION))
    assert float((model.seen[0] - expected[0]).abs().max()) > 1e-6


def test_what_a_video_ends_with_in_llava_onevision_is_read(tmp_path):
    save(tmp_path, 'llava_onevision')
    model = load_model(tmp_path)
    ids = model.suffix_ids(QUESTION)
    assert ids[0] == NEWLINE
    with torch.inference_mode():
        assert torch.equal(model.embed(ids)[0], model._model.model.image_newline)


def test_demo_model_equals_its_stock_model():
    model = Spy(load_model('demo', dtype='float64'))
    memory = VideoMemory(model, MemoryConfig(budget_mib=8.0, instant_frames=0, thumbnail_px=0))
    # The same weights; the stock attention and rotary module take over for the comparison.
    stock = model._model._model
    with torch.inference_mode():
        for index, rgb in enumerate(pictures(FRAMES, 0, model.default_frame_size_px)):
            memory.add_frame(rgb, stamp=index)
        memory.ask('what colour is the ball ?', max_new_tokens=STEPS)
        stock.set_attn_implementation({'text_config': 'sdpa'})
        stream = StockStream(stock, model)
        for rgb in pictures(FRAMES, 0, model.default_frame_size_px):
            stream.frame(rgb)
        expected = stream.ask(model.suffix_ids('what colour is the ball ?'))
    # The model may end its answer before the stock stream does.
    for found, wanted in zip(model.seen, expected):
        assert float((found - wanted).abs().max() / wanted.abs().max()) < 1e-13


def test_folder_is_what_a_user_has(tmp_path):
    save(tmp_path, 'qwen2_vl')
    assert {path.name for path in Path(tmp_path).iterdir()} >= {
        'config.json', 'model.safetensors', 'tokenizer.json', 'preprocessor_config.json'}
