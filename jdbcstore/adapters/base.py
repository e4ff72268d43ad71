"""What an adapter is: the facts of one vendor that SQLAlchemy does not know."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import URL, BigInteger, LargeBinary
from sqlalchemy.sql import ColumnElement
from sqlalchemy.types import TypeEngine

Row = tuple[Any, ...]


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


@dataclass(frozen=True, slots=True)
class Sql:
    """A statement's text in the driver's own parameter style, and its parameters in bind order."""

    text: str
    names: tuple[str, ...]
    constants: dict[str, Any] = field(default_factory=dict, compare=False)

    def row(self, **values: Any) -> Row:
        """These values in bind order."""
        if self.constants:
            values = {**self.constants, **values}
        return tuple([values[name] for name in self.names])


class Lanes(NamedTuple):
    """One query for each priority's lane.

    The lowest lane has its own, with a range: SQLite would take an equality for the better index,
    and walk through all that is not prioritised, which has priority 0.
    """

    lowest: Sql
    other: Sql

    def of(self, priority: int) -> Sql:
        return self.other if priority else self.lowest


@dataclass(slots=True)
class Batch:
    """One database transaction's worth of writes, applied in the order of the fields."""

    adds: list[Row]
    """Rows of ACTIVEMQ_MSGS in the column order of :attr:`WriteStatements.add_message`."""
    updates: list[Row]
    removes: list[int]
    others: list[tuple[Sql, list[Row]]]


@dataclass(frozen=True, slots=True)
class WriteStatements:
    """The statements that a batch is made of."""

    add_message: Sql
    update_message: Sql
    remove_message: Sql


class Adapter:
    """The vendor-neutral behaviour; each vendor's page overrides what differs.

    Connections are in autocommit mode throughout, so that work of one statement costs one round
    trip; everything longer is framed by :meth:`begin` and COMMIT.
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
    begin: ClassVar[str] = "BEGIN"
    now_ms: ClassVar[str]
    """An expression for the database's clock in epoch milliseconds."""
    sequence_type: ClassVar[TypeEngine[Any]] = BigInteger()
    long_type: ClassVar[TypeEngine[Any]] = BigInteger()
    binary_type: ClassVar[TypeEngine[Any]] = LargeBinary()
    table_options: ClassVar[dict[str, Any]] = {}
    index_hint: ClassVar[str] = ""
    """What follows a table's name so that a query takes ``{index}``, where the planner would not."""

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

    def max_message_size(self, cursor: Any) -> int:
        """The largest MSG this server takes, in bytes; asked once, when the store opens."""
        raise NotImplementedError

    def sent_size(self, blob: bytes) -> int:
        """The bytes that MSG takes on its way, to be held against :meth:`max_message_size`."""
        return len(blob)

    def refresh_statistics(self, cursor: Any, table: str, *, changed: bool) -> None:
        """Let the planner know a table that has changed much, or may have.

        Nothing where the vendor notices by itself.
        """

    def classify(self, error: BaseException) -> Failure:
        """What a driver's error means."""
        raise NotImplementedError

    def write(self, cursor: Any, statements: WriteStatements, batch: Batch) -> None:
        """Apply a batch and commit it: all of it or nothing."""
        if self._is_one_statement(batch):
            self._apply(cursor, statements, batch)
            return
        cursor.execute(self.begin)
        self._apply(cursor, statements, batch)
        cursor.execute("COMMIT")

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

    def delete_messages(self, cursor: Any, sql: Sql, ids: Sequence[int]) -> None:
        """The vendor's fastest way to delete many rows by ID."""
        self.execute_many(cursor, sql, [(id_,) for id_ in ids])

    def execute_many(self, cursor: Any, sql: Sql, rows: Sequence[Row]) -> None:
        """One statement for each row."""
        if len(rows) == 1:
            cursor.execute(sql.text, rows[0])
        else:
            cursor.executemany(sql.text, rows)
