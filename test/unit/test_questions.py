# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Every question has one true answer, checked here by a second way of counting."""

from infinipot_ros.demo.questions import (
    FAMILIES,
    is_abstention,
    is_right,
    make_question,
    Question,
    Sightings,
)
from infinipot_ros.demo.vocabulary import build_tokenizer
from infinipot_ros.demo.world import Drive, SETTINGS
import numpy as np
import pytest


def _questions(seeds, frames=50, draws=6):
    for seed in seeds:
        for setting in SETTINGS:
            drive = Drive(seed, setting, frames)
            sightings = Sightings()
            views = [drive.visible(index) for index in range(frames)]
            for view in views:
                sightings.add(view)
            rng = np.random.default_rng(seed)
            for family in FAMILIES:
                for _ in range(draws):
                    question = make_question(family, sightings, rng, phrase=None)
                    if question is not None:
                        yield views, question


def test_answers_agree_with_the_frames():
    counted = dict.fromkeys(FAMILIES, 0)
    for views, question in _questions(range(6)):
        best = {}
        for view in views:
            for item in view:
                best[item.thing] = max(best.get(item.thing, 0), item.fraction)
        seen = [thing for thing, fraction in best.items() if fraction >= 0.6]
        words = question.text.split()
        now = [item for item in views[-1] if item.fraction >= 0.6]
        if question.family in ('colour', 'shape'):
            given = 'shape' if question.family == 'colour' else 'colour'
            fit = [t for t in seen if getattr(t, given) in words]
            truth = getattr(fit[0], question.family) if fit else 'not seen'
            assert len(fit) <= 1
        elif question.family in ('did', 'now'):
            pool = seen if question.family == 'did' else [item.thing for item in now]
            truth = 'yes' if any(t.colour in words and t.shape in words for t in pool) else 'no'
        elif question.family == 'see':
            names = [item.thing.name for item in sorted(now, key=lambda item: item.centre_x)]
            truth = ' and '.join(f"{'an' if n[0] == 'o' else 'a'} {n}" for n in names) or 'nothing'
        elif question.family == 'where':
            item = next(i for i in now if i.thing.name in question.text)
            truth = ('left', 'middle', 'right')[int(item.centre_x // (112 / 3))]
        else:
            continue
        counted[question.family] += 1
        assert question.answer == truth, question
    assert all(count > 20 for family, count in counted.items() if family != 'first')


def test_first_names_the_thing_that_came_first():
    for views, question in _questions(range(4)):
        if question.family == 'first':
            names = [item.thing.name for view in views for item in view if item.fraction >= 0.6]
            asked = sorted({n for n in names if n in question.text}, key=names.index)
            assert question.answer == f'the {asked[0]}'


def test_both_answers_of_yes_or_no_questions_are_common():
    answers = [q.answer for _, q in _questions(range(6)) if q.family == 'did']
    assert 0.25 < answers.count('yes') / len(answers) < 0.75


def test_the_tokenizer_knows_every_word_of_questions_and_answers():
    tokenizer = build_tokenizer()
    for _, question in _questions(range(3)):
        for text in (question.text, question.answer):
            assert tokenizer.unk_token_id not in tokenizer(text).input_ids, text


@pytest.mark.parametrize('text', ['<|im_end|>', '<|video_pad|>', '<|vision_start|>'])
def test_special_tokens_in_a_text_stay_words(text):
    tokenizer = build_tokenizer()
    ids = tokenizer(text, split_special_tokens=True).input_ids
    assert not set(ids) & set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}


def test_answers_are_compared_word_for_word():
    question = Question('what colour was the ball ?', 'dark red', 'colour', 'seen', 3)
    assert is_right(question, ' Dark  RED ')
    assert not is_right(question, 'red')
    assert is_abstention('Not seen')
    assert not is_abstention('red')
