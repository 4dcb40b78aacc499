# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Streams and questions follow from the seed; reporting and tuning seeds never meet."""

from infinipot_ros.bench.streams import (
    frames_showing,
    make_streams,
    MAX_STREAMS,
    questions_of,
    REPORT_SEED,
    Stream,
    TUNING_SEED,
)
from infinipot_ros.demo.world import SEEN_FRACTION, SETTINGS
from infinipot_ros.errors import ConfigError
import pytest


def test_reporting_and_tuning_seeds_are_apart():
    report = {stream.seed for stream in make_streams('calm', 50, 60)}
    tuning = {stream.seed for stream in make_streams('calm', 50, 60, tuning=True)}
    assert min(report) == REPORT_SEED
    assert not report & tuning
    # However many streams are asked for.
    assert TUNING_SEED + MAX_STREAMS <= REPORT_SEED
    with pytest.raises(ConfigError, match='100000'):
        make_streams('calm', MAX_STREAMS + 1, 60)


@pytest.mark.parametrize('setting', SETTINGS)
def test_questions_are_the_same_in_every_run_and_all_different(setting):
    stream = Stream(setting, REPORT_SEED, 100, 29, 30)
    drive = stream.drive()
    asked = questions_of(stream, drive)
    assert asked == questions_of(stream, stream.drive())
    assert sorted(asked) == stream.ask_times
    assert stream.ask_times[-1] == 99
    for index, questions in asked.items():
        texts = [question.text for question in questions]
        assert len(set(texts)) == len(texts)
        assert all(question.asked_at == index for question in questions)
    other = Stream(setting, REPORT_SEED + 1, 100, 29, 30)
    assert asked != questions_of(other, other.drive())


def test_questions_are_about_old_and_new_things_and_about_nothing():
    stream = Stream('still', REPORT_SEED, 240)
    questions = [q for asked in questions_of(stream, stream.drive()).values() for q in asked]
    kinds = {(question.family, question.kind) for question in questions}
    assert {('colour', 'seen'), ('colour', 'never'), ('did', 'no-recombined')} <= kinds
    ages = [question.age_frames for question in questions if question.age_frames is not None]
    assert min(ages) == 0
    assert max(ages) > 96


def test_evidence_frames_show_the_thing():
    stream = Stream('still', REPORT_SEED, 120, 59, 60)
    drive = stream.drive()
    checked = 0
    for questions in questions_of(stream, drive).values():
        for question in questions:
            showing = frames_showing(question, drive)
            if question.thing is None:
                assert not showing
                continue
            if question.last_seen_at is not None:
                assert max(showing) == question.last_seen_at
            for index in range(question.asked_at + 1):
                shown = any(item.thing == question.thing and item.fraction >= SEEN_FRACTION
                            for item in drive.visible(index))
                assert (index in showing) == shown
            checked += 1
    assert checked > 5


def test_a_bad_stream_is_refused_by_name():
    with pytest.raises(ConfigError, match='calm, still'):
        Stream('clam', 1)
    with pytest.raises(ConfigError, match='frames is 1'):
        Stream('calm', 1, 1)
