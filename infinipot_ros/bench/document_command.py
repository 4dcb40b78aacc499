# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""`infinipot bench document`: write docs/benchmarks.md from the files that benchmarks wrote."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from infinipot_ros.bench.document import make_document
from infinipot_ros.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument('--results', type=Path, default=Path('docs/benchmarks'),
                        help='the folder that was given to the benchmarks as --out')
    parser.add_argument('--to', type=Path, default=Path('docs/benchmarks.md'))


def run(options: argparse.Namespace, _: Sequence[str]) -> int:
    """Write the page."""
    if not options.results.is_dir():
        raise ConfigError(f"results: there is no folder '{options.results}'; run the benchmarks "
                          'with --out set to it first')
    options.to.write_text(make_document(options.results), encoding='utf-8')
    print(f'{options.to} written')
    return 0
