"""The headers that an archive stores: read in Java where MSG is, and by Python where Java cannot.

A message that passes through a Python worker and back costs more than everything else that archiving does.
``Headers.java`` reads the form in which nearly every message is stored, and says of any other that it does
not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import Column as SparkColumn

from jdbcstore.analytics.batch import MessageBatch
from jdbcstore.analytics.columns import COLUMNS, TIMES
from jdbcstore.analytics.decoding import as_time
from jdbcstore.analytics.pushdown import HEADERS as IN_JAVA
from jdbcstore.analytics.pushdown import load_classes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NAMES = (
    "type",
    "timestamp",
    "broker_in_time",
    "redelivery_counter",
    "correlation_id",
    "jms_type",
    "original_destination",
)
HEADERS = tuple(column for column in COLUMNS if column.name in _NAMES)
"""The headers that an archive stores, by which it is filtered most."""
_TYPES = ", ".join(f"`{header.name}` {header.type}" for header in HEADERS)


def with_headers_in_java(frame: DataFrame, known: str) -> DataFrame:
    """Add :data:`HEADERS` to the rows, and the column ``known``: whether Java can read them."""
    headers = _in_java(frame.sparkSession, frame["msg"])
    read = frame.withColumn("headers", headers)
    return read.select(
        *frame.columns,
        *(_typed(read["headers"][header.name], header.name) for header in HEADERS),
        read["headers"].isNotNull().alias(known),
    )


def _in_java(spark: SparkSession, blob: SparkColumn) -> SparkColumn:
    """Return a struct of the headers; null if Java cannot read them."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    java: Any = spark._jvm
    [constructor] = load_classes(spark).loadClass(IN_JAVA).getConstructors()
    nothing = spark.sparkContext._gateway.new_array(java.Object, 0)  # type: ignore[union-attr]
    types = java.org.apache.spark.sql.types.StructType.fromDDL(_TYPES)
    return ClassicColumn(constructor.newInstance(nothing).of(cast(Any, blob)._jc, types))


def with_headers(frame: DataFrame) -> DataFrame:
    """Add :data:`HEADERS` to the rows in Python; all of MSG goes there and back."""
    types = ", ".join(f"`{name}` {type_}" for name, type_ in frame.dtypes)
    added = frame.mapInArrow(_add_headers, f"{types}, {_TYPES}")
    headers = (_typed(added[header.name], header.name) for header in HEADERS)
    return added.select(*frame.columns, *headers)


def _typed(value: SparkColumn, name: str) -> SparkColumn:
    return (as_time(value) if name in TIMES else value).alias(name)


def _add_headers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    names = [column.name for column in HEADERS]
    for given in batches:
        batch = MessageBatch(given.column("msg"))
        columns = [batch.column(column.decode) for column in HEADERS]
        yield pa.RecordBatch.from_arrays([*given.columns, *columns], names=[*given.schema.names, *names])
