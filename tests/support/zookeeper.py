"""A private ZooKeeper, from Debian's package: one server on a free port."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from pathlib import Path

from jdbcstore.testing.polling import wait_until
from tests.support import tiers
from tests.support.interop.activemq import QUICK_START
from tests.support.jvm import NO_TRACES
from tests.support.ports import free_port
from tests.support.require import unavailable
from tests.support.server_process import ServerProcess

_JAR = Path("/usr/share/java/zookeeper.jar")
_TICK = 0.1
"""Seconds. A session lasts at least two of them."""
LONGEST_SESSION = 10.0
"""Seconds: long enough for a session that a test must not lose, even while its machine is busy."""


class ZooKeeper(ServerProcess):
    """A server, which may be stopped and started again; a context manager that ends it.

    A test that starts it is marked ``java``.
    """

    def __init__(self) -> None:
        if not _JAR.exists() or shutil.which("java") is None:
            unavailable("zookeeper", f"no {_JAR} or no java: .ci/packages zookeeper")
        super().__init__("jdbcstore-zookeeper-")
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server on the data of before, and wait until it answers."""
        tiers.starts("java")
        folder = self.folder
        settings = folder / "zoo.cfg"
        settings.write_text(
            f"tickTime={round(_TICK * 1000)}\nmaxSessionTimeout={round(LONGEST_SESSION * 1000)}\n"
            f"dataDir={folder}\nadmin.enableServer=false\n"
            f"clientPort={self._port}\nclientPortAddress=127.0.0.1\n"
        )
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["java", NO_TRACES, *QUICK_START, "-Xmx64m", "-cp", str(_JAR), main, str(settings)],
                stdout=log,
                stderr=log,
            )
        wait_until(self._answers, what="an answer of ZooKeeper")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text())
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5) as line:
            line.sendall(b"srvr")
            return line.recv(9) == b"Zookeeper"
        return False
