# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Decoding in our own loop: stop tokens, a deadline, cancellation, a callback per token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
import time

from infinipot_ros.errors import NumericError
from infinipot_ros.memory.attention import Context
from infinipot_ros.memory.model import VisionLanguageModel
from infinipot_ros.memory.positions import PositionScheme
from infinipot_ros.memory.records import AnswerStatus
import torch
from torch import Tensor

CHUNK_TOKENS = 256


@dataclass(frozen=True)
class Limits:
    """When decoding ends besides at a stop token; `deadline_s` is a time.monotonic()."""

    max_new_tokens: int
    deadline_s: float = float('inf')
    cancel: Callable[[], bool] | None = None
    on_token: Callable[[str], None] | None = None
    temperature: float = 0.0
    seed: int = 0

    def reached(self) -> AnswerStatus | None:
        """Return TIMEOUT or CANCELLED when it is time to stop."""
        if self.cancel is not None and self.cancel():
            return AnswerStatus.CANCELLED
        if time.monotonic() > self.deadline_s:
            return AnswerStatus.TIMEOUT
        return None


@dataclass
class Decoded:
    """What was generated until it ended, and how it ended."""

    ids: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    status: AnswerStatus = AnswerStatus.ANSWERED

    @property
    def confidence(self) -> float:
        """Mean probability of the generated tokens; 0 where there are none."""
        return sum(self.probabilities) / len(self.probabilities) if self.probabilities else 0.0


def decode(
    model: VisionLanguageModel,
    scheme: PositionScheme,
    context: Context,
    question_ids: Sequence[int],
    base: int,
    limits: Limits,
) -> Decoded:
    """
    Read the question after `context`, from position `base` on, and generate the answer.

    The last token of the question and every generated one pass alone, which is where the context's
    recorder sees the answer's attention. Raises NumericError when the logits are not finite.
    """
    decoded = Decoded()
    position = base
    read = list(question_ids[:-1])
    for start in range(0, len(read), CHUNK_TOKENS):
        chunk = read[start:start + CHUNK_TOKENS]
        if (status := limits.reached()) is not None:
            decoded.status = status
            return decoded
        context.begin(scheme.text(len(chunk), position), len(chunk))
        model.backbone(model.embed(chunk), context)
        context.advance()
        position += len(chunk)
    token, told = question_ids[-1], 0
    draws = torch.Generator(context.target.keys[0].device).manual_seed(limits.seed)
    while True:
        if (status := limits.reached()) is not None:
            decoded.status = status
            return decoded
        context.begin(scheme.text(1, position), 1)
        logits = model.logits(model.backbone(model.embed([token]), context))[-1]
        context.advance()
        position += 1
        token, probability = next_token(_at_least_float(logits), limits.temperature, draws)
        if token in model.eos_ids:
            return decoded
        decoded.ids.append(token)
        decoded.probabilities.append(probability)
        if context.recorder is not None:
            context.recorder.settle()
        if limits.on_token is not None:
            text = model.text(decoded.ids)
            if len(text) > told and not text.endswith('\ufffd'):
                limits.on_token(text[told:])
                told = len(text)
        if len(decoded.ids) >= limits.max_new_tokens:
            return decoded


def _at_least_float(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def next_token(
    logits: Tensor, temperature: float, draws: torch.Generator
) -> tuple[int, float]:
    """
    Return the most probable token, or one drawn, and its probability.

    Raises NumericError when the logits [vocabulary] are not all finite.
    """
    # A NaN or an infinity anywhere makes the sum one too.
    if not bool(torch.isfinite(logits.sum())):
        raise NumericError('the model gave NaN or infinite logits; use dtype float32 or bfloat16')
    chances = torch.softmax(logits, dim=-1)
    if temperature == 0.0:
        probability, index = chances.max(dim=-1)
    else:
        index = torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=draws)[0]
        probability = chances[index]
    return int(index), float(probability)
