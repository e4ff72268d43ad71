"""Runs a real Artemis in a JVM of its own, as ``tests/interop/artemis`` configures it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from string import Template
from typing import Self
from xml.sax.saxutils import escape

from tests.support import ROOT, tiers
from tests.support.interop.activemq import JARS as DEBIAN_JARS
from tests.support.interop.activemq import QUICK_START
from tests.support.jvm import NO_TRACES, compiled
from tests.support.maven import why_missing

HOME = ROOT / "tests" / "interop" / "artemis"
LIBRARIES = ROOT / ".build" / "artemis"
DRIVERS = tuple(jar for jar in DEBIAN_JARS if jar.name in ("postgresql.jar", "mariadb-java-client.jar"))
_DRIVER_CLASSES = {"postgresql": "org.postgresql.Driver", "mariadb": "org.mariadb.jdbc.Driver"}
TABLES = {
    "message": "messages",
    "bindings": "bindings",
    "large-message": "large_messages",
    "page-store": "pages",
    "node-manager-store": "node_manager",
}
"""What each table is for, and its name."""
_HIGH_AVAILABILITY = "<ha-policy><shared-store><{role}/></shared-store></ha-policy>"


class ArtemisMissing(Exception):
    """Artemis, a JDBC driver or the JDK is not installed."""


class ArtemisError(Exception):
    """Artemis did not start; the text is the end of its log."""


def classpath() -> str:
    """Return Artemis' jars and the JDBC drivers as a Java class path.

    :raises ArtemisMissing: one of them is not there
    """
    absent = [str(path) for path in (LIBRARIES, *DRIVERS) if not path.exists()]
    absent += [program for program in ("java", "javac") if shutil.which(program) is None]
    if absent:
        raise ArtemisMissing(f"no {', '.join(absent)}; {why_missing(LIBRARIES)}")
    return ":".join([f"{LIBRARIES}/*", *map(str, DRIVERS)])


@cache
def _classes(jars: str) -> Path:
    source = HOME / "Artemis.java"
    return compiled({source.name: source.read_text()}, jars)


class Artemis:
    """A broker on a database, or on its own files if ``jdbc_url`` is empty; a context manager that stops it.

    ``role`` is ``primary`` or ``backup`` of a pair that shares the database. A backup serves when the primary
    has ended: call :meth:`await_ready` then. ``jvm_options`` are as for ActiveMQ's peer. With a
    ``configuration`` it has that broker.xml instead, and with a ``domain`` its users, from login.config.
    """

    def __init__(
        self,
        jdbc_url: str = "",
        user: str = "",
        password: str = "",
        *,
        role: str = "",
        configuration: Path | None = None,
        domain: str = "",
        jvm_options: Iterable[str] = QUICK_START,
    ) -> None:
        jars = classpath()
        self._directory = tempfile.TemporaryDirectory(prefix="jdbcstore-artemis-")
        folder = Path(self._directory.name)
        login: tuple[str, ...] = ()
        if domain and configuration is not None:
            path = configuration.with_name("login.config")
            login = (f"-Dlogin.domain={domain}", f"-Djava.security.auth.login.config={path}")
        if configuration is None:
            configuration = folder / "broker.xml"
            configuration.write_text(
                Template((HOME / "broker.xml").read_text()).substitute(
                    directory=folder,
                    store=_store(jdbc_url, user, password) if jdbc_url else "",
                    high_availability=_HIGH_AVAILABILITY.format(role=role) if role else "",
                )
            )
        self._log = folder / "log"
        tiers.starts("java")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *("java", NO_TRACES, *jvm_options, *login, f"-Djava.io.tmpdir={folder}"),
                    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                    *("-cp", f"{_classes(jars)}:{jars}", "Artemis", str(configuration)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                text=True,
            )
        self.version = ""
        self.stomp_port = self.openwire_port = self.amqp_port = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def openwire_url(self) -> str:
        return f"tcp://127.0.0.1:{self.openwire_port}"

    def await_ready(self) -> Self:
        """Wait until the broker serves, and learn its version and ports.

        :raises ArtemisError: it ended instead
        """
        line = self._line()
        if line == "waiting\n":
            line = self._line()
        facts = dict(fact.split("=") for fact in line.split()[1:])
        self.version = facts["version"]
        self.stomp_port, self.openwire_port = int(facts["stomp"]), int(facts["openwire"])
        self.amqp_port = int(facts["amqp"])
        return self

    def await_waiting(self) -> None:
        """Wait until a backup waits for the end of its primary.

        :raises ArtemisError: it ended instead
        """
        assert self._line() == "waiting\n"

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(("ready ", "waiting")):
            raise ArtemisError(self.log_end())
        return line

    def close(self) -> None:
        """Stop the broker, and remove what it wrote outside of its database."""
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
        finally:
            self._directory.cleanup()

    def kill(self) -> None:
        """End the JVM with SIGKILL."""
        self._process.kill()
        self._process.communicate()

    def log_end(self) -> str:
        """Return the end of what the JVM and Artemis logged."""
        return self._log.read_text(errors="replace")[-4000:]


def _store(jdbc_url: str, user: str, password: str) -> str:
    driver = _DRIVER_CLASSES.get(jdbc_url.split(":")[1])
    if driver is None:
        raise ArtemisMissing(f"Artemis has no driver here for {jdbc_url}")
    values = {
        "jdbc-driver-class-name": driver,
        "jdbc-connection-url": jdbc_url,
        "jdbc-user": user,
        "jdbc-password": password,
        **{f"{what}-table-name": name for what, name in TABLES.items()},
    }
    settings = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in values.items() if value)
    return f"<store><database-store>{settings}</database-store></store>"
