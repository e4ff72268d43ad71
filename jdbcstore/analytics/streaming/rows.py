"""Rows of the message table as Arrow batches with the columns of the views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.analytics.batch import Batch
from jdbcstore.analytics.columns import COLUMNS, TIMES, YEAR_1_MS, YEAR_10000_MS
from jdbcstore.message.destination import DestinationKind
from jdbcstore.stores.jdbc.xa.column import ADDED, decode_flag

_TABLE = (
    "id BIGINT, container STRING, destination STRING, destination_type STRING, msgid_prod STRING,"
    " msgid_seq BIGINT, expiration BIGINT, priority BIGINT, xid STRING, message_size BIGINT"
)
_KINDS = frozenset(DestinationKind)


def schema(*, decoded: bool) -> str:
    """The columns of a stream: those of ``messages_decoded``, or of the table with ``msg`` as it is."""
    if not decoded:
        return f"{_TABLE}, msg BINARY"
    types = ("timestamp" if column.name in TIMES else column.type for column in COLUMNS)
    pairs = (f"{column.name} {kind}" for column, kind in zip(COLUMNS, types, strict=True))
    return f"{_TABLE}, {', '.join(pairs)}"


def batch_of(page: Sequence[Any], columns: pa.Schema, *, decoded: bool) -> pa.RecordBatch:
    """The committed messages of a page.

    One whose acknowledgement is prepared is still there, and if the transaction is rolled back it
    stays where it is. One whose adding is prepared gets a new ID when the transaction commits.
    """
    rows = [row for row in page if row.xid is None or not _is_added(row.xid)]
    blobs = pa.array([row.msg for row in rows], pa.binary())
    containers = [row.container for row in rows]
    values: list[Any] = [
        [row.id for row in rows],
        containers,
        containers,
        [_kind(container) for container in containers],
        *([row[place] for row in rows] for place in range(2, 7)),
        pc.binary_length(blobs),
        *(_decoded(blobs) if decoded else [blobs]),
    ]
    arrays = [
        value.cast(column.type) if isinstance(value, pa.Array) else pa.array(value, column.type)
        for value, column in zip(values, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _is_added(xid: str) -> bool:
    flag = decode_flag(xid)
    return flag is not None and flag.tag == ADDED


def _kind(container: str) -> str | None:
    kind = container.partition("://")[0]
    return kind if kind in _KINDS else None


def _decoded(blobs: pa.Array) -> list[pa.Array]:
    batch = Batch(blobs)
    arrays = [(column.name, batch.column(column.decode)) for column in COLUMNS]
    return [_time(array) if name in TIMES else array for name, array in arrays]


def _time(milliseconds: pa.Array) -> pa.Array:
    """A timestamp; null for 0, which is none, and for what is beyond the calendar."""
    calendar = pc.and_(pc.greater_equal(milliseconds, YEAR_1_MS), pc.less(milliseconds, YEAR_10000_MS))
    known = pc.if_else(pc.and_(calendar, pc.not_equal(milliseconds, 0)), milliseconds, None)
    return known.cast(pa.timestamp("ms", "UTC"))
