# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a result was measured on: machine, versions and commit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib import metadata
import os
from pathlib import Path
import platform
import subprocess

import infinipot_ros


@dataclass(frozen=True)
class Machine:
    """The processor, the accelerator, the versions and the commit of one run."""

    processor: str
    cores: int
    memory_gib: float
    accelerator: str
    system: str
    python: str
    torch: str
    transformers: str
    version: str
    commit: str

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name."""
        return asdict(self)


def this_machine() -> Machine:
    """Look at the machine that runs this process."""
    import torch
    cores = os.cpu_count() or 1
    accelerator = torch.cuda.get_device_name() if torch.cuda.is_available() else 'none'
    return Machine(
        processor=_processor(), cores=cores, memory_gib=_memory_gib(), accelerator=accelerator,
        system=f'{platform.system()} {platform.machine()}', python=platform.python_version(),
        torch=metadata.version('torch'), transformers=metadata.version('transformers'),
        version=infinipot_ros.__version__, commit=_commit())


def _processor() -> str:
    try:
        text = Path('/proc/cpuinfo').read_text(encoding='utf-8')
    except OSError:
        return platform.processor() or platform.machine()
    for line in text.splitlines():
        if line.startswith('model name'):
            return line.partition(':')[2].strip()
    return platform.processor() or platform.machine()


def _memory_gib() -> float:
    pages, size = os.sysconf('SC_PHYS_PAGES'), os.sysconf('SC_PAGE_SIZE')
    return round(pages * size / 2**30, 1)


def _commit() -> str:
    """Return the commit of the source tree, marked where it has changes; 'unknown' outside one."""
    folder = Path(__file__).resolve().parents[2]
    try:
        found = subprocess.run(
            ['git', '-C', str(folder), 'describe', '--always', '--dirty', '--abbrev=12',
             '--exclude=*'], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return 'unknown'
    return found.stdout.strip()
