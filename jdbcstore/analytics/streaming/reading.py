"""The database as a stream reads it: read-only, and retried while it is unavailable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Select, event, func, inspect, literal_column, or_, select

from jdbcstore.analytics.queries import between, count_ids, cut, journal, nth_id, sizes
from jdbcstore.analytics.streaming.offsets import Gaps
from jdbcstore.analytics.streaming.options import StreamOptions
from jdbcstore.analytics.vendors import vendor_of
from jdbcstore.database.engine import Database
from jdbcstore.errors import CorruptMessage, StoreUnavailable
from jdbcstore.message.openwire import is_reference
from jdbcstore.message.openwire.reference import body_in_journal
from jdbcstore.stores.jdbc.xa.column import ADDED, decode_flag

T = TypeVar("T")

_PAUSE = 0.25
"""Seconds between attempts to reach the database."""
_RUN = 10_000
"""IDs per query when looking for gaps."""
_NEAR, _SPANS = 1000, 50
"""IDs between two gaps that one range covers, and ranges per query, when looking at gaps again."""
_LISTED = 100
"""IDs that a query names, and messages that are read by them."""
_COLUMNS = ("id", "container", "msgid_prod", "msgid_seq", "expiration", "priority", "xid", "msg")
_PAGE_BYTES = 16 * 1024 * 1024
_MOST_ROWS = 5000


class Sight(NamedTuple):
    """One observation of the table."""

    highest: int
    """The highest ID; 0 in an empty table."""
    begun: int
    """Upper bound of the transactions that had begun."""
    unfinished: int
    """Every transaction below this has ended."""


class StreamDatabase:
    """One read-only connection, opened when it is needed, and again after it was lost."""

    def __init__(self, options: StreamOptions) -> None:
        database = Database(
            options.url, options.store, user=options.user, password=options.password, must_exist=True
        )
        self._database = database
        self._vendor = vendor_of(database.adapter.name)
        self._reconnect_timeout = options.store.reconnect_timeout
        self._engine = database.connect_with(pool_size=1, max_overflow=0)
        event.listen(self._engine, "connect", self._forbid_writing)
        self._table = database.tables.messages
        container = self._table.c.container
        self._ours: list[Any] = []
        if options.destination is not None:
            self._ours = [container == options.destination]
            if (exact := database.adapter.exact(container)) is not container:
                # The plain comparison uses the index.
                self._ours.append(exact == options.destination)

    def _forbid_writing(self, connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute(self._vendor.read_only)
        cursor.close()

    def close(self) -> None:
        self._engine.dispose()

    def _ask(self, question: Callable[[Connection], T]) -> T:
        """Run a query, and retry while the database is unavailable.

        :raises StoreUnavailable: it was unavailable for longer than ``reconnect_timeout``
        """
        deadline = time.monotonic() + self._reconnect_timeout
        while True:
            try:
                with self._database.translated(), self._engine.connect() as connection:
                    return question(connection)
            except StoreUnavailable:
                self._engine.dispose()
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        return self._ask(lambda connection: connection.execute(query).all())

    def _ids(self, query: Select[Any]) -> list[int]:
        return [row[0] for row in self._rows(query)]

    def sight(self) -> Sight:
        """Observe the table now, in one snapshot."""
        numbers: Any = map(literal_column, (self._vendor.begun, self._vendor.unfinished))
        return Sight(*self._rows(select(self._highest, *numbers))[0])

    @property
    def _highest(self) -> Any:
        return func.coalesce(func.max(self._table.c.id), literal_column("0"))

    def has_journal(self) -> bool:
        """Return whether a journal may hold messages that are not in the tables yet."""
        state = self._database.tables.state

        def question(connection: Connection) -> bool:
            if not inspect(connection).has_table(str(state.name)):
                return False
            return bool(connection.execute(journal(self._database.tables)).scalar())

        return self._ask(question)

    def highest_below(self, end: int) -> int:
        """Return the highest ID up to this one; 0 if there is none."""
        return self._ids(select(self._highest).where(self._table.c.id <= end))[0]

    def run(self, start: int, end: int) -> tuple[list[int], int]:
        """Return the first IDs after ``start``, up to ``end``, of all destinations, and the last ID
        covered."""
        ids = self._ids(self._all_ids(start, end).limit(_RUN))
        return ids, ids[-1] if len(ids) == _RUN else end

    def stored_among(self, gaps: Gaps) -> list[int]:
        """Return the IDs in these gaps that are stored, ascending."""
        return [id_ for queries in self._spanning(gaps) for id_ in self._ids(queries) if id_ in gaps]

    def _spanning(self, gaps: Gaps) -> Iterator[Select[Any]]:
        """Yield queries for the IDs around these gaps, in ascending order."""
        ids = self._table.c.id
        for spans in _by(_SPANS, gaps.spans(_NEAR)):
            yield select(ids).where(or_(*(ids.between(*span) for span in spans))).order_by(ids)

    def uncommitted_among(self, gaps: Gaps) -> list[int]:
        """Return the IDs in these gaps that have rows, committed or not, on vendors that show it."""
        uncommitted = self._vendor.uncommitted
        if not uncommitted or not gaps:
            return []

        def question(connection: Connection) -> list[int]:
            ids: list[int] = []
            for query in self._spanning(gaps):
                connection.exec_driver_sql(uncommitted)
                ids += (id_ for id_ in connection.execute(query).scalars() if id_ in gaps)
                connection.rollback()
            return ids

        return self._ask(question)

    def ours(self, ids: Sequence[int]) -> list[int]:
        """Return those of these ascending IDs that the stream reads."""
        if not self._ours:
            return [*ids]
        table = self._table.c
        queries = (select(table.id).where(table.id.in_(some), *self._ours) for some in _by(_LISTED, ids))
        return sorted(id_ for query in queries for id_ in self._ids(query))

    def _all_ids(self, start: int, end: int) -> Select[Any]:
        """Return the query for every ID after ``start``, up to ``end``, of all destinations."""
        ids = self._table.c.id
        return select(ids).where(*between(self._database.tables, start, end)).order_by(ids)

    def _between(self, start: int, end: int) -> tuple[Any, ...]:
        """Return the conditions on the messages of the stream after ``start``, up to ``end``."""
        return *between(self._database.tables, start, end), *self._ours

    def cut(self, start: int, end: int, rows: int) -> int | None:
        """Return the end of a batch of ``rows`` messages after ``start``; None if there is no message."""
        if not self._nth_id(start, end, 0):
            return None
        [last] = self._nth_id(start, end, rows - 1) or [end]
        return last

    def bounds(self, start: int, end: int, partitions: int, least: int) -> list[tuple[int, int]]:
        """Return the ranges that divide a batch into equal parts of at least ``least`` rows."""
        count = self.count(start, end)
        parts = max(1, min(partitions, count // least))
        cuts = [id_ for part in range(1, parts) for id_ in self._nth_id(start, end, count * part // parts)]
        return list(zip([start, *cuts], [*cuts, end], strict=True))

    def count(self, start: int, end: int) -> int:
        """Return the number of messages after ``start``, up to ``end``."""
        return self._ids(count_ids(self._database.tables, *self._between(start, end)))[0]

    def _nth_id(self, start: int, end: int, place: int) -> list[int]:
        return self._ids(nth_id(self._database.tables, place, *self._between(start, end)))

    def pages(self, start: int, end: int) -> Iterator[Sequence[Any]]:
        """Yield the messages after ``start``, up to ``end``, in pages of about 16 MiB.

        :raises BodyInJournal: the body of a message is still in a journal only
        """
        rows = 100
        while sized := self._rows(sizes(self._database.tables, *self._between(start, end)).limit(rows)):
            run = next(cut(sized, _PAGE_BYTES))
            yield from self._page(*self._between(start, run[-1]))
            start = run[-1]
            # A server may have to read the messages to know their sizes.
            rows = min(_MOST_ROWS, 2 * len(run))

    def pages_of(self, ids: Iterable[int]) -> Iterator[Sequence[Any]]:
        """Yield the messages with these IDs, in pages.

        :raises BodyInJournal: the body of a message is still in a journal only
        """
        id_ = self._table.c.id
        for some in _by(_LISTED, ids):
            for run in cut(self._rows(sizes(self._database.tables, id_.in_(some), *self._ours)), _PAGE_BYTES):
                yield from self._page(id_.in_(run))

    def _page(self, *conditions: Any) -> Iterator[Sequence[Any]]:
        columns = [self._table.c[name] for name in _COLUMNS]
        if page := self._rows(select(*columns).where(*conditions).order_by(columns[0])):
            _refuse_references(page)
            yield page


def committed(page: Sequence[Any]) -> Iterator[Any]:
    """Yield the rows of committed messages.

    A message whose acknowledgement is prepared is one: a rollback leaves it where it is. A message whose add
    is prepared is not: it gets a new ID when its transaction commits.
    """
    for row in page:
        flag = None if row.xid is None else decode_flag(row.xid)
        if flag is None or flag.tag != ADDED:
            yield row


def _refuse_references(page: Sequence[Any]) -> None:
    """Refuse pages with references: a stream would write the message without its body, for good."""
    for row in page:
        if is_reference(row.msg):
            try:
                error = body_in_journal(bytes(row.msg), row.id, row.container)
            except CorruptMessage:
                continue  # reported in its column ``error``
            raise error


def _by(count: int, items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while some := [*islice(rest, count)]:
        yield some
