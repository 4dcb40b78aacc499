# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The command `infinipot`: ask a recording, run a benchmark, calibrate a model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
import sys

import infinipot_ros
from infinipot_ros.bench.commands import BENCHMARKS, run_benchmark
from infinipot_ros.errors import InfinipotError

# name: (module with add_arguments(parser) and run(options, command) -> int, one line)
COMMANDS: dict[str, tuple[str, str]] = {
    'ask': ('infinipot_ros.ask_command', 'ask a video file or a rosbag2 bag'),
    'calibrate': ('infinipot_ros.bench.calibrate_command',
                  "measure a model's thresholds for pooling value norms"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 2 with a message for a mistake in its use."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = build_parser().parse_args(given[:1])
    try:
        return _run(options.command, given[1:], ['infinipot', *given])
    except InfinipotError as error:
        print(f'infinipot: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('infinipot: interrupted', file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of the output has left, as `head` does.
        sys.stderr.close()
        return 1


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the first word; what comes after it is the named command's own."""
    lines = [f'  {name:12} {summary}' for name, (_, summary) in COMMANDS.items()]
    lines += [f'  {"bench":12} measure: {", ".join(BENCHMARKS)}',
              f'  {"demo-model":12} evaluate: answers on held-out clips, by question family']
    parser = argparse.ArgumentParser(
        prog='infinipot', formatter_class=argparse.RawDescriptionHelpFormatter,
        description='A visual memory for robots that never outgrows its budget.',
        epilog='commands (each has its own --help):\n' + '\n'.join(lines))
    parser.add_argument('--version', action='version', version=infinipot_ros.__version__)
    parser.add_argument('command', choices=[*COMMANDS, 'bench', 'demo-model'], metavar='COMMAND')
    return parser


def _run(name: str, rest: list[str], command: list[str]) -> int:
    # Modules are imported here, so that `infinipot --help` does not wait for torch.
    if name == 'bench':
        return _run_second(name, list(BENCHMARKS), rest, command)
    if name == 'demo-model':
        return _run_second(name, ['evaluate'], rest, command)
    module = import_module(COMMANDS[name][0])
    parser = argparse.ArgumentParser(prog=f'infinipot {name}', description=module.__doc__)
    module.add_arguments(parser)
    status: int = module.run(parser.parse_args(rest), command)
    return status


def _run_second(name: str, choices: list[str], rest: list[str], command: list[str]) -> int:
    lines = [f'  {choice:12} {BENCHMARKS[choice][1]}' for choice in choices
             if choice in BENCHMARKS]
    parser = argparse.ArgumentParser(
        prog=f'infinipot {name}', formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog='\n'.join(lines))
    parser.add_argument('what', choices=choices, metavar='|'.join(choices))
    chosen = parser.parse_args(rest[:1]).what
    if name == 'bench':
        return run_benchmark(chosen, rest[1:], command)
    import_module('infinipot_ros.demo.evaluate').main(rest[1:])
    return 0


if __name__ == '__main__':
    sys.exit(main())
