# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The same measurements on the stock model with its growing cache, and on its `generate()`."""

from __future__ import annotations

import time
from typing import Any

from infinipot_ros.bench.peak import PeakMemory
from infinipot_ros.bench.random_models import memory_model, stock_model
from infinipot_ros.bench.speed import (
    ANSWER_TOKENS,
    FRAMES_MEASURED,
    LengthRow,
    QUESTION,
    Setup,
)
from infinipot_ros.bench.stopwatch import synchronize
import torch
from torch import Tensor


class Stock:
    """A stock model with a `DynamicCache`, driven as the memory is: frames, then a question."""

    def __init__(self, setup: Setup, model: Any, tokenizer: Any) -> None:
        """Take a model as it comes, with its own attention."""
        import transformers
        self.device = setup.device
        self.model = model
        wrapped = memory_model(self.model, tokenizer, setup.config)
        rows, columns = wrapped.grid(wrapped.default_frame_size_px)
        self.frame_tokens = rows * columns
        self.question_ids = wrapped.suffix_ids(QUESTION)
        self.shape = wrapped.shape
        # The wrapper has put its own attention in: take the stock one back.
        self.model.set_attn_implementation({'text_config': 'sdpa'})
        self._text = self.model.model.language_model
        self._cache_type = transformers.DynamicCache
        self.cache = self._cache_type(config=self.model.config.get_text_config())
        self._generator = torch.Generator(setup.device).manual_seed(0)

    def fill(self, tokens: int) -> None:
        """Grow the cache to `tokens` tokens with random keys and values."""
        missing = tokens - self.cache.get_seq_length()
        if missing <= 0:
            return
        for layer in range(self.shape.layers):
            keys, values = (self._random(1, self.shape.kv_heads, missing, self.shape.head_dim)
                            for _ in 'kv')
            self.cache.update(keys, values, layer)

    def add_frames(self, count: int) -> float:
        """Forward `count` frames of random embeddings; return the seconds it took."""
        frames = [0.5 * self._random(1, self.frame_tokens, self.shape.hidden)
                  for _ in range(count)]
        synchronize(self.device)
        start = time.perf_counter()
        for frame in frames:
            self._forward(frame)
        synchronize(self.device)
        return time.perf_counter() - start

    def answer(self) -> tuple[float, float]:
        """
        Return the seconds to the first token and the tokens a second after it.

        The cache keeps what was added, which is a small part of it.
        """
        synchronize(self.device)
        start = time.perf_counter()
        ids = torch.tensor([self.question_ids], device=self.device)
        ends = []
        for _ in range(ANSWER_TOKENS):
            states = self._forward(self.model.get_input_embeddings()(ids))
            ids = self.model.lm_head(states[:, -1:]).argmax(-1)
            # As the memory does: the token is looked at before the next one is made.
            int(ids)
            ends.append(time.perf_counter())
        return ends[0] - start, (len(ends) - 1) / (ends[-1] - ends[0])

    def generate(self, tokens: int) -> float:
        """Return the tokens a second that the stock loop makes after so many cached ones."""
        import transformers
        self.cache = self._cache_type(config=self.model.config.get_text_config())
        self.fill(tokens)
        ends: list[float] = []

        def note(_: Tensor, scores: Tensor) -> Tensor:
            synchronize(self.device)
            ends.append(time.perf_counter())
            return scores

        padding = self.model.config.get_text_config().pad_token_id or 0
        ids = torch.tensor([[padding] * tokens + self.question_ids], device=self.device)
        self.model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), past_key_values=self.cache,
            do_sample=False, max_new_tokens=ANSWER_TOKENS, min_new_tokens=ANSWER_TOKENS,
            logits_processor=transformers.LogitsProcessorList([note]), use_cache=True)
        return (len(ends) - 1) / (ends[-1] - ends[0])

    def _forward(self, embeddings: Tensor) -> Tensor:
        past, count = self.cache.get_seq_length(), embeddings.shape[1]
        place = torch.arange(past, past + count, device=self.device)
        states: Tensor = self._text(
            inputs_embeds=embeddings, position_ids=place.expand(3, 1, -1),
            past_key_values=self.cache, use_cache=True).last_hidden_state
        return states

    def _random(self, *size: int) -> Tensor:
        return torch.randn(*size, generator=self._generator, device=self.device,
                           dtype=self.shape.dtype)


def measure_stock(setup: Setup) -> list[LengthRow]:
    """
    Measure a cache that keeps everything at every length.

    It is filled with random keys and values; the last frames before each length are computed.
    """
    with torch.inference_mode():
        stock = Stock(setup, *stock_model(setup.config, setup.device, setup.torch_dtype))
        peak = PeakMemory(setup.device)
        per_token = (2 * stock.shape.layers * stock.shape.kv_heads * stock.shape.head_dim
                     * stock.shape.dtype.itemsize)
        rows = []
        for length in setup.lengths:
            stock.fill(length - FRAMES_MEASURED * stock.frame_tokens)
            peak.restart()
            spent = stock.add_frames(FRAMES_MEASURED)
            held = stock.cache.get_seq_length()
            stock.answer()
            first_token_s, rate = stock.answer()
            rows.append(LengthRow(
                'growing cache', held, held * per_token, peak.highest(),
                round(spent / FRAMES_MEASURED * 1e3, 3), round(first_token_s * 1e3, 3),
                round(rate, 2)))
    return rows
