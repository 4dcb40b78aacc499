# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The area under the curve is that of all pairs, and patches are what they show."""

from infinipot_ros.bench.oracle import cells_showing
from infinipot_ros.bench.probe import Probe
from infinipot_ros.bench.scores import (
    auc,
    BACKGROUND,
    FIXTURE,
    kinds_of,
    look_at,
    PARTIAL,
    TARGET,
    things_on,
)
from infinipot_ros.bench.streams import Stream
from infinipot_ros.demo.world import Drive
from infinipot_ros.memory.policies import POLICIES
from infinipot_ros.models import load_model
import numpy as np
import pytest


def test_auc_is_the_share_of_pairs_in_order_with_ties_half():
    rng = np.random.default_rng(2)
    for _ in range(20):
        things = rng.integers(0, 6, rng.integers(1, 9)).astype(float)
        walls = rng.integers(0, 6, rng.integers(1, 9)).astype(float)
        pairs = (things[:, None] > walls) + 0.5 * (things[:, None] == walls)
        assert auc(things, walls) == pytest.approx(pairs.mean())
    assert np.isnan(auc(np.array([]), np.array([1.0])))


def test_infinite_scores_have_a_place_too():
    assert auc(np.array([np.inf, 1.0]), np.array([-np.inf])) == 1.0


def test_patches_are_what_they_show():
    drive = Drive(7_000_011, 'still', 50)
    kinds = kinds_of(drive)
    assert set(kinds.unique().tolist()) == {BACKGROUND, FIXTURE, TARGET, PARTIAL}
    for index in range(50):
        for item in drive.visible(index):
            wanted = {TARGET} if not item.thing.fixture else {FIXTURE, TARGET}
            assert set(kinds[index][cells_showing(item)].tolist()) <= wanted
    shown = things_on(drive)
    assert set(shown) <= {thing.index for thing in drive.things if not thing.fixture}
    assert all(kinds[index, patch] == TARGET for places in shown.values()
               for index, patch in places)


def test_a_probe_sees_every_decision_and_leaves_no_trace():
    model = load_model('demo')
    before = set(POLICIES)
    stream = Stream('still', 7_000_012, 20)
    scores, kept = look_at(model, stream, 128, ['tar'])
    assert set(POLICIES) == before
    heads = model.shape.layers * model.shape.kv_heads
    assert len(scores) == heads
    # Frames 0 to 6 are past and fresh at the first compression, later ones at later compressions.
    assert all(row.tokens >= 7 * 16 for row in scores)
    assert all(-1 <= row.background_same_patch <= 1 for row in scores)
    row = kept[0]
    assert row.policy == 'tar'
    assert row.target + row.fixture + row.background <= 100.01


def test_a_probe_forgets_its_policy_when_the_work_fails():
    before = set(POLICIES)
    with pytest.raises(RuntimeError), Probe('tar', lambda view, kept: None):
        raise RuntimeError
    assert set(POLICIES) == before
