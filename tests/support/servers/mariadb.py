"""A private MariaDB server."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pymysql

from tests.support.servers.process import Server, ServerMissing


class MariadbServer(Server):
    """MariaDB with its own defaults, but for utf8mb4 as Debian sets it."""

    name = "mariadb"
    account = "mysql"
    scheme = "mariadb+pymysql"
    jdbc_scheme = "mariadb"
    administrator = "root"
    administrator_database = "mysql"
    stop_signal = signal.SIGTERM

    def _find_programs(self) -> None:
        self._server = _program("mariadbd", "mysqld")
        self._install = _program("mariadb-install-db", "mysql_install_db")

    def _initialise(self, data: Path) -> None:
        self._run(
            self._install,
            "--no-defaults",
            f"--datadir={data}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )
        # The server runs this at each start, before it takes connections: one statement a line.
        (self.directory / "init.sql").write_text(
            "DROP USER IF EXISTS root@localhost, root@'127.0.0.1', root@'::1';\n"
            f"CREATE OR REPLACE USER root@'%' IDENTIFIED BY '{self.administrator_password}';\n"
            "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"
        )

    def _command(self, data: Path) -> Sequence[str]:
        return [
            self._server,
            "--no-defaults",
            *self._options(data),
            "--character-set-server=utf8mb4",
        ]

    def _options(self, data: Path) -> Sequence[str]:
        """Where it is, and where it listens, and those of the test; MySQL's options have the same names."""
        return [
            f"--datadir={data}",
            f"--bind-address={self.host}",
            f"--port={self.port}",
            f"--socket={self.directory / 'socket'}",
            f"--pid-file={self.directory / 'pid'}",
            f"--init-file={self.directory / 'init.sql'}",
            "--skip-name-resolve",
            "--max-connections=200",
            *os.environ.get(f"JDBCSTORE_TEST_{self.name.upper()}_OPTIONS", "").split(),
        ]

    def _create_user(self) -> None:
        self.execute_as_administrator(
            f"CREATE USER {self.username}@'%' IDENTIFIED BY '{self.password}'",
            f"GRANT ALL ON *.* TO {self.username}@'%'",
            f"CREATE DATABASE {self.username}",
        )

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """The rows of the administrator's statement in the ordinary user's database.

        Without SQLAlchemy, which first asks what a node that its cluster has left refuses to answer.
        """
        connection = pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.administrator,
            password=self.administrator_password,
            database=self.username,
            autocommit=True,
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return [*cursor.fetchall()]


def _program(*names: str) -> str:
    for name in names:
        found = shutil.which(name, path=None) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
        if found:
            return found
    raise ServerMissing(f"no MariaDB server is installed ({names[0]})")
