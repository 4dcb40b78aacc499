# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of one kind in a CSV file, and beside it what they were measured on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import csv
from dataclasses import asdict, fields, MISSING
import json
import os
from pathlib import Path
from typing import Any, TypeVar

from infinipot_ros.bench.machine import this_machine
from infinipot_ros.errors import ConfigError

Row = TypeVar('Row')
_READ: dict[str, Any] = {'int': int, 'float': float, 'str': str}


def write_rows(path: Path, rows: Sequence[Any]) -> None:
    """Write dataclass rows, all of one kind and at least one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('w', newline='', encoding='utf-8') as file:
        writer = csv.DictWriter(file, [field.name for field in fields(rows[0])])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def read_rows(path: Path, kind: type[Row]) -> list[Row]:
    """
    Read what `write_rows` wrote, also before columns with a default value were added.

    Raises `ConfigError` when the file is not there or has other columns.
    """
    columns = fields(kind)  # type: ignore[arg-type]
    types = {field.name: str(field.type) for field in columns}
    needed = [field.name for field in columns if field.default is MISSING]
    if not path.is_file():
        raise ConfigError(f"no results in '{path}': run the benchmark that writes them first")
    with path.open(newline='', encoding='utf-8') as file:
        reader = csv.DictReader(file)
        found = list(reader.fieldnames or ())
        if found[: len(needed)] != needed or found != list(types)[: len(found)]:
            raise ConfigError(f"'{path}' has the columns {reader.fieldnames}, not {list(types)}")
        return [kind(**{name: _READ[types[name]](text) for name, text in line.items()})
                for line in reader]


def write_about(path: Path, command: Iterable[str], seconds: float, **more: Any) -> None:
    """Write how a result came about: command, machine, versions, commit, time taken."""
    about = {'command': ' '.join(command), 'seconds': round(seconds, 1), **more,
             # Above the number of cores, other work has slowed this one down.
             'load_average': round(os.getloadavg()[0], 1), 'machine': this_machine().as_dict()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(about, indent=2) + '\n', encoding='utf-8')


def read_about(path: Path) -> Mapping[str, Any]:
    """Read what `write_about` wrote."""
    if not path.is_file():
        raise ConfigError(f"no results in '{path.parent}': '{path.name}' is missing")
    found: Mapping[str, Any] = json.loads(path.read_text(encoding='utf-8'))
    return found


def about_text(about: Mapping[str, Any]) -> str:
    """Say with what command and on what machine something was measured."""
    machine = about['machine']
    accelerator = '' if machine['accelerator'] == 'none' else f", {machine['accelerator']}"
    return (f"`{about['command']}`, {about['seconds']:.0f} s on {machine['processor']} "
            f"({machine['cores']} cores, {machine['memory_gib']} GiB{accelerator}, "
            f"load average {about.get('load_average', 'unknown')}), "
            f"{machine['system']}, Python {machine['python']}, torch {machine['torch']}, "
            f"transformers {machine['transformers']}, infinipot_ros {machine['version']}, "
            f"commit {machine['commit']}.")
