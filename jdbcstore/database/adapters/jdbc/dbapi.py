"""A DBAPI over JDBC: statements, parameters and rows, with the errors of ``jpype.dbapi2``.

That module's own cursor is bound to the thread that made it, and asks for the parameters' metadata at each
execution, a round trip for some drivers; the store's writer passes its cursor from thread to thread.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from jpype import JClass
from jpype.dbapi2 import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004
)

from jdbcstore.database.adapters.jdbc.jvm import driver_for

__all__ = [
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
]

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

MAX_ROWS = re.compile(r"\s*\{maxrows \?\}\s*$")
"""The end of a statement whose last parameter is the row limit for the driver."""

_READ_COMMITTED = 2
_PREPARED = 100
# Codes of java.sql.Types.
_BINARY = frozenset((-2, -3, -4, 2004))
_WHOLE = frozenset((-7, -6, 5, 4, -5, 16))
_DECIMAL = frozenset((2, 3))
_FLOATING = frozenset((6, 7, 8))


def connect(url: str, user: str | None, password: str | None) -> JdbcConnection:
    """Return a connection through the JDBC driver that takes the URL, in autocommit mode."""
    driver, login = driver_for(url), JClass("java.util.Properties")()
    for name, value in (("user", user), ("password", password)):
        if value is not None:
            login.setProperty(name, value)
    return JdbcConnection(driver.connect(url, login))


class JdbcConnection:
    """May be used by any thread, one at a time."""

    def __init__(self, java: Any) -> None:
        self.java = java
        """The ``java.sql.Connection``."""
        self._autocommit = True
        self._query_timeout = 0
        self._prepared: dict[str, Any] = {}
        """Idle prepared statements; preparing one is a round trip, and so is closing it."""

    @property
    def autocommit(self) -> bool:
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value != self._autocommit:
            self.java.setAutoCommit(value)
            self._autocommit = value

    def read_committed(self) -> None:
        """Set the isolation level READ COMMITTED."""
        self.java.setTransactionIsolation(_READ_COMMITTED)

    def limit_answers(self, seconds: float) -> None:
        """Limit the wait for an answer, where the driver supports it."""
        with contextlib.suppress(Error):
            self.java.setNetworkTimeout(_common_pool(), max(1, round(seconds * 1000)))

    def limit_query(self, seconds: float) -> None:
        """Cancel statements that run longer, where the driver supports it."""
        self._query_timeout = max(1, round(seconds))

    def cursor(self) -> JdbcCursor:
        return JdbcCursor(self)

    def take(self, operation: str) -> Any:
        """Return a prepared statement, for one cursor until it is returned by :meth:`give`."""
        # A statement keeps its row limit, and so is cached under its whole text.
        statement = self._prepared.pop(operation, None)
        if statement is None:
            statement = self.java.prepareStatement(MAX_ROWS.sub("", operation))
            if self._query_timeout:
                statement.setQueryTimeout(self._query_timeout)
        return statement

    def describe(self, operation: str) -> int | None:
        """Have the driver prepare a statement; the number of its columns, None if it does not know."""
        with contextlib.closing(self.java.prepareStatement(operation)) as statement:
            columns = statement.getMetaData()
            return None if columns is None else int(columns.getColumnCount())

    def give(self, operation: str, statement: Any) -> None:
        if len(self._prepared) < _PREPARED:
            self._prepared[operation] = statement
        else:
            statement.close()

    def commit(self) -> None:
        """Do nothing in autocommit mode."""
        if not self._autocommit:
            self.java.commit()

    def rollback(self) -> None:
        if not self._autocommit:
            self.java.rollback()

    def close(self) -> None:
        with contextlib.closing(self.java):
            # Derby does not close a connection in a transaction.
            self.rollback()

    def abort(self) -> None:
        """Close the connection under a statement that another thread is waiting for."""
        self.java.abort(_common_pool())


class JdbcCursor:
    """One statement at a time, and its rows."""

    arraysize = 1

    def __init__(self, connection: JdbcConnection) -> None:
        self.connection = connection
        self.rowcount = -1
        self.description: list[tuple[Any, ...]] | None = None
        self.lastrowid = None
        self._operation = ""
        self._statement: Any = None
        self._rows: Any = None
        self._types: list[int] = []

    def execute(self, operation: str, parameters: Sequence[Any] = ()) -> None:
        statement = self._prepare(operation)
        if MAX_ROWS.search(operation):
            *parameters, most = parameters
            statement.setMaxRows(most)
        _bind(statement, parameters)
        if statement.execute():
            self._open_rows(statement.getResultSet())
        else:
            self.rowcount = statement.getUpdateCount()
            self._finish()

    def executemany(self, operation: str, rows: Iterable[Sequence[Any]]) -> None:
        statement = self._prepare(operation)
        for row in rows:
            _bind(statement, row)
            statement.addBatch()
        counts = list(statement.executeBatch())
        # Negative if the driver does not know.
        self.rowcount = -1 if any(count < 0 for count in counts) else sum(counts)
        self._finish()

    def fetchone(self) -> tuple[Any, ...] | None:
        if self._rows is None or not self._rows.next():
            return None
        return tuple([_value(self._rows, index, type_) for index, type_ in enumerate(self._types, 1)])

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        return [*islice(iter(self.fetchone, None), size or self.arraysize)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows = [*iter(self.fetchone, None)]
        # An open result set keeps its locks on some servers.
        self._finish()
        return rows

    def close(self) -> None:
        """Close the statement, after an error or an incomplete read."""
        statement, self._statement, self._rows = self._statement, None, None
        if statement is not None:
            statement.close()

    def _prepare(self, operation: str) -> Any:
        self.close()
        self.rowcount, self.description = -1, None
        self._operation = operation
        self._statement = self.connection.take(operation)
        return self._statement

    def _open_rows(self, rows: Any) -> None:
        self._rows = rows
        meta = rows.getMetaData()
        columns = range(1, meta.getColumnCount() + 1)
        self._types = [int(meta.getColumnType(column)) for column in columns]
        self.description = [
            (str(meta.getColumnLabel(column)), type_, None, None, None, None, None)
            for column, type_ in zip(columns, self._types, strict=True)
        ]

    def _finish(self) -> None:
        """Return the statement to the cache, after everything was read."""
        if self._rows is not None:
            self._rows.close()
        statement, self._statement, self._rows = self._statement, None, None
        if statement is not None:
            self.connection.give(self._operation, statement)


def _common_pool() -> Any:
    return JClass("java.util.concurrent.ForkJoinPool").commonPool()


def _bind(statement: Any, parameters: Sequence[Any]) -> None:
    for index, value in enumerate(parameters, 1):
        if value is None:
            statement.setObject(index, None)
        elif isinstance(value, str):
            statement.setString(index, value)
        elif isinstance(value, bytes):
            statement.setBytes(index, value)
        elif isinstance(value, bool):
            statement.setBoolean(index, value)
        elif isinstance(value, int):
            statement.setLong(index, value)
        else:
            statement.setObject(index, value)


def _value(rows: Any, index: int, type_: int) -> Any:
    if type_ in _BINARY:
        data = rows.getBytes(index)
        return None if data is None else bytes(data)
    if type_ in _WHOLE:
        number = int(rows.getLong(index))
        return None if number == 0 and rows.wasNull() else number
    if type_ in _FLOATING:
        floating = float(rows.getDouble(index))
        return None if floating == 0 and rows.wasNull() else floating
    if type_ in _DECIMAL:
        decimal = rows.getBigDecimal(index)
        return None if decimal is None else _number(str(decimal.toPlainString()))
    text = rows.getString(index)
    return None if text is None else str(text)


def _number(text: str) -> int | float:
    whole, _, fraction = text.partition(".")
    return float(text) if fraction.strip("0") else int(whole)


def states(error: BaseException) -> list[tuple[str, int]]:
    """SQLSTATE and vendor's number of an error and of those chained to it: a batch hides its cause."""
    states = []
    exception: Any = error
    if isinstance(error, JClass("java.sql.SQLException")):
        while exception is not None:
            states.append((str(exception.getSQLState() or ""), int(exception.getErrorCode())))
            exception = exception.getNextException()
    return states
