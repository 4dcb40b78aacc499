# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Start executables of this package as processes of their own; end them whatever happens."""
from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
import ctypes
import os
from pathlib import Path
import signal
import socket
import subprocess
import time
from types import TracebackType

_LIBC = ctypes.CDLL(None)  # loaded before any fork
_PR_SET_PDEATHSIG = 1
_INTERRUPT_S = 5.0
_TERMINATE_S = 2.0
_LOG_TAIL_LINES = 15
_DOMAINS = 100
# the rule of DDSI-RTPS 9.6.2.3 for the first participant of a domain
_FIRST_PORT, _PORTS_PER_DOMAIN = 7410, 250


def free_domain() -> int:
    """
    Return the ID of a ROS domain whose first port is free on this machine.

    :raises RuntimeError: every one of them is in use.
    """
    for step in range(_DOMAINS):
        domain = 1 + (os.getpid() + step) % _DOMAINS
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(('', _FIRST_PORT + _PORTS_PER_DOMAIN * domain))
            except OSError:
                continue
            return domain
    raise RuntimeError(f'ROS domains 1 to {_DOMAINS} are all in use; end what runs in one of them')


class ProcessDied(Exception):
    """A process ended that should have gone on; the message holds the end of its log."""


class Processes:
    """
    Child processes with a log file each, for use in a `with` statement.

    They are ended when the block is left: by SIGINT as from Ctrl-C, then SIGTERM, then SIGKILL.
    Should this process itself be killed, the kernel sends them SIGTERM.
    """

    def __init__(self, log_directory: Path) -> None:
        """Prepare the folder of the logs."""
        log_directory.mkdir(parents=True, exist_ok=True)
        self._log_directory = log_directory
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        """Return itself."""
        return self

    def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None,
            traceback: TracebackType | None) -> None:
        """End every process that still runs."""
        self.stop()

    def start(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        """Start a command; its output goes to `<log directory>/<name>.log`."""
        with self.log(name).open('wb') as log:
            self._running[name] = subprocess.Popen(
                command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_die_with_parent)

    def log(self, name: str) -> Path:
        """Return the log file of a process."""
        return self._log_directory / f'{name}.log'

    def check(self) -> None:
        """
        Make sure that every process still runs.

        :raises ProcessDied: one has ended.
        """
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                log = self.log(name)
                tail = log.read_text(errors='replace').splitlines()[-_LOG_TAIL_LINES:]
                raise ProcessDied(f'{name} ended with code {code}; the end of {log}:\n'
                                  + '\n'.join(f'  {line}' for line in tail))

    def stop(self) -> dict[str, int]:
        """End every process and return the exit codes."""
        for how, patience_s in ((signal.SIGINT, _INTERRUPT_S), (signal.SIGTERM, _TERMINATE_S),
                                (signal.SIGKILL, _TERMINATE_S)):
            alive = [p for p in self._running.values() if p.poll() is None]
            for process in alive:
                # the whole session, so that no grandchild is left behind
                os.killpg(process.pid, how)
            deadline = time.monotonic() + patience_s
            for process in alive:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
        codes = {name: process.wait() for name, process in self._running.items()}
        self._running = {}
        return codes


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
