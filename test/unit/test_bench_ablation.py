# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Each ablation varies what its table varies, and every one of its memories can be made."""

from infinipot_ros.bench.ablation import ABLATIONS, FRAME_TOKENS
from infinipot_ros.bench.ablation_command import make_jobs
from infinipot_ros.bench.grading import METRICS
from infinipot_ros.bench.methods import parse_budget
from infinipot_ros.bench.retention import few_frames_allowed
from infinipot_ros.demo.world import SETTINGS
from infinipot_ros.memory import AnswerStatus, VideoMemory
from infinipot_ros.models import load_model
import numpy as np
import pytest


@pytest.fixture(scope='module')
def model():
    return load_model('demo')


@pytest.mark.parametrize('name', ABLATIONS)
def test_every_memory_of_an_ablation_takes_frames_and_answers(name, model):
    ablation = ABLATIONS[name]
    tokens = parse_budget(ablation.budget).of(0)
    for method in ablation.methods:
        with few_frames_allowed():
            memory = VideoMemory(model, method.config(tokens, {}))
        wanted = (method.tokens or tokens) + 16 * memory.config.instant_frames
        assert memory.status().capacity_tokens == wanted, method.name
    for index in range(3):
        memory.add_frame(np.full((112, 112, 3), 40 * index, np.uint8), stamp=index)
    assert memory.ask('what do you see now ?').status is AnswerStatus.ANSWERED


@pytest.mark.parametrize('name', ABLATIONS)
def test_methods_have_names_of_their_own_and_metrics_exist(name):
    ablation = ABLATIONS[name]
    names = [method.name for method in ablation.methods]
    assert len(set(names)) == len(names) > 1
    assert set(ablation.metrics) <= {metric.name for metric in METRICS}
    assert set(ablation.settings) <= set(SETTINGS)


def test_the_fixed_sum_of_dscache_is_32_frames():
    lengths = [(method.tokens // FRAME_TOKENS, method.settings['instant_frames'])
               for method in ABLATIONS['dscache_lengths'].methods]
    whole = {instant for past, instant in lengths if past + instant == 32}
    assert {0, 4, 8, 16, 24, 28} <= whole
    assert {past for past, instant in lengths if instant == 4} >= {4, 12, 28, 36}
    assert {instant for past, instant in lengths if past == 28} >= {1, 2, 4, 8}


def test_rekv_reads_as_much_out_of_the_cache_as_out_of_host_memory():
    methods = ABLATIONS['dscache_combination'].methods
    ways = {(method.policy, method.settings.get('question_policy'),
             method.settings.get('question_tokens'), method.settings['instant_frames'])
            for method in methods if 'ReKV' in method.name}
    assert ways == {(*way, 8 * FRAME_TOKENS, frames) for frames in (0, 4)
                    for way in (('sliding_window', 'rekv'), ('rekv', None))}


def test_alpha_goes_from_van_alone_to_tar_alone():
    alphas = [method.settings['alpha'] for method in ABLATIONS['alpha'].methods]
    assert (alphas[0], alphas[-1]) == (0.0, 1.0)


def test_jobs_are_streams_of_every_setting():
    jobs = make_jobs(ABLATIONS['recent'], 3, 60, tuning=True)
    assert [stream.setting for stream, _ in jobs] == ['still'] * 3 + ['calm'] * 3
    assert all(7_000_000 <= stream.seed < 7_100_000 for stream, _ in jobs)
