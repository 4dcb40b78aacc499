# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo model's shape: a small Qwen2-VL, built from nothing, saved as users save theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infinipot_ros.demo.rooms import VIEW_PX
from infinipot_ros.demo.vocabulary import build_tokenizer
import torch
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
)

PATCH_PX = 14
MERGE = 2
GRID = VIEW_PX // (PATCH_PX * MERGE)
TOKENS_PER_FRAME = GRID * GRID
# Times that training covers (by shifting clips), and how many the engine uses: scraps of many
# frames read worse when they spread over more ranks than a clip has frames (tuning seeds).
TRAINED_RANKS = 64
MAX_RANK = 24
# Training shows up to 32 frames (512 tokens); sinks and the room for a question come on top.
MAX_CONTEXT_TOKENS = 848
DESCRIBE_PROMPT = 'what do you see now ?'
IMAGE_MEAN = 0.5
IMAGE_STD = 0.5


def build_config(tokenizer: PreTrainedTokenizerFast) -> Qwen2VLConfig:
    """
    Describe the demo model.

    One frame is one temporal grid (``temporal_patch_size`` 1), 112 x 112 px, 16 tokens.
    """
    ids: dict[str, Any] = {
        name: tokenizer.convert_tokens_to_ids(token) for name, token in (
            ('vision_start_token_id', '<|vision_start|>'),
            ('vision_end_token_id', '<|vision_end|>'),
            ('image_token_id', '<|image_pad|>'), ('video_token_id', '<|video_pad|>'))}
    text = {
        'vocab_size': len(tokenizer), 'hidden_size': 128, 'intermediate_size': 320,
        'num_hidden_layers': 4, 'num_attention_heads': 4, 'num_key_value_heads': 2,
        'max_position_embeddings': 2048, 'tie_word_embeddings': True, 'rms_norm_eps': 1e-6,
        'use_sliding_window': False,
        'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000.0,
                            'mrope_section': [6, 5, 5]},
        'eos_token_id': tokenizer.convert_tokens_to_ids('<|im_end|>'),
        'bos_token_id': None, 'pad_token_id': tokenizer.pad_token_id,
    }
    vision = {'depth': 3, 'embed_dim': 96, 'hidden_size': 128, 'num_heads': 3, 'mlp_ratio': 3,
              'patch_size': PATCH_PX, 'spatial_merge_size': MERGE, 'temporal_patch_size': 1}
    config = Qwen2VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True, **ids)
    # What the engine reads and a stock config does not say: the lengths that training covered.
    config.infinipot = {'max_context_tokens': MAX_CONTEXT_TOKENS, 'max_rank': MAX_RANK,
                        'frame_size_px': [VIEW_PX, VIEW_PX],
                        'describe_prompt': DESCRIBE_PROMPT}
    return config


def build_model(seed: int) -> tuple[Qwen2VLForConditionalGeneration, PreTrainedTokenizerFast]:
    """Build the demo model with random weights."""
    torch.manual_seed(seed)
    tokenizer = build_tokenizer()
    return Qwen2VLForConditionalGeneration(build_config(tokenizer)), tokenizer


def save_model(
    model: Qwen2VLForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, folder: Path,
) -> None:
    """Write the folder that ``load_model`` reads: fp16 weights, tokenizer, image processor."""
    folder.mkdir(parents=True, exist_ok=True)
    half = Qwen2VLForConditionalGeneration(model.config)
    half.load_state_dict(model.state_dict())
    half = half.half()
    half.generation_config = GenerationConfig(
        do_sample=False, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    half.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    processor = {
        'image_processor_type': 'Qwen2VLImageProcessor', 'patch_size': PATCH_PX,
        'merge_size': MERGE, 'temporal_patch_size': 1, 'image_mean': [IMAGE_MEAN] * 3,
        'image_std': [IMAGE_STD] * 3, 'min_pixels': VIEW_PX * VIEW_PX,
        'max_pixels': VIEW_PX * VIEW_PX,
        'size': {'shortest_edge': VIEW_PX * VIEW_PX, 'longest_edge': VIEW_PX * VIEW_PX}}
    (folder / 'preprocessor_config.json').write_text(json.dumps(processor, indent=2) + '\n')
