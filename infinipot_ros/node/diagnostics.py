# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What /diagnostics says: one entry for the model, the memory, each camera and the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import time
from typing import Any, TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from infinipot_ros.node.camera import Camera
from infinipot_ros.node.camera_health import (
    LOST,
    RECENT_S,
    SILENT_AFTER_S,
    SLOW_AFTER_S,
    STUCK_AFTER_S,
)
from infinipot_ros.node.engine_thread import EngineThread
from infinipot_ros.node.messages import to_time
from infinipot_ros.node.publishers import COMPRESSED

if TYPE_CHECKING:
    from infinipot_ros.memory import MemoryStatus

OK, WARN, ERROR, STALE = (DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR,
                          DiagnosticStatus.STALE)
HUNG_AFTER_S = 60.0
# more than a few, since a middleware may count what came before the subscription
MANY_LOST, MUCH_LOST = 3, 0.2
# stamps that are older come from a recording
DELAYED_S, RECORDED_S = 2.0, 3600.0
TOPICS_NAMED = 5


@dataclass(frozen=True)
class Condition:
    """
    What the node knows apart from its engine and its cameras.

    :param reason: why the node is not what it should be, '' if it is.
    :param warning: what is wrong around the node, '' if nothing is.
    :param last_error: what went wrong last in the model thread, and how many seconds ago.
    """

    name: str
    state: str
    model: str
    reason: str
    warning: str
    last_error: tuple[str, float]


def diagnose(now_ns: int, condition: Condition, engine: EngineThread,
             cameras: Sequence[Camera]) -> DiagnosticArray:
    """Return the message."""
    entries = [_model(condition, engine), _questions(engine)]
    if engine.status is not None:
        entries.append(_memory(engine.status, engine))
    entries += [_camera(camera) for camera in cameras]
    array = DiagnosticArray()
    array.header.stamp = to_time(now_ns)
    array.status = [
        DiagnosticStatus(
            name=f'{condition.name}: {task}', level=level, message=message,
            hardware_id=condition.model,
            values=[KeyValue(key=key, value=_text(value)) for key, value in values.items()])
        for task, level, message, values in entries]
    return array


_Entry = tuple[str, bytes, str, Mapping[str, Any]]


def _model(condition: Condition, engine: EngineThread) -> _Entry:
    values = {'lifecycle state': condition.state, 'model': condition.model,
              'last error': condition.last_error[0], 'busy for s': engine.hung_s()}
    hung_s = engine.hung_s()
    if condition.state != 'unconfigured' and hung_s > HUNG_AFTER_S:
        hung = f'the model has not come back for {hung_s:.0f} s; restart the node'
        return 'model', ERROR, hung, values
    if condition.reason:
        return 'model', ERROR, condition.reason, values
    if condition.last_error[0] and condition.last_error[1] < RECENT_S:
        return 'model', ERROR, condition.last_error[0], values
    if condition.state != 'active':
        return 'model', WARN, f'the node is {condition.state}', values
    if condition.warning:
        return 'model', WARN, condition.warning, values
    return 'model', OK, 'running', values


def _memory(status: MemoryStatus, engine: EngineThread) -> _Entry:
    frames = max(1, engine.counts['frames'])
    frame_s, compression_s = engine.seconds['frames'], engine.seconds['compression']
    values = {
        'budget bytes': status.budget_bytes, 'held bytes': status.held_bytes,
        'capacity tokens': status.capacity_tokens, 'held tokens': status.held_tokens,
        'frames seen': status.frames_seen, 'frames kept': status.frames_kept,
        'compressions': status.compressions, 'policy': status.policy,
        'VaN pooling': status.van_pooling, 'compression in': status.compressed_in,
        'tokens per minute': status.tokens_per_minute, 'ms per frame': 1000 * frame_s / frames,
        'compression share': compression_s / frame_s if frame_s else 0.0,
        'stamps gone back': status.stamps_gone_back,
        **{f'bytes of {part}': size for part, size in status.bytes_by_part.items()},
        **{f'frames dropped, {reason}': count for reason, count in engine.dropped.items()}}
    if status.held_bytes > status.budget_bytes:
        return 'memory', ERROR, 'more bytes are held than the budget allows', values
    if time.monotonic() - engine.queue.last_overrun < RECENT_S:
        return 'memory', WARN, overrun(engine), values
    held = f'{status.held_bytes / 2**20:.2f} of {status.budget_bytes / 2**20:.2f} MiB'
    return 'memory', OK, f'{held}, {status.held_tokens} tokens', values


def _questions(engine: EngineThread) -> _Entry:
    questions, frames = engine.queue.waiting()
    answered = max(1, engine.counts['answered'])
    values = {'answered': engine.counts['answered'], 'failed': engine.counts['failed'],
              'refused as busy': engine.queue.refused, 'waiting': questions,
              'frames waiting': frames, 'described': engine.counts['described'],
              'ms per answer': 1000 * engine.seconds['answers'] / answered}
    if questions > engine.queue.max_questions:
        return 'questions', WARN, 'no more questions can wait', values
    return 'questions', OK, f'{questions} waiting', values


def _camera(camera: Camera) -> _Entry:
    health, name = camera.health, f'camera {camera.setup.name}'
    silent_s = health.silent_s()
    values = {'topic': camera.topic, 'publishers': ', '.join(camera.publishers.names()),
              'images': health.kind, 'received': health.received, 'taken': health.taken,
              'fps in': health.fps,
              'fps wanted': camera.setup.fps(), 'age s': silent_s, 'delay s': health.delay_s,
              'same picture for s': health.stuck_s(),
              'last error': health.last_error,
              **{f'dropped, {reason}': count for reason, count in health.dropped.items()}}
    if health.received == 0 and health.incompatible_qos:
        policy = f'{health.incompatible_qos} of a publisher on {camera.topic}'
        return name, ERROR, f'no images: {policy} is incompatible with this subscription', values
    if silent_s > SILENT_AFTER_S:
        return name, ERROR if health.received == 0 else WARN, silence(camera), values
    if health.received and health.taken == 0 and health.last_error:
        return name, ERROR, health.last_error, values
    if time.monotonic() - health.failed < RECENT_S:
        bad = health.dropped['bad image']
        return name, WARN, f'{bad} images could not be read: {health.last_error}', values
    problem = trouble(camera)
    if problem:
        return name, WARN, problem, values
    resting = ', all the same: nothing moves, or the camera hangs' if _stuck(camera) else ''
    return name, OK, f'{health.fps:.1f} images a second{resting}', values


def trouble(camera: Camera) -> str:
    """Say what is wrong with the stream of a camera, '' if nothing is."""
    if camera.health.silent_s() > SILENT_AFTER_S:
        return silence(camera)
    rivals = camera.publishers.rivals()
    if rivals:
        return (f'{camera.topic} has {len(rivals)} publishers, {" and ".join(rivals)}, whose '
                'pictures come mixed; end all but one, or give each its own topic and its own '
                'camera in the parameter cameras')
    health = camera.health
    lost, share = health.losses()
    slow = health.slow_s() > SLOW_AFTER_S and not camera.simulated()
    # a few of few explain a slow stream as well
    if (lost and slow) or (lost >= MANY_LOST and share > MUCH_LOST):
        return (f'{share:.0%} of the pictures on {camera.topic} in the last {RECENT_S:.0f} s were '
                f'lost on the way, {_mend_losses(camera)}')
    if DELAYED_S < health.delay_s < RECORDED_S:
        return (f'pictures on {camera.topic} are {health.delay_s:.0f} s old by their stamps when '
                'they come: are the clocks synchronised, the network fast enough and the '
                'processor not overloaded? Play a bag with --clock, and set use_sim_time to true')
    # a renderer runs at its own pace, and without noise makes one picture again and again
    if camera.simulated():
        return ''
    if slow:
        return (f'{camera.topic} gives {health.fps:.2f} pictures a second, and sample_fps is '
                f'{camera.setup.fps():g}; the memory gets what there is: lower sample_fps, or '
                'look after the camera and its network')
    return stuck(camera) if _stuck(camera) else ''


def silence(camera: Camera) -> str:
    """Say that nothing comes from a camera, and what may be the reason."""
    text = f'no image for {camera.health.silent_s():.0f} s'
    names, kinds = camera.publishers.names(), camera.publishers.kinds()
    if not names:
        found = camera.publishers.elsewhere()
        more = f' (and {len(found) - TOPICS_NAMED} more)' if len(found) > TOPICS_NAMED else ''
        others = f'; pictures are on {", ".join(found[:TOPICS_NAMED])}{more}' if found else ''
        return (f'{text}: no one publishes on {camera.topic}; set {camera.setup.name}.topic (at '
                f'launch image_topic:= or cameras:=), or start the camera{others}')
    if camera.kind not in kinds:
        return (f'{text}: {", ".join(kinds)} is published on {camera.topic}, and {camera.kind} is '
                f'read; {_mend_type(camera, kinds)}')
    lost = camera.health.dropped[LOST]
    if lost:
        return f'{text}; {lost} were lost on the way, {_mend_losses(camera)}'
    return (f'{text}, though {camera.topic} is published by {", ".join(names)}: is the camera '
            'stopped, or its QoS another?')


def _mend_losses(camera: Camera) -> str:
    smaller = '' if camera.kind == COMPRESSED else 'the /compressed topic, or '
    return (f'as large pictures often are: use {smaller}qos_overrides.{camera.topic}.'
            'subscription.reliability: reliable, or larger kernel buffers')


def _mend_type(camera: Camera, kinds: Sequence[str]) -> str:
    topic = f'{camera.setup.name}.topic'
    base = camera.topic.removesuffix('/compressed')
    if COMPRESSED in kinds and base != camera.topic:
        return f"set {topic} to '{base}' and {camera.setup.name}.transport to 'compressed'"
    return f"set {topic} to a camera's"


def overrun(engine: EngineThread) -> str:
    """Say that frames which belong to the memory never reach it."""
    busy = engine.dropped['model busy']
    return (f'{busy} frames were dropped, since the model takes longer than sample_fps leaves it; '
            'lower sample_fps or the frame size')


def stuck(camera: Camera) -> str:
    """Say that a camera sends one picture again and again, and what may be the reason."""
    return (f'{camera.topic} has sent the same picture, bit by bit, for '
            f'{camera.health.stuck_s():.0f} s under new stamps; the memory has it once. No lens '
            'does that: restart the camera if its driver hangs, or go on with the recording. In '
            'a simulator without noise it only means that nothing moves; with use_sim_time true '
            'this is no warning')


def _stuck(camera: Camera) -> bool:
    return camera.health.stuck_s() > STUCK_AFTER_S


def _text(value: object) -> str:
    return f'{value:.3f}' if isinstance(value, float) else str(value)
