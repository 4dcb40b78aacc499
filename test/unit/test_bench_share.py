# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The share of compression is of whole cycles, and counts all that compression costs."""

from dataclasses import replace
from pathlib import Path

from infinipot_ros.bench import share
from infinipot_ros.bench.share import Case, CASES, measure_share, share_report, ShareRow
from infinipot_ros.memory import MemoryConfig
import pytest
import yaml

ROW = ShareRow('demo', 'tar', 'float32', 344, 16, 60, 5.0, 10.0, 4.0, 1.0, 0.4, 'C')
ROBOT = Path(__file__).parents[2] / 'config' / 'robots' / 'cpu_demo.yaml'


def test_the_share_is_of_all_frames_between_two_compressions():
    assert ROW.share == pytest.approx(1.0 / 50.0)
    assert ROW.share_without_vision == pytest.approx(1.0 / 30.0)
    assert not ROW.passed and replace(ROW, compression_ms=0.25).passed
    assert 'demo, in C: 2.00% (target: at most 0.5%) MISSED' in share_report([ROW])


def test_the_demo_is_measured_as_its_robot_has_it():
    parameters = yaml.safe_load(ROBOT.read_text(encoding='utf-8'))['/**']['ros__parameters']
    case = CASES['demo']
    assert (case.config, case.dtype) == (parameters['model'], parameters['dtype'])
    assert case.memory == MemoryConfig(
        budget_mib=parameters['budget_mib'], policy=parameters['policy'],
        sample_fps=parameters['sample_fps'],
        max_question_tokens=parameters['qa.max_question_tokens'],
        max_new_tokens=parameters['qa.max_new_tokens'])


def test_cycles_end_with_a_compression():
    frames = iter([(1.0, 0.0, False), (2.0, 0.5, True), (1.0, 0.0, False), (3.0, 0.5, True)])
    assert share._cycles(frames, 2) == (4, 7.0, 1.0)


def test_a_measurement_is_of_whole_cycles(monkeypatch):
    memory = MemoryConfig(budget_mib=1e6, max_memory_tokens=160)
    monkeypatch.setitem(CASES, 'micro', Case('qwen2_vl_micro', 'float32', memory, 2))
    row = measure_share('micro')
    assert (row.compressions, row.tokens_per_frame) == (2, 16)
    # 160 tokens, of which a quarter goes at a time.
    assert row.frames_between == pytest.approx(2.5, abs=0.5)
    assert 0 < row.vision_ms < row.frame_ms
    assert 0 < row.moving_ms < row.compression_ms
