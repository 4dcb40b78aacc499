# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The most memory that a stretch of work took: the accelerator's, or this process's."""

from __future__ import annotations

from pathlib import Path

from infinipot_ros.errors import ConfigError
import torch

_STATUS = Path('/proc/self/status')
_CLEAR = Path('/proc/self/clear_refs')


class PeakMemory:
    """
    Bytes above what was there when this was made.

    On a CPU it is the process's resident memory as Linux counts it, which shows whole pages and
    what the allocator holds back; differences under a MiB mean nothing.
    """

    def __init__(self, device: str) -> None:
        """Take what is held now as zero. Raises `ConfigError` where it cannot be measured."""
        self._cuda = torch.device(device).type == 'cuda'
        if not self._cuda and not _CLEAR.exists():
            raise ConfigError('peak memory on a CPU is measured on Linux only (/proc)')
        self._before = self._now()
        self.restart()

    def restart(self) -> None:
        """Forget the highest so far."""
        if self._cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        else:
            # 5 sets the high-water mark back to the present.
            _CLEAR.write_text('5', encoding='ascii')

    def highest(self) -> int:
        """Return the highest since the last restart."""
        if self._cuda:
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated() - self._before
        return _kib('VmHWM') * 1024 - self._before

    def _now(self) -> int:
        if self._cuda:
            torch.cuda.synchronize()
            return torch.cuda.memory_allocated()
        return resident_bytes()


def resident_bytes() -> int:
    """Return the resident memory of this process (Linux)."""
    return _kib('VmRSS') * 1024


def _kib(name: str) -> int:
    for line in _STATUS.read_text(encoding='ascii').splitlines():
        if line.startswith(f'{name}:'):
            return int(line.split()[1])
    raise ConfigError(f'{_STATUS} does not tell {name}')
