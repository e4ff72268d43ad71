"""Where statements run: a pool for reading, connections of one's own for writing.

The only place that talks to a driver, and the only translator of its errors.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from jdbcstore.adapters import adapter_for
from jdbcstore.adapters.base import Adapter, Batch, Failure, Row, Sql
from jdbcstore.config import StoreConfig
from jdbcstore.errors import (
    AuthenticationFailed,
    InvalidMessage,
    SchemaError,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.schema import create_tables, define_tables, missing_tables
from jdbcstore.statements import Statements

log = logging.getLogger(__name__)

_SECRET = re.compile("pass|pwd|secret|token|odbc_connect", re.IGNORECASE)


class Session:
    """The database behind one store. Reads may come from any thread."""

    def __init__(self, url: str, config: StoreConfig, *, read_only: bool = False) -> None:
        self.adapter, target = adapter_for(url)
        if read_only:
            self.adapter.check_exists(target)
        self.config = config
        self.engine = _engine(self.adapter, target, config)
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
            self.statements = Statements(
                self.tables, self.adapter, self.engine.dialect, ours=self.has_own_tables
            )
            self.max_message_size = self._max_message_size()
            self.refresh_statistics(changed=False)
        except BaseException:
            self.engine.dispose()
            raise

    def _prepare_tables(self) -> bool:
        """Make or check the tables; whether the ones of our own are there."""
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

    def _max_message_size(self) -> int:
        connection = self.connect()
        try:
            with self.translated():
                return self.adapter.max_message_size(connection.cursor)
        finally:
            connection.close()

    def fetch(self, sql: Sql, **values: Any) -> list[Row]:
        """The rows of one statement, read in a transaction of its own.

        :raises StoreUnavailable: the database did not answer, twice
        :raises StoreClosed: the session is closed
        """
        with self._reading():
            return self._fetch_twice(sql, sql.row(**values))

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

    def _fetch_twice(self, sql: Sql, row: Row) -> list[Row]:
        try:
            return self._fetch(sql, row)
        except self.failures as error:
            # A pooled connection may have died long ago, so the second try takes a new one.
            if self.classify(error) is not Failure.DISCONNECTED:
                raise self.translate(error) from error
        with self.translated():
            return self._fetch(sql, row)

    def _fetch(self, sql: Sql, row: Row) -> list[Row]:
        connection = self.engine.raw_connection()
        try:
            cursor = self.adapter.cursor(connection.dbapi_connection)
            try:
                cursor.execute(sql.text, row)
                rows: list[Row] = cursor.fetchall()
            finally:
                cursor.close()
        except BaseException:
            connection.invalidate()
            raise
        finally:
            connection.close()
        return rows

    def refresh_statistics(self, *, changed: bool) -> None:
        """Keep pages cheap while the message table grows; a failure only makes them slower."""
        try:
            connection = self.connect()
        except StoreError as error:
            log.info("planner statistics were not refreshed: %s", error)
            return
        try:
            table = self.tables.messages.name
            self.adapter.refresh_statistics(connection.cursor, table, changed=changed)
        except self.failures as error:
            log.info("planner statistics were not refreshed: %s", error)
        finally:
            connection.close()

    def connect(self) -> Connection:
        """A connection outside the pool, in autocommit mode.

        :raises StoreUnavailable: the database does not answer
        """
        with self.translated():
            proxied = self.engine.raw_connection()
            proxied.detach()
            return Connection(self, proxied.dbapi_connection)

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


class Connection:
    """One connection in autocommit mode, for one thread. Driver errors pass through untranslated."""

    def __init__(self, session: Session, raw: Any) -> None:
        self._session = session
        self._raw = raw
        self.cursor = session.adapter.cursor(raw)

    def fetch(self, sql: Sql, **values: Any) -> list[Row]:
        self.cursor.execute(sql.text, sql.row(**values))
        rows: list[Row] = self.cursor.fetchall()
        return rows

    def execute(self, sql: Sql, **values: Any) -> None:
        self.cursor.execute(sql.text, sql.row(**values))

    def execute_many(self, sql: Sql, rows: Sequence[Row]) -> None:
        if rows:
            self._session.adapter.execute_many(self.cursor, sql, rows)

    def remove_messages(self, ids: Sequence[int]) -> None:
        """Delete rows of ACTIVEMQ_MSGS in the vendor's fastest way."""
        if ids:
            session = self._session
            session.adapter.delete_messages(self.cursor, session.statements.remove_message, ids)

    def write(self, batch: Batch) -> None:
        """Apply and commit a batch, all of it or nothing."""
        self._session.adapter.write(self.cursor, self._session.statements.write, batch)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits at the end of the block, rolls back when it raises."""
        self.cursor.execute(self._session.adapter.begin)
        try:
            yield
            self.cursor.execute("COMMIT")
        except BaseException:
            self.rollback()
            raise

    def rollback(self) -> None:
        """Leave whatever transaction is open. When this fails, so has the connection."""
        with contextlib.suppress(*self._session.driver_errors):
            self.cursor.execute("ROLLBACK")

    def close(self) -> None:
        with contextlib.suppress(*self._session.driver_errors):
            self._raw.close()


def _without_secrets(url: URL) -> str:
    """The URL for people: its password is starred out, and so is what else could hold one."""
    secret = {name: "hidden" for name in url.query if _SECRET.search(name)}
    return url.update_query_dict(secret).render_as_string(hide_password=True)


def _engine(adapter: Adapter, url: Any, config: StoreConfig) -> Engine:
    engine = create_engine(
        url,
        pool_size=config.pool_size,
        max_overflow=0,
        pool_timeout=60.0,
        pool_reset_on_return=None,
        **adapter.engine_options(url),
    )
    event.listen(engine, "connect", lambda connection, _record: adapter.on_connect(connection))
    return engine
