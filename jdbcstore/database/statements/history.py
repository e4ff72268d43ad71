"""The statements of JDBCSTORE_HISTORY, the records of removed messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Integer, Select, any_, bindparam, case, delete, select
from sqlalchemy.sql import ColumnElement

from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.statements.builder import Fetch, StatementBuilder

LARGE = 64 * 1024
"""Bytes from which a message is read by itself."""
PAGES = (1, 16, 256)
"""The numbers of keys that one statement takes."""


class HistoryStatements(StatementBuilder):
    """Reading messages before their removal, recording them, and deleting old records."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        t, history = self._tables.messages, self._tables.history
        size = self._adapter.size(t.c.msg)
        small = case((size <= LARGE, t.c.msg)).label("msg")
        columns = (t.c.id, t.c.container, t.c.msgid_prod, t.c.msgid_seq, t.c.expiration, size, small)

        def removed(*keys: ColumnElement[bool]) -> Select[Any]:
            # Locked, so that another process that removes the same messages does not record them as well.
            return self._adapter.locked(select(*columns).where(t.c.xid.is_(None), *keys))

        def listed(count: int) -> Select[Any]:
            return removed(t.c.id.in_([bindparam(f"id_{number}") for number in range(count)]))

        def in_array() -> Select[Any]:
            return removed(t.c.id == any_(bindparam("ids", type_=ARRAY(BigInteger()))))

        self._find_listed = {count: self._compile(partial(listed, count)) for count in PAGES}
        self._find_in_array = self._compile(in_array)
        self.find_body = self._compile(lambda: select(t.c.msg).where(t.c.id == bindparam("id_")))
        self.add = self._insert(history)
        self.find_since = self._compile(lambda: self._of_message(since=True))
        self.find_last = self._compile(lambda: self._of_message(since=False))
        self.find_old = self._page_of(
            lambda: (
                select(history.c.removed)
                .where(history.c.removed < bindparam("before"))
                .order_by(history.c.removed)
            )
        )
        self.remove_old = self._compile(
            lambda: delete(history).where(history.c.removed <= bindparam("up_to"))
        )

    def _of_message(self, *, since: bool) -> Select[Any]:
        """Return the records of a message among so many: they have an index by time alone."""
        t = self._tables.history
        columns = (t.c.removed, t.c.id, t.c.container, t.c.outcome, t.c.redeliveries, t.c.reason)
        order = (t.c.removed, t.c.id) if since else (t.c.removed.desc(), t.c.id.desc())
        some = select(*columns, t.c.msgid_prod, t.c.msgid_seq).order_by(*order)
        if since:
            some = some.where(t.c.removed >= bindparam("since"))
        looked = some.limit(bindparam("limit", type_=Integer())).subquery()
        wanted = [looked.c[column.key] for column in columns]
        named = (looked.c.msgid_prod == bindparam("producer"), looked.c.msgid_seq == bindparam("sequence"))
        return select(*wanted).where(*named).order_by(looked.c.removed, looked.c.id)

    def find_removed(self, fetch: Fetch, ids: Sequence[int]) -> list[Row]:
        """Return the messages with these IDs, at most as :data:`PAGES` says; large ones without MSG."""
        if self._adapter.takes_arrays:
            return fetch(self._find_in_array, ids=[*ids])
        length = next(length for length in PAGES if length >= len(ids))
        filled = {f"id_{number}": id_ for number, id_ in enumerate(islice(cycle(ids), length))}
        return fetch(self._find_listed[length], **filled)
