"""Where statements run: a pool for reading, connections of one's own for writing.

The only place that talks to a driver, and the only translator of its errors.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterator
from typing import Any

from sqlalchemy import URL, Engine, NullPool, PoolProxiedConnection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from jdbcstore.adapters import adapter_for
from jdbcstore.adapters.base import Adapter, Failure, Row, Sql
from jdbcstore.config import StoreConfig
from jdbcstore.connection import Connection
from jdbcstore.errors import (
    AuthenticationFailed,
    ConfigurationError,
    InvalidMessage,
    SchemaError,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.schema import (
    check_columns,
    create_tables,
    define_tables,
    has_container_index,
    missing_tables,
)
from jdbcstore.statements import Statements

log = logging.getLogger(__name__)

_POOL_TIMEOUT = 60.0
_SECRET = re.compile("pass|pwd|secret|token|odbc_connect", re.IGNORECASE)


class Session:
    """The database behind one store. Reads may come from any thread."""

    def __init__(self, url: str, config: StoreConfig, *, read_only: bool = False) -> None:
        self.adapter, target = adapter_for(url)
        if read_only:
            self.adapter.check_exists(target)
        self.config = config
        pool = {"pool_size": config.pool_size, "max_overflow": 0, "pool_timeout": _POOL_TIMEOUT}
        self.engine = _engine(self.adapter, target, **pool)
        self._unpooled = _engine(self.adapter, target, poolclass=NullPool)
        self.tables = define_tables(self.adapter, config)
        self.place = _without_secrets(target)
        self.driver_errors: tuple[type[Exception], ...] = (self.engine.dialect.loaded_dbapi.Error,)
        self.read_only = read_only
        self._lock = threading.Lock()
        self._readers = 0
        self._closed = False
        try:
            with self.translated():
                self.has_own_tables = self._prepare_tables()
                hinted = bool(self.adapter.index_hint) and has_container_index(self.engine, self.tables)
            self.statements = Statements(
                self.tables, self.adapter, self.engine.dialect, ours=self.has_own_tables, hinted=hinted
            )
            with contextlib.closing(self.connect()) as connection:
                with self.translated():
                    self.max_message_size = self.adapter.max_message_size(connection.cursor)
                self._refresh_statistics(connection, changed=False)
        except BaseException:
            self.engine.dispose()
            raise

    def _prepare_tables(self) -> bool:
        """Make or check the tables; whether the ones of our own are there."""
        check_columns(self.engine, self.tables)
        if self.config.create_tables_on_startup and not self.read_only:
            create_tables(self.engine, self.tables)
            return True
        missing = missing_tables(self.engine, self.tables)
        wanted = [table for table in missing if not self.read_only or table not in self.tables.ours]
        if wanted:
            raise SchemaError(
                f"the tables {', '.join(table.name for table in wanted)} are missing in {self.place};"
                " run jdbcstore init, or open with create_tables_on_startup",
                found="nothing",
                expected=", ".join(table.name for table in wanted),
            )
        return not missing

    def present_tables(self) -> dict[str, bool]:
        """Each table's name, and whether the database has it."""
        with self.translated():
            missing = missing_tables(self.engine, self.tables)
        return {str(table.name): table not in missing for table in self.tables.all}

    def fetch(self, sql: Sql, **values: Any) -> list[Row]:
        """The rows of one statement, read in a transaction of its own.

        :raises StoreUnavailable: the database does not answer
        :raises StoreClosed: the session is closed
        """
        with self._reading():
            return self._fetch_live(sql, sql.row(**values))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        # A connection that comes back to a pool already closed would stay open in it for good, so
        # the last reader closes the pool.
        with self._lock:
            if self._closed:
                raise StoreClosed
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
                last = self._closed and not self._readers
            if last:
                self.engine.dispose()

    def _fetch_live(self, sql: Sql, row: Row) -> list[Row]:
        """Read on the first pooled connection that is alive: all may have died with a server."""
        stale = self.config.pool_size
        while True:
            connection = self._checkout()
            try:
                return self._fetch(connection, sql, row)
            except self.driver_errors as error:
                stale -= 1
                if stale < 0 or self.classify(error) is not Failure.DISCONNECTED:
                    raise self.translate(error) from error

    def _checkout(self) -> PoolProxiedConnection:
        try:
            with self.translated():
                return self.engine.raw_connection()
        except PoolTimeout as error:
            raise StoreUnavailable(
                f"all {self.config.pool_size} connections for reading have been in use for"
                f" {_POOL_TIMEOUT:.0f} seconds; raise pool_size, or read from fewer threads"
            ) from error

    def _fetch(self, connection: PoolProxiedConnection, sql: Sql, row: Row) -> list[Row]:
        try:
            cursor = self.adapter.cursor(connection.dbapi_connection)
            cursor.execute(sql.text, row)
            rows: list[Row] = cursor.fetchall()
            cursor.close()
        except BaseException:
            connection.invalidate()
            raise
        finally:
            connection.close()
        return rows

    def refresh_statistics(self) -> None:
        """Keep pages cheap after the message table has changed much; a failure only makes them slower."""
        try:
            connection = self.connect()
        except StoreError as error:
            log.info("planner statistics were not refreshed: %s", error)
            return
        with contextlib.closing(connection):
            self._refresh_statistics(connection, changed=True)

    def _refresh_statistics(self, connection: Connection, *, changed: bool) -> None:
        try:
            self.adapter.refresh_statistics(connection.cursor, self.tables.messages.name, changed=changed)
        except self.failures as error:
            log.info("planner statistics were not refreshed: %s", error)

    def connect(self) -> Connection:
        """A connection outside the pool, in autocommit mode.

        :raises StoreUnavailable: the database does not answer
        """
        with self.translated():
            proxied = self._unpooled.raw_connection()
            proxied.detach()
            raw = proxied.dbapi_connection
            return Connection(self.adapter, self.statements, self.driver_errors, raw)

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        return (DBAPIError, *self.driver_errors)

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Driver errors inside the block leave it as this library's own."""
        try:
            yield
        except self.failures as error:
            raise self.translate(error) from error

    def classify(self, error: BaseException) -> Failure:
        """What a driver's error means, wrapped by SQLAlchemy or not."""
        if isinstance(error, DBAPIError) and error.orig is not None:
            error = error.orig
        return self.adapter.classify(error)

    def translate(self, error: BaseException) -> StoreError:
        """A driver's error as this library's own."""
        origin = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        reason = " ".join(str(origin).split())
        match self.adapter.classify(origin):
            case Failure.DISCONNECTED:
                return StoreUnavailable(
                    f"cannot reach {self.place}: {reason}; check that the server runs and the URL is right"
                )
            case Failure.REFUSED:
                return AuthenticationFailed(
                    f"{self.place} refused the login; check user, password and rights"
                )
            case Failure.NO_TABLE:
                return SchemaError(
                    f"{reason}; the tables are not ActiveMQ's, or are missing: run jdbcstore init"
                )
            case Failure.FULL:
                return StoreUnavailable(f"{self.place} has no room left: {reason}; make some, then try again")
            case Failure.TRANSIENT:
                return StoreUnavailable(f"other writers are in the way: {reason}; try again")
            case Failure.BAD_VALUE | Failure.TOO_LARGE:
                return InvalidMessage(f"{self.place} cannot hold this: {reason}")
            case _:
                return StoreError(f"{self.place} refused a statement: {reason}")

    def close(self) -> None:
        """Refuse reads, and close the pool once those under way are done.

        Connections handed out by :meth:`connect` are their owners'.
        """
        with self._lock:
            self._closed = True
            idle = not self._readers
        if idle:
            self.engine.dispose()


def _without_secrets(url: URL) -> str:
    """The URL for people: its password is starred out, and so is what else could hold one."""
    secret = {name: "hidden" for name in url.query if _SECRET.search(name)}
    return url.update_query_dict(secret).render_as_string(hide_password=True)


def _engine(adapter: Adapter, url: URL, **pool: Any) -> Engine:
    try:
        engine = create_engine(url, pool_reset_on_return=None, **pool, **adapter.engine_options(url))
    except ImportError as error:
        raise ConfigurationError(
            f"the driver of {url.drivername} is installed and does not load: {error};"
            " install the system library that it names"
        ) from error
    event.listen(engine, "connect", lambda connection, _record: adapter.on_connect(connection))
    return engine
