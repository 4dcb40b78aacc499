# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The policies by slot differ from ours in coordinates alone: not at first, but ever after."""

from infinipot_ros.bench.slot_coordinates import MODULE
from infinipot_ros.memory.policies import get_policy, LayerView
import pytest
import torch

HEADS, FRAMES, PATCHES, SIZE = 2, 6, 16, 8


def _view(tokens: torch.Tensor, frame: torch.Tensor, patch: torch.Tensor) -> LayerView:
    return LayerView(keys=tokens, values=tokens.flip(-1), frame=frame, patch=patch, grid=(4, 4),
                     layer=0, num_layers=4, recent_frames=1, alpha=0.5, van_kernel=1)


@pytest.mark.parametrize('name', ['tar', 'infinipot_v'])
def test_by_slot_is_ours_for_whole_frames_and_another_for_survivors(name):
    ours, by_slot = get_policy(name), get_policy(f'{MODULE}:{name}_by_slot')
    count = FRAMES * PATCHES
    tokens = torch.randn(HEADS, count, SIZE, generator=torch.Generator().manual_seed(5))
    frame = torch.arange(FRAMES).repeat_interleave(PATCHES).repeat(HEADS, 1)
    patch = torch.arange(PATCHES).repeat(HEADS, FRAMES)
    whole = _view(tokens, frame, patch)
    kept = ours(whole, 64)
    assert torch.equal(kept, by_slot(whole, 64))
    survivors = _view(tokens.gather(1, kept[..., None].expand(-1, -1, SIZE)),
                      frame.gather(1, kept), patch.gather(1, kept))
    assert not torch.equal(ours(survivors, 48), by_slot(survivors, 48))
