# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Our policies with the published code's coordinates and nothing else of it, for an ablation.

`infinipot_v_published` differs from ours in four ways at once; these differ in one, the frame and
patch that a token is taken for.
"""

from __future__ import annotations

from dataclasses import replace

from infinipot_ros.memory.policies import LayerView, POLICIES, register
from infinipot_ros.memory.policies.published import as_slots
from torch import Tensor

MODULE = 'infinipot_ros.bench.slot_coordinates'


@register('infinipot_v_by_slot', 'infinipot_v taking slot k for patch k mod P', on_robot=False)
def select_infinipot_v_by_slot(view: LayerView, budget: int) -> Tensor:
    """Select as infinipot_v does, with coordinates made up from the tokens' places."""
    return POLICIES['infinipot_v'](_misplaced(view), budget)


@register('tar_by_slot', 'tar taking slot k for patch k mod P', on_robot=False)
def select_tar_by_slot(view: LayerView, budget: int) -> Tensor:
    """Select as tar does, with coordinates made up from the tokens' places."""
    return POLICIES['tar'](_misplaced(view), budget)


def _misplaced(view: LayerView) -> LayerView:
    return replace(as_slots(view), keys=view.keys, recent_frames=view.recent_frames)
