# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What /diagnostics says of a model and of a camera in each way that they fail."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2: run scripts/test, or source scripts/env.sh')

from infinipot_ros.node import camera_health  # noqa: E402, I100
from infinipot_ros.node.camera_health import CameraHealth  # noqa: E402
from infinipot_ros.node.diagnostics import Condition, diagnose, ERROR, OK, WARN  # noqa: E402
from infinipot_ros.node.engine_thread import EngineThread  # noqa: E402
from infinipot_ros.node.work import Frame, Hooks  # noqa: E402
import numpy as np  # noqa: E402

CONDITION = {'name': 'robot1/infinipot', 'state': 'active', 'model': 'demo', 'reason': '',
             'warning': '', 'last_error': ('', 0.0)}


class Clock:
    """A steady clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(camera_health, 'time', clock)
    return clock


def a_camera(publishers: tuple[str, ...] = ('/driver',), simulated: bool = False,
             wanted_fps: float = 1.0) -> Any:
    """Return what diagnostics look at of a camera that nothing has come from."""
    kind = 'sensor_msgs/msg/Image'
    graph = SimpleNamespace(names=lambda: list(publishers), rivals=list, elsewhere=list,
                            kinds=lambda: [kind] if publishers else [])
    return SimpleNamespace(
        health=CameraHealth(started=camera_health.time.monotonic()), topic='/image', kind=kind,
        publishers=graph, simulated=lambda: simulated,
        setup=SimpleNamespace(name='front', fps=lambda: wanted_fps))


def show(camera: Any, clock: Clock, seconds: float, fps: float) -> None:
    """Let pictures come from a camera for some time, each another one."""
    for _ in range(round(seconds * fps)):
        clock.now += 1.0 / fps
        camera.health.arrive(camera.setup.fps())
        camera.health.look_at(str(clock.now).encode())
        camera.health.taken += 1


def told(camera: Any = None, engine: EngineThread | None = None,
         **condition: Any) -> tuple[bytes, str, dict[str, str]]:
    """Return level, message and values of the entry of a camera, or of the model."""
    array = diagnose(0, Condition(**{**CONDITION, **condition}), engine or EngineThread(Hooks()),
                     [camera] if camera else [])
    assert all(entry.name.startswith('robot1/infinipot: ') for entry in array.status)
    entry = array.status[-1 if camera else 0]
    return entry.level, entry.message, {pair.key: pair.value for pair in entry.values}


def test_a_camera_in_order_is_told_with_age_and_rate(clock: Clock) -> None:
    camera = a_camera()
    show(camera, clock, 5.0, 10.0)
    clock.now += 0.25
    level, message, values = told(camera)
    assert (level, message) == (OK, '10.0 images a second')
    assert (values['age s'], values['received'], values['taken']) == ('0.250', '50', '50')
    assert float(values['fps in']) == pytest.approx(10.0, rel=0.02)
    assert values['fps wanted'] == '1.000' and values['delay s'] == '0.000'


@pytest.mark.parametrize(('seen', 'level'), [(0.0, ERROR), (3.0, WARN)])
def test_a_camera_that_is_off_or_goes_off_and_comes_back(
        clock: Clock, seen: float, level: bytes) -> None:
    camera = a_camera()
    show(camera, clock, seen, 10.0)
    clock.now += 7.0
    found, message, values = told(camera)
    assert found == level and message.startswith('no image for 7 s')
    assert '/driver: is the camera stopped' in message
    assert values['age s'] == '7.000'
    show(camera, clock, 3.0, 10.0)
    assert told(camera)[0] == OK


def test_a_slow_camera_is_told_with_its_rate_and_one_that_stutters_is_not(clock: Clock) -> None:
    camera = a_camera(wanted_fps=2.0)
    show(camera, clock, 10.0, 1.2)
    assert told(camera)[0] == OK, 'a little less than is wanted'
    show(camera, clock, 5.0, 0.4)
    assert told(camera)[0] == OK, 'a moment'
    show(camera, clock, 5.0, 0.4)
    level, message, values = told(camera)
    assert level == WARN
    assert '/image gives 0.40 pictures a second, and sample_fps is 2;' in message
    assert values['fps in'] == '0.400'
    show(camera, clock, 3.0, 10.0)
    assert told(camera)[0] == OK


def test_a_camera_that_has_just_begun_or_just_stopped_is_not_slow(clock: Clock) -> None:
    camera = a_camera(wanted_fps=20.0)
    for _ in range(60):  # as in the demo, with half of the wanted rate
        show(camera, clock, 0.1, 10.0)
        assert told(camera)[0] == OK
    show(camera, clock, 1.0, 2.0)
    for _ in range(100):  # nothing more comes
        clock.now += 0.1
        level, message, _ = told(camera)
        assert level == OK or 'no image for' in message
    show(camera, clock, 0.2, 10.0)
    assert told(camera)[0] == OK


def test_pictures_lost_on_the_way_are_told_while_they_are_and_not_put_on_the_camera(
        clock: Clock) -> None:
    camera = a_camera(wanted_fps=4.0)
    for _ in range(10):
        show(camera, clock, 1.0, 1.0)
        camera.health.lose(3)
    level, message, values = told(camera)
    assert level == WARN and values['dropped, lost on the way'] == '30'
    assert message.startswith('75% of the pictures on /image in the last 10 s were lost')
    for words in ('/compressed', 'qos_overrides./image.subscription.reliability: reliable'):
        assert words in message
    assert 'look after the camera' not in message
    show(camera, clock, 11.0, 4.0)
    assert told(camera)[0] == OK, 'they come again'
    camera.health.lose(9)
    assert told(camera)[0] == OK, 'less than a fifth'


def test_few_losses_of_a_slow_stream_are_told_and_one_at_the_start_is_not(clock: Clock) -> None:
    camera = a_camera(wanted_fps=2.0)
    camera.health.lose(1)
    show(camera, clock, 0.5, 2.0)
    assert told(camera)[0] == OK
    show(camera, clock, 20.0, 0.4)
    assert 'gives 0.40 pictures a second' in told(camera)[1]
    camera.health.lose(1)
    assert '17% of the pictures on /image' in told(camera)[1]


def test_a_simulator_goes_at_its_own_pace(clock: Clock) -> None:
    camera = a_camera(simulated=True, wanted_fps=2.0)
    show(camera, clock, 20.0, 0.4)
    assert told(camera)[0] == OK


@pytest.mark.parametrize(('delay_s', 'level'), [(0.5, OK), (3.0, WARN), (1e9, OK)])
def test_pictures_that_are_old_when_they_come_are_told_and_a_recording_is_not(
        clock: Clock, delay_s: float, level: bytes) -> None:
    camera = a_camera()
    show(camera, clock, 3.0, 10.0)
    camera.health.delay_s = delay_s
    found, message, values = told(camera)
    assert found == level and values['delay s'] == f'{delay_s:.3f}'
    assert level == OK or 'are 3 s old by their stamps when they come' in message


def test_a_camera_of_garbage_is_told_with_the_last_reason(clock: Clock) -> None:
    camera = a_camera()
    show(camera, clock, 1.0, 10.0)
    camera.health.dropped['bad image'] = 7
    camera.health.last_error, camera.health.failed = 'not a decodable jpeg', time.monotonic()
    level, message, values = told(camera)
    assert (level, message) == (WARN, '7 images could not be read: not a decodable jpeg')
    assert values['dropped, bad image'] == '7' and values['last error'] == 'not a decodable jpeg'
    camera.health.taken = 0
    assert told(camera)[:2] == (ERROR, 'not a decodable jpeg')


@pytest.mark.parametrize(('busy_s', 'state', 'level', 'words'), [
    (2.0, 'active', OK, 'running'), (61.0, 'active', ERROR, 'has not come back for 61 s; restart'),
    (61.0, 'unconfigured', WARN, 'the node is unconfigured')])
def test_a_model_that_hangs_is_an_error_and_one_that_loads_is_not(
        busy_s: float, state: str, level: bytes, words: str) -> None:
    engine = EngineThread(Hooks())
    engine.busy_since = time.monotonic() - busy_s
    found, message, values = told(engine=engine, state=state)
    assert found == level and words in message
    assert float(values['busy for s']) == pytest.approx(busy_s, abs=1.0)


@pytest.mark.parametrize(('condition', 'level', 'words'), [
    ({'last_error': ('frame: NaN', 3.0)}, ERROR, 'frame: NaN'),
    ({'last_error': ('frame: NaN', 30.0)}, OK, 'running'),
    ({'reason': 'could not configure: no', 'state': 'unconfigured'}, ERROR, 'could not configure'),
    ({'warning': 'nothing comes on /clock'}, WARN, '/clock')])
def test_what_is_wrong_with_the_node_is_told_while_it_lasts(
        condition: dict[str, Any], level: bytes, words: str) -> None:
    found, message, values = told(**condition)
    assert found == level and words in message
    assert values['last error'] == condition.get('last_error', ('',))[0]


def test_drops_are_counted_by_reason_and_a_full_queue_is_told() -> None:
    engine = EngineThread(Hooks())
    engine.queue.max_frames = 2
    for stamp in range(5):
        engine.queue.offer(Frame('front', stamp, '', np.zeros((8, 8, 3), np.uint8)))
    engine.status = SimpleNamespace(  # type: ignore[assignment]
        budget_bytes=2**21, held_bytes=2**20, capacity_tokens=9, held_tokens=4, frames_seen=2,
        frames_kept=2, compressions=0, policy='tar', van_pooling='', compressed_in='C',
        tokens_per_minute=1.0, stamps_gone_back=0, bytes_by_part={'past': 2**20})
    array = diagnose(0, Condition(**CONDITION), engine, [])  # type: ignore[arg-type]
    memory = array.status[2]
    assert memory.level == WARN and memory.message.startswith('3 frames were dropped')
    assert {'frames dropped, model busy': '3'}.items() <= {
        pair.key: pair.value for pair in memory.values}.items()
