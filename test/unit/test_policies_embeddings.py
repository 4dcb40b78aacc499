# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""STC and TTM drop embeddings that repeat, frame after frame as a stream brings them."""

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.policies import POLICIES
from infinipot_ros.memory.policies.embeddings import StcFilter, TtmFilter
from memory_testing import filled
from policies_oracle import cosine
import pytest
from tiny_models import tiny
import torch


def stream(frames, patches=6, seed=0):
    """Frames that change slowly, so that cosines spread over 0..1."""
    rng = torch.Generator().manual_seed(seed)
    frame = torch.randn(patches, 4, generator=rng)
    result = []
    for _ in range(frames):
        result.append(frame)
        frame = frame + 0.5 * torch.randn(patches, 4, generator=rng)
    return result


def kept_by_hand(frames, group, reference, threshold):
    masks = []
    for t, frame in enumerate(frames):
        if t % group == 0:
            masks.append([True] * len(frame))
            continue
        other = frames[t - t % group + reference(t % group)]
        cosines = [cosine(a.tolist(), b.tolist()) for a, b in zip(frame, other, strict=True)]
        mask = [c <= threshold for c in cosines]
        mask[cosines.index(min(cosines))] = True
        masks.append(mask)
    return masks


@pytest.mark.parametrize('make, group, reference', [
    (StcFilter, 8, lambda t: 0),
    (TtmFilter, 4, lambda t: {1: 0, 2: 0, 3: 2}[t]),
])
@pytest.mark.parametrize('threshold', [0.5, 0.8, 0.95])
def test_filters_keep_what_the_brute_force_keeps(make, group, reference, threshold):
    frames = stream(21)
    filter_ = make(threshold)
    kept = [filter_.keep(frame).tolist() for frame in frames]
    assert kept == kept_by_hand(frames, group, reference, threshold)
    dropped = sum(mask.count(False) for mask in kept)
    assert 0 < dropped < 21 * 6


def test_a_still_picture_leaves_one_token_for_every_frame_but_the_first_of_a_group():
    filter_ = POLICIES['stc'].token_filter()
    frame = torch.ones(6, 4)
    assert [int(filter_.keep(frame).sum()) for _ in range(9)] == [6, 1, 1, 1, 1, 1, 1, 1, 6]


def test_zero_embeddings_are_not_nan():
    filter_ = POLICIES['ttm'].token_filter(similarity=0.5)
    assert filter_.keep(torch.zeros(6, 4)).all()
    assert filter_.keep(torch.zeros(6, 4)).all()


def test_bad_settings_and_frames_are_named():
    with pytest.raises(ConfigError, match='similarity must be a cosine'):
        StcFilter(1.5)
    filter_ = TtmFilter()
    filter_.keep(torch.zeros(6, 4))
    with pytest.raises(ConfigError, match=r'\[5, 4\] after .*\[6, 4\]'):
        filter_.keep(torch.zeros(5, 4))


def test_a_similarity_that_is_no_number_is_named():
    with pytest.raises(ConfigError, match='similarity'):
        filled(tiny(), 0, policy='stc', policy_options={'similarity': 'abc'})
