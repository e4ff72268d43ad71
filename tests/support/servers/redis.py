"""A private Redis server, for what Celery is compared with and keeps its results in."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.support import tiers
from tests.support.ports import free_port
from tests.support.servers.process import START_TIMEOUT, ServerMissing


class RedisServer:
    """Redis with its defaults on a free port of this machine, in this folder, until :meth:`close`."""

    def __init__(self, folder: Path, *options: str) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise ServerMissing("no Redis server is installed (redis-server)")
        tiers.starts("servers")
        self.port = free_port()
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), *options]
        with (folder / "redis.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerMissing((folder / "redis.log").read_text()[-500:])
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1.0).close()
        except OSError:
            return False
        return True

    def url(self, number: int = 0) -> str:
        """The URL of one of its databases."""
        return f"redis://127.0.0.1:{self.port}/{number}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(180.0)
