# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Shares by family and age are those of a count by hand, and files give back what they took."""

from infinipot_ros.bench.csv_files import read_rows, write_rows
from infinipot_ros.bench.grading import (
    age_metrics,
    cells_of,
    METRICS,
    PairRow,
    ShareRow,
    Tally,
)
from infinipot_ros.bench.retention import AnswerRow
from infinipot_ros.bench.tables import interval, markdown_table, plain_table
from infinipot_ros.errors import ConfigError
import numpy as np
import pytest


def answer(seed=1, method='tar', family='colour', kind='seen', age=30, right=1, said='red',
           evidence=-1, setting='calm', budget='128') -> AnswerRow:
    return AnswerRow(setting, seed, budget, method, 99, family, kind, age, 'q', 'red', said,
                     right, int(said in ('no', 'not seen', 'nothing')), evidence, 5.0)


def share(tally: Tally, metric: str, method: str = 'tar') -> ShareRow:
    return next(row for row in tally.shares() if (row.metric, row.method) == (metric, method))


def test_past_begins_after_24_frames_and_recent_ends_there():
    tally = Tally([answer(age=24, right=0, said='blue'), answer(age=25), answer(age=0)], METRICS)
    assert share(tally, 'colour, past').questions == 1
    assert share(tally, 'colour, past').percent == 100
    assert share(tally, 'colour, recent').percent == 50


def test_wrong_answers_are_abstentions_or_inventions():
    rows = [answer(), answer(right=0, said='not seen'), answer(right=0, said='blue'),
            answer(right=0, said='green')]
    tally = Tally(rows, METRICS)
    assert share(tally, 'colour, past').percent == 25
    assert share(tally, 'colour, past: abstained').percent == 25
    assert share(tally, 'colour, past: invented').percent == 50


def test_yes_no_and_recombined_no_are_apart():
    rows = [answer(family='did', kind='yes'), answer(family='did', kind='yes-shared', right=0),
            answer(family='did', kind='no', age=-1), answer(family='did', kind='no-recombined',
                                                            age=-1, right=0)]
    tally = Tally(rows, METRICS)
    assert share(tally, 'did: yes, past').percent == 50
    assert share(tally, 'did: no').percent == 100
    assert share(tally, 'did: no, recombined').percent == 0


def test_evidence_counts_only_questions_whose_thing_was_shown():
    rows = [answer(evidence=1), answer(evidence=0, right=0), answer(evidence=-1)]
    found = share(Tally(rows, METRICS), 'evidence, past')
    assert (found.percent, found.questions) == (50, 2)


def test_every_age_is_in_exactly_one_bin():
    for age in (0, 1, 12, 13, 24, 25, 48, 49, 96, 97, 192, 193, 5000):
        assert sum(metric.asks(answer(age=age)) for metric in age_metrics()) == 1
    assert not any(metric.asks(answer(age=-1)) for metric in age_metrics())


def test_pairs_compare_the_same_streams():
    rows = [answer(seed, method, right=int(method == 'tar' or seed % 2 == 0))
            for seed in range(8) for method in ('tar', 'van')]
    pairs = [row for row in Tally(rows, METRICS).pairs() if row.metric == 'colour, past']
    assert [(row.first, row.second) for row in pairs] == [('tar', 'van')]
    assert pairs[0].points == 50
    assert pairs[0].verdict == 'wins'


def test_settings_and_budgets_are_not_mixed():
    rows = [answer(setting='calm'), answer(setting='still'), answer(budget='64'), answer()]
    assert [len(cell) for cell in cells_of(rows)] == [2, 1, 1]


def test_files_give_back_what_they_took(tmp_path):
    rows = [PairRow('calm', '1/2', 'a', 'b', 'colour, past', 1.5, -2.0, 5.0, 'ties'),
            PairRow('calm', '1/2', 'a', 'c', 'did: no', float('nan'), 1, 2, '-')]
    write_rows(tmp_path / 'pairs.csv', rows)
    back = read_rows(tmp_path / 'pairs.csv', PairRow)
    assert back[0] == rows[0]
    assert np.isnan(back[1].points)


def test_a_file_of_another_kind_is_refused(tmp_path):
    write_rows(tmp_path / 'x.csv', [answer()])
    with pytest.raises(ConfigError, match='columns'):
        read_rows(tmp_path / 'x.csv', PairRow)
    with pytest.raises(ConfigError, match='run the benchmark'):
        read_rows(tmp_path / 'none.csv', PairRow)


def test_tables_line_up():
    lines = plain_table(['name', 'n'], [['a', '1'], ['long', '200']]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert markdown_table(['a', 'b'], [['1', '2']]).splitlines()[1] == '| --- | ---: |'


def test_an_interval_is_written_with_its_sign_where_it_is_a_difference():
    assert interval(45.2, 31.6, 58.4, signed=True) == '+45 [+32, +58]'
    assert interval(82.0, 71.0, 92.0) == '82 [71, 92]'
    assert interval(50.0, float('nan'), float('nan')) == '50'
    assert interval(float('nan'), 0, 0) == ''
