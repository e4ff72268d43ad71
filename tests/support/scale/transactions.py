"""How long transactions are held, as the client sees it: from before BEGIN to after COMMIT."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from jdbcstore.database.adapters.base import Adapter


class Transactions:
    """Times every transaction on all connections."""

    def __init__(self, kind: type[Adapter], replace: Callable[[Any, str, object], None]) -> None:
        self._lock = threading.Lock()
        self._begun: dict[int, float] = {}
        self.seconds: list[float] = []
        """Of those that have ended."""
        self._begin = kind().writing.begin_statement
        make = kind.cursor
        replace(kind, "cursor", lambda adapter, connection: _Cursor(self, make(adapter, connection)))

    def run(self, cursor: Any, sql: str, statement: Callable[[], Any]) -> Any:
        """Run a statement, and note what begins or ends with it."""
        if sql == self._begin:
            self._begun[id(cursor)] = time.perf_counter()
        try:
            return statement()
        finally:
            if sql in ("COMMIT", "ROLLBACK"):
                with self._lock:
                    self.seconds.append(time.perf_counter() - self._begun.pop(id(cursor)))


class _Cursor:
    """The real cursor, timed."""

    def __init__(self, transactions: Transactions, cursor: Any) -> None:
        self._transactions = transactions
        self._cursor = cursor

    def execute(self, sql: str, *row: Any) -> Any:
        return self._transactions.run(self._cursor, sql, lambda: self._cursor.execute(sql, *row))

    def executemany(self, sql: str, *rows: Any) -> Any:
        return self._transactions.run(self._cursor, sql, lambda: self._cursor.executemany(sql, *rows))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)
