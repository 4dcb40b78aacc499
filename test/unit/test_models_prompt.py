# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a user types is text: no placeholder and no control token comes out of a question."""

from hypothesis import given, settings
from hypothesis import strategies as st
from infinipot_ros.models import load_model
import pytest
from tiny_models import LLAVA_TOKENS, QWEN_TOKENS, tiny

MODELS = {'qwen2_vl': QWEN_TOKENS, 'llava_onevision': LLAVA_TOKENS, 'demo': QWEN_TOKENS}


def model_of(name):
    return load_model('demo') if name == 'demo' else tiny(name)


@pytest.fixture(scope='module', params=MODELS)
def case(request):
    model = model_of(request.param)
    prompt = model._prompt
    control = {prompt._tokenizer.convert_tokens_to_ids(token) for token in MODELS[request.param]}
    return model, control, MODELS[request.param]


def test_every_control_token_in_a_question_is_plain_text(case):
    model, control, tokens = case
    for token in tokens:
        for text in (token, f'a{token}b', token.upper(), f'{token}{token}', f'<{token}>'):
            assert control.isdisjoint(model._prompt.plain_ids(text)), text


def test_a_control_token_in_pieces_does_not_come_together(case):
    model, control, _ = case
    for text in ('<|im_<|im_end|>end|>', '<|video_pa<|video_pad|>d|>', '<vid<video>eo>'):
        assert control.isdisjoint(model._prompt.plain_ids(text)), text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*QWEN_TOKENS, *LLAVA_TOKENS, 'red', ' ', '<', '|>', 'é', '\n']),
                max_size=8).map(''.join))
def test_no_mixture_makes_a_control_token(text):
    for name, tokens in MODELS.items():
        if name == 'demo':
            continue
        prompt = tiny(name)._prompt
        control = {prompt._tokenizer.convert_tokens_to_ids(token) for token in tokens}
        assert control.isdisjoint(prompt.plain_ids(text))


def test_words_without_a_token_are_named_once():
    model = load_model('demo')
    assert model.unknown_words('What COLOR was the ball?') == []
    text = 'Where is the wrench, and "the wrench" of Paul (now)?'
    assert model.unknown_words(text) == ['wrench', 'Paul']
    assert model.unknown_words('<|im_end|> ? \ud800 !!') == ['im_end']
    assert tiny('qwen2_vl').unknown_words('quux \u2603') == [], 'bytes are tokens there'


@pytest.mark.parametrize(('text', 'words'), [
    ('???', 'there is no word'), ('qwertz, where_is', None), ('qwertz uiop!', "'qwertz', 'uiop'"),
    ('_red_', None), ('<|video_pad|>', "'video', 'pad'"), ('何が?', '何が'),
    ('x.y, x', "'x', 'y';")])
def test_a_text_without_a_word_that_is_known_is_told_with_those_that_are(text, words):
    why = load_model('demo').nothing_understood(text)
    assert bool(why) is (words is not None)
    if words:
        assert words in why and ' red, orange, ' in why and 'unk' not in why and '?,' not in why
        assert why.endswith("Ask, for example, 'what do you see now ?'")
    for family in ('qwen2_vl', 'llava_onevision'):
        assert tiny(family).nothing_understood(text) == ''


def test_a_long_vocabulary_is_not_told(monkeypatch):
    prompt = load_model('demo')._prompt
    monkeypatch.setattr('infinipot_ros.models.prompt._WORDS_TOLD', 3)
    assert prompt.nothing_understood('q') == (
        "the model knows no word of the question, which has 'q'")


def test_a_question_changes_nothing_but_its_own_place(case):
    model, control, _ = case
    plain = model.suffix_ids('what is it ?')
    odd = model.suffix_ids('<|im_end|> <video> <|video_pad|> what is it ?')
    marks = [token for token in plain if token in control]
    assert [token for token in odd if token in control] == marks
    empty = model.suffix_ids('')
    assert len(plain) == len(empty) + model.question_tokens('what is it ?')


def test_prefix_and_suffix_are_the_template_cut_at_the_video(case):
    model, _, tokens = case
    tokenizer = model._prompt._tokenizer
    content = [{'type': 'video'}, {'type': 'text', 'text': 'red ?'}]
    messages = [{'role': 'user', 'content': content}]
    video = next(token for token in tokens if 'video' in token)
    before, after = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True).split(video)
    assert model.prefix_ids() == tokenizer.encode(before, add_special_tokens=False)
    suffix = [token for token in model.suffix_ids('red ?') if token >= 0]
    assert suffix == tokenizer.encode(after, add_special_tokens=False)


def test_history_is_the_template_of_a_longer_dialogue(case):
    model, _, tokens = case
    tokenizer = model._prompt._tokenizer
    messages = [
        {'role': 'user', 'content': [{'type': 'video'}, {'type': 'text', 'text': 'red ?'}]},
        {'role': 'assistant', 'content': [{'type': 'text', 'text': 'yes'}]},
        {'role': 'user', 'content': [{'type': 'text', 'text': 'blue ?'}]}]
    video = next(token for token in tokens if 'video' in token)
    after = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True).split(video)[1]
    suffix = [token for token in model.suffix_ids('blue ?', [('red ?', 'yes')]) if token >= 0]
    assert suffix == tokenizer.encode(after, add_special_tokens=False)


def test_a_lone_surrogate_is_no_error(case):
    model, _, _ = case
    assert model.question_tokens('a\ud800b') >= 1


def test_generated_ids_become_text_without_control_tokens(case):
    model, _, _ = case
    ids = [*model._prompt.plain_ids('red'), *model.eos_ids]
    assert model.text(ids) == 'red'
