# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The compression benchmark measures what it says, and its memory target is reached."""

from dataclasses import replace

from infinipot_ros.bench.compression import (
    all_pairs_tar,
    Cost,
    measure,
    passed,
    peak_extra_bytes,
    report,
    Setting,
    shared_tokens,
    survivors,
    whole_frames,
)
from infinipot_ros.cli import main
from infinipot_ros.memory.policies import tar_scores
import pytest
import torch

SMALL = Setting(
    layers=2, heads=2, head_dim=8, frames=8, grid=(3, 4), kept_frames=6, recent_frames=2
)


def test_the_default_is_the_setting_of_the_paper():
    assert (Setting().tokens, Setting().budget) == (6076, 4508)


def test_peak_counts_what_lives_at_one_time_and_inside_operations():
    def one_after_the_other():
        torch.ones(1000, 100)
        torch.ones(1000, 200)

    def together():
        first = torch.ones(1000, 100)
        return first, torch.ones(1000, 200)

    narrow = torch.ones(1000, 100, dtype=torch.bfloat16)

    def hidden():
        # 4 kB of norms, for which the operation widens its input to 400 kB.
        return torch.linalg.vector_norm(narrow, dim=-1, dtype=torch.float32)

    assert peak_extra_bytes(one_after_the_other) == pytest.approx(800_000, abs=64)
    assert peak_extra_bytes(together) == pytest.approx(1_200_000, abs=64)
    assert 400_000 <= peak_extra_bytes(hidden) <= 410_000


def test_all_pairs_give_the_same_scores_on_whole_frames():
    view = whole_frames(replace(SMALL, recent_frames=3), 1)
    torch.testing.assert_close(all_pairs_tar(view), tar_scores(view), rtol=0, atol=1e-5)
    assert shared_tokens(SMALL) == 1.0


def test_control_all_pairs_are_wrong_on_a_cache_that_was_compressed_before():
    view = survivors(SMALL, 1)
    past = ~view.recent
    assert (all_pairs_tar(view) - tar_scores(view))[past].abs().max() > 0.1


def test_survivors_differ_between_heads_and_keep_new_frames_whole():
    view = survivors(SMALL, 0)
    assert not torch.equal(view.patch[0], view.patch[1])
    assert view.recent.sum(1).tolist() == [2 * 12] * 2
    assert view.num_tokens == SMALL.tokens


def test_ours_takes_at_most_a_fifth_of_the_peak_extra_memory():
    costs = measure(Setting(layers=1), repeats=1)
    by_way = {cost.way: cost.peak_bytes for cost in costs}
    assert 5 * by_way['ours'] <= by_way['all pairs']
    assert 5 * by_way['ours, compressed before'] <= by_way['all pairs']


def test_a_missed_target_is_said_and_fails():
    costs = [Cost('ours', 2.0, 30), Cost('all pairs', 1.0, 100)]
    text = report(SMALL, costs, 1.0)
    assert text.count('MISSED') == 2
    assert not passed(costs)
    assert passed([Cost('ours', 1.0, 20), Cost('all pairs', 1.0, 100)])


def test_the_command_prints_a_table(capsys, tmp_path):
    main(['bench', 'compression', '--layers', '1', '--repeats', '1', '--shares', '--out',
          str(tmp_path)])
    printed = capsys.readouterr().out
    assert [path.name for path in sorted((tmp_path / 'compression').iterdir())] == [
        'about.json', 'compression.csv']
    assert '31 -> 23 frames = 6076 -> 4508 tokens, r = 4' in printed
    assert 'peak extra MiB' in printed and 'kept by both ways: ' in printed
