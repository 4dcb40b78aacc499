# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""InfiniPot-V keeps exactly what Algorithms 1 and 2 say, compression after compression."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from infinipot_ros.memory.policies import LayerView, POLICIES, tar_scores
from infinipot_ros.memory.policies.infinipot_v import share_of
from policies_oracle import best, infinipot_v_by_hand, survivors, tar_by_hand, van_by_hand
import pytest
import torch


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    frames=st.integers(2, 6),
    recent=st.integers(1, 2),
    keep=st.floats(0.3, 1.0),
    alpha=st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]),
    kernel=st.sampled_from([1, 3, 7]),
    data=st.data(),
)
def test_infinipot_v_keeps_what_the_brute_force_keeps(
    seed, frames, recent, keep, alpha, kernel, data
):
    view = survivors(
        seed, frames=frames, keep=keep, whole=recent, recent_frames=recent, alpha=alpha,
        van_kernel=kernel,
    )
    smallest = recent * view.tokens_per_frame
    budget = data.draw(st.integers(min(smallest, view.num_tokens), view.num_tokens))
    kept = POLICIES['infinipot_v'](view, budget)
    assert torch.equal(kept, infinipot_v_by_hand(view, budget, kernel))


def append(view, rng, frame_id):
    """Return the view with one more whole frame."""
    heads, _, size = view.keys.shape
    cells = view.tokens_per_frame

    def draw():
        return torch.randn(heads, cells, size, dtype=torch.float64, generator=rng)

    return replace(
        view,
        keys=torch.cat([view.keys, draw()], 1),
        values=torch.cat([view.values, draw()], 1),
        frame=torch.cat([view.frame, torch.full((heads, cells), frame_id)], 1),
        patch=torch.cat([view.patch, torch.arange(cells).expand(heads, -1)], 1),
    )


def take(view, kept):
    rows = torch.arange(view.num_heads).unsqueeze(-1)
    return replace(
        view,
        keys=view.keys[rows, kept],
        values=view.values[rows, kept],
        frame=view.frame[rows, kept],
        patch=view.patch[rows, kept],
    )


def test_after_a_thousand_compressions_the_choice_is_still_exact():
    rng = torch.Generator().manual_seed(1)
    view = survivors(0, frames=1, grid=(2, 3), size=4, recent_frames=1, van_kernel=3)
    budget, capacity = 24, 32
    compressions = 0
    frame_id = 100
    while compressions < 1000:
        view = append(view, rng, frame_id)
        frame_id += 1
        if view.num_tokens + view.tokens_per_frame <= capacity:
            continue
        kept = POLICIES['infinipot_v'](view, budget)
        compressions += 1
        if compressions <= 5 or compressions % 100 == 0:
            assert torch.equal(kept, infinipot_v_by_hand(view, budget, 3)), compressions
        view = take(view, kept)
        assert view.num_tokens == budget
        assert (view.frame.diff(dim=1) >= 0).all()
        assert (view.frame == frame_id - 1).sum(1).tolist() == [6, 6]
    for head in range(view.num_heads):
        cells = list(zip(view.frame[head].tolist(), view.patch[head].tolist(), strict=True))
        assert len(set(cells)) == len(cells)
    assert not torch.equal(view.patch[0], view.patch[1])


def test_alpha_one_is_tar_and_alpha_zero_is_pooled_van_beside_the_recent_frames():
    view = survivors(3, frames=5, whole=2, recent_frames=2, van_kernel=3)
    budget = view.num_tokens - 9
    only_tar = POLICIES['infinipot_v'](replace(view, alpha=1.0), budget)
    assert torch.equal(only_tar, POLICIES['tar'](view, budget))
    only_van = POLICIES['infinipot_v'](replace(view, alpha=0.0), budget)
    for head in range(view.num_heads):
        recent = set(view.recent[head].nonzero().flatten().tolist())
        past = set(range(view.num_tokens)) - recent
        scores = van_by_hand(view, 3)[head].tolist()
        assert set(only_van[head].tolist()) == recent | best(scores, budget - len(recent), past)


def test_heads_choose_their_own_tokens():
    view = survivors(5, frames=6, keep=1.0)
    kept = POLICIES['infinipot_v'](view, view.num_tokens // 2)
    assert not torch.equal(kept[0], kept[1])


def test_more_recent_frames_than_the_share_stay_whole_and_van_gets_less():
    view = survivors(7, frames=6, whole=4, recent_frames=4, alpha=0.5, van_kernel=1)
    budget = 4 * view.tokens_per_frame + 3
    kept = POLICIES['infinipot_v'](view, budget)
    assert torch.equal(kept, infinipot_v_by_hand(view, budget, 1))
    assert view.recent.gather(1, kept).sum(1).tolist() == [4 * view.tokens_per_frame] * 2


def test_more_recent_frames_than_the_budget_leave_as_many_as_fit():
    view = survivors(9, frames=6, whole=6, recent_frames=5, van_kernel=1)
    cells = view.tokens_per_frame
    budget = 2 * cells + 5
    kept = POLICIES['infinipot_v'](view, budget)
    assert torch.equal(kept, infinipot_v_by_hand(replace(view, recent_frames=2), budget, 1))


@pytest.mark.parametrize('budget', [1, 5])
def test_a_budget_below_one_frame_keeps_the_best_of_the_newest_frame(budget):
    view = survivors(11, frames=4, van_kernel=1)
    kept = POLICIES['infinipot_v'](view, budget)
    assert view.newest.gather(1, kept).all()
    scores = van_by_hand(view, 1)
    for head in range(view.num_heads):
        newest = set(view.newest[head].nonzero().flatten().tolist())
        assert set(kept[head].tolist()) == best(scores[head].tolist(), budget, newest)


def test_one_frame_alone_is_kept_whole():
    view = survivors(13, frames=1)
    kept = POLICIES['infinipot_v'](view, view.num_tokens)
    assert kept.tolist() == [list(range(view.num_tokens))] * 2


def test_ties_go_to_the_earlier_token_every_time():
    view = survivors(15, frames=5, keep=1.0, recent_frames=1)
    same = torch.ones_like(view.keys)
    view = replace(view, keys=same, values=same)
    cells = view.tokens_per_frame
    expected = list(range(cells + 4)) + list(range(view.num_tokens - cells, view.num_tokens))
    for _ in range(3):
        assert POLICIES['infinipot_v'](view, 2 * cells + 4).tolist() == [expected] * 2


def test_tar_keeps_its_tokens_even_where_van_ties_with_its_own_maximum():
    view = survivors(17, frames=6, keep=1.0, recent_frames=1, van_kernel=1)
    view = replace(view, values=torch.ones_like(view.values), alpha=1.0)
    kept = POLICIES['infinipot_v'](view, view.num_tokens // 2)
    assert torch.equal(kept, POLICIES['tar'](view, view.num_tokens // 2))


def test_single_and_double_precision_keep_the_same_tokens():
    view = survivors(19, frames=8, grid=(4, 4), recent_frames=2)
    single = replace(view, keys=view.keys.float(), values=view.values.float())
    budget = view.num_tokens // 2
    kept = POLICIES['infinipot_v'](view, budget)
    assert torch.equal(kept, POLICIES['infinipot_v'](single, budget))


def test_control_a_wrong_coordinate_changes_what_is_kept():
    view = survivors(21, frames=6, recent_frames=1, alpha=0.8, van_kernel=3)
    patch = torch.where(view.recent, view.patch, (view.patch + 1) % view.tokens_per_frame)
    wrong = replace(view, patch=patch)
    budget = view.num_tokens // 2
    right = POLICIES['infinipot_v'](view, budget)
    assert torch.equal(right, infinipot_v_by_hand(view, budget, 3))
    assert not torch.equal(right, POLICIES['infinipot_v'](wrong, budget))
    assert not torch.equal(right, infinipot_v_by_hand(wrong, budget, 3))


@pytest.mark.parametrize('alpha, budget, share', [
    (0.29, 100, 29), (0.1, 30, 3), (0.5, 45, 22), (1.0, 7, 7), (0.0, 7, 0),
])
def test_the_share_of_tar_is_alpha_of_the_budget_rounded_down(alpha, budget, share):
    assert share_of(alpha, budget) == share


def test_tar_scores_of_a_view_are_what_the_choice_used():
    view = survivors(23, frames=5, recent_frames=1, alpha=1.0)
    budget = view.num_tokens - 10
    kept = POLICIES['infinipot_v'](view, budget)
    scores = tar_scores(view)
    torch.testing.assert_close(scores, tar_by_hand(view), rtol=0, atol=1e-12)
    dropped = torch.ones_like(view.frame, dtype=torch.bool).scatter_(1, kept, False)
    for head in range(view.num_heads):
        assert scores[head][dropped[head]].max() <= scores[head][kept[head]].min()


def test_an_unrelated_layer_view_is_not_touched():
    view = survivors(25, frames=5)
    before = [view.keys.clone(), view.values.clone(), view.frame.clone(), view.patch.clone()]
    POLICIES['infinipot_v'](view, 20)
    assert all(map(torch.equal, before, [view.keys, view.values, view.frame, view.patch]))
    assert isinstance(view, LayerView)
