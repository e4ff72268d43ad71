"""Debian's ActiveMQ as its administrator runs it: a process of its own, with an activemq.xml."""

from __future__ import annotations

import subprocess
from pathlib import Path

from jdbcstore.testing.polling import wait_until
from tests.support.interop.activemq import LIBRARIES, QUICK_START, classpath
from tests.support.jvm import NO_TRACES

_WAIT = 120.0


class Standalone:
    """An ActiveMQ of an activemq.xml, which may be started again after :meth:`stop`.

    :raises PeerMissing: it or Java is not installed
    """

    def __init__(self, configuration: Path) -> None:
        self._configuration = configuration
        self._classpath = f"{classpath()}:{LIBRARIES}/optional/*"
        self._log = configuration.with_name("activemq.log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it waits where another has the lock."""
        folder = self._configuration.parent
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *("java", NO_TRACES, *QUICK_START),
                    *(f"-Djava.io.tmpdir={folder}", f"-Duser.home={folder}", f"-Dactivemq.base={folder}"),
                    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
                    *("-cp", self._classpath, "org.apache.activemq.console.Main"),
                    *("start", f"xbean:file:{self._configuration}"),
                ],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def await_serving(self) -> None:
        """Wait until it has the lock, and listens."""
        process = self._process
        assert process is not None

        def is_serving() -> bool:
            logged = self._log.read_text(errors="replace")
            assert process.poll() is None, logged[-4000:]
            return "For help or more information" in logged  # the last line of a start

        wait_until(is_serving, _WAIT, "that ActiveMQ serves")

    def stop(self) -> None:
        """End it as a service manager does, with SIGTERM."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_WAIT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
