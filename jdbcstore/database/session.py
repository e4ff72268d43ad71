"""Session: one store's access to its database, with a pool for reading and connections for writing."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

from sqlalchemy import Engine, NullPool, PoolProxiedConnection, Table, inspect

from jdbcstore.config import StoreConfig
from jdbcstore.config.statements import OF_LOCKERS, Property, unused_statements
from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.sql import Row, Sql
from jdbcstore.database.connection import Connection, Recorder
from jdbcstore.database.engine import GENERATION, Database
from jdbcstore.database.schema import (
    CLAIMS_ROW,
    FLOW_ROW,
    Present,
    check_table,
    check_transactions,
    create_claim_tables,
    create_flow_tables,
    create_given_tables,
    create_outbox_tables,
    create_routing_tables,
    create_rows_beside,
    create_table,
    create_tables,
    drop_outbox,
    given_tables,
    inspect_tables,
    refuse_other_case,
    widen_acks_key,
)
from jdbcstore.database.statements.builder import Statement, StatementBuilder
from jdbcstore.database.statements.given import GivenStatements, check_replacements
from jdbcstore.database.statements.store import Statements
from jdbcstore.database.tables import PAGE_INDEXES, message_index
from jdbcstore.errors import ConfigurationError, SchemaError, StoreClosed, StoreError, StoreUnavailable

log = logging.getLogger(__name__)

S = TypeVar("S", bound=StatementBuilder)
T = TypeVar("T")

_READS_END = 10.0
"""Seconds for which a close waits for reads that are under way."""
_POOL_TIMEOUT = 60.0
_TRIES = 4


class DatabaseSession(Database):
    """The database of one store, with its tables checked or created. Any thread may read."""

    def __init__(
        self,
        url: str,
        config: StoreConfig,
        *,
        user: str | None = None,
        password: str | None = None,
        read_only: bool = False,
    ) -> None:
        super().__init__(url, config, user=user, password=password, must_exist=read_only)
        # One more than configured: the main thread has its own.
        pool = {"pool_size": config.pool_size, "max_overflow": 1, "pool_timeout": _POOL_TIMEOUT}
        self.engine = self.connect_with(limited=True, **pool)
        # It shares the dialect, which knows the server. An interrupted caller leaves no connection behind.
        shared = self.engine.pool
        self._unpooled = NullPool(
            shared._creator, reset_on_return=None, _dispatch=shared.dispatch, dialect=self.engine.dialect
        )
        self.read_only = read_only
        self._mains: deque[PoolProxiedConnection] = deque()
        """Idle connections of the main thread, outside the pool. Only this thread receives signals, and one
        during the pool's own steps would leave the pool a connection short, or locked."""
        self._lock = threading.RLock()
        self._readers: dict[object, int] = {}
        """The reads under way, each with its thread."""
        self._drained = threading.Event()
        """Set once no reader is left after :meth:`close`."""
        self._closed = False
        try:
            self.has_own_tables, has_indexes = self._prepare()
            self.hinted = bool(self.adapter.index_hint) and has_indexes
            """Whether statements have the vendor's hint for the indexes of a page."""
            self.given = GivenStatements(self.adapter, self.engine.dialect, config.statements)
            """The user's own statements."""
            self._families: dict[type[StatementBuilder], StatementBuilder] = {}
            self.statements = self.of(Statements)
            for name, reason in unused_statements(config.statements):
                log.info("the statement %s is configured but not used: %s", name, reason)
            # On the connection that the pool has by now: on some servers opening one is expensive.
            with self.translated(), self.engine.connect() as pooled:
                connection = self._wrap(pooled.connection.dbapi_connection)
                connection.catch_up()
                self._check_statements(connection)
                self.max_message_size = self.adapter.max_message_size(connection.cursor)
                self._refresh_statistics(connection, self.tables.messages, changed=False)
            if _is_main():
                with self.translated():
                    self._mains.append(self.engine.raw_connection())
        except BaseException:
            self.engine.dispose()
            raise
        self._file = self.adapter.file_identity(self._target)

    @property
    def misplaced(self) -> str | None:
        """The reason why writes do not reach the file that has the database's name; None if they do."""
        if self._file is None or self.adapter.file_identity(self._target) == self._file:
            return None
        return (
            f"the file of {self.place} was moved, removed or replaced; is its disk mounted? Put the file back"
        )

    def of(self, kind: type[S]) -> S:
        """Return one family of statements for these tables, made once."""
        if kind not in self._families:
            given = (self.given,) if kind.takes_given else ()
            flags = {"ours": self.has_own_tables, "hinted": self.hinted}
            made = kind.shared(self.tables, self.adapter, self.engine.dialect, *given, **flags)
            self._families[kind] = made
        return cast(S, self._families[kind])

    def _check_statements(self, connection: Connection) -> None:
        # A read-only user may not even be allowed to prepare statements that write.
        self.check_given(
            connection,
            lambda table: table.name not in OF_LOCKERS and (bool(table.columns) or not self.read_only),
        )

    def check_given(self, connection: Connection, wanted: Callable[[Property], bool]) -> None:
        """Have the database check those of the user's statements that are ``wanted``.

        :raises ConfigurationError: it refuses one; driver errors are not translated
        """
        asked = [statement for statement in self.given.replacements() if wanted(statement.property_)]
        check_replacements(asked, self.adapter, connection.cursor, self.driver_errors)

    def _prepare(self) -> tuple[bool, bool]:
        """Prepare the tables; again where a change of tables at another node has ended a query here."""
        for left in reversed(range(_TRIES)):
            try:
                has_own, has_indexes = self._prepare_tables()
                if self.adapter.certifies and has_own and not self.read_only:
                    create_rows_beside(self.engine, self.tables)
            except self.failures as error:
                ended = self.classify(error) in (Failure.DISCONNECTED, Failure.TRANSIENT)
                if not (left and ended and self.adapter.certifies):
                    raise self.translate(error) from error
            else:
                return has_own, has_indexes
        raise AssertionError

    def _prepare_tables(self) -> tuple[bool, bool]:
        """Create or check the tables; whether jdbcstore's own and the indexes of pages exist."""
        present = inspect_tables(self.engine, self.adapter, self.tables.all)
        creates = self.config.create_tables_on_startup and not self.read_only
        if self.tables.messages not in present.columns and self.adapter.fold_upper:
            activemq = (self.tables.messages, self.tables.acks, self.tables.lock)
            refuse_other_case(self.engine, present.missing(activemq))
        if creates:
            present = create_given_tables(
                self.engine, self.adapter, self.tables, present, self.config.statements
            )
        for table, columns in present.columns.items():
            check_table(table, columns)
        if self.adapter.make_transactional and not self.read_only:
            check_transactions(self.engine, present, self.adapter)
        if creates:
            theirs = given_tables(self.tables, self.config.statements)
            create_tables(self.engine, self.adapter, self.tables, present, theirs)
            made = self.tables.messages not in theirs
            return True, made or self._has_page_indexes(present)
        missing = present.missing(self.tables.all)
        wanted = [table for table in missing if not self.read_only or table not in self.tables.ours]
        if wanted:
            raise SchemaError(
                f"the tables {', '.join(table.name for table in wanted)} are missing in {self.place};"
                " run jdbcstore init, or open with create_tables_on_startup",
                found="nothing",
                expected=", ".join(table.name for table in wanted),
            )
        return not missing, self._has_page_indexes(present)

    def _has_page_indexes(self, present: Present) -> bool:
        return all(present.has_index(message_index(self.tables, column)) for column in PAGE_INDEXES)

    @cached_property
    def has_history(self) -> bool:
        """Whether the table of removed messages exists."""
        return self.on_engine(lambda engine: inspect(engine).has_table(str(self.tables.history.name)))

    def prepare_history(self) -> None:
        """Create the table of removed messages, or check it.

        :raises SchemaError: it cannot be created, or is not ours
        """
        table = self.tables.history
        columns = self.on_engine(lambda engine: inspect_tables(engine, self.adapter, [table])).columns
        if table in columns:
            check_table(table, columns[table])
        elif self.config.create_tables_on_startup:
            self.on_engine(lambda engine: create_table(engine, self.adapter, table))
        else:
            raise SchemaError(
                f"history_retention is set, and the table {table.name} is missing in {self.place}; create it"
                " with the vendor's history.sql, or open with create_tables_on_startup",
                found="nothing",
                expected=str(table.name),
            )

    def prepare_claims(self) -> None:
        """Create what processes that claim messages share, or check that it is there.

        :raises SchemaError: it cannot be created, or is missing and must not be created
        """
        if self.has_claims:
            return
        self.check_creates(self.tables.claims, "claims.sql")
        self.on_engine(lambda engine: create_claim_tables(engine, self.adapter, self.tables))

    def prepare_flow(self) -> None:
        """Create the tables of the limits of queues and keys, unless they are there.

        :raises SchemaError: it cannot be created, or is missing and must not be created
        """
        if self.fetch(self.statements.find_number, name_=FLOW_ROW):
            return
        self.check_creates(self.tables.flow, "flow.sql")
        self.on_engine(lambda engine: create_flow_tables(engine, self.adapter, self.tables))

    def prepare_routing(self) -> None:
        """Create the tables of queues, exchanges and bindings, or check them.

        :raises SchemaError: one cannot be created, or is missing and must not be created
        """
        missing = self._missing_of(self.tables.routing, "routing.sql")
        self.on_engine(lambda engine: create_routing_tables(engine, self.adapter, self.tables, missing))

    def prepare_outbox(self) -> None:
        """Create the tables of the outbox, or check them.

        :raises ConfigurationError: an outbox is not supported on this database
        :raises SchemaError: one cannot be created, or is missing and must not be created
        """
        if not self.adapter.shares_queues:
            raise ConfigurationError(
                f"an outbox is not supported on {self.adapter.name}: leave out the option outbox, or use"
                " PostgreSQL, MySQL, MariaDB or SQLite",
                option="outbox",
            )
        missing = self._missing_of(self.tables.of_outbox, "outbox.sql and inbox.sql")
        self.on_engine(lambda engine: create_outbox_tables(engine, self.adapter, self.tables, missing))

    @property
    def has_outbox(self) -> bool:
        """Whether the table of the outbox exists."""
        return self.on_engine(lambda engine: inspect(engine).has_table(str(self.tables.outbox.name)))

    def drop_outbox(self) -> None:
        """Drop the table of the outbox, with its messages.

        :raises StoreUnavailable: the database does not answer
        """
        self.on_engine(lambda engine: drop_outbox(engine, self.adapter, self.tables))

    def _missing_of(self, tables: Sequence[Table], scripts: str) -> list[Table]:
        """Check the tables that exist; return the others, which may be created.

        :raises SchemaError: one is another, or is missing and must not be created
        """
        present = self.on_engine(lambda engine: inspect_tables(engine, self.adapter, tables))
        for table, columns in present.columns.items():
            check_table(table, columns)
        missing = present.missing(tables)
        if missing and not self.config.create_tables_on_startup:
            names = ", ".join(str(table.name) for table in missing)
            raise SchemaError(
                f"the tables {names} are missing in {self.place}; create them with the vendor's {scripts},"
                " or open with create_tables_on_startup",
                found="nothing",
                expected=names,
            )
        return missing

    @property
    def has_claims(self) -> bool:
        """Whether messages have been claimed here: then other processes may share the tables."""
        return self.has_own_tables and bool(self.fetch(self.statements.find_number, name_=CLAIMS_ROW))

    def present_tables(self) -> dict[str, bool]:
        """By table name, whether the database has the table."""
        known = self.tables.known
        missing = self.on_engine(lambda engine: inspect_tables(engine, self.adapter, known)).missing(known)
        return {str(table.name): table not in missing for table in known}

    def on_engine(self, run: Callable[[Engine], T]) -> T:
        """Call ``run`` with the engine; again if a pooled connection was lost in the meantime.

        :raises StoreUnavailable: the database does not answer
        """
        with self._reading():
            return self._on_live_connection(2, float("inf"), run, self.engine)

    def widen_acks_key(self) -> None:
        """Change the key of ACTIVEMQ_ACKS so that a subscription has a row for each priority."""
        given = self.config.statements.get("dropAckPKAlterStatementEnd")
        drop = None if given is None else str(given)
        self.on_engine(lambda engine: widen_acks_key(engine, self.tables, self.adapter, drop))

    def fetch(self, sql: Statement, **values: Any) -> list[Row]:
        """Return the rows of a statement, read in a transaction of its own.

        :raises StoreUnavailable: the database does not answer
        :raises StoreClosed: the session is closed
        """
        if not isinstance(sql, Sql):
            return sql(self.fetch, **values)
        with self._reading():
            rows = self._read(sql, values)
            if not (self.adapter.cuts_pages and sql.is_by_id and "after" in values):
                return rows
            # A page that is not full may have been cut: what follows it is asked for, until that is nothing.
            while len(rows) < values["limit"]:
                after = rows[-1][0] if rows else values["after"]
                more = self._read(sql, {**values, "after": after, "limit": values["limit"] - len(rows)})
                if not more:
                    break
                rows += more
            return rows

    def _read(self, sql: Sql, values: Mapping[str, Any]) -> list[Row]:
        limit = values["limit"] if sql.cut else None
        # Each further connection may hang as long as the first.
        deadline = time.monotonic() + (self.config.network_timeout or float("inf"))
        tries = self.config.pool_size + 1
        return self._on_live_connection(tries, deadline, self._fetch, sql, sql.row(**values), limit)

    @property
    def is_reading(self) -> bool:
        """Whether this thread is in the middle of a read, or of closing; writers may wait for its locks."""
        return threading.get_ident() in [*self._readers.values()] or is_owned(self._lock)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        # A connection returned to a closed pool would stay open for good, so the last reader closes it.
        reader = object()
        try:
            with self._lock:
                if self._closed:
                    raise StoreClosed
                self._readers[reader] = threading.get_ident()
            yield
        finally:
            with self._lock:
                self._readers.pop(reader, None)
                last = self._closed and not self._readers
            if last:
                self.drop_idle()
                self._drained.set()

    def _on_live_connection(
        self, tries: int, deadline: float, attempt: Callable[..., T], *arguments: Any
    ) -> T:
        """Attempt again after a lost connection: a restart of the server ends all pooled ones.

        :raises StoreUnavailable: the database does not answer
        """
        for left in reversed(range(tries)):
            try:
                return attempt(*arguments)
            except self.failures as error:
                lost = self.classify(error) in (Failure.DISCONNECTED, Failure.READ_ONLY)
                if not left or not lost or time.monotonic() >= deadline:
                    raise self.translate(error) from error
        raise AssertionError

    def _checkout(self) -> PoolProxiedConnection:
        with self.translated(unknown=StoreUnavailable):
            if _is_main():
                while self._mains:
                    connection = self._mains.pop()
                    if connection.info.get(GENERATION) == self.generation:
                        return connection
                    connection.close()
                return self._unpooled.connect()
            return self.engine.raw_connection()

    def _fetch(self, sql: Sql, row: Row, limit: int | None) -> list[Row]:
        connection, cursor = self._checkout(), None
        try:
            cursor = self.adapter.cursor(connection.dbapi_connection)
            cursor.execute(sql.text, row)
            rows: list[Row] = [*(cursor.fetchall() if limit is None else cursor.fetchmany(limit))]
            cursor.close()
        except BaseException:
            # SQLite's file stays open as long as there is the cursor, which the error's traceback would keep.
            cursor = None
            connection.invalidate()
            connection.close()
            raise
        if _is_main():
            self._mains.append(connection)
        else:
            connection.close()
        return rows

    def refresh_statistics(self, table: Table | None = None) -> None:
        """Update planner statistics of a table, by default that of messages, after many changes.

        A failure only makes pages slower.
        """
        if not self.adapter.refreshes_statistics:
            return
        try:
            with contextlib.closing(self.connect()) as connection:
                chosen = self.tables.messages if table is None else table
                self._refresh_statistics(connection, chosen, changed=True)
        except StoreError as error:
            log.info("planner statistics were not refreshed: %s", error)

    def _refresh_statistics(self, connection: Connection, table: Table, *, changed: bool) -> None:
        try:
            self.adapter.refresh_statistics(connection.cursor, table.name, changed=changed)
        except self.failures as error:
            log.info("planner statistics were not refreshed: %s", error)

    def connect(self, recorder: Recorder | None = None) -> Connection:
        """Return a connection outside the pool, in autocommit mode.

        :param recorder: records the messages that this connection removes
        :raises StoreUnavailable: the database does not answer
        """
        with self.translated(unknown=StoreUnavailable):
            proxied = self._unpooled.connect()
            generation = proxied.info[GENERATION]
            proxied.detach()
            return self._wrap(proxied.dbapi_connection, recorder, generation)

    def _wrap(self, raw: Any, recorder: Recorder | None = None, generation: int = 0) -> Connection:
        return Connection(self.adapter, self.statements, self.driver_errors, raw, recorder, generation)

    def close(self, timeout: float | None = None) -> None:
        """Refuse further reads, and close the pool after the running ones, for which it waits a while.

        Connections from :meth:`connect` are closed by their owners.
        """
        waits = not self.is_reading
        with self._lock:
            self._closed = True
            idle = not self._readers
        if idle:
            self.drop_idle()
        elif waits:
            self._drained.wait(_READS_END if timeout is None else min(timeout, _READS_END))

    def drop_idle(self) -> None:
        """Close unused connections; new ones are opened when needed."""
        while self._mains:
            self._mains.pop().close()
        self.engine.dispose()


def is_owned(lock: threading.RLock) -> bool:
    """Return whether this thread holds a lock."""
    return bool(cast("Any", lock)._is_owned())


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
