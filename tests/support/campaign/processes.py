"""Processes of the campaign from outside: a nurse that starts them, and what they live in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from jdbcstore.testing.polling import wait_until
from tests.support import ROOT
from tests.support.campaign import nurse

_WAIT = 120.0


class Nurse:
    """A program that forks processes of one version of the product, in one network and with one clock."""

    def __init__(
        self,
        *preloaded: str,
        tree: Path = ROOT,
        prefix: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("JDBCSTORE_")}
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [*prefix, sys.executable, str(Path(nurse.__file__)), *preloaded],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tree,
            env={**inherited, "OPENBLAS_NUM_THREADS": "1", **(environment or {}), "PYTHONPATH": str(tree)},
        )

    def start(self, log: Path, module: str, *arguments: str) -> Running:
        """Run ``jdbcstore`` as a command, or ``main`` of a module, in a new process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(f"{json.dumps([str(log), module, *arguments])}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        assert answer, "the nurse has ended"
        return Running(int(answer))

    def close(self) -> None:
        """End it, and with it all that it has started."""
        self._process.kill()
        self._process.communicate()


class Running:
    """A process that a nurse has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def has_ended(self) -> bool:
        """Return whether the process is gone."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it is gone."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self.send(signal.SIGKILL)
        wait_until(self.has_ended, _WAIT, "that a killed process is gone")

    def end(self) -> bool:
        """End it cleanly; return whether it came to its end by itself, and else kill it."""
        self.send(signal.SIGTERM)
        with suppress(AssertionError):
            wait_until(self.has_ended, 20.0, "that a process comes to its end")
            return True
        self.kill()
        return False
