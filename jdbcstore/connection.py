"""One connection of one's own, for writing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from jdbcstore.adapters.base import Adapter, Batch, Row, Sql
from jdbcstore.statements import Statements


class Connection:
    """One connection in autocommit mode, for one thread. Driver errors pass through untranslated."""

    def __init__(
        self, adapter: Adapter, statements: Statements, driver_errors: tuple[type[Exception], ...], raw: Any
    ) -> None:
        self._adapter = adapter
        self._statements = statements
        self._driver_errors = driver_errors
        self._raw = raw
        self.cursor = adapter.cursor(raw)

    def fetch(self, sql: Sql, **values: Any) -> list[Row]:
        self.cursor.execute(sql.text, sql.row(**values))
        rows: list[Row] = self.cursor.fetchall()
        return rows

    def execute(self, sql: Sql, **values: Any) -> None:
        self.cursor.execute(sql.text, sql.row(**values))

    def execute_many(self, sql: Sql, rows: Sequence[Row]) -> None:
        if rows:
            self._adapter.execute_many(self.cursor, sql, rows)

    def remove_messages(self, ids: Sequence[int]) -> None:
        """Delete rows of ACTIVEMQ_MSGS in the vendor's fastest way."""
        if ids:
            self._adapter.delete_messages(self.cursor, self._statements.remove_message, ids)

    def write(self, batch: Batch) -> None:
        """Apply and commit a batch, all of it or nothing."""
        self._adapter.write(self.cursor, self._statements.write, batch)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits at the end of the block, rolls back when it raises."""
        self.cursor.execute(self._adapter.begin)
        try:
            yield
            self.cursor.execute("COMMIT")
        except BaseException:
            self.rollback()
            raise

    def rollback(self) -> None:
        """Leave whatever transaction is open. When this fails, so has the connection."""
        with contextlib.suppress(*self._driver_errors):
            self.cursor.execute("ROLLBACK")

    def close(self) -> None:
        with contextlib.suppress(*self._driver_errors):
            self._raw.close()
