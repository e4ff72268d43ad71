"""A private S3 server: moto's, over HTTP on this machine."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from tests.support import tiers
from tests.support.ports import free_port
from tests.support.servers.process import START_TIMEOUT, ServerMissing


class S3Server:
    """An S3 server with one empty bucket on a free port of this machine, until :meth:`close`."""

    BUCKET = "backup"

    def __init__(self, folder: Path) -> None:
        if find_spec("moto") is None or find_spec("flask_cors") is None:
            raise ServerMissing("moto's server is not installed; pip install 'moto[s3]' flask flask-cors")
        tiers.starts("servers")
        self.port = free_port()
        log = folder / "moto.log"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise ServerMissing(log.read_text()[-500:])
            time.sleep(0.05)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_TIMEOUT)
        connection.request("PUT", f"/{self.BUCKET}")
        assert connection.getresponse().status == 200
        connection.close()

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1.0).close()
        except OSError:
            return False
        return True

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Kill it; all that it has is in memory."""
        self._process.kill()
        self._process.wait(180.0)
