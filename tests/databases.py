"""The fresh, empty database that a test gets, and what a second process sees in it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, text

_numbers = itertools.count(1)


class Database:
    """An empty database on a server, dropped by :meth:`close`.

    ``address`` is any database of that server whose user may create databases. ``url`` is what a
    store is opened with; it holds the password.
    """

    jdbc_scheme: ClassVar[str]
    create: ClassVar[str] = "CREATE DATABASE {name}"
    drop: ClassVar[tuple[str, ...]] = ("DROP DATABASE {name}",)
    session: ClassVar[str]
    sessions: ClassVar[str]

    def __init__(self, address: URL) -> None:
        self.name = f"jdbcstore_{os.getpid()}_{next(_numbers)}"
        self._address = address
        self._execute(self.create)
        self._use(address.set(database=self.name))

    def _use(self, url: URL) -> None:
        self._url = url
        self.engine: Engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self._own_sessions: set[Any] = set()
        event.listen(self.engine, "engine_connect", self._note_own_session)

    @property
    def url(self) -> str:
        return self._url.render_as_string(hide_password=False)

    def url_with(self, *, password: str | None = None, port: int | None = None) -> str:
        """The URL with another password, or of another port of the same host."""
        url = self._url if password is None else self._url.set(password=password)
        if port is not None and "port" in url.query:
            url = url.update_query_dict({"port": str(port)})
        elif port is not None:
            url = url.set(port=port)
        return url.render_as_string(hide_password=False)

    @property
    def username(self) -> str | None:
        return self._url.username

    @property
    def password(self) -> str | None:
        return None if self._url.password is None else str(self._url.password)

    @property
    def jdbc_url(self) -> str:
        """For a JDBC driver, without user and password."""
        port = self._url.port or self._url.query["port"]
        return f"jdbc:{self.jdbc_scheme}://{self._url.host}:{port}/{self.name}"

    def rows(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, seen by a connection that has just been opened."""
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(sql), parameters)]

    def execute(self, sql: str, **parameters: Any) -> int:
        """Run one statement, committed at once. Returns its row count."""
        with self.engine.connect() as connection:
            return connection.execute(text(sql), parameters).rowcount

    def connections(self) -> int:
        """How many connections are open to this database, those of ``engine`` not counted."""
        open_sessions = {row[0] for row in self.rows(self.sessions, name=self.name)}
        return len(open_sessions - self._own_sessions)

    def close(self) -> None:
        """Drop the database and all in it, cutting what is still connected."""
        for statement in self.drop:
            self._execute(statement)

    def _note_own_session(self, connection: Connection) -> None:
        self._own_sessions.add(connection.exec_driver_sql(self.session).scalar())

    def _execute(self, statement: str) -> None:
        engine = create_engine(self._address, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement.format(name=self.name))


class PostgresqlDatabase(Database):
    jdbc_scheme = "postgresql"
    # WITH (FORCE) is refused while an autovacuum worker is in the database; without, it is sent away.
    drop = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = '{name}' AND backend_type = 'client backend'",
        "DROP DATABASE {name}",
    )
    session = "SELECT pg_backend_pid()"
    sessions = "SELECT pid FROM pg_stat_activity WHERE datname = :name AND backend_type = 'client backend'"


class MysqlDatabase(Database):
    """On MySQL and MariaDB."""

    jdbc_scheme = "mysql"
    create = "CREATE DATABASE {name} CHARACTER SET utf8mb4"
    session = "SELECT CONNECTION_ID()"
    sessions = "SELECT id FROM information_schema.processlist WHERE db = :name"


class MariadbDatabase(MysqlDatabase):
    jdbc_scheme = "mariadb"


class SqliteDatabase(Database):
    """A file in a directory of the test's own; gone with it."""

    def __init__(self, directory: Path) -> None:
        self.name = "store.db"
        self.path = directory / self.name
        self._use(URL.create("sqlite", database=str(self.path)))

    @property
    def jdbc_url(self) -> str:
        return f"jdbc:sqlite:{self.path}"

    def connections(self) -> int:
        """How many descriptors this process holds on the file; 0 where /proc does not tell."""
        held = 0
        for descriptor in Path("/proc/self/fd").glob("*"):
            try:
                held += descriptor.readlink() == self.path
            except OSError:  # closed meanwhile
                continue
        return held

    def close(self) -> None:
        self.engine.dispose()

    def _note_own_session(self, connection: Connection) -> None:
        """Nothing to note: descriptors of ``engine`` are closed when its connections are."""
