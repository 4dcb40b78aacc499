# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a question fetches from host memory, against plain loops, and that it reads just that."""

import math

from infinipot_ros.memory import questions
from infinipot_ros.memory.fetching import Fetch
from memory_testing import add, digest, filled, Spy
import pytest
from tiny_models import pictures, tiny
import torch

FAMILIES = ['qwen2_vl', 'llava_onevision']
FRAMES = 30


def frame_tokens(model):
    rows, columns = model.grid(model.default_frame_size_px)
    return rows * columns


@pytest.fixture
def fetches(monkeypatch):
    """Note the fetches that questions make, with the queries that they saw."""
    made = []

    class Noted(Fetch):

        def __init__(self, *args):
            super().__init__(*args)
            self.queries = {}
            made.append(self)

        def before(self, layer, query):
            self.queries.setdefault(layer, query.clone())
            super().before(layer, query)

    monkeypatch.setattr(questions, 'Fetch', Noted)
    return made


@pytest.mark.parametrize('instant_frames', [0, 2])
@pytest.mark.parametrize('family', FAMILIES)
def test_with_room_for_everything_it_is_the_cache_that_keeps_everything(family, instant_frames):
    """Seventy frames are more than the model has ranks for, so that older ones share theirs."""
    found = []
    for policy in ({'policy': 'rekv'}, {'policy': 'full', 'question_policy': 'rekv'},
                   {'policy': 'full'}):
        spy = Spy(tiny(family, dtype='float64'))
        memory = filled(spy, 70, instant_frames=instant_frames, budget_mib=16.0,
                        question_tokens=70 * frame_tokens(spy), **policy)
        answer = memory.ask('what?', max_new_tokens=3)
        found.append((torch.stack(spy.seen), answer.text, answer.attention_by_frame))
    for logits, text, mass in found[1:]:
        torch.testing.assert_close(logits, found[0][0], rtol=1e-11, atol=1e-11)
        assert text == found[0][1] and mass == pytest.approx(found[0][2])


def test_cameras_that_hold_everything_are_segments_one_after_the_other():
    found = []
    for policy in ({'policy': 'rekv'}, {'policy': 'full', 'question_policy': 'rekv'}):
        spy = Spy(tiny(dtype='float64'))
        memory = filled(spy, 0, cameras=('a', 'b'), instant_frames=1, budget_mib=16.0,
                        question_tokens=200, **policy)
        add(memory, 7, scene=1, camera='a')
        add(memory, 5, scene=2, camera='b')
        for names in (['a', 'b'], ['b', 'a'], ['b']):
            memory.ask('what?', max_new_tokens=2, cameras=names)
        found.append(torch.stack(spy.seen))
    torch.testing.assert_close(*found, rtol=1e-11, atol=1e-11)
    assert not torch.allclose(found[0][0], found[0][2])


def streamed(family, question_frames=2.5, **settings):
    """Return a memory after a stream, its settings, and each frame's K and V as it was read."""
    spy = Spy(tiny(family, dtype='float64'))
    size = frame_tokens(spy)
    settings = {'max_memory_tokens': 9 * size, 'instant_frames': 0, **settings}
    memory = filled(spy, 0, policy='rekv', question_tokens=int(question_frames * size),
                    **settings)
    window = filled(Spy(tiny(family, dtype='float64')), 0, policy='rekv_no_offload', **settings)
    read = []
    for index, rgb in enumerate(pictures(FRAMES, 0, spy.default_frame_size_px)):
        for one in (memory, window):
            one.add_frame(rgb, stamp=float(index))
        past = window._state.cameras[0].past
        stop = past.prefix + past.stored_tokens
        read.append([[rows[:, stop - size:stop].clone() for rows in tensors]
                     for tensors in (past.keys, past.values)])
    assert memory.status().compressions == window.status().compressions > 15
    return memory, window, read


def cosine(first, second):
    products = [sum(a * b for a, b in zip(x, y, strict=True))
                for x, y in ((first, second), (first, first), (second, second))]
    return products[0] / math.sqrt(products[1] * products[2])


def wanted_frames(queries, keys, count):
    """Return the `count` frames most like the question, best first, by loops over its numbers."""
    heads, tokens, width = keys[0].shape
    groups, asked = queries.shape[0] // heads, queries.tolist()
    question = [
        sum(row[d] for query in asked[head * groups:(head + 1) * groups] for row in query)
        / (groups * len(asked[0])) for head in range(heads) for d in range(width)]
    means = [[sum(row[d] for row in head) / tokens for head in frame.tolist()
              for d in range(width)] for frame in keys]
    scores = [cosine(mean, question) for mean in means]
    return sorted(range(len(keys)), key=lambda frame: -scores[frame])[:count]


@pytest.mark.parametrize('family', FAMILIES)
def test_frames_are_those_that_plain_loops_would_fetch(family, fetches):
    memory, _, read = streamed(family)
    memory.ask('what do you see there?', max_new_tokens=2)
    size, fetch = frame_tokens(memory.model), fetches[0]
    fetched = []
    for layer, queries in fetch.queries.items():
        wanted = wanted_frames(queries, [keys[layer] for keys, _ in read], 3)
        cut = size // 2
        counts = {wanted[0]: size, wanted[1]: size, wanted[2]: cut}
        expected = [frame for frame in sorted(wanted) for _ in range(counts[frame])]
        assert fetch.frames[layer].tolist() == [expected, expected]
        fetched.append(sorted(wanted))
        room, at = memory._state.cameras[0].fetched, 0
        for frame in sorted(wanted):
            rows = slice(at, at + counts[frame])
            for kept, source in ((room.keys, read[frame][0]), (room.values, read[frame][1])):
                assert torch.equal(kept[layer][:, rows], source[layer][:, :counts[frame]])
            at += counts[frame]
    # Layers ask for frames of their own, long gone from the window among them.
    assert len(fetched) == 3 and len({tuple(frames) for frames in fetched}) > 1
    assert min(min(frames) for frames in fetched) < FRAMES - 9


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('spoil', [None, 'keys', 'values', 'means'])
def test_an_answer_reads_what_was_fetched_at_the_places_of_a_short_past(family, spoil, fetches):
    """Another memory, given the fetched frames as its past by hand, answers the same."""
    memory, _, read = streamed(family, question_frames=9)
    size, store = frame_tokens(memory.model), memory._state.cameras[0].store
    if spoil is not None:
        # The controls: in one layer of the store, frames pass for others.
        with torch.inference_mode():
            rows = dict(store.tensors())[f'{spoil}0'][:, 1]
            rows.copy_(rows.flip(0))
    memory.ask('what?', max_new_tokens=2)
    other = Spy(tiny(family, dtype='float64'))
    plain = filled(other, 9, policy='full', instant_frames=0)
    past = plain._state.cameras[0].past
    for layer, queries in fetches[0].queries.items():
        wanted = sorted(wanted_frames(queries, [keys[layer] for keys, _ in read], 9))
        for place, frame in enumerate(wanted):
            rows = slice(past.prefix + place * size, past.prefix + (place + 1) * size)
            past.keys[layer][:, rows] = read[frame][0][layer]
            past.values[layer][:, rows] = read[frame][1][layer]
    plain.ask('what?', max_new_tokens=2)
    same = torch.allclose(
        torch.stack(other.seen), torch.stack(memory.model.seen), rtol=1e-9, atol=1e-9)
    assert same is (spoil is None)


@pytest.mark.parametrize('family', FAMILIES)
def test_the_device_holds_the_local_window_alone(family):
    memory, window, read = streamed(family)
    ours, theirs = (one._state.cameras[0].past for one in (memory, window))
    assert ours.stored_tokens == theirs.stored_tokens == 9 * frame_tokens(memory.model)
    for name in ('keys', 'values'):
        for one, two in zip(getattr(ours, name), getattr(theirs, name), strict=True):
            assert torch.equal(one, two)
    assert torch.equal(ours.frames, theirs.frames)
    assert memory._state.cameras[0].store.frames == list(range(len(read)))


@pytest.mark.parametrize('family', FAMILIES)
def test_a_span_is_fetched_as_if_nothing_else_had_been_seen(family, fetches):
    part, whole = Spy(tiny(family, dtype='float64')), Spy(tiny(family, dtype='float64'))
    choice = {'policy': 'rekv', 'question_tokens': 20, 'instant_frames': 0}
    filled(part, 6, **choice).ask('what?', max_new_tokens=3)
    memory = filled(whole, 12, **choice)
    memory.ask('what?', max_new_tokens=3, until_ns=int(5.5e9))
    torch.testing.assert_close(
        torch.stack(whole.seen), torch.stack(part.seen), rtol=1e-9, atol=1e-9)
    memory.ask('what?', max_new_tokens=3, since_ns=int(1e9), until_ns=int(5.5e9))
    seen = fetches[-1].frames
    assert seen.shape[2] == 20 and seen.min() >= 1 and seen.max() <= 5
    one = memory.ask('what?', max_new_tokens=3, since_ns=int(2e9), until_ns=int(2e9))
    assert set(one.attention_by_frame) == {2}
    nothing = memory.ask('what?', since_ns=int(90e9))
    assert nothing.status.value == 'empty_memory'


def test_every_chunk_of_a_long_question_reads_what_the_first_fetched(fetches, monkeypatch):
    from infinipot_ros.memory import decoding
    memory, _, _ = streamed('qwen2_vl')
    before = digest(memory)
    monkeypatch.setattr(decoding, 'CHUNK_TOKENS', 7)
    answer = memory.ask('what do you see there, and what was there before?', max_new_tokens=2)
    mine = fetches[0]
    assert all(query.shape[1] == 7 for query in mine.queries.values())
    assert digest(memory) == before
    assert sum(answer.attention_by_frame.values()) + answer.other_attention == pytest.approx(1.0)
