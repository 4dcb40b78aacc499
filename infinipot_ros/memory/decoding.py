# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Greedy decoding in our own loop: stop tokens, a deadline, cancellation, a callback per token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
import time

import torch

from infinipot_ros.errors import NumericError
from infinipot_ros.memory.attention import Context
from infinipot_ros.memory.model import VisionLanguageModel
from infinipot_ros.memory.positions import PositionScheme
from infinipot_ros.memory.records import AnswerStatus

CHUNK_TOKENS = 256


@dataclass(frozen=True)
class Limits:
    """When decoding ends besides at a stop token; `deadline_s` is a time.monotonic()."""

    max_new_tokens: int
    deadline_s: float = float('inf')
    cancel: Callable[[], bool] | None = None
    on_token: Callable[[str], None] | None = None

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


def decode(
    model: VisionLanguageModel,
    scheme: PositionScheme,
    context: Context,
    question_ids: Sequence[int],
    base: int,
    limits: Limits,
) -> Decoded:
    """Read the question after `context`, from position `base` on, and generate the answer.

    The last token of the question and every generated one pass alone, which is where the context's
    recorder sees the answer's attention. Raises NumericError when the logits are not finite.
    """
    decoded = Decoded()
    position = base
    read = list(question_ids[:-1])
    for start in range(0, len(read), CHUNK_TOKENS):
        chunk = read[start : start + CHUNK_TOKENS]
        if (status := limits.reached()) is not None:
            decoded.status = status
            return decoded
        context.begin(scheme.text(len(chunk), position), len(chunk))
        model.backbone(model.embed(chunk), context)
        context.advance()
        position += len(chunk)
    token, told = question_ids[-1], 0
    while True:
        if (status := limits.reached()) is not None:
            decoded.status = status
            return decoded
        context.begin(scheme.text(1, position), 1)
        logits = model.logits(model.backbone(model.embed([token]), context))[-1].float()
        context.advance()
        position += 1
        highest, index = logits.max(dim=-1)
        # One number tells: a NaN or infinity anywhere makes the sum so.
        total = torch.logsumexp(logits, dim=-1)
        probability = float(torch.exp(highest - total))
        if not bool(torch.isfinite(logits.sum())) or probability != probability:
            raise NumericError(
                'the model gave NaN or infinite logits; use dtype float32 or bfloat16'
            )
        token = int(index)
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
