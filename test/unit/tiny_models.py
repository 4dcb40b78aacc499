# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Tiny vision-language models with random weights, saved as folders and loaded as a user would."""

import functools
import json
from pathlib import Path
import shutil
import tempfile
from typing import Any

from infinipot_ros.models import load_model
import numpy as np
from tokenizers import decoders, models, pre_tokenizers, Tokenizer, trainers
import torch
import transformers

QWEN_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|vision_start|>',
               '<|vision_end|>', '<|image_pad|>', '<|video_pad|>']
QWEN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}"
    "{{ m['content'] }}{% else %}{% for p in m['content'] %}{% if p['type'] == 'video' %}"
    '<|vision_start|><|video_pad|><|vision_end|>'
    "{% else %}{{ p['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}')
LLAVA_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<image>', '<video>']
LLAVA_TEMPLATE = QWEN_TEMPLATE.replace('<|vision_start|><|video_pad|><|vision_end|>', '<video>\n')
TEXT = {'hidden_size': 48, 'intermediate_size': 64, 'num_hidden_layers': 3,
        'num_attention_heads': 6, 'num_key_value_heads': 2, 'max_position_embeddings': 4096,
        'tie_word_embeddings': False, 'initializer_range': 0.4}
OWN = {'frame_size_px': [24, 32], 'max_context_tokens': 4096, 'max_rank': 64}


def byte_tokenizer(special: list[str], template: str, **named: str) -> Any:
    """Return a byte-level BPE tokenizer with control tokens and a chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)
    fast.chat_template = template
    return fast


def save_qwen(folder: Path, family: str = 'qwen2_vl', temporal: int = 1, **own: Any) -> Any:
    """Save a Qwen2-VL or Qwen2.5-VL of random weights; return the stock model."""
    torch.manual_seed(1)
    tokenizer = byte_tokenizer(QWEN_TOKENS, QWEN_TEMPLATE, eos_token='<|im_end|>',
                               pad_token='<|endoftext|>')
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in (
        ('image_token_id', '<|image_pad|>'), ('video_token_id', '<|video_pad|>'),
        ('vision_start_token_id', '<|vision_start|>'), ('vision_end_token_id', '<|vision_end|>'))}
    text = {**TEXT, 'vocab_size': len(tokenizer), 'rope_parameters': {
        'rope_type': 'default', 'rope_theta': 100.0, 'mrope_section': [2, 1, 1]}}
    vision = {'depth': 1, 'num_heads': 2, 'patch_size': 4, 'spatial_merge_size': 2,
              'temporal_patch_size': temporal, 'initializer_range': 0.4}
    if family == 'qwen2_vl':
        vision |= {'embed_dim': 16, 'hidden_size': 48, 'mlp_ratio': 2}
        config = transformers.Qwen2VLConfig(text_config=text, vision_config=vision, **ids)
        model = transformers.Qwen2VLForConditionalGeneration(config)
    else:
        vision |= {'hidden_size': 16, 'out_hidden_size': 48, 'intermediate_size': 32,
                   'window_size': 16, 'fullatt_block_indexes': [0], 'tokens_per_second': 2}
        config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids)
        model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    processor = {'image_processor_type': 'Qwen2VLImageProcessor', 'patch_size': 4,
                 'merge_size': 2, 'temporal_patch_size': temporal,
                 'size': {'shortest_edge': 64, 'longest_edge': 64 * 64}}
    return _save(folder, model, tokenizer, processor, {**OWN, **own})


def save_llava(folder: Path, family: str = 'llava_onevision', text_family: str = 'qwen2',
               **own: Any) -> Any:
    """Save a LLaVA-OneVision or LLaVA-NeXT-Video of random weights; return the stock model."""
    torch.manual_seed(2)
    tokenizer = byte_tokenizer(LLAVA_TOKENS, LLAVA_TEMPLATE, eos_token='<|im_end|>',
                               pad_token='<|endoftext|>')
    texts = {'qwen2': transformers.Qwen2Config, 'llama': transformers.LlamaConfig,
             'mistral': functools.partial(transformers.MistralConfig, sliding_window=None)}
    text = texts[text_family](**TEXT, vocab_size=len(tokenizer), rope_parameters={
        'rope_type': 'default', 'rope_theta': 100.0})
    named = {'image_token_id': tokenizer.convert_tokens_to_ids('<image>'),
             'video_token_id': tokenizer.convert_tokens_to_ids('<video>'), 'text_config': text}
    vision = {'hidden_size': 16, 'intermediate_size': 32, 'num_hidden_layers': 2,
              'num_attention_heads': 2, 'initializer_range': 0.4, 'patch_size': 4}
    if family == 'llava_onevision':
        tower = transformers.SiglipVisionConfig(**vision, image_size=20)
        config = transformers.LlavaOnevisionConfig(**named, vision_config=tower)
        model = transformers.LlavaOnevisionForConditionalGeneration(config)
        size, kind = {'height': 20, 'width': 20}, 'LlavaOnevisionImageProcessor'
    else:
        tower = transformers.CLIPVisionConfig(**vision, image_size=16)
        config = transformers.LlavaNextVideoConfig(**named, vision_config=tower)
        model = transformers.LlavaNextVideoForConditionalGeneration(config)
        size, kind = {'shortest_edge': 16}, 'LlavaNextImageProcessor'
    processor = {'image_processor_type': kind, 'size': size, 'image_mean': [0.5] * 3,
                 'image_std': [0.5] * 3}
    return _save(folder, model, tokenizer, processor, {'max_context_tokens': 4096, **own})


def save(folder: Path, family: str, **own: Any) -> Any:
    """Save a tiny model of any family; return the stock model."""
    make = save_qwen if family.startswith('qwen') else save_llava
    return make(folder, family, **own)


def _save(folder: Path, model: Any, tokenizer: Any, processor: dict[str, Any],
          own: dict[str, Any]) -> Any:
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model = model.eval().requires_grad_(False)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / 'preprocessor_config.json').write_text(json.dumps(processor))
    config = json.loads((folder / 'config.json').read_text())
    config['infinipot'] = own
    (folder / 'config.json').write_text(json.dumps(config))
    return model


@functools.cache
def _saved() -> tempfile.TemporaryDirectory[str]:
    kept = tempfile.TemporaryDirectory()
    save(Path(kept.name), 'qwen2_vl')
    return kept


def model_folder(place: Path) -> Path:
    """Return a new folder with a tiny Qwen2-VL, for a test to change."""
    return shutil.copytree(_saved().name, place)


@functools.cache
def tiny(family: str = 'qwen2_vl', dtype: str = 'float32', **own: Any) -> Any:
    """Return a loaded tiny model of a family; the same one every time."""
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), family, **own)
        return load_model(folder, dtype=dtype)


def pictures(count: int, seed: int = 0, size_px: tuple[int, int] = (24, 32)) -> list[np.ndarray]:
    """Return random pictures."""
    rng = np.random.default_rng(seed)
    return list(rng.integers(0, 256, (count, *size_px, 3), dtype=np.uint8))
