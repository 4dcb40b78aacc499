# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What stays in a full memory: one small policy each, `select(view, budget) -> indices`."""

from infinipot_ros.memory.policies import infinipot_v as _infinipot_v  # noqa: F401
from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import get_policy, POLICIES, Policy, register
from infinipot_ros.memory.policies.selection import keep_top, top_mask
from infinipot_ros.memory.policies.tar import tar_scores
from infinipot_ros.memory.policies.van import van_scores

__all__ = [
    'LayerView',
    'POLICIES',
    'Policy',
    'get_policy',
    'keep_top',
    'register',
    'tar_scores',
    'top_mask',
    'van_scores',
]
