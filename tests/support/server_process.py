"""A server in a process of its own, with a folder for its data, which tests kill, pause and start again."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self


class ServerProcess:
    """A server; a context manager that ends it, and removes its data."""

    def __init__(self, prefix: str) -> None:
        self._directory = TemporaryDirectory(prefix=prefix)
        self.folder = Path(self._directory.name)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the server on the data of before, and wait until it answers."""
        raise NotImplementedError

    def close(self) -> None:
        """End the server, and remove its data."""
        self.kill()
        self._directory.cleanup()

    def kill(self) -> None:
        """End the server at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Have the server answer nothing, as one that is cut off."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)
