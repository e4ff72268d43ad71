"""How long transactions are held, as the client sees it: from before BEGIN to after COMMIT."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from jdbcstore.adapters.base import Adapter


class Transactions:
    """Times every transaction, and every statement outside of one, on all connections."""

    def __init__(self, kind: type[Adapter], replace: Callable[[Any, str, object], None]) -> None:
        self._lock = threading.Lock()
        self._begun: dict[int, float] = {}
        self.seconds: list[float] = []
        """Of those that wrote or read more than one statement."""
        self.longest_statement = 0.0
        self._begin = kind.begin
        make = kind.cursor
        replace(kind, "cursor", lambda adapter, connection: _Cursor(self, make(adapter, connection)))

    def run(self, cursor: Any, sql: str, statement: Callable[[], Any]) -> Any:
        """Run a statement and note what it says about transactions."""
        start = time.perf_counter()
        if sql == self._begin:
            self._begun[id(cursor)] = start
        try:
            return statement()
        finally:
            end = time.perf_counter()
            with self._lock:
                self.longest_statement = max(self.longest_statement, end - start)
                if sql in ("COMMIT", "ROLLBACK"):
                    self.seconds.append(end - self._begun.pop(id(cursor), start))


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
