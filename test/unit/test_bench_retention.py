# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The whole way of the retention benchmark on short streams, with the demo model."""

from dataclasses import replace
from pathlib import Path

from infinipot_ros.bench import plots, retention_command
from infinipot_ros.bench.methods import (
    compared,
    Method,
    method_of,
    parse_budget,
    REPORTED,
    SURVEYED,
)
from infinipot_ros.bench.retention import Cell, few_frames_allowed, run_stream
from infinipot_ros.bench.retention_command import make_jobs, Part, QUICK, REPORT
from infinipot_ros.bench.retention_report import (
    budget_sweeps,
    make_report,
    plot_report,
    read_report,
    show_report,
    write_report,
)
from infinipot_ros.bench.shared_vision import SharedVision
from infinipot_ros.bench.streams import make_streams, Stream
from infinipot_ros.cli import main
from infinipot_ros.errors import BudgetError, ConfigError
from infinipot_ros.memory import MemoryConfig, VideoMemory
from infinipot_ros.memory.policies import POLICIES as POLICY_TABLE
from infinipot_ros.models import load_model
import numpy as np
import pytest

POLICIES = ('tar', 'sliding_window', 'label_oracle')


@pytest.fixture(scope='module')
def model():
    return load_model('demo')


@pytest.fixture(scope='module')
def results(model):
    cells = [Cell(parse_budget(text), method_of(name)) for text in ('64', '1/4')
             for name in POLICIES]
    return [run_stream(model, replace(stream, first_ask=19, ask_every=20), cells)
            for stream in make_streams('still', 2, 40, tuning=True)]


def test_every_method_answers_the_same_questions(results):
    asked = {}
    for result in results:
        for row in result.answers:
            asked.setdefault((row.seed, row.budget, row.method), []).append(
                (row.asked_at, row.question, row.truth, row.age))
    assert len(asked) == 2 * 2 * len(POLICIES)
    for seed in {key[0] for key in asked}:
        lists = [value for key, value in asked.items() if key[0] == seed]
        assert all(questions == lists[0] for questions in lists)
        assert len(lists[0]) > 8


def test_a_memory_holds_the_tokens_it_was_given(results):
    rows = [row for result in results for row in result.memory]
    assert {row.capacity_tokens for row in rows if row.budget == '64'} == {64}
    # A quarter of 40 frames of 16 tokens.
    assert {row.capacity_tokens for row in rows if row.budget == '1/4'} == {160}
    assert all(row.held_tokens <= row.capacity_tokens for row in rows)
    assert all(row.compressions > 0 for row in rows if row.frames == 40)
    assert len({row.held_bytes for row in rows if row.budget == '64'}) == 1


def test_what_a_method_keeps_in_host_memory_is_told_apart(model, results, tmp_path):
    stream = replace(make_streams('still', 1, 40, tuning=True)[0], first_ask=19, ask_every=20)
    cells = [Cell(parse_budget('64'), Method(name, name, {'question_tokens': 48}))
             for name in ('rekv', 'rekv_no_offload')]
    report = make_report([run_stream(model, stream, cells)])
    kept = {(row.method, row.frames): row.host_bytes for row in report.memory}
    assert kept['rekv', 40] > kept['rekv', 20] > 0 == kept['rekv_no_offload', 40]
    assert len({row.held_bytes for row in report.memory if row.method == 'rekv'}) == 1
    assert max(row.host_bytes for row in report.costs) == kept['rekv', 40]
    assert 'KiB on host' in show_report(report)
    assert 'KiB on host' not in show_report(make_report(results))
    write_report(tmp_path, report, ['infinipot', 'bench'], 1.0)
    assert read_report(tmp_path).memory == report.memory


def test_results_from_before_host_memory_was_counted_can_be_read(results, tmp_path):
    report = make_report(results)
    write_report(tmp_path, report, ['infinipot', 'bench'], 1.0)
    for name in ('memory', 'costs'):
        lines = (tmp_path / f'{name}.csv').read_text(encoding='utf-8').splitlines()
        assert lines[0].endswith(',host_bytes')
        (tmp_path / f'{name}.csv').write_text(
            ''.join(line.rpartition(',')[0] + '\n' for line in lines), encoding='utf-8')
    assert read_report(tmp_path).memory == report.memory
    memory = tmp_path / 'memory.csv'
    memory.write_text(memory.read_text(encoding='utf-8').replace(',held_bytes', ',bytes', 1),
                      encoding='utf-8')
    with pytest.raises(ConfigError, match='has the columns'):
        read_report(tmp_path)


def test_frames_are_encoded_once_and_the_memory_does_not_notice(model):
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 256, (112, 112, 3)).astype(np.uint8) for _ in range(6)]
    shared = SharedVision(model)
    config = MemoryConfig(budget_mib=4, policy='tar', instant_frames=0, max_memory_tokens=128)
    answers = []
    for seen in (model, shared, shared):
        memory = VideoMemory(seen, config)
        for index, rgb in enumerate(frames):
            memory.add_frame(rgb, stamp=index)
        answers.append(memory.ask('what do you see now ?'))
    assert shared.encoded == 6
    assert len({answer.text for answer in answers}) == 1
    assert answers[0].attention_by_frame == answers[2].attention_by_frame


def test_a_robots_memory_still_refuses_four_frames(model):
    config = Method('tar', 'tar').config(64, {})
    with few_frames_allowed():
        VideoMemory(model, config)
    with pytest.raises(BudgetError):
        VideoMemory(model, config)


def test_a_report_reads_back_what_it_wrote(results, tmp_path):
    report = make_report(results)
    write_report(tmp_path, report, ['infinipot', 'bench'], 1.0)
    back = read_report(tmp_path)
    # NaN is not equal to itself; its text is.
    assert str(back.shares) == str(report.shares)
    assert str(back.pairs) == str(report.pairs)
    assert back.memory == report.memory
    assert back.about['command'] == 'infinipot bench'
    text = show_report(report)
    assert all(name in text for name in POLICIES)
    assert 'paired differences' in text


def test_results_do_not_depend_on_the_order_of_the_streams(results):
    assert str(make_report(results).shares) == str(make_report(results[::-1]).shares)


def test_plots_are_pictures(results, tmp_path):
    pytest.importorskip('matplotlib')
    report = make_report(results)
    plot_report(tmp_path, report)
    for name in ('accuracy_by_age', 'memory_by_length'):
        assert (tmp_path / f'{name}.png').read_bytes().startswith(b'\x89PNG')
    # Two budgets are no curve.
    assert not budget_sweeps(report)
    assert not (tmp_path / 'accuracy_by_budget.png').exists()


def test_without_matplotlib_the_command_says_so_before_it_runs(monkeypatch, capsys):
    monkeypatch.setattr(plots, 'find_spec', lambda name: None)
    monkeypatch.setattr(retention_command, 'collect', lambda *given: pytest.fail('has run'))
    assert main(['bench', 'retention']) == 2
    assert '--no-plots' in capsys.readouterr().err


def test_the_planned_tables_are_on_reporting_seeds_and_whole_streams():
    for plan in (REPORT, QUICK):
        jobs = make_jobs(plan, tuning=False)
        assert len(jobs) == sum(part.streams for part in plan)
        assert all(9_000_000 <= stream.seed < 9_100_000 for stream, _ in jobs)
    still = next(part for part in REPORT if part.setting == 'still')
    assert still.streams >= 16
    assert {'64', '128'} <= set(still.budgets)


def test_shares_of_a_stream_are_run_with_every_policy_that_keeps_to_a_budget():
    shares = next(part for part in REPORT if '1/16' in part.budgets)
    assert set(shares.budgets) == {'1/2', '1/4', '1/8', '1/16'}
    # other modules may have registered policies of their own
    page = (Path(__file__).parents[2] / 'docs' / 'add_a_policy.md').read_text(encoding='utf-8')
    everyone = {name for name in POLICY_TABLE if f'`{name}`' in page} | {'label_oracle'}
    assert everyone - {'full', 'fastv', 'rekv'} == {*shares.policies}


def test_of_a_survey_only_the_reported_methods_are_compared():
    assert compared(['b', 'a', 'b']) == ['b', 'a']
    assert compared([*SURVEYED, *SURVEYED]) == list(REPORTED)
    assert len(REPORTED) < len(SURVEYED)


def test_one_job_runs_every_budget_with_every_policy():
    jobs = make_jobs([Part('calm', ('64', '1/2'), 2, 30, POLICIES)], tuning=True)
    stream, cells = jobs[0]
    assert isinstance(stream, Stream)
    assert [(cell.budget.text, cell.method.name) for cell in cells] == [
        (budget, name) for budget in ('64', '1/2') for name in POLICIES]
