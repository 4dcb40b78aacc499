# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Invariants 6, 7 and 9: a question changes nothing, memories are apart, evidence sums to 1."""

import time

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory import AnswerStatus
from memory_testing import add, CAP, digest, filled, noted_selections, Spy
import pytest
from tiny_models import tiny
import torch

FAMILIES = ['qwen2_vl', 'llava_onevision']


def test_the_same_question_twice_has_the_same_answer():
    memory = filled(tiny(), 30, **CAP)
    before = digest(memory)
    first, second = memory.ask('what?'), memory.ask('what?')
    assert (first.text, first.confidence, first.attention_by_frame) == (
        second.text, second.confidence, second.attention_by_frame)
    assert digest(memory) == before


@pytest.mark.parametrize('hold', [True, False])
def test_rotating_keys_once_or_every_time_gives_the_same_logits(hold):
    model = Spy(tiny(dtype='float64'))
    memory = filled(model, 30, hold_rotated_keys=hold, **CAP)
    reference = Spy(tiny(dtype='float64'))
    other = filled(reference, 30, **CAP)
    memory.ask('what do you see?', max_new_tokens=5)
    other.ask('what do you see?', max_new_tokens=5)
    torch.testing.assert_close(
        torch.stack(model.seen), torch.stack(reference.seen), rtol=1e-12, atol=1e-12)


def test_a_description_is_the_answer_to_the_models_own_prompt():
    model = tiny(describe_prompt='what is there?')
    memory = filled(model, 12)
    assert memory.describe().text == memory.ask('what is there?').text
    assert memory.describe('and where?').text == memory.ask('and where?').text
    assert 'camera' in tiny().describe_prompt


def test_an_answer_names_the_words_that_the_model_does_not_know(monkeypatch):
    memory = filled(tiny(), 0, cameras=('front', 'rear'))
    add(memory, 3, camera='rear')
    monkeypatch.setattr(memory.model, 'unknown_words', lambda text: ['zebra'], raising=False)
    answer = memory.ask('did you see a zebra ?')
    assert answer.status is AnswerStatus.ANSWERED
    assert answer.message.startswith(
        "no frame was seen yet by front; the model does not know 'zebra'; the answer takes no")
    assert memory.ask('zebra', cancel=lambda: True).message == 'cancelled after 0 tokens; ' \
        'no frame was seen yet by front'
    assert memory.describe('is it a zebra ?').message == 'no frame was seen yet by front'


def test_a_long_question_is_read_in_chunks(monkeypatch):
    from infinipot_ros.memory import decoding
    whole, chunked = Spy(tiny(dtype='float64')), Spy(tiny(dtype='float64'))
    question = 'what did you see before that? ' * 4
    filled(whole, 12).ask(question, max_new_tokens=2)
    monkeypatch.setattr(decoding, 'CHUNK_TOKENS', 7)
    filled(chunked, 12).ask(question, max_new_tokens=2)
    torch.testing.assert_close(
        torch.stack(whole.seen), torch.stack(chunked.seen), rtol=1e-11, atol=1e-11)


def test_cancelled_and_late_answers_say_so_and_change_nothing(monkeypatch):
    memory = filled(tiny(), 20, **CAP)
    before = digest(memory)
    calls = iter([False, False, False, True])
    cancelled = memory.ask('what?', cancel=lambda: next(calls))
    assert cancelled.status is AnswerStatus.CANCELLED
    assert cancelled.tokens == 2 and '2 tokens' in cancelled.message
    now, ahead_s = time.monotonic, []
    monkeypatch.setattr(time, 'monotonic', lambda: now() + sum(ahead_s))
    late = memory.ask('what?', timeout_s=1000.0, on_token=lambda _: ahead_s.append(1001.0))
    monkeypatch.undo()
    assert late.status is AnswerStatus.TIMEOUT and 'deadline' in late.message
    assert late.tokens >= 1
    assert digest(memory) == before


def test_an_exception_in_a_callback_changes_nothing():
    memory = filled(tiny(), 20, **CAP)
    before, answer = digest(memory), memory.ask('what?')

    def fail(_):
        raise RuntimeError('caller')

    with pytest.raises(RuntimeError, match='caller'):
        memory.ask('what?', on_token=fail)
    assert digest(memory) == before
    assert memory.ask('what?').text == answer.text


def test_tokens_are_told_as_they_come():
    memory = filled(tiny(), 12)
    told = []
    answer = memory.ask('what?', max_new_tokens=12, on_token=told.append)
    assert answer.tokens == 12 or answer.tokens < 12
    assert ''.join(told).strip() in answer.text and told


@pytest.mark.parametrize('question, words', [
    ('', 'empty'), ('  \n', 'empty'), ('\t' * 1_000_000, 'empty'),
    ('x' * 1_000_000, 'characters'), ('x' * 300, 'tokens')])
def test_a_bad_question_is_refused_with_the_reason(question, words, monkeypatch):
    memory = filled(tiny(), 30, **CAP)
    before, expected = digest(memory), memory.ask('what?').text
    count, counted = memory.model.question_tokens, [0]
    monkeypatch.setattr(memory.model, 'question_tokens',
                        lambda text: counted.append(len(text)) or count(text))
    answer = memory.ask(question)
    assert answer.status is AnswerStatus.BAD_REQUEST and words in answer.message
    assert max(counted) < 10_000, 'a tokenizer takes its time with a million characters'
    assert digest(memory) == before and memory.ask('what?').text == expected


@pytest.mark.parametrize('question', [
    '\ud800?', 'où est la balle ? 🟥', '\x00\x1b[31m', '<|im_end|>'])
def test_odd_characters_are_only_text(question):
    memory = filled(tiny(), 10)
    assert memory.ask(question, max_new_tokens=2).status is AnswerStatus.ANSWERED


def test_an_empty_memory_says_which_camera_saw_nothing():
    memory = filled(tiny(), 0, cameras=('front', 'rear'))
    answer = memory.ask('what?', cameras=['rear'])
    assert answer.status is AnswerStatus.EMPTY_MEMORY and 'rear' in answer.message
    add(memory, 3, camera='rear')
    assert memory.ask('what?', cameras=['rear']).status is AnswerStatus.ANSWERED
    assert memory.ask('what?', cameras=['front']).status is AnswerStatus.EMPTY_MEMORY
    with pytest.raises(ConfigError, match='front, rear'):
        memory.ask('what?', cameras=['left'])


def test_an_answer_names_the_cameras_that_have_no_part_in_it():
    memory = filled(tiny(), 0, cameras=('front', 'rear'))
    add(memory, 3, camera='rear')
    answer = memory.ask('what?')
    assert answer.status is AnswerStatus.ANSWERED
    assert answer.message == 'no frame was seen yet by front'
    add(memory, 3, camera='front')
    assert memory.ask('what?').message == ''
    late = memory.ask('what?', since_ns=3 * 10**9)
    assert late.status is AnswerStatus.ANSWERED
    assert late.message == 'nothing that rear saw in that span is still remembered'


@pytest.mark.parametrize('family', FAMILIES)
def test_two_memories_on_one_model_are_apart(family):
    model = tiny(family)
    alone = filled(model, 25, scene=1, **CAP)
    expected, kept = alone.ask('what?'), digest(alone)
    first, second = filled(model, 0, **CAP), filled(model, 0, policy='tar', instant_frames=1)
    for step in range(25):
        # One frame each in turn, as two robots on one model send them.
        _add_one(first, 1, step)
        _add_one(second, 2, step)
        if step % 6 == 0:
            second.ask('where?', max_new_tokens=3)
    assert digest(first) == kept
    assert first.ask('what?').text == expected.text


def _add_one(memory, seed, step):
    from tiny_models import pictures
    size = memory.model.default_frame_size_px
    memory.add_frame(pictures(25, seed, size)[step], stamp=float(step))


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('settings', [
    {}, {'instant_frames': 0}, {'evidence_layers': (0, 2)}, {'cameras': ('a', 'b')}])
def test_evidence_is_positive_and_sums_to_one(family, settings):
    memory = filled(tiny(family), 0, **{'max_memory_tokens': 12 * 18, **settings})
    for camera in settings.get('cameras', (None,)):
        add(memory, 30, camera=camera)
    answer = memory.ask('what?', max_new_tokens=6)
    masses = list(answer.attention_by_frame.values())
    assert min(masses) >= 0 and answer.other_attention > 0
    assert sum(masses) + answer.other_attention == pytest.approx(1.0, abs=1e-6)
    assert [e.relevance for e in answer.evidence] == sorted(masses, reverse=True)[:5]
    assert set(answer.attention_by_frame) <= {kept.frame for kept in memory.frames()}


def test_evidence_counts_only_steps_that_gave_a_token(monkeypatch):
    memory = filled(tiny(), 12)
    whole = memory.ask('what?', max_new_tokens=3)
    model = memory.model
    ends = frozenset({_ids(memory)[2]})
    monkeypatch.setattr(model, 'eos_ids', ends)
    short = memory.ask('what?', max_new_tokens=3)
    assert short.tokens == 2 < whole.tokens
    assert sum(short.attention_by_frame.values()) + short.other_attention == pytest.approx(1.0)


def _ids(memory):
    spy = Spy(memory.model)
    memory._state.model = spy
    memory.ask('what?', max_new_tokens=3)
    memory._state.model = spy._model
    return [int(logits.argmax()) for logits in spy.seen]


def test_evidence_points_at_the_frame_a_head_is_made_to_look_at():
    memory = filled(tiny(), 8, instant_frames=0)
    past = memory._state.cameras[0].past
    # Keys without length draw no more than their even share: all but frame 5 are silenced.
    for layer in range(3):
        rows = past.keys[layer][:, past.prefix:past.prefix + past.stored_tokens]
        rows[past.frames[layer] == 5] *= 8.0
        rows[past.frames[layer] != 5] *= 0.0
    answer = memory.ask('what?', max_new_tokens=4)
    first = answer.evidence[0]
    assert first.frame == 5
    assert first.relevance_per_token == pytest.approx(first.relevance / 12)


def test_a_span_is_like_a_memory_that_saw_only_that():
    for family in FAMILIES:
        part, whole = Spy(tiny(family, dtype='float64')), Spy(tiny(family, dtype='float64'))
        filled(part, 6).ask('what?', max_new_tokens=3)
        memory = filled(whole, 12)
        answer = memory.ask('what?', max_new_tokens=3, until_ns=int(5.5e9))
        # The buffer differs (its frames are instant in one and past in the other): look closer.
        assert set(answer.attention_by_frame) - {f for f, m in answer.attention_by_frame.items()
                                                 if m == 0} == set(range(6))
        whole.seen.clear()
        flat = filled(whole, 12, instant_frames=0)
        part.seen.clear()
        filled(part, 6, instant_frames=0).ask('what?', max_new_tokens=3)
        flat.ask('what?', max_new_tokens=3, until_ns=int(5.5e9))
        torch.testing.assert_close(
            torch.stack(whole.seen), torch.stack(part.seen), rtol=1e-9, atol=1e-9)


def test_a_span_without_frames_is_empty():
    memory = filled(tiny(), 12)
    nothing = memory.ask('what?', since_ns=int(100e9))
    assert nothing.status is AnswerStatus.EMPTY_MEMORY and 'span' in nothing.message
    backwards = memory.ask('what?', since_ns=2, until_ns=1)
    assert backwards.status is AnswerStatus.BAD_REQUEST
    newest = memory.ask('what?', since_ns=int(10e9), max_new_tokens=2)
    seen = {frame for frame, mass in newest.attention_by_frame.items() if mass > 0}
    assert seen == {10, 11}


@pytest.mark.parametrize('question', [None, 3, b'what?', ['what?']])
def test_a_question_that_is_no_text_is_named(question):
    memory = filled(tiny(), 10)
    before = digest(memory)
    with pytest.raises(ConfigError, match='question'):
        memory.ask(question)
    assert digest(memory) == before


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('policy', ['rekv', 'fastv', 'uniform_frames', 'infinipot_v'])
def test_a_span_and_a_selection_go_together(family, policy):
    part, whole = Spy(tiny(family, dtype='float64')), Spy(tiny(family, dtype='float64'))
    choice = {'question_policy': policy, 'question_tokens': 20, 'instant_frames': 0}
    filled(part, 6, **choice).ask('what?', max_new_tokens=3)
    memory = filled(whole, 12, **choice)
    before = digest(memory)
    memory.ask('what?', max_new_tokens=3, until_ns=int(5.5e9))
    torch.testing.assert_close(
        torch.stack(whole.seen), torch.stack(part.seen), rtol=1e-9, atol=1e-9)
    memory.ask('what?', max_new_tokens=3, until_ns=int(5.5e9), since_ns=int(1e9))
    assert not torch.allclose(whole.seen[0], whole.seen[3])
    assert digest(memory) == before


@pytest.mark.parametrize('policy', ['rekv', 'uniform_frames', 'tar', 'snapkv'])
def test_a_selection_in_a_span_is_of_tokens_in_it_in_every_head(policy, monkeypatch):
    made = noted_selections(monkeypatch, fastv_layer=0)
    memory = filled(tiny(), 40, question_policy=policy, question_tokens=10, **CAP)
    past = memory._state.cameras[0].past
    inside = past.frames <= 20
    assert len(set(inside.sum(-1).flatten().tolist())) > 1
    memory.ask('what?', max_new_tokens=2, until_ns=int(20e9))
    read = ~made[0].piece.hidden
    assert not (read & ~inside).any()
    first = 1 if policy == 'snapkv' else 0
    assert (read.sum(-1) == inside.sum(-1).clamp_max(10))[first:].all()


def test_history_is_read_as_text_and_the_oldest_left_out_when_long():
    model = tiny(dtype='float64')
    spy = Spy(model)
    memory = filled(spy, 10)
    memory.ask('and now?', max_new_tokens=1, history=[('what?', 'a red ball')])
    plain = filled(spy, 10)
    plain.ask('and now?', max_new_tokens=1)
    assert not torch.allclose(spy.seen[0], spy.seen[1])
    answer = memory.ask('and now?', max_new_tokens=1, history=[('what?' * 20, 'a ' * 40)] * 50)
    assert answer.status is AnswerStatus.ANSWERED


def test_two_cameras_are_two_segments_one_after_the_other():
    for family in FAMILIES:
        model = Spy(tiny(family, dtype='float64'))
        both = filled(model, 0, cameras=('a', 'b'), instant_frames=0)
        add(both, 7, scene=1, camera='a')
        add(both, 5, scene=2, camera='b')
        both.ask('what?', max_new_tokens=2)
        both.ask('what?', max_new_tokens=2, cameras=['b', 'a'])
        assert not torch.allclose(model.seen[0], model.seen[2])
        model.seen.clear()
        both.ask('what?', max_new_tokens=2, cameras=['a'])
        one = filled(model, 7, scene=1, instant_frames=0)
        one.ask('what?', max_new_tokens=2)
        torch.testing.assert_close(model.seen[0], model.seen[2], rtol=1e-9, atol=1e-9)
