"""The examination of a database by one connection: its state as the vendor shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jdbcstore.util.checkup import Diagnosis, Durability, Thresholds


class Health:
    """The examination through one cursor; a vendor's module overrides its parts.

    No row is written. Locks are released immediately.
    """

    def __init__(self, cursor: Any, tables: Sequence[str], lock: str, thresholds: Thresholds) -> None:
        """Look at nothing yet.

        :param tables: the names of our tables that exist
        :param lock: that of the table whose row the database-locker of a master keeps locked
        """
        self._cursor = cursor
        self._tables = tables
        self._lock = lock
        self._limits = thresholds
        self.figures: dict[str, float] = {}
        """Figures by their names in :data:`jdbcstore.util.checkup.FIGURES`, after :meth:`diagnose`."""

    def diagnose(self) -> Iterator[Diagnosis]:
        """Yield all that is wrong; raises the driver's errors."""
        yield from ()

    def durability(self) -> Durability | None:
        """Return which acknowledged messages survive; None if the server's settings are not known."""
        return None

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        self._cursor.execute(query)
        return [tuple(row) for row in self._cursor.fetchall()]

    @property
    def _names(self) -> str:
        """The names of the tables as a list of SQL literals."""
        return ", ".join(map(literal, self._tables))


def literal(name: str) -> str:
    """Return a name as a literal of SQL."""
    return "'" + name.replace("'", "''") + "'"
