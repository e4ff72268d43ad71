"""The decoder as Spark runs it: one function of an Arrow column for each column of the view."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it
from pyspark.sql.pandas.functions import arrow_udf

from jdbcstore.analytics.batch import Batch
from jdbcstore.analytics.columns import COLUMNS, TIMES, YEAR_1_MS, YEAR_10000_MS, Column
from jdbcstore.analytics.planning import PREFIX

_batches: list[Batch] = []
"""The batch decoded last. Spark gives the columns of one batch the same bytes, one after the other."""


def _batch_of(blobs: pa.BinaryArray) -> Batch:
    # While a batch is kept its bytes are too, so no other batch can be at their address.
    if not _batches or _place(_batches[0].blobs) != _place(blobs):
        _batches[:] = [Batch(blobs)]
    return _batches[0]


def _place(blobs: pa.BinaryArray) -> tuple[Any, ...]:
    return tuple(buffer and buffer.address for buffer in blobs.buffers()), blobs.offset, len(blobs)


@cache
def _function(column: Column) -> Callable[[SparkColumn], SparkColumn]:
    function: Callable[[SparkColumn], SparkColumn] = arrow_udf(  # type: ignore[call-overload]
        _decoder(COLUMNS.index(column)), returnType=column.type
    )
    return function


def _decoder(number: int) -> Callable[[pa.Array], pa.Array]:
    def decode(blobs: pa.Array) -> pa.Array:
        return _batch_of(blobs).column(COLUMNS[number].decode)

    decode.__name__ = PREFIX + COLUMNS[number].name
    return decode


def decoded(column: Column, blob: SparkColumn) -> SparkColumn:
    """One of :data:`COLUMNS`, decoded from the column MSG when a query needs it."""
    value = _function(column)(blob)
    if column.name in TIMES:
        known = (value != 0) & value.between(YEAR_1_MS, YEAR_10000_MS - 1)
        value = F.timestamp_millis(F.when(known, value))
    return value.alias(column.name)
