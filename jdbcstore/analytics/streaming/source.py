"""The format ``jdbcstore``: the messages of a store as Structured Streaming reads them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from jdbcstore.analytics.streaming.options import EARLIEST, LATEST, StreamOptions, read_options
from jdbcstore.analytics.streaming.position import NOWHERE, Position
from jdbcstore.analytics.streaming.reading import StreamDatabase
from jdbcstore.analytics.streaming.rows import batch_of, schema
from jdbcstore.errors import IN_JOURNAL

if TYPE_CHECKING:
    from pyarrow import RecordBatch

log = logging.getLogger(__name__)

_PAUSE = 0.25
"""Seconds after a look that found nothing."""
_UNBOUNDED = 2**31
_LEAST_ROWS = 1000
"""Of a partition: fewer are not worth a connection."""


class MessageStream(DataSource):
    """New messages, each once, in the order of their IDs, with the columns of ``messages_decoded``.

    An offset is an ID. A batch ends where everything below it is settled, so that no message is passed
    by, whichever broker stores it and however late it commits: see
    :mod:`jdbcstore.analytics.streaming.horizon`. A batch that is read again, after a failure, has the
    same messages, without those that were removed meanwhile. Messages that were removed before the
    stream read them are not in it.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({})  # they hold the password, which Spark has no use for
        self._stream = read_options(options)

    @classmethod
    def name(cls) -> str:
        return "jdbcstore"

    def schema(self) -> str:
        return schema(decoded=self._stream.decoded)

    def streamReader(self, schema: StructType) -> MessageStreamReader:  # noqa: N802 - Spark's names
        return MessageStreamReader(self._stream, schema)


@dataclass(frozen=True)
class Slice(InputPartition):
    """The messages behind one ID, up to another."""

    start: int
    end: int


class MessageStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches beside the driver, and reads their slices in tasks, whose copies plan nothing."""

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

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        # Spark may ask again before the first batch is done, and must be told the same.
        named = {EARLIEST: 0, LATEST: NOWHERE}
        starting = self._options.starting
        return {"id": named[starting] if starting in named else int(starting)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._position.stop_at_present()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else _UNBOUNDED
        while True:
            end = self._position.after(start["id"], rows)
            if end != start["id"]:
                return {"id": end}
            waits = self._position.is_waiting(end)
            time.sleep(_PAUSE)
            if not waits:
                return start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Slice]:
        if start["id"] in (NOWHERE, end["id"]):
            return []
        cut = self._database.bounds(start["id"], end["id"], self._options.partitions, _LEAST_ROWS)
        return [Slice(*bounds) for bounds in cut]

    def read(self, partition: Slice) -> Iterator[RecordBatch]:  # type: ignore[override]
        with closing(StreamDatabase(self._options)) as database:
            for page in database.pages(partition.start, partition.end):
                yield batch_of(page, self._columns, decoded=self._options.decoded)

    def stop(self) -> None:
        if "_database" in vars(self):
            self._database.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns}
