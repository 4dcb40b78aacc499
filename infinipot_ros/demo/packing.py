# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Pack training clips into one batch: tokens, positions as the engine assigns them, and the mask.

Each clip is ``[sinks, frames, question and answer 1, question and answer 2, ...]``; a question
sees the sinks, the frames up to its own time, and itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infinipot_ros.demo.architecture import GRID, TOKENS_PER_FRAME, TRAINED_RANKS
from infinipot_ros.demo.clips import Clip, IGNORED
import numpy as np
import torch
from transformers import PreTrainedTokenizerFast


@dataclass
class Batch:
    """
    B packed clips of T tokens.

    ``token_ids`` int64 ``[B, T]`` (text), ``frame_slot`` int64 ``[B, T]`` (row of the visual
    token in the batch's list of patches, -1 for text), ``positions`` int64 ``[3, B, T]``, ``mask``
    bool ``[B, 1, T, T]``, ``targets`` int64 ``[B, T]`` (the next token where it is a part of an
    answer, else ``IGNORED``), ``owner`` int64 ``[B, T]`` (question of each target, -1 elsewhere).
    """

    token_ids: torch.Tensor
    frame_slot: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    targets: torch.Tensor
    owner: torch.Tensor


class Packer:
    """Turn clips into batches with the tokenizer's own chat template."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Tokenise what every clip shares: the sinks and the frame of a question."""
        self._tokenizer = tokenizer
        marker = 'saw'
        text = tokenizer.apply_chat_template(
            [{'role': 'user', 'content': [{'type': 'video'}, {'type': 'text', 'text': marker}]}],
            tokenize=False, add_generation_prompt=True)
        before, after = text.split('<|video_pad|>')
        self.sinks = self._ids(before)
        start, end = after.rsplit(marker, 1)
        self._start, self._end = self._ids(start), self._ids(end)
        self._cache: dict[str, list[int]] = {}

    def question_ids(self, text: str) -> list[int]:
        """Return the tokens from the end of the video to where the answer starts."""
        return self._start + self._words(text) + self._end

    def answer_ids(self, text: str) -> list[int]:
        """Return the tokens of an answer with its stop token."""
        return [*self._words(text), self._tokenizer.eos_token_id]

    def pack(self, clips: Sequence[Clip], rng: np.random.Generator) -> Batch:
        """Pack clips of one batch; clips may have any number of frames."""
        rows = [self._row(clip, rng) for clip in clips]
        length = max(len(row['token']) for row in rows)
        size = len(rows)
        batch = Batch(
            torch.full((size, length), self._tokenizer.pad_token_id),
            torch.full((size, length), -1), torch.zeros((3, size, length), dtype=torch.long),
            torch.zeros((size, 1, length, length), dtype=torch.bool),
            torch.full((size, length), IGNORED), torch.full((size, length), -1))
        patches = 0
        for k, (clip, row) in enumerate(zip(clips, rows)):
            n = len(row['token'])
            batch.token_ids[k, :n] = torch.from_numpy(row['token'])
            slot = torch.from_numpy(row['slot'])
            batch.frame_slot[k, :n] = torch.where(slot >= 0, slot + patches, slot)
            batch.positions[:, k, :n] = torch.from_numpy(row['position'])
            batch.mask[k, 0, :n, :n] = torch.from_numpy(_mask(row, clip.instant))
            batch.targets[k, :n] = torch.from_numpy(row['target'])
            batch.owner[k, :n] = torch.from_numpy(row['owner'])
            # A padded query must see something, or its softmax is not a number.
            batch.mask[k, 0, n:, 0] = True
            patches += clip.kept.size
        return batch

    def _row(self, clip: Clip, rng: np.random.Generator) -> dict[str, np.ndarray]:
        sinks, start = len(self.sinks), len(self.sinks)
        frame, patch = np.nonzero(clip.kept)
        alive, rank = np.unique(frame, return_inverse=True)
        room = TRAINED_RANKS - len(alive)
        offset = int(rng.integers(0, room)) if room > 0 and rng.uniform() < 0.4 else 0
        rank = rank + offset
        token = [*self.sinks, *([0] * len(frame))]
        position = [np.tile(np.arange(sinks), (3, 1)),
                    np.stack([start + rank, start + patch // GRID, start + patch % GRID])]
        target, owner = [IGNORED] * len(token), [-1] * len(token)
        segment, time = [0] * len(token), [-1] * sinks + frame.tolist()
        for k, (question, at) in enumerate(zip(clip.questions, clip.asked_at)):
            ask, answer = self.question_ids(question.text), self.answer_ids(question.answer)
            text = [*ask, *answer]
            next_rank = offset + int((alive <= at).sum())
            first = start + max(next_rank, GRID)
            position.append(np.tile(first + np.arange(len(text)), (3, 1)))
            token += text
            target += [IGNORED] * (len(ask) - 1) + answer + [IGNORED]
            owner += [-1] * (len(ask) - 1) + [k] * len(answer) + [-1]
            segment += [k + 1] * len(text)
            time += [at] * len(text)
        slot = np.full(len(token), -1)
        slot[sinks:sinks + len(frame)] = frame * TOKENS_PER_FRAME + patch
        return {'token': np.asarray(token), 'slot': slot, 'position': np.concatenate(position, 1),
                'target': np.asarray(target), 'owner': np.asarray(owner),
                'segment': np.asarray(segment), 'time': np.asarray(time),
                'frames': np.asarray(len(clip.kept))}

    def _words(self, text: str) -> list[int]:
        if text not in self._cache:
            self._cache[text] = self._ids(text)
        return self._cache[text]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False).input_ids
        return ids


def _mask(row: dict[str, np.ndarray], instant: int) -> np.ndarray:
    """Return which token sees which, bool ``[T, T]``."""
    segment, time, slot = row['segment'], row['time'], row['slot']
    count = len(segment)
    causal = np.tri(count, dtype=bool)
    is_sink = (slot < 0) & (segment == 0)
    is_frame = slot >= 0
    same_text = segment[:, None] == segment[None, :]
    sees_frame = is_frame[None, :] & (time[None, :] <= time[:, None])
    if instant:
        newest = is_frame & (time >= row['frames'] - instant)
        # The instant cache is built over the sinks alone (DSCache), so it does not see the past.
        sees_frame &= ~(newest[:, None] & ~newest[None, :])
    text_sees = (segment[:, None] > 0) & same_text
    return causal & (is_sink[None, :] | sees_frame | text_sees)
