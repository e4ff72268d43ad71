"""Private servers of NATS JetStream, from Debian's package: one, or a cluster of three, on free ports."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

from jdbcstore.config.journal import JournalConfig
from jdbcstore.testing.polling import wait_until
from tests.support import tiers
from tests.support.ports import free_port
from tests.support.require import unavailable
from tests.support.server_process import ServerProcess

NEWER = Path(__file__).parents[2] / ".build/nats/nats-server"
"""A nats-server of 2.10 or later, which can sync before it acknowledges; Debian 12 and 13 have 2.9."""


def newer() -> str:
    """The newer server, without which a test is skipped."""
    if not NEWER.exists():
        unavailable("nats-newer", f"no {NEWER}: make nats")
    return str(NEWER)


class NatsServer(ServerProcess):
    """A server, which may be stopped and started again; a context manager that ends it.

    A test that starts it is marked ``servers``. ``settings`` are lines for its configuration.
    """

    def __init__(
        self, *, program: str | None = None, jetstream: str | None = "", settings: str = "", name: str = "n0"
    ) -> None:
        found = program or shutil.which("nats-server", path=f"{os.environ['PATH']}:/usr/sbin")
        if found is None:
            unavailable("nats", "no nats-server: .ci/packages nats-server")
        self._program = found
        self._jetstream = jetstream
        self._settings = settings
        super().__init__("jdbcstore-nats-")
        self._port, self._monitor = free_port(), free_port()
        self.name = name
        self.url = f"nats://127.0.0.1:{self._port}"
        self.monitor = f"http://127.0.0.1:{self._monitor}"

    def start(self, *, waits: bool = True) -> None:
        """Start the server on the data of before, and wait until it answers."""
        tiers.starts("servers")
        settings = self.folder / "nats.conf"
        jetstream = ""
        if self._jetstream is not None:
            jetstream = f"jetstream {{ store_dir: {self.folder}/data\n{self._jetstream} }}\n"
        settings.write_text(
            f"server_name: {self.name}\nlisten: 127.0.0.1:{self._port}\nhttp: 127.0.0.1:{self._monitor}\n"
            f"{jetstream}{self._settings}"
        )
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-c", str(settings)], stdout=log, stderr=log, cwd=self.folder
            )
        if waits:
            self.wait()

    def wait(self) -> None:
        """Wait until it serves what it has."""
        wait_until(self._is_ready, what="an answer of nats-server")

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text())
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5):
            if self._jetstream is None:
                return True
            with contextlib.suppress(URLError), urlopen(f"{self.monitor}/healthz") as answer:  # noqa: S310
                return bool(answer.status == 200)
        return False


class NatsCluster:
    """Three servers that elect; a context manager that ends them."""

    def __init__(self, *, program: str | None = None, jetstream: str = "") -> None:
        ports = [free_port() for _ in range(3)]
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports)
        self.servers = [
            NatsServer(
                program=program,
                jetstream=jetstream,
                settings=f"cluster {{ name: c\nlisten: 127.0.0.1:{port}\nroutes: [{routes}] }}\n",
                name=f"n{number}",
            )
            for number, port in enumerate(ports)
        ]
        self.url = ",".join(server.url for server in self.servers)

    def __enter__(self) -> Self:
        for server in self.servers:
            server.start(waits=False)
        for server in self.servers:
            server.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.close()


def streamed(url: str, name: str, **options: Any) -> JournalConfig:
    """A journal in a stream, of which little is released at once."""
    return JournalConfig(
        **{"stream": url, "stream_name": name, "replicas": 1, "journal_log_file_size": 4096, **options}
    )
