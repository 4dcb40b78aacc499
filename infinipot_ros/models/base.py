# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What all families share: text in and out, decoder layers, the language model's head."""

from collections.abc import Sequence
from typing import Any

from infinipot_ros.memory.model import AttentionStream, ModelShape, RotaryTable
from infinipot_ros.models.calibration import sample_of
from infinipot_ros.models.hf_attention import STREAM_ATTENTION, TextBackbone
from infinipot_ros.models.pixels import PixelSettings
from infinipot_ros.models.prompt import ChatPrompt
import torch
from torch import Tensor

DESCRIBE_PROMPT = 'Describe what the camera sees now.'


class HuggingFaceModel:
    """
    The text half of a `VisionLanguageModel` around a Hugging Face model.

    A subclass adds the vision half: `grid`, `picture_size_px`, `prepare`, `encode`, and the
    attributes `frames_per_step` and `default_frame_size_px`.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        image_processor: Any,
        name: str,
        fingerprint: str,
        *,
        trained_tokens: int,
        trained_ranks: int,
        begin_of_text: bool = False,
    ) -> None:
        """
        Take a loaded model and switch its text attention to streams.

        trained_tokens, trained_ranks: what the family was trained to read (0 ranks: 1-D
        positions), where the folder's config.json does not say otherwise under "infinipot".
        """
        config, text = model.config, model.config.get_text_config()
        model.set_attn_implementation({'text_config': STREAM_ATTENTION})
        self._model = model
        language: Any = model.model.language_model
        self._embedding = language.embed_tokens
        self._head = model.lm_head
        head_dim = getattr(text, 'head_dim', None) or text.hidden_size // text.num_attention_heads
        self._backbone = TextBackbone(language, head_dim)
        video_token = tokenizer.convert_ids_to_tokens(config.video_token_id)
        self._prompt = ChatPrompt(tokenizer, video_token, begin_of_text)
        self.own: dict[str, Any] = getattr(config, 'infinipot', None) or {}
        self.describe_prompt = str(self.own.get('describe_prompt', DESCRIBE_PROMPT))
        self.name = name
        self.fingerprint = fingerprint
        weight: Tensor = self._embedding.weight
        self.shape = ModelShape(
            layers=text.num_hidden_layers,
            query_heads=text.num_attention_heads,
            kv_heads=text.num_key_value_heads,
            head_dim=head_dim,
            hidden=text.hidden_size,
            dtype=weight.dtype,
            device=weight.device,
            max_context_tokens=int(
                self.own.get(
                    'max_context_tokens', min(text.max_position_embeddings, trained_tokens)
                )
            ),
            max_rank=int(self.own.get('max_rank', trained_ranks)),
        )
        self.eos_ids = end_ids(model, tokenizer)
        self.cv_thresholds: tuple[float, float, float] | None = None
        self.weights_sample = sample_of(weight, language.norm.weight)
        self.pixels = PixelSettings(
            resample=int(image_processor.resample),
            scale=float(image_processor.rescale_factor),
            mean=tuple(image_processor.image_mean),
            std=tuple(image_processor.image_std),
        )

    def rank_step(self, seconds_per_step: float | None) -> float:
        """Return the distance in time of neighbouring frames: one, whatever the camera's rate."""
        return 1.0

    def prefix_ids(self) -> list[int]:
        """Return the prompt up to the video."""
        return self._prompt.prefix_ids

    def suffix_ids(self, question: str, history: Sequence[tuple[str, str]] = ()) -> list[int]:
        """Return the ids from the end of the video to where the answer starts."""
        return self._prompt.suffix_ids(question, history)

    def question_tokens(self, text: str) -> int:
        """Return how many tokens a user's text becomes."""
        return len(self._prompt.plain_ids(text))

    def unknown_words(self, text: str) -> list[str]:
        """Return the words of a user's text that mean nothing to the model."""
        return self._prompt.unknown_words(text)

    def nothing_understood(self, text: str) -> str:
        """Say why a user's text means nothing to the model, and how to ask; '' if it does."""
        why = self._prompt.nothing_understood(text)
        return f'{why}. Ask, for example, {self.describe_prompt!r}' if why else ''

    def embed(self, ids: Sequence[int]) -> Tensor:
        """Return [n, hidden]."""
        found: Tensor = self._embedding(torch.tensor(ids, device=self.shape.device))
        return found

    def backbone(self, embeddings: Tensor, stream: AttentionStream) -> Tensor:
        """Return the final states [n, hidden]."""
        return self._backbone(embeddings, stream)

    def logits(self, states: Tensor) -> Tensor:
        """Return [n, vocabulary]."""
        found: Tensor = self._head(states)
        return found

    def rotary_table(self, positions: int) -> RotaryTable:
        """Return the model's own rotation, split by time, row and column where it has those."""
        return self._backbone.rotary_table(positions, has_axes=self.shape.max_rank > 0)

    def text(self, ids: Sequence[int]) -> str:
        """Return generated ids as text."""
        return self._prompt.text(ids)


def end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the ids that end an answer, from the generation settings and the tokenizer."""
    found: set[int] = set()
    for source in (getattr(model, 'generation_config', None), tokenizer):
        ends = getattr(source, 'eos_token_id', None)
        if isinstance(ends, int):
            found.add(ends)
        elif ends is not None:
            found.update(int(end) for end in ends)
    return frozenset(found)
