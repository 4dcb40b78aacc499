# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo model's language: a few dozen words, the special tokens and the chat template."""

from __future__ import annotations

import re

from infinipot_ros.demo.questions import NOT_SEEN, NOTHING, PHRASES, SIDES
from infinipot_ros.demo.things import COLOURS, SHAPES
from tokenizers import normalizers, pre_tokenizers, Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

SYSTEM_PROMPT = 'you answer questions about what the camera saw .'
SPECIAL_TOKENS = ('<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|vision_start|>',
                  '<|vision_end|>', '<|image_pad|>', '<|video_pad|>')
UNKNOWN = '<unk>'

CHAT_TEMPLATE = (
    '{% for message in messages %}'
    '{% if loop.first and message["role"] != "system" %}'
    '<|im_start|>system\n' + SYSTEM_PROMPT + '<|im_end|>\n'
    '{% endif %}'
    '<|im_start|>{{ message["role"] }}\n'
    '{% if message["content"] is string %}{{ message["content"] }}'
    '{% else %}{% for part in message["content"] %}'
    '{% if part["type"] == "video" %}<|vision_start|><|video_pad|><|vision_end|>'
    '{% elif part["type"] == "image" %}<|vision_start|><|image_pad|><|vision_end|>'
    '{% elif "text" in part %}{{ part["text"] }}{% endif %}'
    '{% endfor %}{% endif %}<|im_end|>\n'
    '{% endfor %}'
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)


def words() -> list[str]:
    """Return every word that a question or an answer of the demo world can hold, in order."""
    fields = ('{colour}', '{shape}', '{a_thing}', '{first}', '{second}')
    text = [SYSTEM_PROMPT, NOT_SEEN, NOTHING, 'yes no a an and the', *SIDES, *COLOURS, *SHAPES,
            'system user assistant', *(phrase for group in PHRASES.values() for phrase in group)]
    joined = ' '.join(text)
    for field in fields:
        joined = joined.replace(field, ' ')
    return list(dict.fromkeys(re.findall(r'[a-z]+|[.,?]', joined)))


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Build the word-level tokenizer; it folds case and knows 'color' for 'colour'."""
    vocabulary = {token: k for k, token in enumerate([*SPECIAL_TOKENS, UNKNOWN, *words()])}
    core = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    core.normalizer = normalizers.Sequence([
        normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace('color', 'colour')])
    core.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token=UNKNOWN, eos_token='<|im_end|>',
        pad_token='<|endoftext|>',
        additional_special_tokens=[t for t in SPECIAL_TOKENS
                                   if t not in ('<|im_end|>', '<|endoftext|>')],
        clean_up_tokenization_spaces=False, model_max_length=2048)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
