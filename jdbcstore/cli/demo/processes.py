"""Starting, watching and killing the demo's processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Self


class ProcessFailed(Exception):
    """A process ended as it should not have."""


class Process:
    """One module of the demo in a process of its own.

    It ends when its standard input does, so it does not outlive whoever started it.
    """

    def __init__(
        self,
        module: str,
        *arguments: object,
        log: IO[bytes],
        url: str = "",
    ) -> None:
        self.name = module
        self._popen = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", f"jdbcstore.cli.demo.{module}", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=_environment(url),
            # Ctrl-C in the terminal is for the demo; it ends the others.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def ended(self) -> bool:
        """Whether it has ended, and well.

        :raises ProcessFailed: it has ended in another way
        """
        code = self._popen.poll()
        if code:
            raise ProcessFailed(f"the {self.name} process {self.pid} ended with {code}")
        return code == 0

    def end_input(self) -> None:
        """Tell it that nothing more will come."""
        if self._popen.stdin is not None:
            with suppress(BrokenPipeError):
                self._popen.stdin.close()

    def kill(self) -> None:
        """SIGKILL: it gets no chance to finish anything."""
        self._popen.send_signal(signal.SIGKILL)
        self._popen.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill()
        self.end_input()


def _environment(url: str) -> dict[str, str]:
    """This process's own, in which the store's URL is hidden from the list of processes."""
    package = str(Path(__file__).parents[3])
    path = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "JDBCSTORE_URL": url,
        "PYTHONPATH": f"{package}{os.pathsep}{path}" if path else package,
    }
