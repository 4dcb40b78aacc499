# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The baselines keep what their papers say: windows, spacing, chance, attention, retrieval."""

from dataclasses import replace

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.policies import POLICIES, tar_scores
from infinipot_ros.memory.policies.frame_means import frame_means
from infinipot_ros.memory.policies.retrieval import frame_relevance
from policies_oracle import best, cosine, norms_by_hand, survivors, tar_by_hand
import pytest
import torch


def frames_of(view, kept, head=0):
    return [int(t) for t in view.frame[head, kept[head]].unique()]


@pytest.mark.parametrize(
    'name',
    ['sliding_window', 'recent_frames', 'dscache_uniform', 'rekv_no_offload', 'stc', 'ttm'],
)
def test_windows_keep_the_newest_tokens_and_make_room_for_one_frame(name):
    view = survivors(1, frames=6)
    assert POLICIES[name](view, 10)[1].tolist() == list(range(38, 48))
    assert POLICIES[name].frees_one_frame


def test_the_windows_of_the_papers_have_their_lengths():
    assert POLICIES['dscache_uniform'].max_frames == 28
    assert POLICIES['recent_frames'].max_frames == 4
    assert POLICIES['sliding_window'].max_frames is None


def test_uniform_frames_keeps_whole_frames_at_even_distances():
    view = survivors(3, frames=9, keep=1.0)
    kept = POLICIES['uniform_frames'](view, 5 * view.tokens_per_frame)
    assert frames_of(view, kept) == [10, 16, 22, 28, 34]
    kept = POLICIES['uniform_frames'](view, 3 * view.tokens_per_frame)
    assert frames_of(view, kept) == [10, 22, 34]
    kept = POLICIES['uniform_frames'](view, 6 * view.tokens_per_frame)
    # 0, 1.6, 3.2, 4.8, 6.4 and 8, to the nearest frame.
    assert frames_of(view, kept) == [10, 16, 19, 25, 28, 34]
    assert frames_of(view, POLICIES['uniform_frames'](view, 12)) == [34]


def test_uniform_tokens_spaces_tokens_evenly_before_the_newest_frame():
    view = survivors(5, frames=5, keep=1.0)
    kept = POLICIES['uniform_tokens'](view, 12 + 16)
    assert kept[0].tolist() == list(range(0, 48, 3)) + list(range(48, 60))
    assert torch.equal(kept[0], kept[1])


def test_chance_is_the_same_for_a_seed_and_another_for_another():
    view = survivors(7, frames=6)
    kept = POLICIES['random'](view, 30)
    assert torch.equal(kept, POLICIES['random'](replace(view), 30))
    assert not torch.equal(kept[0], kept[1])
    for other in (replace(view, seed=1), replace(view, layer=1, num_layers=2),
                  replace(view, frame=view.frame + 1)):
        assert not torch.equal(kept, POLICIES['random'](other, 30))


@pytest.mark.parametrize('name', ['tar', 'tar_reverse', 'van', 'van_reverse'])
def test_ablations_rank_as_they_are_named(name):
    view = survivors(9, frames=6, recent_frames=1)
    budget = 28
    sign = -1 if 'reverse' in name else 1
    scores = tar_by_hand(view) if 'tar' in name else torch.tensor(norms_by_hand(view))
    kept = POLICIES[name](view, budget)
    for head in range(2):
        newest = set(view.newest[head].nonzero().flatten().tolist())
        past = set(range(view.num_tokens)) - newest
        ranked = [sign * s for s in scores[head].tolist()]
        assert set(kept[head].tolist()) == newest | best(ranked, budget - len(newest), past)


def test_tar_frame_ranks_frames_by_their_mean_tar(monkeypatch):
    monkeypatch.setattr('infinipot_ros.memory.policies.frame_means._BLOCK_FRAMES', 2)
    view = survivors(11, frames=6, recent_frames=1)
    scores = tar_by_hand(view)
    kept = POLICIES['tar_frame'](view, 30)
    for head in range(2):
        ids = sorted(set(view.frame[head].tolist()))[:-1]
        means = {
            t: float(scores[head][view.frame[head] == t].mean()) for t in ids
        }
        order = sorted(ids, key=lambda t: -means[t])
        expected = view.newest[head].nonzero().flatten().tolist()
        for t in order:
            of_frame = (view.frame[head] == t).nonzero().flatten().tolist()
            expected += of_frame[:30 - len(expected)]
        assert kept[head].tolist() == sorted(expected)


def test_frame_means_are_zero_where_a_head_has_none_of_a_frame():
    view = survivors(13, frames=9, keep=0.06)
    means = frame_means(view, view.keys)
    missing = 0
    for head in range(2):
        for f, t in enumerate(view.frame_ids.tolist()):
            mine = view.keys[head][view.frame[head] == t]
            missing += len(mine) == 0
            expected = mine.mean(0) if len(mine) else torch.zeros(5, dtype=torch.float64)
            torch.testing.assert_close(means[head, f], expected)
    assert missing > 0


def test_snapkv_pools_attention_before_its_window_of_32_tokens():
    view = survivors(15, frames=8, keep=1.0)
    attention = torch.zeros(view.frame.shape)
    attention[0, 20] = 1.0
    attention[1, 0] = 1.0
    attention[:, 70:] = 5.0
    kept = POLICIES['snapkv'](replace(view, attention=attention), 32 + 7)
    window = list(range(64, 96))
    assert kept[0].tolist() == list(range(17, 24)) + window
    assert kept[1].tolist() == [*range(7), *window]


def test_infinipot_keeps_what_the_proxy_prompt_looks_at():
    view = survivors(17, frames=6)
    attention = torch.rand(view.frame.shape)
    kept = POLICIES['infinipot'](replace(view, attention=attention), 20)
    for head in range(2):
        newest = set(view.newest[head].nonzero().flatten().tolist())
        past = set(range(view.num_tokens)) - newest
        expected = newest | best(attention[head].tolist(), 8, past)
        assert set(kept[head].tolist()) == expected
    assert POLICIES['infinipot'].observe_prompt.startswith('Provide a detailed description')
    assert POLICIES['snapkv'].observe_tokens == 32


def test_fastv_keeps_the_same_tokens_in_every_head():
    view = survivors(19, frames=6)
    attention = torch.rand(view.frame.shape)
    kept = POLICIES['fastv'](replace(view, attention=attention), 9)
    expected = best((attention[0] + attention[1]).tolist(), 9, range(view.num_tokens))
    assert set(kept[0].tolist()) == set(kept[1].tolist()) == expected


def test_rekv_fetches_the_frames_most_like_the_question():
    view = survivors(21, frames=6, keep=1.0)
    question = torch.randn(4, 3, 5, dtype=torch.float64)
    view = replace(view, question=question)
    asked = [question[2 * h:2 * h + 2].mean((0, 1)) for h in range(2)]
    relevance = []
    for t in view.frame_ids.tolist():
        mean = [view.keys[h][view.frame[h] == t].mean(0) for h in range(2)]
        relevance.append(cosine(torch.cat(mean).tolist(), torch.cat(asked).tolist()))
    assert frame_relevance(view).tolist() == pytest.approx(relevance)
    order = sorted(range(6), key=lambda f: -relevance[f])
    kept = POLICIES['rekv'](view, 2 * view.tokens_per_frame + 5)
    numbers = [(t - 10) // 3 for t in frames_of(view, kept)]
    assert sorted(order[:3]) == numbers
    cut = (view.frame[0, kept[0]] == view.frame_ids[order[2]]).sum()
    assert int(cut) == 5
    with pytest.raises(ConfigError, match='question must be'):
        POLICIES['rekv'](replace(view, question=question[:3]), 10)


def test_control_tar_and_van_choose_otherwise_than_every_baseline():
    view = survivors(23, frames=6)
    tar = POLICIES['tar'](view, 24)
    for name in ('sliding_window', 'uniform_frames', 'uniform_tokens', 'random', 'van'):
        assert not torch.equal(tar, POLICIES[name](view, 24))
    assert not tar_scores(view).isnan().any()
