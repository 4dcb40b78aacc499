# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
The demo: a robot drives, its memory stays within its budget, and answers six questions.

Camera and memory are processes of their own that talk over DDS, as on a robot. `scripts/demo`
runs this. It exits with 0 only if the bytes stayed within the budget, the memory has compressed
at least five times and, for a drive, at least five of six answers are right.
"""
from __future__ import annotations

import argparse
from collections.abc import Callable
import os
from pathlib import Path
import shutil
import signal
import sys
import time
from typing import Any

from infinipot_ros.demo.observer import DemoFailed, Observer
from infinipot_ros.demo.processes import free_domain, ProcessDied, Processes
from infinipot_ros.demo.quiz import choose_questions, stopping_frame
from infinipot_ros.demo.report import (
    Answered,
    memory_line,
    results_table,
    shortened,
)
from infinipot_ros.demo.world import Drive, SETTINGS
from infinipot_ros.errors import InfinipotError
from infinipot_ros.launch_support import node_parameters
from infinipot_ros.node.recordings import open_recording
import numpy as np
import yaml

CAMERA_TOPIC = 'camera/image_raw'
COMPRESSIONS_WANTED = 5
RIGHT_WANTED = 5
DRIVE_FRAMES = 300
VIDEO_FPS = 10.0
VIDEO_LEAST_S = 15.0
START_TIMEOUT_S = 120.0
# on a machine that is busy with something else, frames wait instead of being dropped
NO_FRAME_IS_DROPPED = {
    'frame_queue': 1000,
    f'qos_overrides./{CAMERA_TOPIC}.subscription.reliability': 'reliable',
    f'qos_overrides./{CAMERA_TOPIC}.subscription.depth': 1000}
NO_PICTURE_IS_OVERWRITTEN = {f'qos_overrides./{CAMERA_TOPIC}.publisher.depth': DRIVE_FRAMES}
QUIET_REPORTS = 5


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    options = _parse(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    _isolate_from_other_robots()
    # for so small a model a second thread costs more than it brings
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    # a folder of its own for each kind, the only one that is cleared
    output = Path(options.output) / ('video' if options.video else 'drive')
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    try:
        with Processes(output / 'logs') as processes, Observer(processes) as observer:
            demo = _Demo(options, output, processes, observer)
            return demo.show_video() if options.video else demo.drive()
    except KeyboardInterrupt:
        print('\ninterrupted; every process has been ended')
        return 130
    except (DemoFailed, ProcessDied, InfinipotError, ValueError) as error:
        print(f'\nthe demo has failed: {error}', file=sys.stderr)
        return 1


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='scripts/demo', description=__doc__.split('\n')[1])
    parser.add_argument('--seed', type=int, default=2026,
                        help='which drive, and with it which questions (default %(default)s)')
    parser.add_argument('--setting', default='calm', choices=SETTINGS, help='kind of drive')
    parser.add_argument('--frames', type=int, default=200,
                        help='drive at least so far before stopping (default %(default)s)')
    parser.add_argument('--fps', type=float, default=10.0,
                        help='pictures per second, all of which the memory takes '
                        '(default %(default)s)')
    parser.add_argument('--budget-mib', default='', help='default: what cpu_demo.yaml says')
    parser.add_argument('--policy', default='', help='default: what cpu_demo.yaml says')
    parser.add_argument('--video', nargs='?', const=_test_clip(), metavar='FILE',
                        help='show a video or a rosbag2 bag instead of the drive, the clip in '
                        'test/data if none is named: the memory works the same, but the words '
                        'mean nothing, since the demo model only knows its own world')
    parser.add_argument('--output', default='build/demo', help='pictures and logs go to its '
                        "folder 'drive', or 'video' (default %(default)s)")
    return parser.parse_args(arguments)


def _test_clip() -> str:
    return str(Path(__file__).resolve().parents[2] / 'test' / 'data' / 'vtest_clip.mp4')


def _isolate_from_other_robots() -> None:
    """Use a ROS domain of our own, on this machine only."""
    os.environ['ROS_DOMAIN_ID'] = str(free_domain())
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'


class _Demo:
    """One run."""

    def __init__(self, options: argparse.Namespace, output: Path, processes: Processes,
                 observer: Observer) -> None:
        self._options = options
        self._output = output
        self._processes = processes
        self._observer = observer
        self._progress = _Progress()

    def drive(self) -> int:
        """Drive, stop, ask; return the exit code."""
        options = self._options
        drive = Drive(options.seed, options.setting, DRIVE_FRAMES)
        stop = stopping_frame(drive, options.frames)
        questions = choose_questions(drive, stop, np.random.default_rng(options.seed))
        print(f'Drive {options.seed} ({options.setting}): {stop + 1} frames past '
              f'{len(drive.seen_until(stop))} things, then {len(questions)} questions, chosen by '
              'what was seen when.')
        self._start_node(options.fps)
        self._start('simulated_camera', {
            'seed': options.seed, 'setting': options.setting, 'num_frames': DRIVE_FRAMES,
            'end': stop + 1, 'scale': 4, 'fps': options.fps, 'wait_for_subscribers': 1,
            **NO_PICTURE_IS_OVERWRITTEN})
        observer = self._observer
        self._watch(lambda: self._arrived(stop), 'the end of the drive',
                    600 + stop / options.fps,
                    lambda: f'{max(len(observer.truths), observer.frames_seen)} of {stop + 1}')
        self._check_compressions()
        answered = [self._ask(question.text, number, drive=drive, question=question)
                    for number, question in enumerate(questions, 1)]
        print('\n' + results_table(answered))
        missed = len(observer.truths) - observer.frames_seen
        if missed:
            print(f'{missed} of {len(observer.truths)} frames did not reach the memory.')
        right = sum(item.right for item in answered)
        self._print_memory()
        self._print_files()
        in_budget = self._in_budget()
        print(f'\n{right} of {len(answered)} answers are right, and the bytes held '
              f'{"stayed within" if in_budget else "EXCEEDED"} the budget.')
        return 0 if in_budget and right >= RIGHT_WANTED else 1

    def show_video(self) -> int:
        """Let the memory watch a recording; return the exit code."""
        video = Path(self._options.video).expanduser().resolve()
        open_recording(video)  # says what is wrong with it before anything is started
        print(f'{video}: the memory works as on a robot, but the demo model knows only its own '
              'world,\nso its words mean nothing here.')
        self._start_node(VIDEO_FPS)
        self._start('video_camera', {'video': str(video), 'loop': True, 'max_side_px': 640,
                                     'wait_for_subscribers': 1})
        observer, started = self._observer, time.monotonic()
        self._watch(lambda: (time.monotonic() - started > VIDEO_LEAST_S
                             and self._observer.compressions >= COMPRESSIONS_WANTED),
                    f'{COMPRESSIONS_WANTED} compressions', 180.0,
                    lambda: f'{time.monotonic() - started:4.1f} s')
        self._save_retained()
        response = observer.ask('what do you see now ?')
        observer.save_picture('evidence', self._output / 'evidence.jpg')
        print(f"Asked 'what do you see now ?' it says '{shortened(response.answer)}', which means "
              f'nothing.\nThe answer rests on {len(response.evidence)} frames.')
        self._print_memory()
        self._print_files()
        in_budget = self._in_budget()
        print(f'\nThe bytes held {"stayed within" if in_budget else "EXCEEDED"} the budget.')
        return 0 if in_budget else 1

    def _start_node(self, fps: float) -> None:
        parameters = node_parameters({
            'robot': 'cpu_demo', 'image_topic': CAMERA_TOPIC, 'pose_topic': 'odom',
            'budget_mib': self._options.budget_mib})
        parameters.update({'sample_fps': min(60.0, 2 * fps), **NO_FRAME_IS_DROPPED})
        if self._options.policy:
            parameters['policy'] = self._options.policy
        self._start('video_memory_node', parameters)
        self._watch(self._observer.ready, 'the memory node', START_TIMEOUT_S,
                    lambda: 'the memory node loads its model')

    def _start(self, executable: str, parameters: dict[str, Any]) -> None:
        path = self._output.resolve() / f'{executable}.yaml'
        path.write_text(yaml.safe_dump({'/**': {'ros__parameters': parameters}}))
        self._processes.start(
            executable, [sys.executable, '-m', f'infinipot_ros.node.{executable}', '--ros-args',
                         '--params-file', str(path)], os.environ)

    def _watch(self, done: Callable[[], bool], what: str, timeout_s: float,
               stage: Callable[[], str]) -> None:
        observer = self._observer

        def show() -> None:
            status = observer.status
            self._progress.show(stage() + (f': {memory_line(status)}' if status else ''))

        observer.wait(done, what, timeout_s, show)
        self._progress.close()

    def _arrived(self, stop: int) -> bool:
        """Say whether the last frame has been shown, and the memory has taken all it will."""
        truths, status = self._observer.truths, self._observer.status
        if not truths or truths[-1]['frame'] < stop or status is None:
            return False
        return (status.frames_seen >= len(truths)
                or self._observer.same_reports > QUIET_REPORTS)

    def _ask(self, text: str, number: int, drive: Drive, question: Any) -> Answered:
        response = self._observer.ask(text)
        self._observer.save_picture('evidence', self._output / f'question_{number}_evidence.jpg')
        return Answered.from_response(question, response, drive, self._observer.truths)

    def _check_compressions(self) -> None:
        if self._observer.compressions < COMPRESSIONS_WANTED:
            raise DemoFailed(
                f'the memory has compressed {self._observer.compressions} times, and the demo '
                f'wants {COMPRESSIONS_WANTED}: drive further (--frames) or take a smaller budget '
                '(--budget-mib)')
        self._save_retained()

    def _save_retained(self) -> None:
        self._observer.wait_for_sheet_of_newest()
        self._observer.save_picture('retained', self._output / 'retained.jpg')

    def _in_budget(self) -> bool:
        status = self._observer.status
        return status is not None and self._observer.most_bytes <= status.budget_bytes

    def _print_memory(self) -> None:
        status = self._observer.status
        assert status is not None
        print(f'Memory: {memory_line(status)}, policy {status.policy}.\n'
              f'        Most bytes ever held: {self._observer.most_bytes:,} of '
              f'{status.budget_bytes:,}, in {self._observer.reports} reports.')

    def _print_files(self) -> None:
        pictures = len(list(self._output.glob('*evidence.jpg')))
        print(f'Pictures: {self._output}/retained.jpg shows which patches of which frames are '
              f'kept,\n          {self._output}/*evidence.jpg the frames that an answer rests on '
              f'({pictures} files).')


class _Progress:
    """One line that is written over on a terminal, and now and then a line elsewhere."""

    _PERIOD_S = 3.0

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty() and os.environ.get('TERM', 'dumb') != 'dumb'
        self._shown_at = 0.0
        self._last = self._printed = ''

    def show(self, text: str) -> None:
        self._last = text
        if self._terminal:
            # a line that wraps could not be written over
            print(f'\r\033[K{text[:shutil.get_terminal_size().columns - 1]}', end='', flush=True)
        elif text != self._printed and time.monotonic() - self._shown_at > self._PERIOD_S:
            self._shown_at = time.monotonic()
            self._print()

    def close(self) -> None:
        if self._terminal:
            print()
        elif self._last != self._printed:
            self._print()

    def _print(self) -> None:
        self._printed = self._last
        print(self._last, flush=True)


if __name__ == '__main__':
    sys.exit(main())
