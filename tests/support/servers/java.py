"""Private servers of the databases that are written in Java: H2, HSQLDB and Derby."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from tests.support.jdbc import jdbc_engine, jdbc_url
from tests.support.jvm import QUICK
from tests.support.servers.process import Server, ServerMissing

JARS = Path("/usr/share/java")


class JavaServer(Server):
    """A server whose databases are made by connecting to them; ``sa`` may do everything."""

    account = "nobody"
    jars: ClassVar[tuple[str, ...]]
    administrator = "sa"
    administrator_database = "administration"
    stop_signal = signal.SIGTERM

    def _find_programs(self) -> None:
        java = shutil.which("java")
        if java is None:
            raise ServerMissing("Java is not installed")
        for jar in self.jars:
            if not (JARS / jar).exists():
                raise ServerMissing(f"{JARS / jar} is not installed")
        self._java = java

    def _initialise(self, data: Path) -> None:
        self._run("mkdir", str(data))

    def java(self, *arguments: str) -> list[str]:
        jars = ":".join(str(JARS / jar) for jar in self.jars)
        # Up at once, and light: three of these stand beside the other servers.
        return [
            self._java,
            "-Xmx256m",
            *QUICK,
            "-cp",
            jars,
            *arguments,
        ]

    def execute_as_administrator(self, *statements: str) -> None:
        with jdbc_engine(jdbc_url(self.administrator_url)).connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    @property
    def url(self) -> URL:
        return self.administrator_url

    @property
    def administrator_url(self) -> URL:
        return URL.create(
            self.scheme,
            self.administrator,
            self.administrator_password,
            self.host,
            self.port,
            self.administrator_database,
        )

    def _create_user(self) -> None:
        """Nobody but the administrator is needed."""

    def _answers(self) -> bool:
        try:
            self.execute_as_administrator("VALUES 1")
        except DBAPIError:
            return False
        return True


class H2Server(JavaServer):
    name = "h2"
    scheme = jdbc_scheme = "h2"
    jars = ("h2.jar",)

    def _command(self, data: Path) -> Sequence[str]:
        return [
            *self.java("-Dh2.bindAddress=127.0.0.1", "org.h2.tools.Server", "-tcp"),
            *("-tcpPort", str(self.port), "-ifNotExists", "-baseDir", str(data)),
        ]


class HsqldbServer(JavaServer):
    """One database for all tests: each has a user and a schema of its own in it."""

    name = "hsqldb"
    scheme = jdbc_scheme = "hsqldb"
    jars = ("hsqldb.jar",)
    administrator = "SA"
    settings: ClassVar[str] = ";hsqldb.write_delay=false;hsqldb.lob_file_scale=1"
    """A commit is on disk before it is acknowledged, and a small message does not take 32 KB there."""

    def _command(self, data: Path) -> Sequence[str]:
        login = f"user={self.administrator};password={self.administrator_password}"
        database = f"file:{data / 'all'};{login}{self.settings}"
        return [
            *self.java("org.hsqldb.server.Server", "--address", self.host, "--port", str(self.port)),
            *("--database.0", database, "--dbname.0", self.administrator_database),
            *("--silent", "true", "--no_system_exit", "false"),
        ]


class DerbyServer(JavaServer):
    name = "derby"
    scheme = jdbc_scheme = "derby"
    jars = ("derby.jar", "derbynet.jar", "derbyclient.jar")

    def _command(self, data: Path) -> Sequence[str]:
        settings = {
            "derby.system.home": data,
            "derby.connection.requireAuthentication": "true",
            "derby.authentication.provider": "BUILTIN",
            # Its thread would be counted among the connections.
            "derby.storage.indexStats.auto": "false",
            f"derby.user.{self.administrator}": self.administrator_password,
        }
        return [
            *self.java(*(f"-D{name}={value}" for name, value in settings.items())),
            *("org.apache.derby.drda.NetworkServerControl", "start", "-noSecurityManager"),
            *("-h", self.host, "-p", str(self.port)),
        ]
