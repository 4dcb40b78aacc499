# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A model's chat template cut into the part before the video and the part after it."""

from collections.abc import Sequence
import re
import string
from typing import Any

from infinipot_ros.errors import ModelLoadError
from infinipot_ros.wording import named

_MARK = 'INFINIPOT{}TEXT'
_MARKS = re.compile(r'INFINIPOT(\d+)TEXT')
_WORDS = re.compile(r'[^\W_]+')
# For private use: only a vocabulary that lacks words has no token for it.
_NO_WORD = '\U000F0000'
# A vocabulary no larger than this is told whole.
_WORDS_TOLD = 100


class ChatPrompt:
    """Turns questions into token ids; what a user typed never becomes a control token."""

    def __init__(self, tokenizer: Any, video_token: str, begin_of_text: bool = False) -> None:
        """
        Cut the tokenizer's chat template at `video_token`.

        Raises ModelLoadError where there is no template or it shows no video.
        """
        self._tokenizer = tokenizer
        self._video_token = video_token
        added: dict[str, int] = tokenizer.get_added_vocab()
        self._control_ids = frozenset(added.values()) | frozenset(tokenizer.all_special_ids)
        self._control_texts = sorted(added, key=len, reverse=True)
        if not getattr(tokenizer, 'chat_template', None):
            raise ModelLoadError(
                f'{tokenizer.name_or_path}: no chat template; add its chat_template.jinja'
            )
        before, _ = self._parts(1)
        self.prefix_ids: list[int] = tokenizer.encode(before, add_special_tokens=begin_of_text)
        self._parts_cache: dict[int, list[list[int] | int]] = {}

    def _parts(self, turns: int) -> tuple[str, str]:
        """Return the rendered template before and after the video, with marks for the texts."""
        messages: list[dict[str, Any]] = []
        for turn in range(turns):
            text = {'type': 'text', 'text': _MARK.format(2 * turn)}
            content = [{'type': 'video'}, text] if turn == 0 else [text]
            messages.append({'role': 'user', 'content': content})
            if turn < turns - 1:
                reply = {'type': 'text', 'text': _MARK.format(2 * turn + 1)}
                messages.append({'role': 'assistant', 'content': [reply]})
        rendered: str = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        before, found, after = rendered.partition(self._video_token)
        if not found:
            raise ModelLoadError(
                f'{self._tokenizer.name_or_path}: the chat template puts no {self._video_token} '
                'where a message has a video'
            )
        return before, after

    def _pattern(self, turns: int) -> list[list[int] | int]:
        """Return the suffix as token ids with numbers where texts go."""
        if turns not in self._parts_cache:
            pieces = _MARKS.split(self._parts(turns)[1])
            self._parts_cache[turns] = [
                int(piece)
                if place % 2
                else self._tokenizer.encode(piece, add_special_tokens=False)
                for place, piece in enumerate(pieces)
            ]
        return self._parts_cache[turns]

    def suffix_ids(self, question: str, history: Sequence[tuple[str, str]] = ()) -> list[int]:
        """Return the ids from the end of the video to where the answer starts."""
        texts = [text for turn in history for text in turn] + [question]
        ids: list[int] = []
        for piece in self._pattern(len(history) + 1):
            ids.extend(self.plain_ids(texts[piece]) if isinstance(piece, int) else piece)
        return ids

    def plain_ids(self, text: str) -> list[int]:
        """Return the ids of a text in which control tokens are only characters."""
        ids: list[int] = self._encode_plain(text)
        if self._control_ids.isdisjoint(ids):
            return ids
        # A vocabulary of whole words knows its control tokens as words: break them apart.
        for control in self._control_texts:
            found = re.split(re.escape(control), text, flags=re.IGNORECASE)
            text = f'{control[:1]} {control[1:]}'.join(found)
        ids = self._encode_plain(text)
        unknown = self._tokenizer.unk_token_id
        allowed = self._control_ids - {unknown}
        return [token for token in ids if token not in allowed]

    def unknown_words(self, text: str) -> list[str]:
        """Return the words of a text that the vocabulary has no token for, each once."""
        unknown = self._tokenizer.unk_token_id
        if unknown is None:
            return []
        words = dict.fromkeys(word.strip(string.punctuation) for word in text.split())
        return [word for word in words if word and unknown in self._encode_plain(word)]

    def nothing_understood(self, text: str) -> str:
        """Say why a text means nothing to the model, and what does; '' if a word of it does."""
        unknown = self._tokenizer.unk_token_id
        if unknown is None or unknown not in self._encode_plain(_NO_WORD):
            return ''
        words = list(dict.fromkeys(_WORDS.findall(text)))
        if any(unknown not in self._encode_plain(word) for word in words):
            return ''
        ids = self._tokenizer.get_vocab()
        known = [word for word in sorted(ids, key=ids.__getitem__) if _WORDS.fullmatch(word)]
        told = f'; it knows {", ".join(known)}' if len(known) <= _WORDS_TOLD else ''
        if not words:
            return f'there is no word in the question{told}'
        return f'the model knows no word of the question, which has {named(words)}{told}'

    def _encode_plain(self, text: str) -> list[int]:
        # A lone surrogate cannot be tokenised at all.
        clean = text.encode('utf-8', 'replace').decode('utf-8')
        ids: list[int] = self._tokenizer.encode(
            clean, add_special_tokens=False, split_special_tokens=True
        )
        return ids

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of generated ids without control tokens."""
        decoded: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return decoded.strip()
