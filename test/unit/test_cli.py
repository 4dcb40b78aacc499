# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The command `infinipot`: answers about a video file, thresholds, and errors that help."""

import argparse
import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import cv2
from infinipot_ros import ask_command
from infinipot_ros.bench.calibrate_command import thresholds_of
from infinipot_ros.bench.commands import BENCHMARKS
from infinipot_ros.cli import main
from infinipot_ros.demo.world import Drive
from infinipot_ros.memory import Answer, AnswerStatus, Evidence, MemoryConfig, VideoMemory
from infinipot_ros.models import load_model
from infinipot_ros.models.calibration import FILE_NAME
from infinipot_ros.models.loading import demo_folder
import pytest

FPS = 4


@pytest.fixture(scope='module')
def video(tmp_path_factory):
    path = tmp_path_factory.mktemp('video') / 'drive.avi'
    drive = Drive(7_000_000, 'calm', 24)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*'MJPG'), FPS, (112, 112))
    for index in range(24):
        writer.write(cv2.cvtColor(drive.frame(index).rgb, cv2.COLOR_RGB2BGR))
    writer.release()
    return path


def test_ask_answers_every_question_with_evidence_in_the_video(video, capsys):
    questions = ['what do you see now ?', 'did you see a red ball ?']
    status = main(['ask', str(video), *questions, '--sample-fps', '2', '--json',
                   '--evidence', '2'])
    out, err = capsys.readouterr()
    answers = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [answer['question'] for answer in answers] == questions
    for answer in answers:
        assert answer['status'] == 'answered'
        assert 0 < answer['confidence'] <= 1
        assert 1 <= len(answer['evidence']) <= 2
        # Frames at 2 a second: every other one of the file.
        assert all(item['stamp_ns'] in range(0, 6 * 10**9, 10**9 // 2)
                   for item in answer['evidence'])
    assert err.startswith('12 frames seen; everything is still remembered (')
    # Nothing of transformers, which would show how far it has loaded.
    assert len(err.splitlines()) == 1


def test_the_default_budget_is_what_the_model_reads_and_warns_of_nothing(video, capsys, caplog):
    for number in ([], ['--budget-mib', '8']):
        assert main(['ask', str(video), 'what do you see now ?', *number]) == 0
        err = capsys.readouterr().err
        assert ('of 8 MiB)' in err) is bool(number)
        assert bool(caplog.records) is bool(number)
    assert 'stay unused' in caplog.text


def test_a_cap_on_the_tokens_goes_before_what_the_model_reads():
    options = build('video.mp4', 'q', '--max-memory-tokens', '200')
    model = load_model('demo')
    memory = VideoMemory(model, ask_command.memory_config(options, model))
    assert memory.plan.camera_tokens == (200,)
    whole = VideoMemory(model, ask_command.memory_config(build('video.mp4', 'q'), model))
    most = VideoMemory(model, MemoryConfig(budget_mib=100.0, thumbnail_px=0))
    assert whole.plan.camera_tokens == most.plan.camera_tokens


def build(*arguments):
    parser = argparse.ArgumentParser()
    ask_command.add_arguments(parser)
    return parser.parse_args(arguments)


def test_ask_prints_for_people(video, capsys):
    assert main(['ask', str(video), 'what do you see now ?']) == 0
    out = capsys.readouterr().out
    assert out.startswith('what do you see now ?\n  ')
    assert 'confidence' in out
    assert '% of attention' in out


@pytest.mark.parametrize(('question', 'words'), [
    (' ', 'the question is empty'), ('???', 'there is no word in the question; it knows '),
    ('qwertz', "knows no word of the question, which has 'qwertz'; it knows ")])
def test_a_question_that_is_not_answered_is_a_failure(video, question, words, capsys):
    assert main(['ask', str(video), question]) == 1
    out = capsys.readouterr().out
    assert 'bad_request: ' in out and words in out and 'confidence' not in out


def test_ask_names_the_words_that_it_leaves_out(video, capsys):
    assert main(['ask', str(video), 'where is the teapot ?']) == 0
    out = capsys.readouterr().out
    assert "\n  note: the model does not know 'teapot'; the answer takes no account" in out
    assert '(confidence ' in out


@pytest.mark.parametrize(('arguments', 'words'), [
    (['no_such.mp4', 'q'], 'no file or folder'),
    (['{video}', 'q', '--sample-fps', '0'], 'sample-fps is 0'),
    (['{video}', 'q', '--policy', 'nope'], 'no policy'),
    (['{video}', 'q', '--budget-mib', '0.001'], 'budget_mib'),
    (['{video}', 'q', '--model', '/no/such/model'], 'no such folder'),
    (['{video}', 'q', '--topic', '/image'], 'no topics'),
])
def test_mistakes_are_named_without_a_traceback(video, arguments, words, capsys):
    assert main(['ask', *(part.format(video=video) for part in arguments)]) == 2
    (last,) = capsys.readouterr().err.splitlines()
    assert last.startswith('infinipot: ')
    assert words in last


def test_dates_are_written_where_stamps_are_dates():
    assert ask_command.when(3_500_000_000, 1_000_000_000) == '2.5 s'
    first = 1_700_000_000 * 10**9
    assert ask_command.when(first + 10**9, first) == '1.0 s, 2023-11-14 22:13:21 UTC'


def test_evidence_and_failure_are_both_told():
    frame = Evidence(3, 1_500_000_000, 'camera', '', None, 0.25, 0.1)
    answer = Answer('a red ball', AnswerStatus.TIMEOUT, 'the deadline passed', evidence=[frame])
    text = ask_command.as_text('q', answer, 0)
    assert 'timeout: the deadline passed' in text
    assert '1.5 s (25% of attention)' in text


def test_calibrate_says_where_it_has_seen_too_little(tmp_path, capsys):
    path = tmp_path / 'calibration.json'
    assert main(['calibrate', '--frames', '24', '--budget-mib', '1.8', '--out', str(path)]) == 0
    assert 'little to go by: give a longer recording' in capsys.readouterr().err


def test_calibrate_writes_rising_thresholds_for_this_model(video, tmp_path, capsys):
    path = tmp_path / 'calibration.json'
    assert main(['calibrate', '--frames', '40', '--budget-mib', '1.8', '--out', str(path)]) == 0
    ask = ['ask', str(video), 'what do you see now ?', '--calibration', str(path)]
    assert main(ask) == 0
    found = json.loads(path.read_text())
    assert len(found['cv_thresholds']) == 3
    assert found['cv_thresholds'] == sorted(found['cv_thresholds'])
    assert found['layers'] == 4 and found['source'] == 'demo world'
    said = capsys.readouterr()
    assert 'quartiles' in said.out and '--calibration' in said.out
    assert 'little to go by' not in said.err
    # Thresholds of other weights are refused.
    path.write_text(json.dumps({**found, 'weights': found['weights'][::-1]}))
    assert main(ask) == 2
    assert 'other weights' in capsys.readouterr().err
    path.write_text('{}')
    assert main(ask) == 2
    assert 'is no file of' in capsys.readouterr().err


def test_a_calibration_becomes_part_of_the_models_folder(video, tmp_path, capsys):
    folder = shutil.copytree(demo_folder(), tmp_path / 'model')
    measure = ['calibrate', '--model', str(folder), '--frames', '40', '--budget-mib', '1.8']
    (folder / FILE_NAME).write_text('torn')
    assert main(['ask', str(video), 'what do you see now ?', '--model', str(folder)]) == 2
    assert FILE_NAME in capsys.readouterr().err
    # What is there does not matter to what is measured.
    assert main(measure) == 0
    first = (folder / FILE_NAME).read_text()
    assert main(measure) == 0
    assert (folder / FILE_NAME).read_text() == first
    assert load_model(folder).cv_thresholds == tuple(json.loads(first)['cv_thresholds'])


def test_calibrate_without_a_place_to_write_says_so_before_it_measures(tmp_path, capsys):
    assert main(['calibrate']) == 2
    assert 'give --out' in capsys.readouterr().err
    for place in (tmp_path, tmp_path / 'file' / 'calibration.json'):
        (tmp_path / 'file').touch()
        assert main(['calibrate', '--out', str(place)]) == 2
        assert 'cannot be written' in capsys.readouterr().err


def test_a_summary_is_in_words_for_pairs_of_frames_too():
    status = SimpleNamespace(frames_seen=9, tokens_per_frame=10, held_tokens=50, frames_kept=7,
                             held_bytes=2**20)
    assert ask_command.as_summary(status, 2, 2.0) == (
        '9 frames seen; everything is still remembered (1.00 of 2 MiB)')
    status.frames_seen = 20
    assert ask_command.as_summary(status, 2) == (
        '20 frames seen; 50% of what was in them is still remembered, in pieces of 7 frames '
        '(1.00 MiB)')


def test_calibrate_says_when_the_memory_was_never_full(tmp_path, capsys):
    path = tmp_path / 'calibration.json'
    assert main(['calibrate', '--frames', '4', '--out', str(path)]) == 2
    assert 'do not fill a memory' in capsys.readouterr().err
    assert not path.exists()


def test_thresholds_are_quartiles():
    assert thresholds_of([[1.0, 2.0], [3.0, 4.0, 5.0]]) == (2.0, 3.0, 4.0)


@pytest.mark.parametrize('name', BENCHMARKS)
def test_every_benchmark_has_its_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main(['bench', name, '--help'])
    assert ended.value.code == 0
    assert f'infinipot bench {name}' in capsys.readouterr().out


@pytest.mark.parametrize(('arguments', 'words'), [
    ('soak --frames 0', "'0' is no whole number of at least 1"),
    ('speed --threads -1', "'-1' is no whole number"),
    ('retention --workers many', "'many' is no whole number"),
    ('compression --device nope', "--device: 'nope' cannot be used"),
    ('retention --quick --out /proc/x', "--out: '/proc/x' cannot be made"),
    ('scores --out /dev/null/x', "--out: '/dev/null/x' cannot be made"),
])
def test_a_benchmark_refuses_what_cannot_go_well_before_it_measures(arguments, words, capsys):
    with pytest.raises(SystemExit) as left:
        main(['bench', *arguments.split()])
    assert left.value.code == 2
    assert words in capsys.readouterr().err


def test_an_interrupt_is_no_traceback(video, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt
    monkeypatch.setattr(ask_command, 'sampled_pictures', interrupt)
    assert main(['ask', str(video), 'what do you see now ?']) == 130
    assert capsys.readouterr().err == 'infinipot: interrupted\n'


def test_a_name_too_long_for_a_file_is_no_file(capsys):
    assert main(['ask', 'x' * 5000, 'what do you see now ?']) == 2
    assert 'there is no file or folder' in capsys.readouterr().err


def test_help_does_not_wait_for_torch():
    code = ('import sys\nfrom infinipot_ros.cli import main\ntry:\n    main(["--help"])\n'
            'except SystemExit:\n    pass\nassert "torch" not in sys.modules')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert 'calibrate' in done.stdout


def test_an_unknown_command_is_refused():
    with pytest.raises(SystemExit) as ended:
        main(['bench', 'nothing'])
    assert ended.value.code == 2
