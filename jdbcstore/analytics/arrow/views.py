"""The views of a store in Arrow: their names and schemas, and the tables of the small ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
from sqlalchemy import inspect, select

from jdbcstore.analytics.arrow.fetching import Fetching
from jdbcstore.analytics.arrow.table import ALL, PLAIN, RAW, TIME, ViewRows, schema_of, time_of
from jdbcstore.analytics.columns import COLUMNS
from jdbcstore.analytics.queries import destinations, pending, subscriptions

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
"""Views that have a row for each message; the others are small."""


def small(view: str, fetching: Fetching) -> pa.Table:
    """Return the rows of a small view.

    :raises StoreUnavailable: the database does not answer
    """
    with fetching.database.translated():
        return _SMALL[view](fetching)


def _of_subscriptions(view: str, query: Any, fetching: Fetching) -> pa.Table:
    tables, adapter = fetching.database.tables, fetching.database.adapter
    ours = inspect(fetching.connection).has_table(str(tables.acknowledged.name))
    return _table(fetching, query(tables, adapter, ours=ours), SCHEMAS[view])


def _destinations(fetching: Fetching) -> pa.Table:
    read = pa.schema(
        [("destination", pa.string()), *((name, pa.int64()) for name in _TOTALS), ("msg", pa.binary())]
    )
    query = destinations(fetching.database.tables, fetching.database.adapter)
    totals = _table(fetching, query, read).combine_chunks()
    names, blobs = (_array(totals.column(name)) for name in ("destination", "msg"))
    [timestamp] = [column for column in COLUMNS if column.name == "timestamp"]
    rows = ViewRows({"container": names, "msg": blobs})
    oldest = time_of(rows.batch.column(timestamp.decode))
    now = datetime.now(UTC).timestamp()
    ages = [None if each is None else now - each.timestamp() for each in oldest.to_pylist()]
    numbers = [totals.column(name) for name in _TOTALS]
    return pa.Table.from_arrays(
        [names, rows.column("destination_type"), *numbers, oldest, pa.array(ages, pa.float64())],
        schema=SCHEMAS["destinations"],
    )


def _removed(fetching: Fetching) -> pa.Table:
    history, schema = fetching.database.tables.history, SCHEMAS["removed"]
    if not inspect(fetching.connection).has_table(str(history.name)):
        return schema.empty_table()
    stored = pa.schema(_REMOVED)
    read = _table(fetching, select(*(history.c[name] for name in stored.names)), stored)
    times = {name: time_of(read.column(name)) for name in _MOMENTS}
    return pa.table({name: times.get(name, read.column(name)) for name in stored.names})


def _lock(fetching: Fetching) -> pa.Table:
    lock, schema = fetching.database.tables.lock, SCHEMAS["lock"]
    stored = pa.schema([("id", pa.int64()), ("time", pa.int64()), ("broker_name", pa.string())])
    read = _table(fetching, select(*(lock.c[name] for name in stored.names)), stored)
    times = read.column("time").cast(pa.timestamp("ms", "UTC")).cast(TIME)
    return read.set_column(1, schema.field("time"), times)


_SMALL: dict[str, Callable[[Fetching], pa.Table]] = {
    "subscriptions": partial(_of_subscriptions, "subscriptions", subscriptions),
    "pending": partial(_of_subscriptions, "pending", pending),
    "destinations": _destinations,
    "lock": _lock,
    "removed": _removed,
}


def _table(fetching: Fetching, query: Any, schema: pa.Schema) -> pa.Table:
    pages = fetching.pages(query, schema.types)
    batches = [pa.RecordBatch.from_arrays(page, schema=schema) for page in pages]
    return pa.Table.from_batches(batches, schema)


def _array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(column.chunks)
