"""Rows of a query as Arrow columns, in pages of bounded size: ADBC, COPY or a cursor, whichever there is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import BigInteger, Connection, Dialect, NullPool, Select, Text, cast, select

from jdbcstore.analytics.arrow.table import PAGE_BYTES, PAGE_ROWS
from jdbcstore.analytics.envelope import WINDOW, Walk, pieces
from jdbcstore.analytics.vendors import VENDORS
from jdbcstore.database.engine import Database

Page = list[pa.Array]


class Fetching:
    """One read-only connection, in which one query is run; closed by :meth:`close`.

    ``first``: statements to run before the query, for example to set a snapshot.
    """

    def __init__(self, database: Database, first: Sequence[str] = ()) -> None:
        self.database = database
        with database.translated(), contextlib.ExitStack() as opened:
            engine = database.connect_with(poolclass=NullPool)
            opened.callback(engine.dispose)
            self.connection: Connection = engine.connect()
            # Invalidated, since a rollback would wait for the rest of an unfinished result.
            opened.callback(self.connection.invalidate)
            self._raw: Any = self.connection.connection.dbapi_connection
            opened.callback(database.adapter.abandon_rows, self._raw)
            vendor = VENDORS.get(database.adapter.name)
            self._first = (*([vendor.read_only] if vendor else ()), *first)
            for statement in self._first:
                self.connection.exec_driver_sql(statement)
            self._open = opened.pop_all()

    def close(self) -> None:
        """Close the connection, even before the last row."""
        self._open.close()

    def pages(self, query: Select[Any], types: Sequence[pa.DataType]) -> Iterator[Page]:
        """Run the query at once; its rows follow as columns of these types.

        :raises StoreUnavailable: the database does not answer
        """
        with self.database.translated():
            adapter, dialect = self.database.adapter, self.connection.dialect
            binary = _compiled(_in_binary(query, types), dialect)
            batches = self._open.enter_context(
                adapter.arrow_batches(self._raw, self._first, *binary, PAGE_BYTES)
            )
            if batches is not None:
                return self._translated(_sliced_pages(batches))
            cursor = adapter.streaming_cursor(self._raw)
            if copied := adapter.copied(cursor, *binary):
                return self._translated(_copied_pages(self._open.enter_context(copied), types))
            cursor.execute(*_compiled(query, dialect))
            return self._translated(_fetched_pages(cursor, types))

    def _translated(self, pages: Iterator[Page]) -> Iterator[Page]:
        with self.database.translated():
            yield from pages


def _compiled(query: Select[Any], dialect: Dialect) -> tuple[str, Any]:
    """Return the query and its parameters, for the driver's own cursor."""
    compiled: Any = query.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    if not compiled.positional:
        return str(compiled), compiled.params
    return str(compiled), tuple(compiled.params[name] for name in compiled.positiontup)


def _in_binary(query: Select[Any], types: Sequence[pa.DataType]) -> Select[Any]:
    """Return the query with its columns cast to types whose binary form is known."""
    answer = query.subquery("answer")
    columns = [
        column if type_ == pa.binary() else cast(column, BigInteger if type_ == pa.int64() else Text)
        for column, type_ in zip(answer.c, types, strict=True)
    ]
    return select(*columns)


def _sliced_pages(batches: Iterable[pa.RecordBatch]) -> Iterator[Page]:
    for batch in batches:
        for start in range(0, len(batch), PAGE_ROWS):
            yield batch.slice(start, PAGE_ROWS).columns


_HEADER_SIZE = len(b"PGCOPY\n\xff\r\n\0") + 8
_END = b"\xff\xff"


def _copied_pages(copied: Iterable[Any], types: Sequence[pa.DataType]) -> Iterator[Page]:
    # The driver returns one row at a time, the header in front of the first, and the end like a row.
    rows: list[Any] = []
    size = 0
    header = _HEADER_SIZE
    for row in copied:
        if header:
            row, header = row[header:], 0
        if len(row) <= len(_END):
            continue
        rows.append(row)
        size += len(row)
        if size >= PAGE_BYTES or len(rows) >= PAGE_ROWS:
            yield parsed(rows, types)
            rows, size = [], 0
    if rows:
        yield parsed(rows, types)


def parsed(rows: list[Any], types: Sequence[pa.DataType]) -> Page:
    """Return the columns of rows in PostgreSQL's binary form: a count of fields, then each after its size."""
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    data = np.frombuffer(b"".join([*rows, bytes(WINDOW)]), np.uint8)
    walk = Walk(data, np.cumsum(sizes) - sizes)
    walk.skip(2)
    columns = []
    for type_ in types:
        size = walk.next("i4").astype(np.int64)
        walk.skip(4)
        there = size >= 0
        size = np.maximum(size, 0)
        if type_ == pa.int64():
            columns.append(pa.array(walk.next("i8"), mask=None if there.all() else ~there))
        else:
            columns.append(_as_text(pieces(data, walk.places, size, there), type_))
        walk.skip(size)
    return columns


def _as_text(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type == type_:
        return column
    try:
        return column.cast(type_)
    except pa.ArrowInvalid:  # a server that does not check its strings
        return pa.array(
            [None if raw is None else raw.decode("utf-8", "replace") for raw in column.to_pylist()]
        )


def _fetched_pages(cursor: Any, types: Sequence[pa.DataType]) -> Iterator[Page]:
    blob = next((place for place, type_ in enumerate(types) if type_ == pa.binary()), None)
    rows: list[Any] = []
    size = 0
    if blob is None:
        while rows := cursor.fetchmany(PAGE_ROWS):
            yield _columns(rows, types)
        return
    # One by one, since any of them may be large.
    for row in iter(cursor.fetchone, None):
        rows.append(row)
        size += len(row[blob] or b"")
        if size >= PAGE_BYTES or len(rows) >= PAGE_ROWS:
            yield _columns(rows, types)
            rows, size = [], 0
    if rows:
        yield _columns(rows, types)


def _columns(rows: list[Any], types: Sequence[pa.DataType]) -> Page:
    return [_column(column, type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)]


def _column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # decimals, as some drivers return numbers
        if type_ != pa.int64():
            raise
        return pa.array([None if value is None else int(value) for value in values], type_)
