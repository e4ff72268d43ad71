"""The Structured Streaming source ``jdbcstore``: batches of messages as Arrow record batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from jdbcstore.analytics.batch import MessageBatch
from jdbcstore.analytics.columns import COLUMNS, TIMES, YEAR_1_MS, YEAR_10000_MS
from jdbcstore.analytics.streaming.offsets import Gaps, Offset
from jdbcstore.analytics.streaming.options import EARLIEST, LATEST, StreamOptions
from jdbcstore.analytics.streaming.position import NOWHERE, Position
from jdbcstore.analytics.streaming.reading import StreamDatabase, committed
from jdbcstore.errors import IN_JOURNAL
from jdbcstore.message.destination import DestinationKind

if TYPE_CHECKING:
    from pyarrow import RecordBatch


_TABLE = (
    "id BIGINT, container STRING, destination STRING, destination_type STRING, msgid_prod STRING,"
    " msgid_seq BIGINT, expiration BIGINT, priority BIGINT, xid STRING, message_size BIGINT"
)
_KINDS = frozenset(DestinationKind)


def schema(*, decoded: bool) -> str:
    """Return the columns of a stream: those of ``messages_decoded``, or those of the table with ``msg``."""
    if not decoded:
        return f"{_TABLE}, msg BINARY"
    types = ("timestamp" if column.name in TIMES else column.type for column in COLUMNS)
    pairs = (f"{column.name} {kind}" for column, kind in zip(COLUMNS, types, strict=True))
    return f"{_TABLE}, {', '.join(pairs)}"


def batch_of(page: Sequence[Any], columns: pa.Schema, *, decoded: bool) -> pa.RecordBatch:
    """Return the committed messages of a page as a record batch."""
    rows = [*committed(page)]
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


def _kind(container: str) -> str | None:
    kind = container.partition("://")[0]
    return kind if kind in _KINDS else None


def _decoded(blobs: pa.Array) -> list[pa.Array]:
    batch = MessageBatch(blobs)
    arrays = [(column.name, batch.column(column.decode)) for column in COLUMNS]
    return [_time(array) if name in TIMES else array for name, array in arrays]


def _time(milliseconds: pa.Array) -> pa.Array:
    """Convert epoch milliseconds to timestamps; null for 0, which means unset, and outside the calendar."""
    calendar = pc.and_(pc.greater_equal(milliseconds, YEAR_1_MS), pc.less(milliseconds, YEAR_10000_MS))
    known = pc.if_else(pc.and_(calendar, pc.not_equal(milliseconds, 0)), milliseconds, None)
    return known.cast(pa.timestamp("ms", "UTC"))


log = logging.getLogger(__name__)

_PAUSE = 0.25
"""Seconds to wait after a query that found nothing."""
_UNBOUNDED = 2**31
_LEAST_ROWS = 1000
"""Minimum rows of a partition; fewer do not justify a connection."""


@dataclass(frozen=True)
class StreamSlice(InputPartition):
    """The messages after one ID, up to another, that are not in these gaps."""

    start: int
    end: int
    gaps: Gaps


@dataclass(frozen=True)
class Late(InputPartition):
    """Messages that appeared in gaps that the stream had passed."""

    ids: tuple[int, ...]


class MessageStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """New messages, each once, in the order of their IDs, with the columns of ``messages_decoded``.

    An offset is an ID, with the gaps below it in which a message may be committed yet, so none is skipped,
    whichever broker stores it: see :mod:`jdbcstore.analytics.streaming.position`. A batch
    that is read again after a failure has the same messages, except those removed in the meantime. Messages
    that were removed before the stream read them are not in it.

    It plans batches next to the driver; its copies in tasks only read their slices."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        self._options = options
        self._columns = to_arrow_schema(schema, timezone="UTC")

    @cached_property
    def _database(self) -> StreamDatabase:
        return StreamDatabase(self._options)

    @cached_property
    def _position(self) -> Position:
        if self._database.has_journal():
            log.warning("a stream of messages: %s", IN_JOURNAL)
        return Position(self._database, self._options.settle)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        # Spark may ask again before the first batch is done, and must get the same answer.
        named = {EARLIEST: 0, LATEST: NOWHERE}
        starting = self._options.starting
        return {"id": named[starting] if starting in named else int(starting)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._position.stop_at_present()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else _UNBOUNDED
        before = Offset.of(start)
        while True:
            end = self._position.after(before, rows)
            if end != before:
                return end.facts
            waits = self._position.is_waiting(before)
            time.sleep(_PAUSE)
            if not waits:
                return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, until = Offset.of(start), Offset.of(end)
        if before.id == NOWHERE or before == until:
            return []
        late = [Late(until.late)] if until.late else []
        if before.id == until.id:
            return late
        parts = self._options.partitions
        cut = self._database.bounds(before.id, until.id, parts, _LEAST_ROWS)
        return [
            *late,
            *(StreamSlice(*bounds, until.gaps.after(bounds[0]).up_to(bounds[1])) for bounds in cut),
        ]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        with closing(StreamDatabase(self._options)) as database:
            for page in _pages(database, partition):
                yield batch_of(page, self._columns, decoded=self._options.decoded)

    def stop(self) -> None:
        if "_database" in vars(self):
            self._database.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns}


def _pages(database: StreamDatabase, partition: InputPartition) -> Iterator[Sequence[Any]]:
    if isinstance(partition, Late):
        yield from database.pages_of(partition.ids)
    elif isinstance(partition, StreamSlice):
        for page in database.pages(partition.start, partition.end):
            # Messages committed after the batch was planned are in a later one.
            yield [row for row in page if row.id not in partition.gaps] if partition.gaps else page
