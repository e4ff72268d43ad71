"""A line to SQLite: the cursors that its adapter hands out, and what they are told to fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from jdbcstore.database.adapters.sqlite import SqliteAdapter
from tests.support.faults.line import Break, Line


class DriverLine(Line):
    """Each call that runs a statement counts as one statement, and one answer."""

    def __init__(self, url: str, replace: Callable[[Any, str, object], None]) -> None:
        super().__init__()
        self._url = url
        make = SqliteAdapter.cursor
        replace(
            SqliteAdapter,
            "cursor",
            lambda adapter, connection: _Cursor(self, make(adapter, connection)),
        )

    @property
    def url(self) -> str:
        return self._url

    def run(self, cursor: sqlite3.Cursor, statement: Callable[[], object]) -> None:
        """Run a statement, or not, and fail as a file system does that has gone."""
        if self.down or self._breaks_at(Break.STATEMENT):
            _fail(cursor)
        statement()
        if self._breaks_at(Break.ANSWER):
            _fail(cursor)


class _Cursor:
    """The real cursor, run by way of the line."""

    def __init__(self, line: DriverLine, cursor: sqlite3.Cursor) -> None:
        self._line = line
        self._cursor = cursor

    def execute(self, *call: Any) -> None:
        self._line.run(self._cursor, lambda: self._cursor.execute(*call))

    def executemany(self, *call: Any) -> None:
        self._line.run(self._cursor, lambda: self._cursor.executemany(*call))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


def _fail(cursor: sqlite3.Cursor) -> None:
    cursor.connection.rollback()
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    raise error
