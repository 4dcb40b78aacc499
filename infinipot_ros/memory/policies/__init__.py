# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What stays in a full memory: one small policy each, `select(view, budget) -> indices`."""

# Importing a file of policies registers them.
from infinipot_ros.memory.policies import (  # noqa: F401
    diverse,
    embeddings,
    gated,
    infinipot_v,
    observed,
    published,
    retrieval,
    uniform,
    windows,
)
from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import (
    get_policy,
    get_robot_policy,
    POLICIES,
    Policy,
    register,
    TokenFilter,
)
from infinipot_ros.memory.policies.selection import keep_top, top_mask
from infinipot_ros.memory.policies.tar import tar_scores
from infinipot_ros.memory.policies.van import van_scores

__all__ = [
    'POLICIES',
    'LayerView',
    'Policy',
    'TokenFilter',
    'get_policy',
    'get_robot_policy',
    'keep_top',
    'register',
    'tar_scores',
    'top_mask',
    'van_scores',
]
