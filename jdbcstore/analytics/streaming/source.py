"""The Structured Streaming source ``jdbcstore``: batches of messages as Arrow record batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from jdbcstore.analytics.arrow.table import rows_of
from jdbcstore.analytics.streaming.offsets import Gaps, Offset
from jdbcstore.analytics.streaming.options import EARLIEST, LATEST, StreamOptions
from jdbcstore.analytics.streaming.position import NOWHERE, Position
from jdbcstore.analytics.streaming.reading import StreamDatabase, committed
from jdbcstore.errors import IN_JOURNAL

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ModuleNotFoundError:  # before Spark 4.2
        SupportsTriggerAvailableNow = object


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

    It plans batches next to the driver; its copies in tasks only read their slices.

    Before Spark 4.2 it remembers where the next batch begins: Spark asks for the partitions of each batch,
    and after a restart for those between the last offset and itself. A batch has all present messages then.
    """

    def __init__(self, options: StreamOptions, columns: Schema) -> None:
        self._options = options
        self._columns = columns
        self._planned: dict[str, Any] | None = None

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
        from pyspark.sql.streaming.datasource import ReadMaxRows

        return ReadMaxRows(self._options.rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._position.stop_at_present()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        start = start or self._planned or self.initialOffset()
        rows = getattr(limit, "max_rows", _UNBOUNDED)
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
        self._planned = end
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
                yield rows_of([*committed(page)]).record_batch(self._columns)

    def stop(self) -> None:
        if "_database" in vars(self):
            self._database.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns, "_planned": None}


def _pages(database: StreamDatabase, partition: InputPartition) -> Iterator[Sequence[Any]]:
    if isinstance(partition, Late):
        yield from database.pages_of(partition.ids)
    elif isinstance(partition, StreamSlice):
        for page in database.pages(partition.start, partition.end):
            # Messages committed after the batch was planned are in a later one.
            yield [row for row in page if row.id not in partition.gaps] if partition.gaps else page
