# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""TaR and VaN equal a double-precision brute force over true coordinates."""

from dataclasses import replace
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from infinipot_ros.memory.policies import LayerView, tar_scores, van_scores
from infinipot_ros.memory.policies.van import coefficient_of_variation, kernels_of
from policies_oracle import norms_by_hand, survivors, tar_by_hand, van_by_hand
import pytest
import torch

CASES = {
    'seed': st.integers(0, 10**6),
    'frames': st.integers(1, 6),
    'rows': st.integers(1, 4),
    'columns': st.integers(1, 4),
    'keep': st.floats(0.05, 1.0),
    'recent': st.integers(1, 7),
}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(**CASES)
def test_tar_is_minus_the_mean_cosine_with_the_recent_tokens_at_the_same_patch(
    seed, frames, rows, columns, keep, recent
):
    view = survivors(
        seed, frames=frames, grid=(rows, columns), keep=keep, whole=1, recent_frames=recent
    )
    torch.testing.assert_close(tar_scores(view), tar_by_hand(view), rtol=0, atol=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(kernel=st.sampled_from([1, 3, 5, 7]), **CASES)
def test_van_is_the_mean_norm_over_the_cells_of_the_frame_that_are_still_held(
    seed, frames, rows, columns, keep, recent, kernel
):
    view = survivors(
        seed, frames=frames, grid=(rows, columns), keep=keep, whole=1, van_kernel=kernel
    )
    torch.testing.assert_close(van_scores(view), van_by_hand(view, kernel), rtol=0, atol=1e-12)


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precision_keys_are_scored_in_single_precision(dtype):
    exact = survivors(3)
    view = replace(exact, keys=exact.keys.to(dtype), values=exact.values.to(dtype))
    assert tar_scores(view).dtype == van_scores(view).dtype == torch.float32
    torch.testing.assert_close(tar_scores(view).double(), tar_by_hand(view), rtol=0, atol=1e-5)
    [kernel] = kernels_of(view, van_scores(view))
    torch.testing.assert_close(
        van_scores(view).double(), van_by_hand(view, kernel), rtol=0, atol=1e-5
    )


def test_scores_do_not_depend_on_the_size_of_the_workspace(monkeypatch):
    view = survivors(5, frames=9, grid=(3, 5), recent_frames=2, van_kernel=3)
    tar, van = tar_scores(view), van_scores(view)
    for user in ('rows', 'tar'):
        monkeypatch.setattr(f'infinipot_ros.memory.policies.{user}.BLOCK_ELEMENTS', 40)
    monkeypatch.setattr('infinipot_ros.memory.policies.van._BLOCK_CELLS', 31)
    assert torch.equal(tar, tar_scores(view))
    assert torch.equal(van, van_scores(view))


def test_control_shuffled_patches_give_other_tar_and_van_scores():
    view = survivors(7, frames=5, recent_frames=1, van_kernel=3)
    order = torch.randperm(view.tokens_per_frame)
    # Only the past is relabelled: a relabelling of everything would be the same geometry for TaR.
    patch = torch.where(view.recent, view.patch, order[view.patch])
    shuffled = replace(view, patch=patch)
    past = ~view.recent
    assert (tar_scores(view) - tar_scores(shuffled))[past].abs().max() > 0.1
    assert (van_scores(view) - van_scores(shuffled))[past].abs().max() > 0.1


def test_control_padding_and_holes_would_pull_the_mean_down():
    view = survivors(11, frames=3, grid=(3, 3), keep=0.5, van_kernel=3)
    values = torch.ones_like(view.values)
    view = replace(view, values=values)
    norm = math.sqrt(values.shape[-1])
    torch.testing.assert_close(van_scores(view), torch.full_like(view.keys[..., 0], norm))


def test_partly_evicted_recent_frames_count_with_the_tokens_that_are_left():
    keys = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]])
    frame = torch.tensor([[0, 0, 1, 2, 2]])
    patch = torch.tensor([[0, 1, 0, 0, 2]])
    view = LayerView(keys, keys, frame, patch, (1, 3), recent_frames=2)
    # Patch 0: recent keys (1, 0) and (0, 2), mean cosine 1/2. Patch 1: none left, so 0.
    expected = torch.tensor([[-0.5, 0.0, math.inf, math.inf, math.inf]])
    torch.testing.assert_close(tar_scores(view), expected)


def test_a_zero_key_among_the_recent_ones_counts_as_cosine_zero():
    keys = torch.tensor([[[2.0, 0.0], [0.0, 0.0], [3.0, 0.0]]])
    view = LayerView(
        keys, keys, torch.tensor([[0, 1, 2]]), torch.zeros(1, 3, dtype=torch.int64), (1, 1),
        recent_frames=2,
    )
    assert tar_scores(view).tolist() == [[-0.5, math.inf, math.inf]]


@pytest.mark.parametrize('fill', [0.0, 1e-30, 1e30, math.inf, math.nan])
def test_scores_are_never_nan(fill):
    view = survivors(13, recent_frames=2)
    keys = torch.full_like(view.keys, fill).float()
    view = replace(view, keys=keys, values=keys if math.isfinite(fill) else view.values.float())
    assert not tar_scores(view).isnan().any()
    assert not van_scores(view).isnan().any()
    past = tar_scores(view)[~view.recent]
    assert past.abs().max() <= 1 + 1e-6


def test_kernel_follows_the_measured_cv_thresholds():
    view = survivors(17)
    norms = torch.tensor(norms_by_hand(view))
    cv = coefficient_of_variation(norms)
    assert cv == pytest.approx(float(((norms - norms.mean()) ** 2).mean().sqrt() / norms.mean()))
    for taus, kernel in [
        ((cv + 1, cv + 2, cv + 3), 7),
        ((cv - 1, cv + 1, cv + 2), 5),
        ((cv - 2, cv - 1, cv + 1), 3),
        ((cv - 3, cv - 2, cv - 1), 1),
        ((cv, cv, cv), 1),
    ]:
        view = replace(view, cv_thresholds=taus)
        assert kernels_of(view, norms) == [kernel]


@pytest.mark.parametrize(
    'num_layers, kernels',
    [(4, [7, 5, 3, 1]), (8, [7, 7, 5, 5, 3, 3, 1, 1]), (5, [7, 7, 5, 3, 1]), (1, [7])],
)
def test_without_thresholds_the_quarters_of_the_depth_choose_the_kernel(num_layers, kernels):
    views = [survivors(1, layer=i, num_layers=num_layers) for i in range(num_layers)]
    assert [kernels_of(view, view.values[..., 0]) for view in views] == [[k] for k in kernels]
    assert kernels_of(replace(views[0], van_kernel=1), views[0].values[..., 0]) == [1]
