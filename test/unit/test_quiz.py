# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo's questions are fair: about the oldest things, true, and chosen by the drive alone."""
from infinipot_ros.demo.quiz import choose_questions, OLD_FRAMES, QUESTIONS, stopping_frame
from infinipot_ros.demo.world import Drive
import numpy as np
import pytest

EARLIEST = 200


@pytest.mark.parametrize('seed', range(2026, 2034))
def test_three_of_the_past_one_of_nothing_two_of_now(seed: int) -> None:
    """The first three are about different things, out of view for long."""
    drive = Drive(seed, num_frames=300)
    stop = stopping_frame(drive, EARLIEST)
    questions = choose_questions(drive, stop, np.random.default_rng(seed))
    assert len(questions) == QUESTIONS
    assert [q.family for q in questions] == [
        'colour', questions[1].family, 'did', 'did', 'see', 'now']
    assert [q.answer for q in questions[2:4] + questions[5:]] == ['yes', 'no', 'yes']
    assert questions[1].family in ('shape', 'colour')
    past = questions[:3]
    assert len({q.thing for q in past}) == 3
    for question in past:
        assert question.age_frames is not None and question.age_frames > OLD_FRAMES
        assert question.last_seen_at == drive.last_seen(question.thing, stop)
    in_view = {item.thing for item in drive.visible(stop)}
    assert questions[5].thing in in_view
    for thing in in_view:
        assert thing.name in questions[4].answer


def test_the_oldest_thing_that_can_be_asked_for_is_asked_for() -> None:
    """Taking any younger thing would make the demo easier than it says."""
    drive = Drive(2026, num_frames=300)
    stop = stopping_frame(drive, EARLIEST)
    first = choose_questions(drive, stop, np.random.default_rng(0))[0]
    seen = drive.seen_until(stop)
    shapes = [thing.shape for thing in seen]
    oldest = min(drive.last_seen(t, stop) for t in seen if shapes.count(t.shape) == 1)
    assert first.last_seen_at == oldest


def test_the_same_seed_gives_the_same_questions() -> None:
    """A demo that is run again asks the same."""
    drive = Drive(5, num_frames=300)
    stop = stopping_frame(drive, EARLIEST)
    one, two = (choose_questions(drive, stop, np.random.default_rng(5)) for _ in range(2))
    assert one == two


def test_the_stop_shows_whole_things() -> None:
    """What is in view has to have one right answer."""
    drive = Drive(1, num_frames=300)
    stop = stopping_frame(drive, EARLIEST)
    assert stop >= EARLIEST
    assert all(item.fraction == 1.0 for item in drive.visible(stop))
    with pytest.raises(ValueError, match='take another seed'):
        stopping_frame(Drive(1, setting='screen', num_frames=8), 8)


def test_a_drive_past_nothing_is_refused() -> None:
    """Three questions about the past need three things."""
    with pytest.raises(ValueError, match='gives no question'):
        choose_questions(Drive(1, setting='still', num_frames=300), 0, np.random.default_rng(0))
