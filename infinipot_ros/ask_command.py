# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""`infinipot ask`: show a video file or a rosbag2 bag to a memory, then ask it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
import json
from pathlib import Path
import sys
from typing import Any

from infinipot_ros.errors import ConfigError
from infinipot_ros.wording import utc

# More than any model reads, which then is what the memory takes.
_ANY_MIB = 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument('file', type=Path, help='a video file, or the folder or file of a bag')
    parser.add_argument('questions', nargs='+', metavar='QUESTION')
    add_source_arguments(parser)
    parser.add_argument('--budget-mib', type=float,
                        help='all it may hold (default: what the model can read)')
    parser.add_argument('--policy', default='infinipot_v', help='what stays when it is full')
    parser.add_argument('--instant-frames', type=int, default=4,
                        help='newest frames that a question sees whole')
    parser.add_argument('--max-memory-tokens', type=int, default=0,
                        help='cap on the tokens kept; 0 is what the model can read')
    parser.add_argument('--calibration', default='',
                        help="file of 'infinipot calibrate' for this model, or 'none' (default: "
                        "the one in the model's folder, if there is one)")
    parser.add_argument('--evidence', type=int, default=3, help='frames named with an answer')
    parser.add_argument('--json', action='store_true', help='one JSON object a question')


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says how a recording is read, and with which model."""
    parser.add_argument('--topic', default='', help='image topic of a bag (default: the only one)')
    parser.add_argument('--sample-fps', type=float, default=2.0,
                        help='frames a second that go into the memory')
    parser.add_argument('--model', default='demo', help="'demo', a folder, or a name on the hub")
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--dtype', default='float32',
                        help="'float32', 'bfloat16', 'float16', or 'auto'")


def run(options: argparse.Namespace, _: Sequence[str]) -> int:
    """Build the memory of the recording and print an answer to every question."""
    from infinipot_ros.memory import AnswerStatus, VideoMemory
    from infinipot_ros.models import load_model
    pictures = sampled_pictures(options)
    model = load_model(
        options.model, options.device, options.dtype, calibration=options.calibration)
    memory = VideoMemory(model, memory_config(options, model))
    first_ns = None
    for picture in pictures:
        memory.add_frame(picture.rgb, stamp_ns=picture.stamp_ns, frame_id=picture.frame_id)
        first_ns = picture.stamp_ns if first_ns is None else first_ns
    status = memory.status()
    if first_ns is None:
        raise ConfigError(f"'{options.file}' has no picture that can be decoded")
    print(as_summary(status, model.frames_per_step, options.budget_mib), file=sys.stderr)
    failed = 0
    for question in options.questions:
        answer = memory.ask(question)
        failed += answer.status is not AnswerStatus.ANSWERED
        print(_as_json(question, answer) if options.json
              else as_text(question, answer, first_ns))
    return 1 if failed else 0


def memory_config(options: argparse.Namespace, model: Any) -> Any:
    """Return the settings of the memory; without a budget it holds all that the model reads."""
    from infinipot_ros.memory import MemoryConfig
    budget_mib, most_tokens = options.budget_mib, options.max_memory_tokens
    if budget_mib is None:
        budget_mib, most_tokens = _ANY_MIB, most_tokens or model.shape.max_context_tokens
    return MemoryConfig(
        budget_mib=budget_mib, policy=options.policy, instant_frames=options.instant_frames,
        max_memory_tokens=most_tokens, max_evidence=options.evidence, thumbnail_px=0)


def sampled_pictures(options: argparse.Namespace) -> Iterator[Any]:
    """
    Open the recording now, and yield its pictures that `--sample-fps` asks for later.

    Raises `ConfigError` where there is nothing to read.
    """
    from infinipot_ros.node.recordings import open_recording
    from infinipot_ros.node.sampling import Sampler, Verdict
    if not 0 < options.sample_fps <= 1000:
        raise ConfigError(
            f'sample-fps is {options.sample_fps:g}: give a number above 0, 1000 at most')
    recording = open_recording(options.file, options.topic)

    def chosen() -> Iterator[Any]:
        sampler = Sampler()
        for picture in recording.pictures():
            if sampler.judge(picture.stamp_ns, options.sample_fps) in (
                    Verdict.DUE, Verdict.JUMPED_BACK):
                yield picture
        if recording.skipped:
            print(f'{recording.skipped} pictures could not be decoded', file=sys.stderr)

    return chosen()


def as_summary(status: Any, frames_per_step: int, budget_mib: float | None = None) -> str:
    """Return what a person reads of a memory: what it saw, and what it still holds of that."""
    seen = status.frames_seen
    tokens = -(-seen // frames_per_step) * status.tokens_per_frame
    if status.held_tokens >= tokens:
        kept = 'everything is still remembered'
    else:
        kept = (f'{status.held_tokens / tokens:.0%} of what was in them is still remembered, '
                f'in pieces of {status.frames_kept} frames')
    allowed = '' if budget_mib is None else f' of {budget_mib:g}'
    return f'{seen} frames seen; {kept} ({status.held_bytes / 2**20:.2f}{allowed} MiB)'


def as_text(question: str, answer: Any, first_ns: int) -> str:
    """Return what a person reads: the answer, how sure it is, and when it was seen."""
    lines = [question, f'  {answer.text or "-"}']
    if answer.status.value == 'answered':
        lines[1] += f'   (confidence {answer.confidence:.2f}, {answer.latency_s * 1e3:.0f} ms)'
    if answer.message:
        head = 'note' if answer.status.value == 'answered' else answer.status.value
        lines.append(f'  {head}: {answer.message}')
    if answer.evidence:
        lines.append('  evidence: ' + '; '.join(
            f'{when(item.stamp_ns, first_ns)} ({item.relevance:.0%} of attention)'
            for item in answer.evidence))
    return '\n'.join(lines)


def when(stamp_ns: int, first_ns: int) -> str:
    """Write a stamp as seconds from the start, and as a date where it is one."""
    text = f'{(stamp_ns - first_ns) / 1e9:.1f} s'
    date = utc(stamp_ns)
    return f'{text}, {date}' if date else text


def _as_json(question: str, answer: Any) -> str:
    return json.dumps({
        'question': question, 'status': answer.status.value, 'answer': answer.text,
        'message': answer.message, 'confidence': round(answer.confidence, 4),
        'latency_s': round(answer.latency_s, 4),
        'evidence': [{'stamp_ns': item.stamp_ns, 'frame_id': item.frame_id,
                      'relevance': round(item.relevance, 4)} for item in answer.evidence]})
