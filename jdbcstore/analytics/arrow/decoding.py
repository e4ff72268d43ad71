"""Decoding of MSG columns that are outside a store: in Arrow streams, and in Spark's DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.analytics.arrow.table import PAGE_BYTES, PAGE_ROWS, ViewRows, schema_of
from jdbcstore.analytics.columns import COLUMNS
from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = schema_of([column.name for column in COLUMNS])
"""The columns that are decoded from MSG."""


def decoded_stream(frame: Any, column: str) -> pa.RecordBatchReader:
    """Return a stream of the rows of an Arrow stream, with the columns of :data:`SCHEMA`.

    :raises ConfigurationError: the frame is not one of Arrow, or a column is missing or would be there twice
    """
    if not hasattr(frame, "__arrow_c_stream__"):
        raise ConfigurationError(
            f"{type(frame).__name__} is neither a DataFrame of Spark nor a stream of Arrow, such as a"
            " table or reader of pyarrow"
        )
    reader = pa.RecordBatchReader.from_stream(frame)
    names = reader.schema.names
    _check_names(names, column)
    kind = reader.schema.field(column).type
    if not any(test(kind) for test in _BINARY):
        raise ConfigurationError(f"the column {column} is of type {kind}; give the binary column MSG")
    schema = pa.schema([*reader.schema, *SCHEMA], reader.schema.metadata)
    return pa.RecordBatchReader.from_batches(schema, with_decoded(reader, column))


_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)


def decoded_frame(frame: DataFrame, column: str) -> DataFrame:
    """Return the rows of a DataFrame of Spark, with the columns of :data:`SCHEMA`.

    :raises ConfigurationError: a column is missing, or would be there twice
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import BinaryType, StructType

    _check_names(frame.columns, column)
    kind = frame.schema[column].dataType
    if not isinstance(kind, BinaryType):
        raise ConfigurationError(
            f"the column {column} is of type {kind.simpleString()}; give the binary column MSG"
        )
    schema = StructType([*frame.schema.fields, *from_arrow_schema(SCHEMA).fields])
    return frame.mapInArrow(partial(with_decoded, column=column), schema)


def _check_names(names: list[str], column: str) -> None:
    if names.count(column) != 1:
        raise ConfigurationError(
            f"there is no single column {column}; choose from {', '.join(names)}", option="column"
        )
    lower = {name.lower(): name for name in names}
    if twice := [lower[name] for name in SCHEMA.names if name in lower]:
        raise ConfigurationError(f"rename {', '.join(twice)}: decoding adds columns of these names")


def with_decoded(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each batch with the columns of :data:`SCHEMA`, in parts of bounded size."""
    for batch in batches:
        # Offsets of 64 bits: a batch may have more bytes than a binary array can.
        blobs = batch.column(column).cast(pa.large_binary())
        for start, end in _parts(blobs):
            part = batch.slice(start, end - start)
            msg = blobs.take(pa.array(np.arange(start, end))).cast(pa.binary())
            decoded = ViewRows({"msg": msg}).record_batch(SCHEMA)
            schema = pa.schema([*part.schema, *SCHEMA], part.schema.metadata)
            yield pa.RecordBatch.from_arrays([*part.columns, *decoded.columns], schema=schema)


def _parts(blobs: pa.LargeBinaryArray) -> Iterator[tuple[int, int]]:
    ends = np.cumsum(pc.binary_length(blobs).fill_null(0).to_numpy())
    start = 0
    while start < len(blobs):
        before = int(ends[start - 1]) if start else 0
        full = int(np.searchsorted(ends, before + PAGE_BYTES, "right"))
        end = max(start + 1, min(start + PAGE_ROWS, full))
        yield start, end
        start = end
