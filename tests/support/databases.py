"""The fresh, empty database that a test gets, and what a second process sees in it."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from sqlalchemy import URL, Connection, Engine, NullPool, QueuePool, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.testing import RawTables
from jdbcstore.testing.polling import wait_until
from tests.support.jdbc import jdbc_engine, jdbc_url

_CLOSING = 30.0
"""Seconds for which a server may see a connection that was closed."""
_numbers = itertools.count(1)


def _nothing() -> None: ...


@cache
def _server(address: URL) -> Engine:
    """Connects anew each time, but asks for the server's version and settings once."""
    return create_engine(address, poolclass=NullPool, isolation_level="AUTOCOMMIT")


class Database(RawTables):
    """An empty database on a server, dropped by :meth:`close`.

    ``address`` is any database of that server whose user may create databases. ``url`` is what a
    store is opened with; it holds the password. ``pooled`` keeps the connections of ``engine`` for
    further use.
    """

    jdbc_scheme: ClassVar[str]
    create: ClassVar[str] = "CREATE DATABASE {name}"
    drop: ClassVar[tuple[str, ...]] = ("DROP DATABASE {name}",)
    isolation: ClassVar[Any] = "READ COMMITTED"
    pooled = False
    session: ClassVar[str]
    sessions: ClassVar[str]
    ending: ClassVar[str] = ""
    """Ends a session; empty if there are none."""

    def __init__(self, address: URL, *, pooled: bool = False) -> None:
        self.pooled = pooled
        self.name = f"jdbcstore_{os.getpid()}_{next(_numbers)}"
        self._address = address
        self._create()
        self._use(address.set(database=self.name))

    def _use(self, url: URL) -> None:
        self._url = url
        self.engine = self._make_engine()
        self._own_sessions: set[Any] = set()
        self.spell: Callable[[str], str] = str
        self.settle: Callable[[], None] = _nothing
        """Called before anyone looks: what a journal in front has goes to the tables."""
        event.listen(self.engine, "before_cursor_execute", self._spell, retval=True)
        event.listen(self.engine, "engine_connect", self._note_own_session)

    def _make_engine(self) -> Engine:
        pool = QueuePool if self.pooled else NullPool
        return create_engine(self._url, poolclass=pool, isolation_level="AUTOCOMMIT")

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

    def move(self, port: int) -> None:
        """Use the server on another port of the same host, which has the same content."""
        self.engine.dispose()
        self._address = self._address.set(port=port)
        self._use(self._url.set(port=port))

    def rows(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, seen by a connection that is in no transaction."""
        self.settle()
        return super().rows(sql, **parameters)

    def execute(self, sql: str, **parameters: Any) -> int:
        """Run one statement, committed at once. Returns its row count."""
        self.settle()
        return super().execute(sql, **parameters)

    def stay(self) -> None:
        """Let all that are opened from now on use the same node, where there are several."""

    def connections(self) -> int:
        """How many connections are open to this database, those of ``engine`` not counted."""
        open_sessions = {row[0] for row in self.rows(self.sessions, name=self.name)}
        return len(open_sessions - self._own_sessions)

    def close(self) -> None:
        """Drop the database and all in it, cutting what is still connected."""
        self.engine.dispose()
        for statement in self.drop:
            self._execute(statement)

    def _spell(self, _connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> Any:
        """A test's SQL names the tables as they are by default."""
        return self.spell(statement), parameters

    def expect_closed(self) -> None:
        """Wait until no connection is left; one that a driver keeps is ended, and fails this test alone."""
        try:
            wait_until(lambda: self.connections() == 0, _CLOSING, "that close() left no connection")
        except AssertionError as error:
            error.add_note(f"{self.connections()} were left, and are ended for the tests that follow")
            if self.ending:
                self.end_connections()
            raise

    def end_connections(self) -> None:
        """End all connections but those of this object, as an idle timeout of the server does."""
        with self.engine.connect() as connection:
            found = {row[0] for row in connection.execute(text(self.sessions), {"name": self.name})}
            for session in found - self._own_sessions:
                connection.exec_driver_sql(self.ending.format(session=session))

    def _note_own_session(self, connection: Connection) -> None:
        if "noted" not in connection.info:
            self._own_sessions.add(connection.exec_driver_sql(self.session).scalar())
            connection.info["noted"] = True

    def _create(self) -> None:
        self._execute(self.create)

    def _execute(self, statement: str) -> None:
        with _server(self._address).connect() as connection:
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
    ending = "SELECT pg_terminate_backend({session}, 30000)"

    def _create(self) -> None:
        """As files, where the server is new enough: with each block in its log, it takes twice as long."""
        with _server(self._address).connect() as connection:
            version: Any = connection.dialect.server_version_info
            how = " STRATEGY file_copy" if version >= (15,) else ""
            connection.exec_driver_sql(self.create.format(name=self.name) + how)


class MysqlDatabase(Database):
    """On MySQL and MariaDB."""

    jdbc_scheme = "mysql"
    create = "CREATE DATABASE {name} CHARACTER SET utf8mb4"
    session = "SELECT CONNECTION_ID()"
    sessions = "SELECT id FROM information_schema.processlist WHERE db = :name"
    ending = "KILL {session}"


class MariadbDatabase(MysqlDatabase):
    jdbc_scheme = "mariadb"


class MembersDatabase(MysqlDatabase):
    """On several nodes that all take writes: each store is opened at the next one."""

    ports: ClassVar[str]
    """A query for the ports of the members, or for addresses that end with them."""
    causal: ClassVar[str]
    """Lets a session read what any node has committed."""
    committed: ClassVar[str]
    """A query for what a node has committed."""
    applied: ClassVar[str]
    """Waits until another node has applied that."""

    def _use(self, url: URL) -> None:
        super()._use(url)
        event.listen(self.engine, "connect", self._read_causally)
        members = ",".join(str(row[-1]) for row in super().rows(self.ports)).split(",")
        self._urls = itertools.cycle([url.set(port=int(one.rpartition(":")[2])) for one in members])
        self._engines = [create_engine(next(self._urls), poolclass=NullPool) for _ in members]
        # A node refuses connections to a database that it has not made yet.
        self._await_nodes()

    def _read_causally(self, connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self.causal)

    @property
    def url(self) -> str:
        return next(self._urls).render_as_string(hide_password=False)

    def stay(self) -> None:
        self._urls = itertools.cycle([self._url])

    def execute(self, sql: str, **parameters: Any) -> int:
        """Run one statement, and wait until each node shows what it has changed."""
        count = super().execute(sql, **parameters)
        self._await_nodes()
        return count

    def _await_nodes(self) -> None:
        [(committed,)] = self.rows(self.committed)
        for engine in self._engines:
            url = engine.url.set(database="")
            with create_engine(url, poolclass=NullPool).connect() as connection:
                connection.exec_driver_sql(self.applied.format(committed=committed))

    @contextlib.contextmanager
    def blocked(self) -> Iterator[None]:
        """Hold the lock at each node: it keeps out no writer of another one."""
        with contextlib.ExitStack() as ends:
            for engine in self._engines:
                connection = ends.enter_context(
                    engine.execution_options(isolation_level=self.isolation).connect()
                )
                connection.exec_driver_sql("UPDATE JDBCSTORE_STATE SET NUMBER = NUMBER + 0")
            yield

    def connections(self) -> int:
        found = 0
        for engine in self._engines:
            with engine.connect() as connection:
                found += len(connection.execute(text(self.sessions), {"name": self.name}).all()) - 1
        pool = self.engine.pool
        return found - pool.checkedin() if isinstance(pool, QueuePool) else found


class GaleraDatabase(MembersDatabase):
    jdbc_scheme = "mariadb"
    ports = "SHOW STATUS LIKE 'wsrep_incoming_addresses'"
    causal = "SET SESSION wsrep_sync_wait = 15"
    committed = "SELECT 'all'"
    applied = "SET STATEMENT wsrep_sync_wait = 1 FOR SELECT '{committed}'"


class GroupDatabase(MembersDatabase):
    ports = "SELECT MEMBER_PORT FROM performance_schema.replication_group_members"
    causal = "SET SESSION group_replication_consistency = 'BEFORE'"
    committed = "SELECT @@gtid_executed"
    applied = "SELECT WAIT_FOR_EXECUTED_GTID_SET('{committed}', 60)"


class PooledDatabase(PostgresqlDatabase):
    """Behind PgBouncer, whose own sessions outlive those of its clients."""

    def _use(self, url: URL) -> None:
        self._open = 0
        super()._use(url)
        event.listen(self.engine, "connect", lambda *_: self._count(1))
        event.listen(self.engine, "close", lambda *_: self._count(-1))

    def _make_engine(self) -> Engine:
        pool = QueuePool if self.pooled else NullPool
        unprepared = {"prepare_threshold": None}
        return create_engine(self._url, poolclass=pool, isolation_level="AUTOCOMMIT", connect_args=unprepared)

    def _count(self, by: int) -> None:
        self._open += by

    def connections(self) -> int:
        url = self._url.set(drivername="postgresql", database="pgbouncer")
        with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:
            clients = connection.execute("SHOW CLIENTS").fetchall()
        return len([client for client in clients if client[2] == self.name]) - self._open


class MssqlDatabase(Database):
    jdbc_scheme = "sqlserver"
    drop = ("ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE", "DROP DATABASE {name}")
    length = "DATALENGTH"
    renaming = "EXEC sp_rename '{old}', '{new}'"
    session = "SELECT @@SPID"
    sessions = "SELECT session_id FROM sys.dm_exec_sessions WHERE DB_NAME(database_id) = :name"


class OracleDatabase(Database):
    """A user with a schema of his own."""

    jdbc_scheme = "oracle"
    create = 'CREATE USER {name} IDENTIFIED BY "Throw-away-1" QUOTA UNLIMITED ON USERS'
    drop = ("DROP USER {name} CASCADE",)
    session = "SELECT SYS_CONTEXT('USERENV', 'SID') FROM DUAL"
    sessions = "SELECT TO_CHAR(sid) FROM v$session WHERE username = UPPER(:name)"

    def _use(self, url: URL) -> None:
        self._execute("GRANT CREATE SESSION, CREATE TABLE, SELECT_CATALOG_ROLE TO {name}")
        super()._use(url.set(username=self.name, password="Throw-away-1")._replace(database=None))


class SqliteDatabase(Database):
    """A file in a directory of the test's own, gone with it; or in a new one below ``memory``."""

    isolation = "SERIALIZABLE"

    def __init__(self, directory: Path, memory: Path | None = None) -> None:
        self.name = "store.db"
        self._own = Path(tempfile.mkdtemp(prefix="jdbcstore-sqlite-", dir=memory)) if memory else None
        directory = self._own or directory
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
        if self._own:
            shutil.rmtree(self._own)

    def _note_own_session(self, connection: Connection) -> None:
        """Nothing to note: descriptors of ``engine`` are closed when its connections are."""


class JdbcDatabase(Database):
    """Reached through its JDBC driver only. Connecting to one makes it."""

    create = ""
    drop: ClassVar[tuple[str, ...]] = ()

    def _make_engine(self) -> Engine:
        return jdbc_engine(self.url, pooled=self.pooled)

    @property
    def url(self) -> str:
        return jdbc_url(self._url)

    @property
    def jdbc_url(self) -> str:
        return jdbc_url(self._url, login=False)

    def url_with(self, *, password: str | None = None, port: int | None = None) -> str:
        url = self._url.set(password=password) if password else self._url
        return jdbc_url(url.set(port=port) if port else url)

    def _execute(self, statement: str) -> None:
        if statement:
            with jdbc_engine(jdbc_url(self._address)).connect() as connection:
                connection.exec_driver_sql(statement.format(name=self.name))


class H2Database(JdbcDatabase):
    jdbc_scheme = "h2"
    length = "OCTET_LENGTH"
    session = "VALUES SESSION_ID()"
    sessions = "SELECT SESSION_ID FROM INFORMATION_SCHEMA.SESSIONS WHERE :name <> ''"

    def close(self) -> None:
        with contextlib.suppress(DBAPIError):  # it is closed before it has answered
            self.execute("SHUTDOWN")
        self.engine.dispose()


class HsqldbDatabase(JdbcDatabase):
    """A user and a schema in the one database of the server.

    Connections are kept, for each takes its server a tenth of a second.
    """

    length = "OCTET_LENGTH"

    session = "VALUES SESSION_ID()"
    sessions = "SELECT SESSION_ID FROM INFORMATION_SCHEMA.SYSTEM_SESSIONS WHERE USER_NAME = UPPER(:name)"
    drop = ("DROP SCHEMA {name} CASCADE", "DROP USER {name}")

    def _use(self, url: URL) -> None:
        for statement in (
            f"CREATE USER {self.name} PASSWORD '{url.password}'",
            f"CREATE SCHEMA {self.name} AUTHORIZATION {self.name}",
            f"ALTER USER {self.name} SET INITIAL SCHEMA {self.name}",
        ):
            self._execute(statement)
        super()._use(url.set(username=self.name.upper(), database=self._address.database))

    def _make_engine(self) -> Engine:
        return jdbc_engine(self.url, pooled=True)


class DerbyDatabase(JdbcDatabase):
    """Derby counts transactions, of which an idle connection has one."""

    renaming = "RENAME TABLE {old} TO {new}"

    session = "SELECT XID FROM SYSCS_DIAG.TRANSACTION_TABLE WHERE SQL_TEXT LIKE 'SELECT XID%'"
    sessions = "SELECT XID FROM SYSCS_DIAG.TRANSACTION_TABLE WHERE TYPE = 'UserTransaction' AND :name <> ''"

    def _make_engine(self) -> Engine:
        return jdbc_engine(self.url)

    def close(self) -> None:
        with contextlib.suppress(DBAPIError):  # how it says that it has shut down
            url = self.url.replace("create=true", "shutdown=true")
            jdbc_engine(url).connect()
