# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks by name, each imported only when it runs."""

from __future__ import annotations

import argparse
from importlib import import_module

# name: (module with add_arguments(parser) and run(options, command) -> int, one line)
BENCHMARKS: dict[str, tuple[str, str]] = {
    'retention': ('retention_command', 'what is remembered, by policy, budget and age'),
}


def add_benchmarks(parser: argparse.ArgumentParser) -> None:
    """Add one sub-command for every benchmark."""
    chosen = parser.add_subparsers(dest='benchmark', required=True, metavar='BENCHMARK')
    for name, (module, summary) in BENCHMARKS.items():
        found = import_module(f'infinipot_ros.bench.{module}')
        command = chosen.add_parser(name, help=summary, description=found.__doc__)
        found.add_arguments(command)
        command.set_defaults(run=found.run)
