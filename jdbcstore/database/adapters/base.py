"""What an adapter is: the facts of one vendor that SQLAlchemy does not know."""

from __future__ import annotations

import enum
import importlib.util
from collections.abc import Sequence
from typing import Any, ClassVar

from sqlalchemy import URL, BigInteger, Connection, Dialect, LargeBinary, Select, String, func
from sqlalchemy.sql import ColumnElement
from sqlalchemy.types import TypeEngine

from jdbcstore.config.placeholders import Template
from jdbcstore.database.adapters.sql import (
    UNGUARDED,
    Batch,
    Guard,
    Guards,
    Key,
    Row,
    Sql,
    WriteStatements,
    guarded_row,
)
from jdbcstore.database.adapters.urls import from_jdbc
from jdbcstore.errors import ConfigurationError, MissingDriver


class Failure(enum.Enum):
    """What a driver's error means to the store."""

    DISCONNECTED = "the connection is gone, or could not be made"
    REFUSED = "the login was refused"
    TRANSIENT = "a deadlock or serialisation failure: the same work may succeed at once"
    DUPLICATE = "a unique key exists"
    BAD_VALUE = "this row cannot be stored"
    TOO_LARGE = "this row is beyond a size limit"
    FULL = "the database has no room left"
    NO_TABLE = "a table or column is absent"
    OTHER = "anything else"


class Adapter:
    """The vendor-neutral behaviour; each vendor's page overrides what differs.

    Connections are in autocommit mode, so that work of one statement costs one round trip;
    everything longer is framed by :meth:`begin` and :meth:`commit`.
    """

    name: ClassVar[str]
    drivers: ClassVar[dict[str, tuple[str, str]]]
    """SQLAlchemy driver name -> Python module, extra that installs it; the first is the default."""
    jdbc_subprotocols: ClassVar[tuple[str, ...]]
    fold_upper: ClassVar[bool] = True
    """Whether ACTIVEMQ_MSGS unquoted stays upper-case on this vendor."""
    acks_key_has_priority: ClassVar[bool] = True
    """Whether a fresh ActiveMQ leaves PRIORITY in the primary key of ACTIVEMQ_ACKS."""
    acks_key_is_named: ClassVar[bool] = False
    drop_acks_key: ClassVar[str] = "DROP PRIMARY KEY"
    """What follows ALTER TABLE to drop a primary key; ``{name}`` is its quoted name."""
    alters_by_copy: ClassVar[bool] = False
    """Whether a table takes new columns only: for any other change it is copied."""
    joins_alterations: ClassVar[bool] = False
    """Whether one ALTER TABLE may say several things, separated by commas."""
    transactional_ddl: ClassVar[bool] = False
    """Whether a transaction holds changes of the schema too."""
    lock_migrations: ClassVar[str] = ""
    """A statement that waits until no other migration runs here; until the transaction or session ends."""
    can_forbid_null: ClassVar[bool] = False
    """Whether a column that is indexed can be altered so that it takes no NULL."""
    statement_end: ClassVar[str] = ";"
    """What ends a statement in a script for the vendor's own client."""
    has_users: ClassVar[bool] = True
    owner_grants: ClassVar[tuple[str, ...]] = ()
    """What ``{owner}`` needs to create and migrate tables."""
    make_transactional: ClassVar[str] = ""
    """What follows ALTER TABLE, so that a table that has no transactions gets them."""
    small_binary_types: ClassVar[frozenset[str]] = frozenset()
    """Types that an ActiveMQ which mistook the vendor gave MSG, too small for what messages are."""
    quotes_names: ClassVar[bool] = True
    """Whether names are quoted; not where that would change what they mean."""
    begin_statement: ClassVar[str] = "BEGIN"
    guards_insert: ClassVar[bool] = False
    """Whether an INSERT of what a SELECT finds keeps that locked, as the SELECT alone does."""
    now_ms: ClassVar[str]
    """An expression for the database's clock in epoch milliseconds; empty where it has none."""
    sequence_type: ClassVar[TypeEngine[Any]] = BigInteger()
    long_type: ClassVar[TypeEngine[Any]] = BigInteger()
    binary_type: ClassVar[TypeEngine[Any]] = LargeBinary()
    container_name_type: ClassVar[TypeEngine[Any]] = String(250)
    msg_id_type: ClassVar[TypeEngine[Any]] = String(250)
    string_id_type: ClassVar[TypeEngine[Any]] = String(250)
    own_name_type: ClassVar[TypeEngine[Any] | None] = None
    """Of names in the tables that ActiveMQ has none of, where the others compare without regard to case."""
    table_options: ClassVar[dict[str, Any]] = {}
    key_options: ClassVar[dict[str, Any]] = {}
    """Of a primary key of several names."""
    limit_clause: ClassVar[str] = ""
    """What goes before a number behind a query, so that it finds no more rows."""
    index_hint: ClassVar[str] = ""
    """What follows a table's name so that a query takes ``{index}``, where the planner would not."""

    touches_to_lock: ClassVar[bool] = False
    """Whether a row is locked by an UPDATE that changes nothing, because no SELECT here does it for good."""
    locks_rows: ClassVar[bool] = True
    """Whether one row can be locked while others are written."""

    def lock_directory(self, url: URL) -> str | None:  # noqa: ARG002
        """Where the lock of a database is that is a file of this machine; None for a server's."""
        return None

    def is_local(self, url: URL) -> bool:
        """Whether the database is a file of this machine, which no broker on another one reaches."""
        return self.lock_directory(url) is not None

    @classmethod
    def url_from_jdbc(cls, text: str) -> URL:
        """What to connect to, for a JDBC URL of this vendor.

        :raises ConfigurationError: the text is no JDBC URL
        """
        return from_jdbc(text, next(iter(cls.drivers)))

    @classmethod
    def with_driver(cls, url: URL) -> URL:
        """The URL with the vendor's usual driver, where it names none.

        :raises ConfigurationError: it names one that this adapter cannot use
        """
        dialect, _, driver = url.drivername.partition("+")
        if dialect != cls.name:
            return url  # a dialect that is like this vendor's, chosen together with the adapter
        drivername = url.drivername if driver else next(iter(cls.drivers))
        if drivername not in cls.drivers:
            raise ConfigurationError(
                f"the driver {driver!r} is not supported; use {' or '.join(cls.drivers)} in the URL"
            )
        return url.set(drivername=drivername)

    def check_driver(self, url: URL) -> None:
        """Whether the driver is there.

        :raises MissingDriver: it is not installed
        """
        module, extra = self.drivers.get(url.drivername, ("", ""))
        if module and importlib.util.find_spec(module) is None:
            raise MissingDriver(module, extra)

    @classmethod
    def offline_dialect(cls) -> Dialect:
        """The vendor's SQLAlchemy dialect as of a current server, made without driver or server."""
        return URL.create(next(iter(cls.drivers))).get_dialect()()

    def normalise(self, url: URL) -> URL:
        """The URL as SQLAlchemy and the driver need it."""
        return url

    def check_exists(self, url: URL) -> None:
        """Refuse a database that connecting would create; asked before one is only read.

        :raises SchemaError: there is none
        """

    def engine_options(self, url: URL) -> dict[str, Any]:
        """Keyword arguments of ``create_engine`` beyond the common ones."""
        raise NotImplementedError

    def on_connect(self, connection: Any) -> None:
        """Prepare a fresh DBAPI connection."""

    def cursor(self, connection: Any) -> Any:
        """A cursor that hands over binary columns as bytes without detours."""
        return connection.cursor()

    def exact(self, column: ColumnElement[str]) -> ColumnElement[str]:
        """The column such that two texts are equal only if every character is."""
        return column

    def size(self, column: ColumnElement[bytes]) -> ColumnElement[int]:
        """The length of a binary column in bytes."""
        return func.length(column)

    def check_statement(self, cursor: Any, template: Template, *, reads: bool) -> int | None:  # noqa: ARG002
        """Let the database prepare a statement, and run nothing; how many columns it would return.

        A driver's error says why it cannot be run. Here nothing is asked, and None is nothing known.
        """
        return None

    def max_message_size(self, cursor: Any) -> int:
        """The largest MSG this server takes, in bytes; asked once, when the store opens."""
        raise NotImplementedError

    def sent_size(self, blob: bytes) -> int:
        """The bytes that MSG takes on its way, to be held against :meth:`max_message_size`."""
        return len(blob)

    def without_transactions(
        self,
        connection: Connection,  # noqa: ARG002
        tables: Sequence[str],  # noqa: ARG002
    ) -> dict[str, str]:
        """Those of the tables that the server keeps without transactions, and by which engine."""
        return {}

    def refresh_statistics(self, cursor: Any, table: str, *, changed: bool) -> None:
        """Let the planner know a table that has changed much, or may have.

        Nothing where the vendor notices by itself.
        """

    def classify(self, error: BaseException) -> Failure:
        """What a driver's error means."""
        raise NotImplementedError

    def locked(self, query: Select[Any]) -> Select[Any]:
        """The query such that the row it finds is locked until the transaction ends."""
        return query if self.touches_to_lock else query.with_for_update()

    def shared(self, query: Select[Any]) -> Select[Any]:
        """The query such that nobody changes the rows it finds until the transaction ends."""
        return self.locked(query)

    def limit_lock_wait(self, cursor: Any, seconds: float) -> None:
        """Let a wait for a row's lock end after so long, as a :attr:`Failure.TRANSIENT` error.

        Nothing where the server has a limit of its own, or none at all.
        """

    def limit_silence(self, cursor: Any, seconds: float) -> None:
        """Let the server end this connection when a transaction is open, and it is silent for so long.

        What it has locked is free then. Nothing where the server cannot be told.
        """

    def limit_query(self, connection: Any, seconds: float) -> None:
        """Let a statement end after so long, as a :attr:`Failure.TRANSIENT` error.

        Nothing where it cannot.
        """

    def network_arguments(self, url: URL, seconds: float) -> dict[str, Any]:  # noqa: ARG002
        """Arguments of the driver's ``connect`` with which what is not answered for so long is given up.

        As :attr:`Failure.DISCONNECTED`. What the URL says itself is not among them.
        """
        return {}

    def limit_answers(self, connection: Any, seconds: float) -> None:
        """The same for a connection that is there, where the driver cannot be told before.

        Nothing where it cannot be told at all.
        """

    def session_of(self, cursor: Any) -> Row | None:  # noqa: ARG002
        """What tells this connection from every other one that the server has, ever had or will have.

        None where another connection can neither see it nor end it.
        """
        return None

    def has_session(self, cursor: Any, session: Row) -> bool:  # noqa: ARG002
        """Whether the server still has a connection, which may be running what it was sent."""
        return False

    def end_session(self, cursor: Any, session: Row) -> None:
        """Ask the server to end a connection; it may take a while, or be refused by a driver's error."""

    def wait_replicated(self, cursor: Any) -> None:
        """Return when what other connections have committed is as safe as what this one commits.

        Nothing where what is seen is safe.
        """

    def abort(self, connection: Any) -> None:
        """End what another thread may be waiting for on a connection, which then gets an error.

        The connection is that thread's to close: under a statement that runs, some drivers crash.
        Nothing where the driver has no such call.
        """
        cancel = getattr(connection, "cancel", None)
        if cancel is not None:
            cancel()

    def check(self, cursor: Any, guard: Guard) -> None:
        """Make sure that the guard holds until the transaction ends.

        :raises StoreError: it does not
        """
        cursor.execute(guard.sql.text, guard.values)
        held = cursor.rowcount == 1 if guard.touches else bool(cursor.fetchall())
        if not held:
            raise guard.refusal()

    def write(
        self, cursor: Any, statements: WriteStatements, batch: Batch, guards: Guards = UNGUARDED
    ) -> None:
        """Apply a batch and commit it: all of it or nothing.

        :raises StoreError: a guard does not hold; a transaction may be open
        """
        if not any(guards) and self._is_one_statement(batch):
            self._apply(cursor, statements, batch)
            return
        if self.guards_insert and self._is_one_guarded_row(batch, guards):
            [row], [guard] = batch.adds, guards.first
            cursor.execute(guarded_row(statements.add_message.text, guard.sql.text), (*row, *guard.values))
            if cursor.rowcount != 1:
                raise guard.refusal()
            return
        self.begin(cursor)
        for guard in guards.first:
            self.check(cursor, guard)
        self._apply(cursor, statements, batch)
        for guard in guards.last:
            self.check(cursor, guard)
        self.commit(cursor)

    def begin(self, cursor: Any) -> None:
        """Start a transaction on the cursor's connection."""
        cursor.execute(self.begin_statement)

    def commit(self, cursor: Any) -> None:
        cursor.execute("COMMIT")

    def rollback(self, cursor: Any) -> None:
        """Leave whatever transaction is open; nothing where none is."""
        cursor.execute("ROLLBACK")

    @staticmethod
    def _is_one_guarded_row(batch: Batch, guards: Guards) -> bool:
        if len(batch.adds) != 1 or batch.updates or batch.removes or any(rows for _, rows in batch.others):
            return False
        return len(guards.first) == 1 and not guards.last

    def _is_one_statement(self, batch: Batch) -> bool:
        """Whether :meth:`_apply` runs at most one statement, which then commits itself."""
        rows = len(batch.adds) + len(batch.updates) + len(batch.removes)
        return rows + sum(len(rows) for _, rows in batch.others) <= 1

    def _apply(self, cursor: Any, statements: WriteStatements, batch: Batch) -> None:
        if batch.adds:
            self.insert_messages(cursor, statements.add_message, batch.adds)
        if batch.updates:
            self.execute_many(cursor, statements.update_message, batch.updates)
        if batch.removes:
            self.delete_messages(cursor, statements.remove_message, batch.removes)
        for sql, rows in batch.others:
            self.execute_many(cursor, sql, rows)

    def insert_messages(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        """The vendor's fastest way to insert many rows."""
        self.execute_many(cursor, sql, rows)

    def delete_messages(self, cursor: Any, sql: Sql, keys: Sequence[Key]) -> None:
        """The vendor's fastest way to delete many rows by their keys."""
        self.execute_many(cursor, sql, [sql.row(container=container, id_=id_) for container, id_ in keys])

    def check_done(self, cursor: Any, text: str, row: Sequence[Any]) -> None:
        """Make sure that a statement that has just been run, and said so, was.

        :raises StoreUnavailable: it was not
        """

    def execute_many(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        """One statement for each row."""
        if len(rows) == 1:
            cursor.execute(sql.text, rows[0])
        else:
            cursor.executemany(sql.text, rows)
