"""A private ZooKeeper, from Debian's package: one server on a free port."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from jdbcstore.testing.polling import wait_until
from tests.support import tiers
from tests.support.interop.activemq import QUICK_START
from tests.support.jvm import NO_TRACES
from tests.support.ports import free_port
from tests.support.require import unavailable

_JAR = Path("/usr/share/java/zookeeper.jar")
TICK = 0.1
"""Seconds. A session lasts 2 to 20 of them."""
LONGEST_SESSION = 20 * TICK


class ZooKeeper:
    """A server, which may be stopped and started again; a context manager that ends it.

    A test that starts it is marked ``java``.
    """

    def __init__(self) -> None:
        if not _JAR.exists() or shutil.which("java") is None:
            unavailable("zookeeper", f"no {_JAR} or no java: .ci/packages zookeeper")
        self._directory = TemporaryDirectory(prefix="jdbcstore-zookeeper-")
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and remove its data."""
        self.kill()
        self._directory.cleanup()

    def start(self) -> None:
        """Start the server on the data of before, and wait until it answers."""
        tiers.starts("java")
        folder = Path(self._directory.name)
        settings = folder / "zoo.cfg"
        settings.write_text(
            f"tickTime={round(TICK * 1000)}\ndataDir={folder}\nadmin.enableServer=false\n"
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
            raise AssertionError((Path(self._directory.name) / "log").read_text())
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 5) as line:
            line.sendall(b"srvr")
            return line.recv(9) == b"Zookeeper"
        return False

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
