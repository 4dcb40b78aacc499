# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""DSCache's constructions and their switches, pairs of frames, and what a question selects."""

from infinipot_ros.memory import AnswerStatus
from memory_testing import add, CAP, digest, filled, noted_selections, Spy
import pytest
from tiny_models import pictures, tiny
import torch

FAMILIES = ['qwen2_vl', 'llava_onevision']


def logits(frames, family='qwen2_vl', question='what?', **settings):
    """Return the first logits of an answer, and the memory."""
    spy = Spy(tiny(family, dtype='float64'))
    memory = filled(spy, frames, **{**CAP, **settings})
    memory.ask(question, max_new_tokens=1)
    return spy.seen[0], memory


@pytest.mark.parametrize('family', FAMILIES)
def test_the_instant_cache_is_built_once_and_again_when_a_frame_comes(family, monkeypatch):
    _, memory = logits(20, family)
    camera = memory._state.cameras[0]
    before = [rows.clone() for rows in camera.instant.keys]
    calls = []
    backbone = memory.model._model.backbone
    monkeypatch.setattr(memory.model._model, 'backbone',
                        lambda e, s: calls.append(len(e)) or backbone(e, s))
    memory.ask('what?', max_new_tokens=1)
    patches = memory.status().tokens_per_frame
    assert 4 * patches not in calls
    assert all(torch.equal(a, b) for a, b in zip(before, camera.instant.keys, strict=True))
    calls.clear()
    add(memory, 1, scene=8)
    memory.ask('what?', max_new_tokens=1)
    assert calls.count(4 * patches) == 1
    assert not torch.equal(before[1], camera.instant.keys[1])


@pytest.mark.parametrize('family', FAMILIES)
def test_the_instant_cache_does_not_depend_on_the_past(family):
    _, long = logits(30, family)
    short = filled(Spy(tiny(family, dtype='float64')), 0, **CAP)
    size = short.model.default_frame_size_px
    for index, rgb in enumerate(pictures(30, 0, size)[-4:]):
        short.add_frame(rgb, stamp=float(index))
    short.ask('what?', max_new_tokens=1)
    for a, b in zip(long._state.cameras[0].instant.values,
                    short._state.cameras[0].instant.values, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('switch', [
    {'decouple': False}, {'sinks_in_instant': False}, {'sinks_in_cumulative': False},
    {'instant_frames': 0}, {'instant_frames': 2}])
def test_every_switch_changes_what_is_read(family, switch):
    plain, _ = logits(20, family)
    switched, memory = logits(20, family, **switch)
    assert not torch.allclose(plain, switched)
    assert memory.status().held_bytes <= memory.status().budget_bytes


def test_without_decoupling_the_newest_frames_are_as_in_the_uniform_cache():
    """Without compression and decoupling nothing is left of DSCache: one cache, fed in order."""
    for family in FAMILIES:
        coupled, _ = logits(7, family, decouple=False)
        uniform, _ = logits(7, family, instant_frames=0)
        torch.testing.assert_close(coupled, uniform, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize('family', FAMILIES)
def test_a_sharper_newest_frame_is_read_only_by_the_question(family):
    plain, memory = logits(20, family)
    sharp, sharper = logits(20, family, newest_scale=2)
    assert not torch.allclose(plain, sharp)
    grid = sharper._state.cameras[0].instant_frames[-1].grid
    assert grid == sharper._state.sizes.newest_grid != sharper._state.sizes.scheme.grid
    assert digest_of_past(memory) == digest_of_past(sharper)


def digest_of_past(memory):
    past = memory._state.cameras[0].past
    stop = past.prefix + past.stored_tokens
    return [rows[:, :stop].tolist() for rows in (*past.keys, *past.values)]


def test_two_frames_make_one_grid_and_half_a_pair_is_seen_at_once():
    spy = Spy(tiny(temporal=2, dtype='float64'))
    memory = filled(spy, 0, instant_frames=2)
    first, second, third = pictures(3, 4)
    receipt = memory.add_frame(first, stamp=0.0)
    assert receipt.frame_id == 0 and receipt.novelty == 0.0
    alone = memory.ask('what?', max_new_tokens=1)
    assert alone.status is AnswerStatus.ANSWERED and set(alone.attention_by_frame) == {0}
    assert memory.status().held_tokens == 12
    assert memory.add_frame(second, stamp=1.0).frame_id == 0
    assert memory.frames()[0].stamp_ns == int(1e9) and memory.status().frames_seen == 2
    memory.ask('what?', max_new_tokens=1)
    assert not torch.allclose(spy.seen[0], spy.seen[1])
    assert memory.add_frame(third, stamp=2.0).frame_id == 1
    answer = memory.ask('what?', max_new_tokens=1)
    assert set(answer.attention_by_frame) == {0, 1}
    with torch.inference_mode():
        pair = spy.encode([first, second], (24, 32))
        assert torch.equal(memory._state.cameras[0].buffer.ordered()[0], pair)
        assert not torch.allclose(pair, spy.encode([first], (24, 32)))


@pytest.mark.parametrize('instant_frames', [0, 2])
def test_pairs_go_on_after_compressions(instant_frames, monkeypatch):
    monkeypatch.setattr(tiny(temporal=2), 'eos_ids', frozenset())
    memory = filled(tiny(temporal=2), 61, instant_frames=instant_frames, **CAP)
    status = memory.status()
    assert status.compressions >= 3 and status.frames_seen == 61
    before = digest(memory)
    answer = memory.ask('what?', max_new_tokens=2)
    assert 30 in answer.attention_by_frame
    assert digest(memory) == before


def test_a_pair_and_a_duplicated_frame_match_the_stock_processor():
    from transformers import Qwen2VLImageProcessorPil
    model = tiny(temporal=2)
    processor = Qwen2VLImageProcessorPil(
        patch_size=4, merge_size=2, temporal_patch_size=2,
        size={'shortest_edge': 64, 'longest_edge': 64 * 64})
    rgb = pictures(1)[0]
    stock = processor(images=[rgb], return_tensors='pt')
    with torch.inference_mode():
        expected = model._visual(
            stock['pixel_values'].float(), grid_thw=stock['image_grid_thw']).pooler_output
        torch.testing.assert_close(model.encode([rgb], (24, 32)), expected, rtol=1e-5, atol=1e-5)
        assert torch.equal(model.encode([rgb, rgb], (24, 32)), model.encode([rgb], (24, 32)))


@pytest.fixture
def selections(monkeypatch):
    """Note the selections that questions make; FastV prunes from the tiny model's second layer."""
    return noted_selections(monkeypatch, fastv_layer=1)


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('policy', ['rekv', 'fastv', 'uniform_frames', 'sliding_window'])
def test_a_question_that_selects_reads_only_what_it_selects(family, policy, selections):
    spy = Spy(tiny(family, dtype='float64'))
    rows, columns = spy.grid(spy.default_frame_size_px)
    count = 2 * rows * columns
    cap = {'max_memory_tokens': 9 * rows * columns, 'instant_frames': 1}
    memory = filled(spy, 30, question_policy=policy, question_tokens=count, **cap)
    before = digest(memory)
    answer = memory.ask('what?', max_new_tokens=2)
    assert digest(memory) == before
    assert sum(answer.attention_by_frame.values()) + answer.other_attention == pytest.approx(1.0)
    whole, _ = logits(30, family, **cap)
    assert not torch.allclose(spy.seen[0], whole)
    piece, following = selections[0].piece, selections[0].following
    read = (~piece.hidden).sum(-1)
    pruned = slice(2 if policy == 'fastv' else 0, None)
    assert (read[pruned] == count).all()
    assert (read[:pruned.start] == memory._state.cameras[0].past.stored_tokens).all()
    # What is read stands close together, right before the newest frames.
    place = piece.coordinates.axes[0] - memory._state.sizes.sink_tokens
    for layer in range(pruned.start, 3):
        for head in range(2):
            mine = place[layer, head][~piece.hidden[layer, head]].unique()
            assert mine.tolist() == list(range(following - len(mine), following))


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('policy', ['rekv', 'uniform_frames'])
def test_a_question_that_selects_everything_is_a_plain_question(family, policy):
    plain, _ = logits(30, family)
    selected, _ = logits(30, family, question_policy=policy, question_tokens=10_000)
    torch.testing.assert_close(selected, plain, rtol=1e-11, atol=1e-11)


def test_chance_draws_by_the_seed_of_the_policy():
    def kept(**settings):
        memory = filled(tiny(), 40, policy='random', **CAP, **settings)
        return memory._state.cameras[0].past.frames.tolist()
    assert kept(policy_options={'seed': 1}) == kept(seed=1) != kept()
    assert kept(policy_options={'seed': 2}, seed=1) == kept(seed=2) != kept(seed=1)


def test_sampling_draws_by_the_seed():
    def text(**settings):
        return filled(tiny(), 10, **settings).ask('what?', max_new_tokens=20).text
    assert text(temperature=3.0, seed=1) == text(temperature=3.0, seed=1)
    assert text(temperature=3.0, seed=1) != text(temperature=3.0, seed=2)
    assert text() == text(seed=3)


@pytest.mark.parametrize('policy', ['recent_frames', 'dscache_uniform'])
def test_policies_with_a_fixed_number_of_frames_hold_no_more(policy):
    frames = {'recent_frames': 4, 'dscache_uniform': 28}[policy]
    memory = filled(tiny(), 60, policy=policy, instant_frames=0)
    assert memory.status().held_tokens == frames * 12
    assert [kept.frame for kept in memory.frames()] == list(range(60 - frames, 60))


def test_full_keeps_everything_until_nothing_more_fits():
    from infinipot_ros.errors import BudgetError
    memory = filled(tiny(), 9, policy='full', instant_frames=0, **CAP)
    before = digest(memory)
    with pytest.raises(BudgetError, match='never evicts'):
        add(memory, 1)
    assert digest(memory) == before


def test_observed_attention_is_that_of_the_window_over_the_past():
    """Scores of SnapKV equal the weights of a pass that is watched, recomputed from the cache."""
    from infinipot_ros.memory.observation import Observation
    memory = filled(tiny(dtype='float64'), 8, policy='snapkv', instant_frames=0, **CAP)
    state = memory._state
    camera = state.cameras[0]
    drawn = Observation(state.build)(camera, state.compression.policy, 1)
    past = camera.past
    for layer, fields in enumerate(drawn):
        attention = fields['attention']
        assert attention.shape == (2, past.stored_tokens)
        # 32 window tokens, 3 query heads each, less what went to the sinks.
        assert (attention >= 0).all() and (attention.sum(-1) < 32 * 3).all()
        assert attention[:, -1].max() <= 3.0 + 1e-9
        assert len(camera.window[layer][0]) == 32
