"""The application's own connection: running statements in the transaction that is open on it.

Nothing is committed or rolled back here, and no setting of the connection is changed.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import Dialect

from jdbcstore.database.adapters.base import Failure, TransactionState
from jdbcstore.database.adapters.sql import Key, Row, RowGuard, Sql
from jdbcstore.database.connection import Recorder, RemovalReason
from jdbcstore.database.engine import Database
from jdbcstore.database.statements.store import Statements
from jdbcstore.errors import ConfigurationError, TransactionError


class _Cursor(Protocol):
    """The part of a driver's cursor that is used."""

    @property
    def description(self) -> Any: ...

    @property
    def rowcount(self) -> int: ...

    def execute(self, text: str, row: Sequence[Any], /) -> Any: ...

    def fetchall(self) -> Sequence[Any]: ...

    def close(self) -> Any: ...


class CallersConnection:
    """A connection of the application's: of SQLAlchemy, of its ORM, of Django, or of the driver.

    Errors of the driver are not translated, or are SQLAlchemy's: they belong to the application.

    :raises ConfigurationError: it is none of these, of another driver, or asynchronous
    """

    def __init__(self, database: Database, dialect: Dialect, connection: Any) -> None:
        self._database = database
        self._adapter = database.adapter
        self._given = connection
        if hasattr(connection, "get_bind") and hasattr(connection, "connection"):  # an ORM session
            self._given = connection = connection.connection()
        self._is_sqlalchemy = hasattr(connection, "exec_driver_sql")
        _check_kind(self._given, dialect, is_sqlalchemy=self._is_sqlalchemy)
        if not self._is_sqlalchemy and not hasattr(connection, "in_atomic_block"):
            _check_driver(connection, dialect)

    def check(self) -> None:
        """Check that statements run in a transaction that the application can commit.

        :raises ConfigurationError: the connection is in autocommit mode, without a transaction
        :raises TransactionError: the transaction has failed, or the connection is closed
        """
        match self._state():
            case TransactionState.AUTOCOMMIT:
                raise ConfigurationError(
                    "the connection commits each statement by itself (autocommit), so that nothing can be"
                    " joined: begin a transaction on it first"
                )
            case TransactionState.FAILED:
                raise TransactionError(
                    "a statement of this transaction has failed, and the database accepts no further one:"
                    " roll it back, and repeat all of it"
                )
            case TransactionState.CLOSED:
                raise TransactionError("the connection is closed: open another, and repeat the transaction")

    def _state(self) -> TransactionState:
        if getattr(self._given, "needs_rollback", False):  # Django's
            return TransactionState.FAILED
        if not self._is_sqlalchemy:
            return self._adapter.transaction_state(self._raw())
        if self._given.closed:
            return TransactionState.CLOSED
        transaction = self._given.get_transaction()
        if transaction is None:
            self._given.begin()  # which the first statement would do
        elif not transaction.is_active:
            return TransactionState.FAILED
        return self._adapter.transaction_state(self._raw())

    def _raw(self) -> Any:
        """Return the driver's connection."""
        if self._is_sqlalchemy:
            return self._given.connection.dbapi_connection
        if hasattr(self._given, "in_atomic_block"):
            self._given.ensure_connection()
            return self._given.connection
        return self._given

    def fetch(self, sql: Sql, **values: Any) -> list[Row]:
        """Return the rows of a statement, if it has any.

        :raises ConfigurationError: a table is missing here
        """
        cursor = self._run(sql, sql.row(**values))
        try:
            return [] if cursor.description is None else [tuple(row) for row in cursor.fetchall()]
        finally:
            cursor.close()

    def execute(self, sql: Sql, **values: Any) -> None:
        """Run a statement that writes.

        :raises ConfigurationError: a table is missing here
        :raises StoreUnavailable: the server reported success, but the statement had no effect
        """
        self.change(sql, **values)

    def change(self, sql: Sql, **values: Any) -> int:
        """Run a statement that writes; the number of rows that it found."""
        return self._change(sql, sql.row(**values))

    def insert_rows(self, sql: Sql, rows: Sequence[Row]) -> None:
        """Insert rows of any table."""
        for row in rows:
            self._change(sql, row)

    def _change(self, sql: Sql, row: Row) -> int:
        cursor = self._run(sql, row)
        try:
            count = cursor.rowcount
            self._adapter.writing.check_done(cursor, sql.text, row)
        finally:
            cursor.close()
        return count

    def _run(self, sql: Sql, row: Row) -> _Cursor:
        cursor = _SqlalchemyCursor(self._given) if self._is_sqlalchemy else self._cursor()
        try:
            cursor.execute(sql.text, row)
        except self._database.failures as error:
            if self._database.classify(error) is Failure.NO_TABLE:
                raise ConfigurationError(
                    f"the transaction on this connection does not find a table of {self._database.place}:"
                    " give a connection to the same database and schema; roll this transaction back"
                ) from error
            raise
        return cursor

    def _cursor(self) -> _Cursor:
        cursor: _Cursor = self._adapter.plain_cursor(self._raw())
        return cursor


class JoinedConnection(CallersConnection):
    """Such a connection, by which messages are removed; ``recorder`` records them."""

    def __init__(
        self,
        database: Database,
        dialect: Dialect,
        connection: Any,
        statements: Statements,
        recorder: Recorder | None,
    ) -> None:
        super().__init__(database, dialect, connection)
        self._remove = statements.remove_message
        self._recorder = recorder

    def lock(self, guard: RowGuard) -> bool:
        """Return whether a guard holds, which then does so until the transaction ends."""
        cursor = self._run(guard.sql, guard.values)
        try:
            return cursor.rowcount == 1 if guard.touches else bool(cursor.fetchall())
        finally:
            cursor.close()

    def remove_messages(
        self, keys: Sequence[Key], outcome: RemovalReason | None = RemovalReason.ACKNOWLEDGED
    ) -> None:
        """Delete messages of queues; ``outcome`` is for the recorder."""
        if self._recorder is not None and outcome is not None:
            self._recorder.record(self, keys, outcome)
        for container, id_ in keys:
            self.execute(self._remove, container=container, id_=id_)


class _SqlalchemyCursor:
    """SQLAlchemy's connection as a cursor."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._result: Any = None

    @property
    def description(self) -> Any:
        return self._result.cursor and self._result.cursor.description

    @property
    def rowcount(self) -> int:
        return int(self._result.rowcount)

    def execute(self, text: str, row: Sequence[Any], /) -> None:
        self._result = self._connection.exec_driver_sql(
            text, tuple(row), execution_options={"preserve_rowcount": True}
        )

    def fetchall(self) -> Sequence[Any]:
        rows: Sequence[Any] = self._result.fetchall()
        return rows

    def close(self) -> None:
        if self._result is not None:
            self._result.close()


def _check_kind(connection: Any, dialect: Dialect, *, is_sqlalchemy: bool) -> None:
    if inspect.iscoroutine(connection):
        connection.close()
    if inspect.iscoroutine(connection) or inspect.iscoroutinefunction(getattr(connection, "commit", None)):
        raise ConfigurationError(
            "cannot join an asynchronous connection: run this transaction on a synchronous one, in a thread"
        )
    if is_sqlalchemy:
        if connection.dialect.driver != dialect.driver:
            raise ConfigurationError(
                f"the transaction is one of the driver {connection.dialect.driver}, and the store"
                f" uses {dialect.driver}: open both with URLs of the same driver"
            )
    elif not hasattr(connection, "cursor"):
        raise ConfigurationError(
            f"cannot join a {type(connection).__name__}: give a connection or session of SQLAlchemy, Django's"
            " connection, or a connection of the driver"
        )


def _check_driver(connection: Any, dialect: Dialect) -> None:
    """Make sure that a connection of a driver is one of the dialect's.

    :raises ConfigurationError: it is of another
    """
    driver = dialect.loaded_dbapi.__name__.partition(".")[0]
    known = {kind.__module__.partition(".")[0] for kind in connection.__class__.__mro__}
    if driver not in known:
        raise ConfigurationError(
            f"the connection is a {connection.__class__.__module__}.{connection.__class__.__name__}, and the"
            f" store uses the driver {driver}: open both with the same driver"
        )
