"""What a stream asks of the tables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, and_, func, literal_column, select

from jdbcstore.analytics.streaming.vendors import Writers
from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.tables import Tables

_ZERO: Any = literal_column("0")


class StreamQueries:
    """The queries of one stream, which may be of one destination only."""

    def __init__(self, tables: Tables, adapter: Adapter, writers: Writers, destination: str | None) -> None:
        self._table = tables.messages
        self._writers = writers
        container = self._table.c.container
        self._ours = []
        if destination is not None:
            self._ours = [container == destination]
            if (exact := adapter.exact(container)) is not container:
                # The plain comparison finds the index.
                self._ours.append(exact == destination)

    def sight(self) -> Select[Any]:
        """The highest ID, and who is writing, as of one moment."""
        writers = self._writers
        numbers: Any = (literal_column(text) for text in (writers.begun, writers.unfinished))
        return select(func.coalesce(func.max(self._table.c.id), _ZERO), *numbers)

    def highest_below(self, end: int) -> Select[Any]:
        """The highest ID up to this one."""
        ids = self._table.c.id
        return select(func.coalesce(func.max(ids), _ZERO)).where(ids <= end)

    def all_ids(self, start: int, end: int) -> Select[Any]:
        """Every ID behind ``start``, up to ``end``, whichever destination's."""
        ids = self._table.c.id
        return select(ids).where(ids > start, ids <= end).order_by(ids)

    def count(self, start: int, end: int) -> Select[Any]:
        return select(func.count()).select_from(self._table).where(self._between(start, end))

    def nth_id(self, start: int, end: int, place: int) -> Select[Any]:
        """The ID of the message that has so many before it."""
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
