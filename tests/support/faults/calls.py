"""A session whose calls of the driver can be made to fail: connecting, executing and fetching."""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Callable
from typing import Any

from jdbcstore.database.session import DatabaseSession


class Fault(enum.Enum):
    """What the driver says."""

    LOST = "the connection is gone"
    BUSY = "a lock was waited for too long"
    REFUSED = "a right is missing"


def _sqlite(fault: Fault) -> Exception:
    error = sqlite3.OperationalError(fault.value)
    error.sqlite_errorcode = {
        Fault.LOST: sqlite3.SQLITE_IOERR,
        Fault.BUSY: sqlite3.SQLITE_BUSY,
        Fault.REFUSED: sqlite3.SQLITE_AUTH,
    }[fault]
    return error


def _postgresql(fault: Fault) -> Exception:
    from psycopg import OperationalError, errors

    kinds = {Fault.BUSY: errors.LockNotAvailable, Fault.REFUSED: errors.InsufficientPrivilege}
    return kinds.get(fault, OperationalError)(fault.value)


def _mysql(fault: Fault) -> Exception:
    from pymysql.err import OperationalError

    codes = {Fault.LOST: 2013, Fault.BUSY: 1205, Fault.REFUSED: 1142}
    return OperationalError(codes[fault], fault.value)


_ERRORS: dict[str, Callable[[Fault], Exception]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "mariadb": _mysql,
    "mysql": _mysql,
}


class Calls:
    """Counts the calls of a session's driver, and fails the one that :meth:`arm` chose.

    A connection that is lost is closed, so that the server sees it, too.
    """

    def __init__(self, session: DatabaseSession) -> None:
        self._error = _ERRORS[session.adapter.name]
        self._fault: Fault | None = None
        self._left, self._lasting, self._done = 0, False, False
        self.failed = False
        """One has failed since it was armed."""
        adapter: Any = session.adapter
        connected, cursor = adapter.on_connect, adapter.cursor
        adapter.on_connect = lambda raw: self.run(raw, lambda: connected(raw))
        adapter.cursor = lambda raw: _Cursor(self, raw, cursor(raw))

    def arm(self, fault: Fault, number: int, *, lasting: bool, done: bool) -> None:
        """Fail the call with this number, counted from 1, and with ``lasting`` all behind it.

        ``done`` fails it after it has had its effect.
        """
        self._fault, self._left = fault, number
        self._lasting, self._done, self.failed = lasting, done, False

    def mend(self) -> None:
        """Let all calls be."""
        self._fault = None

    def run(self, raw: Any, call: Callable[[], Any]) -> Any:
        """Make a call, or fail."""
        fault = self._fault
        if fault is None:
            return call()
        self._left -= 1
        fails = self._left == 0 or (self._lasting and self._left < 0)
        result = call() if not fails or self._done else None
        if fails:
            self.failed = True
            if fault is Fault.LOST:
                raw.close()
            raise self._error(fault)
        return result


class _Cursor:
    def __init__(self, calls: Calls, raw: Any, cursor: Any) -> None:
        self._calls, self._raw, self._cursor = calls, raw, cursor

    def execute(self, *given: Any) -> Any:
        return self._calls.run(self._raw, lambda: self._cursor.execute(*given))

    def fetchall(self) -> Any:
        return self._calls.run(self._raw, self._cursor.fetchall)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)
