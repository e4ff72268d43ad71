"""A MariaDB server and its replica, both of which take writes, as two nodes of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import NullPool, create_engine, text

from jdbcstore.testing.polling import wait_until
from tests.support.servers.mariadb import MariadbServer

_PATIENCE = 60.0


class _Logged(MariadbServer):
    """A server with a binary log."""

    number = 1

    def _initialise(self, data: Path) -> None:
        super()._initialise(data)
        # Each has an administrator of its own.
        script = self.directory / "init.sql"
        script.write_text(f"SET sql_log_bin = 0;\n{script.read_text()}")

    def _options(self, data: Path) -> Sequence[str]:
        log = ("--log-bin=binlog", "--binlog-format=ROW", f"--server-id={self.number}", "--log-slave-updates")
        return [*super()._options(data), *log, f"--gtid-domain-id={self.number}"]

    def _create_user(self) -> None:
        # Not one that may write to a read-only server.
        self.execute_as_administrator(
            f"CREATE USER {self.username}@'%' IDENTIFIED BY '{self.password}'",
            f"GRANT ALL ON {self.username}.* TO {self.username}@'%'",
            f"CREATE DATABASE {self.username}",
        )

    def only_read(self, *, only: bool = True) -> None:
        """Refuse writes, or take them again; connections stay open."""
        self.execute_as_administrator(f"SET GLOBAL read_only = {int(only)}")


class _Replica(_Logged):
    """A server with the first one's user and databases."""

    number = 2

    def __init__(self, first: _Logged) -> None:
        self._first = first
        super().__init__()

    def _create_user(self) -> None:
        first = self._first
        self.username, self.password = first.username, first.password
        self.execute_as_administrator(
            f"CHANGE MASTER TO master_host='{first.host}', master_port={first.port}, master_user='root',"
            f" master_password='{first.administrator_password}', master_use_gtid=slave_pos",
            "START SLAVE",
        )


class MariadbPair:
    """The first server, whose database a store is opened with, and the other, which applies its commits."""

    def __init__(self) -> None:
        self.first = _Logged()
        try:
            self.other = _Replica(self.first)
        except BaseException:
            self.first.close()
            raise
        self.url = self.first.url.render_as_string(hide_password=False)

    @property
    def other_port(self) -> int:
        return self.other.port

    def stored(self) -> list[tuple[object, ...]]:
        """The IDs of the messages on the first server."""
        return self.rows(self.first, "SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID")

    def hold_back(self) -> None:
        """Let the other server apply nothing more."""
        self.catch_up()
        self.other.execute_as_administrator("STOP SLAVE SQL_THREAD")

    def catch_up(self) -> None:
        """Wait until the other server has applied all that the first has committed."""
        [(position,)] = self.rows(self.first, "SELECT @@gtid_binlog_pos")
        self.other.execute_as_administrator("START SLAVE SQL_THREAD")
        waiting = f"SELECT MASTER_GTID_WAIT('{position}', 1)"
        wait_until(lambda: self.rows(self.other, waiting) == [(0,)], _PATIENCE, "that the replica catches up")

    @staticmethod
    def rows(server: MariadbServer, sql: str) -> list[tuple[object, ...]]:
        """The rows of a query in the store's database of one server."""
        url = server.administrator_url.set(database=server.username)
        with create_engine(url, poolclass=NullPool).connect() as connection:
            return [tuple(row) for row in connection.execute(text(sql))]

    def close(self) -> None:
        self.other.close()
        self.first.close()
