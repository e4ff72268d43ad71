"""The views of a store in Arrow: their names and schemas, and the rows of those without messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from sqlalchemy import Select, inspect, select

from jdbcstore.analytics.arrow.fetching import Fetching
from jdbcstore.analytics.arrow.table import ALL, PLAIN, RAW, TIME, ViewRows, schema_of, time_of
from jdbcstore.analytics.columns import COLUMNS
from jdbcstore.analytics.queries import destinations, pending, subscriptions
from jdbcstore.database.engine import Database

_TOTALS = ("depth", "bytes", "expired", "in_doubt", "oldest_id")
_REMOVED = (
    *((name, pa.int64()) for name in ("removed", "id")),
    *((name, pa.string()) for name in ("container", "msgid_prod")),
    ("msgid_seq", pa.int64()),
    ("outcome", pa.string()),
    *((name, pa.int64()) for name in ("produced", "jms_priority", "msg_size", "redeliveries")),
    ("reason", pa.string()),
)
"""The records of removed messages, as they are stored."""
_MOMENTS = frozenset({"removed", "produced"})
SCHEMAS: dict[str, pa.Schema] = {
    "messages": schema_of(PLAIN),
    "messages_decoded": schema_of(None),
    "subscriptions": pa.schema(
        [
            *((name, pa.string()) for name in ("destination", "client_id", "subscription_name")),
            *((name, pa.string()) for name in ("subscribed_destination", "selector")),
            *((name, pa.int64()) for name in ("last_acked_id", "lag", "acknowledged_ahead")),
        ]
    ),
    "pending": pa.schema(
        [
            *((name, pa.string()) for name in ("destination", "client_id", "subscription_name")),
            ("id", pa.int64()),
        ]
    ),
    "destinations": pa.schema(
        [
            ("destination", pa.string()),
            ("destination_type", pa.string()),
            *((name, pa.int64()) for name in _TOTALS),
            ("oldest", TIME),
            ("oldest_age", pa.float64()),
        ]
    ),
    "in_doubt": schema_of(None),
    "lock": pa.schema([("id", pa.int64()), ("time", TIME), ("broker_name", pa.string())]),
    "removed": pa.schema([(name, TIME if name in _MOMENTS else kind) for name, kind in _REMOVED]),
}
"""The columns of each view by its name; ``removed`` has the records of which ``history`` is made."""

AS_STORED = pa.schema([(name, ALL[name].type) for name in RAW])
"""The columns of messages that are not decoded."""

OF_MESSAGES = frozenset({"messages", "messages_decoded", "in_doubt"})
"""Views that have a row for each message, with its columns."""


class _View(NamedTuple):
    """A view without the columns of messages: its query, and the columns that it reads and returns."""

    query: Callable[[Fetching], Select[Any] | None]
    read: pa.Schema
    make: Callable[[pa.RecordBatch], pa.RecordBatch]


def rows_of_view(view: str, database: Database, first: Sequence[str] = ()) -> Iterator[pa.RecordBatch | None]:
    """Yield None once the statement runs, then the rows of a view that has not the columns of messages.

    ``first``: statements to run before, for example to set a snapshot.

    :raises StoreUnavailable: the database does not answer
    """
    asked = _VIEWS[view]
    fetching = Fetching(database, first)
    try:
        with database.translated():
            query = asked.query(fetching)
        pages = iter(()) if query is None else fetching.pages(query, asked.read.types)
        yield None
        for page in pages:
            yield asked.make(pa.RecordBatch.from_arrays(page, schema=asked.read))
    finally:
        fetching.close()


def _of_subscriptions(query: Any, fetching: Fetching) -> Select[Any]:
    tables, adapter = fetching.database.tables, fetching.database.adapter
    ours = inspect(fetching.connection).has_table(str(tables.acknowledged.name))
    result: Select[Any] = query(tables, adapter, ours=ours)
    return result


def _as_read(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


def _destinations(totals: pa.RecordBatch) -> pa.RecordBatch:
    names = totals.column("destination")
    [timestamp] = [column for column in COLUMNS if column.name == "timestamp"]
    rows = ViewRows({"container": names, "msg": totals.column("msg")})
    oldest = time_of(rows.batch.column(timestamp.decode))
    now = datetime.now(UTC).timestamp()
    ages = [None if each is None else now - each.timestamp() for each in oldest.to_pylist()]
    numbers = [totals.column(name) for name in _TOTALS]
    return pa.RecordBatch.from_arrays(
        [names, rows.column("destination_type"), *numbers, oldest, pa.array(ages, pa.float64())],
        schema=SCHEMAS["destinations"],
    )


def _removed(fetching: Fetching) -> Select[Any] | None:
    history = fetching.database.tables.history
    if not inspect(fetching.connection).has_table(str(history.name)):
        return None
    return select(*(history.c[name] for name, _ in _REMOVED))


def _lock(fetching: Fetching) -> Select[Any]:
    lock = fetching.database.tables.lock
    return select(*(lock.c[name] for name in _LOCK.names))


def _with_times(view: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of the view, of which times are stored as numbers."""
    columns = [
        time_of(column) if field.type == TIME else column
        for field, column in zip(SCHEMAS[view], rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[view])


_LOCK = pa.schema([("id", pa.int64()), ("time", pa.int64()), ("broker_name", pa.string())])
_TOTALS_READ = pa.schema(
    [("destination", pa.string()), *((name, pa.int64()) for name in _TOTALS), ("msg", pa.binary())]
)
_VIEWS = {
    "subscriptions": _View(partial(_of_subscriptions, subscriptions), SCHEMAS["subscriptions"], _as_read),
    "pending": _View(partial(_of_subscriptions, pending), SCHEMAS["pending"], _as_read),
    "destinations": _View(
        lambda fetching: destinations(fetching.database.tables, fetching.database.adapter),
        _TOTALS_READ,
        _destinations,
    ),
    "lock": _View(_lock, _LOCK, partial(_with_times, "lock")),
    "removed": _View(_removed, pa.schema(_REMOVED), partial(_with_times, "removed")),
}
