# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The command `infinipot`: ask a recording, run a benchmark, calibrate a model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import sys

import infinipot_ros
from infinipot_ros.errors import InfinipotError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 with a message for a mistake in its use."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = build_parser().parse_args(given)
    try:
        status: int = options.run(options, ['infinipot', *given])
    except InfinipotError as error:
        print(f'infinipot: {error}', file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of the output has left, as `head` does.
        sys.stderr.close()
        return 1
    return status


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command and its sub-commands."""
    from infinipot_ros import ask_command
    from infinipot_ros.bench import calibrate_command, commands
    parser = argparse.ArgumentParser(
        prog='infinipot', description='A visual memory for robots that never outgrows its budget.')
    parser.add_argument('--version', action='version', version=infinipot_ros.__version__)
    chosen = parser.add_subparsers(dest='command', required=True, metavar='COMMAND')
    for name, module, summary in (
        ('ask', ask_command, 'ask a video file or a rosbag2 bag'),
        ('calibrate', calibrate_command, "measure a model's thresholds for pooling value norms"),
    ):
        command = chosen.add_parser(name, help=summary, description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    bench = chosen.add_parser('bench', help='measure what is remembered, how fast, in how much')
    commands.add_benchmarks(bench)
    demo = chosen.add_parser('demo-model', help='evaluate the embedded demo model')
    steps = demo.add_subparsers(dest='step', required=True, metavar='STEP')
    evaluate = steps.add_parser(
        'evaluate', add_help=False, help='its answers on held-out clips, by family')
    evaluate.add_argument('rest', nargs=argparse.REMAINDER)
    evaluate.set_defaults(run=_evaluate)
    return parser


def _evaluate(options: argparse.Namespace, _: Sequence[str]) -> int:
    from infinipot_ros.demo import evaluate
    evaluate.main(options.rest)
    return 0


if __name__ == '__main__':
    sys.exit(main())
