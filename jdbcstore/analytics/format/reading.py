"""Tasks that read a view, by :mod:`jdbcstore.analytics.arrow`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from sqlalchemy import ColumnElement, and_

from jdbcstore.analytics.arrow.conditions import ColumnComparison, Condition, conditions
from jdbcstore.analytics.arrow.reading import ArrowReading
from jdbcstore.analytics.arrow.table import ALL
from jdbcstore.analytics.arrow.views import OF_MESSAGES, rows_of_view
from jdbcstore.analytics.connected import bounds_of
from jdbcstore.analytics.streaming.options import StreamLogin
from jdbcstore.analytics.vendors import vendor_of
from jdbcstore.database.engine import Database
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.tables import Tables


@dataclass(frozen=True, slots=True)
class ViewOptions(StreamLogin):
    """The options of a view; pickled, they are all that its tasks receive."""

    view: str
    destination: str | None
    """The qualified name of the only destination to read; None reads all."""
    selector: str
    """A JMS selector that all messages fulfil; empty: none."""
    snapshot: str
    """The exported snapshot to read; empty: each task reads the present."""
    bounds: tuple[int, ...]
    """The IDs that divide messages into partitions."""
    partitions: int
    """The number of partitions, if the IDs are not given."""


class ViewSlice(InputPartition):
    """The messages from one ID on, up to another, which is not included."""

    def __init__(self, start: int | None, end: int | None) -> None:
        super().__init__((start, end))
        self.start, self.end = start, end


class ViewReader(DataSourceReader):
    """One view of one store.

    Spark evaluates the filters of queries. It would pass them to ``pushFilters``, but Spark 4.3 keeps what
    the source makes of them with the view and not with the query: the next query of the same view, or the
    other side of a join with itself, would miss the rows that the filters of the first exclude.
    """

    def __init__(self, options: ViewOptions, columns: pa.Schema) -> None:
        self._options = options
        self._columns = columns
        self._conditions: list[Condition] = []
        if options.destination is not None:
            self._conditions.append(ColumnComparison.of("destination", "=", options.destination))
        self._conditions += conditions(options.selector or None)

    def partitions(self) -> Sequence[InputPartition]:
        bounds = self._options.bounds if self._options.view in OF_MESSAGES else ()
        ends = [None, *(bounds or self._divided()), None]
        return [ViewSlice(*pair) for pair in pairwise(ends)]

    def _divided(self) -> list[int]:
        options = self._options
        if options.partitions == 1:
            return []
        session = DatabaseSession(
            options.url, options.store, user=options.user, password=options.password, read_only=True
        )
        try:
            return bounds_of(session, options.partitions)
        finally:
            session.close()

    def read(self, partition: ViewSlice) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        options = self._options
        database = Database(
            options.url, options.store, user=options.user, password=options.password, must_exist=True
        )
        vendor = vendor_of(database.adapter.name)
        first = (vendor.begin, vendor.snapshot.format(snapshot=options.snapshot)) if options.snapshot else ()
        for batch in self._batches(database, first, partition):
            if batch is not None:
                yield self._as_spark_has_it(batch)

    def _batches(
        self, database: Database, first: tuple[str, ...], partition: ViewSlice
    ) -> Iterator[pa.RecordBatch | None]:
        view, names = self._options.view, self._columns.names
        if view not in OF_MESSAGES:
            batches = rows_of_view(view, database, first)
            return (None if batch is None else batch.select(names) for batch in batches)
        schema = pa.schema([(name, ALL[name].type) for name in names] or [("id", pa.int64())])
        clause = _within(database.tables, partition, in_doubt=view == "in_doubt")
        return ArrowReading(database, first).batches(schema, self._conditions, clause)

    def _as_spark_has_it(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        pairs = zip(batch.columns, self._columns, strict=True)
        arrays = [
            array if array.type.equals(field.type) else array.cast(field.type) for array, field in pairs
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)


def _within(tables: Tables, part: ViewSlice, *, in_doubt: bool) -> ColumnElement[bool] | None:
    ids, xid = tables.messages.c.id, tables.messages.c.xid
    clauses = [
        *([ids >= part.start] if part.start is not None else []),
        *([ids < part.end] if part.end is not None else []),
        *([xid.is_not(None)] if in_doubt else []),
    ]
    return and_(*clauses) if clauses else None
