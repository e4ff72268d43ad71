"""SQL of a stream, and what each vendor reports about transactions in progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, func, literal_column, select

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.tables import Tables

_MAY_NOT_WRITE = "SET SESSION TRANSACTION READ ONLY"


@dataclass(frozen=True, slots=True)
class Writers:
    """Expressions by which a vendor reports transactions in progress; zero where it does not."""

    read_only: str
    """The first statement of each connection: makes it read-only."""
    begun: str = "0"
    """Upper bound of the transactions that have begun."""
    unfinished: str = "0"
    """Every transaction with a lower number is over."""
    uncommitted: str = ""
    """The statement after which the next one sees uncommitted rows."""
    is_file: bool = False
    """The database is a file; tasks run in other working directories."""


_MYSQL = Writers(_MAY_NOT_WRITE, uncommitted="SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")

WRITERS = {
    "sqlite": Writers("PRAGMA query_only = 1", is_file=True),
    "postgresql": Writers(
        "SET default_transaction_read_only = on",
        begun="CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)",
        unfinished="CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)",
    ),
    "mariadb": _MYSQL,
    "mysql": _MYSQL,
}
"""By the name of the store's adapter, as in :data:`jdbcstore.analytics.vendors.VENDORS`."""


_ZERO: Any = literal_column("0")


class StreamQueries:
    """The queries of one stream, of all destinations or of one."""

    def __init__(self, tables: Tables, adapter: Adapter, writers: Writers, destination: str | None) -> None:
        self._table = tables.messages
        self._writers = writers
        container = self._table.c.container
        self._ours = []
        if destination is not None:
            self._ours = [container == destination]
            if (exact := adapter.exact(container)) is not container:
                # The plain comparison uses the index.
                self._ours.append(exact == destination)

    def sight(self) -> Select[Any]:
        """The highest ID and the transactions in progress, in one snapshot."""
        writers = self._writers
        numbers: Any = (literal_column(text) for text in (writers.begun, writers.unfinished))
        return select(func.coalesce(func.max(self._table.c.id), _ZERO), *numbers)

    def highest_below(self, end: int) -> Select[Any]:
        """The highest ID up to this one."""
        ids = self._table.c.id
        return select(func.coalesce(func.max(ids), _ZERO)).where(ids <= end)

    def all_ids(self, start: int, end: int) -> Select[Any]:
        """Every ID after ``start``, up to ``end``, of all destinations."""
        ids = self._table.c.id
        return select(ids).where(ids > start, ids <= end).order_by(ids)

    def count(self, start: int, end: int) -> Select[Any]:
        return select(func.count()).select_from(self._table).where(self._between(start, end))

    def nth_id(self, start: int, end: int, place: int) -> Select[Any]:
        """The ID of the message after ``place`` others."""
        ids = self._table.c.id
        return select(ids).where(self._between(start, end)).order_by(ids).limit(1).offset(place)

    def page(self, start: int, end: int, rows: int) -> Select[Any]:
        t = self._table
        names = ("id", "container", "msgid_prod", "msgid_seq", "expiration", "priority", "xid", "msg")
        columns = (t.c[name] for name in names)
        return select(*columns).where(self._between(start, end)).order_by(t.c.id).limit(rows)

    def _between(self, start: int, end: int) -> Any:
        ids = self._table.c.id
        return and_(ids > start, ids <= end, *self._ours)
