# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models of real sizes with random weights: fast or slow, they compute what trained ones do."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.model import RgbImage, VisionLanguageModel
import torch
from torch import Tensor

# The text backbones; 'micro' reads frames of 4 x 4 tokens, the others of 8 x 8.
_SIZES: dict[str, dict[str, int]] = {
    'qwen2_vl_micro': {'hidden_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': 4,
                       'num_key_value_heads': 2, 'intermediate_size': 128},
    'qwen2_vl_tiny': {'hidden_size': 256, 'num_hidden_layers': 4, 'num_attention_heads': 4,
                      'num_key_value_heads': 2, 'intermediate_size': 704},
    'qwen2_vl_0.5b': {'hidden_size': 896, 'num_hidden_layers': 24, 'num_attention_heads': 14,
                      'num_key_value_heads': 2, 'intermediate_size': 4864},
    'qwen2_vl_2b': {'hidden_size': 1536, 'num_hidden_layers': 28, 'num_attention_heads': 12,
                    'num_key_value_heads': 2, 'intermediate_size': 8960},
    'qwen2_vl_7b': {'hidden_size': 3584, 'num_hidden_layers': 28, 'num_attention_heads': 28,
                    'num_key_value_heads': 4, 'intermediate_size': 18944},
}
CONFIGURATIONS = ('demo', *_SIZES)
_FRAME_PX = {'qwen2_vl_micro': [112, 112]}
_CONTEXT_TOKENS = 200_000


def stock_model(name: str, device: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """
    Return a stock Hugging Face model and its tokenizer: the demo model, or random weights.

    Raises `ConfigError` for an unknown name.
    """
    from infinipot_ros.demo.vocabulary import build_tokenizer
    from infinipot_ros.models.loading import demo_folder
    import transformers
    if name == 'demo':
        folder = demo_folder()
        model = transformers.AutoModelForImageTextToText.from_pretrained(
            folder, dtype=dtype, local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    elif name in _SIZES:
        tokenizer = build_tokenizer()
        torch.manual_seed(0)
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with torch.device(device):
                model = transformers.Qwen2VLForConditionalGeneration(_config(name, tokenizer))
        finally:
            torch.set_default_dtype(before)
    else:
        raise ConfigError(f'config: there is no {name!r}; use {", ".join(CONFIGURATIONS)}')
    return model.to(device).eval().requires_grad_(False), tokenizer


class RandomFrames:
    """
    A `VisionLanguageModel` whose frames are random embeddings and whose answers never end.

    So the cost of the memory is apart from that of the vision encoder, and every answer has as
    many tokens as it may have.
    """

    def __init__(self, model: VisionLanguageModel, spread: float = 1.0, seed: int = 0) -> None:
        """Wrap a model; embeddings are normal with standard deviation `spread`."""
        self._model = model
        self._spread = spread
        self._generator = torch.Generator(model.shape.device).manual_seed(seed)
        self.eos_ids: frozenset[int] = frozenset()

    def __getattr__(self, name: str) -> Any:
        """Give what the wrapped model gives."""
        return getattr(self._model, name)

    def encode(self, frames: Sequence[RgbImage], frame_size_px: tuple[int, int]) -> Tensor:
        """Return random embeddings of the right shape."""
        rows, columns = self._model.grid(frame_size_px)
        shape = self._model.shape
        return self._spread * torch.randn(
            rows * columns, shape.hidden, generator=self._generator, device=shape.device,
            dtype=shape.dtype)


def memory_model(stock: Any, tokenizer: Any, name: str) -> VisionLanguageModel:
    """Wrap a stock model for a memory."""
    from infinipot_ros.models.qwen2_vl import QwenVL
    processor = SimpleNamespace(resample=3, rescale_factor=1 / 255, image_mean=[0.5] * 3,
                                image_std=[0.5] * 3)
    return QwenVL(stock, tokenizer, processor, name, name)


def _config(name: str, tokenizer: Any) -> Any:
    from transformers import Qwen2VLConfig
    size = _SIZES[name]
    width = size['hidden_size'] // size['num_attention_heads']
    text = {
        **size, 'vocab_size': len(tokenizer), 'max_position_embeddings': 2 * _CONTEXT_TOKENS,
        'rope_parameters': {'rope_type': 'default', 'rope_theta': 1e6, 'mrope_section': [
            width // 8, width * 3 // 16, width * 3 // 16]},
        'eos_token_id': tokenizer.eos_token_id, 'pad_token_id': tokenizer.pad_token_id}
    vision = {'depth': 4, 'embed_dim': 320, 'hidden_size': size['hidden_size'], 'num_heads': 4,
              'mlp_ratio': 4, 'patch_size': 14, 'spatial_merge_size': 2, 'temporal_patch_size': 1}
    ids = {field: tokenizer.convert_tokens_to_ids(token) for field, token in (
        ('vision_start_token_id', '<|vision_start|>'), ('vision_end_token_id', '<|vision_end|>'),
        ('image_token_id', '<|image_pad|>'), ('video_token_id', '<|video_pad|>'))}
    config = Qwen2VLConfig(text_config=text, vision_config=vision, **ids)
    config.infinipot = {'max_context_tokens': _CONTEXT_TOKENS, 'max_rank': 4096,
                        'frame_size_px': _FRAME_PX.get(name, [224, 224])}
    return config
