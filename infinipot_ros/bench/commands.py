# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks by name."""

from __future__ import annotations

import argparse
from importlib import import_module

# name: (module with add_arguments(parser) and run(options, command) -> int, one line)
BENCHMARKS: dict[str, tuple[str, str]] = {
    'retention': ('retention_command', 'what is remembered, by policy, budget and age'),
    'ablation': ('ablation_command', "the papers' ablations by name"),
    'scores': ('scores_command', 'whether TaR and VaN tell things from background'),
    'speed': ('speed_command', 'time and peak memory, beside a growing cache'),
    'compression': ('compression_command', 'time and working memory of one compression'),
    'soak': ('soak_command', 'whether bytes, tensors and the process stay flat'),
    'document': ('document_command', 'write docs/benchmarks.md from the results'),
}


def run_benchmark(name: str, rest: list[str], command: list[str]) -> int:
    """Run a benchmark with the arguments that come after its name."""
    module = import_module(f'infinipot_ros.bench.{BENCHMARKS[name][0]}')
    parser = argparse.ArgumentParser(
        prog=f'infinipot bench {name}', description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(parser)
    status: int = module.run(parser.parse_args(rest), command)
    return status
