"""Decoding inside Spark: one Arrow function per column, and a planner rule that decodes only the columns
read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it
from pyspark.sql.pandas import functions as vectorized
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from jdbcstore.analytics.batch import MessageBatch
from jdbcstore.analytics.columns import COLUMNS, TIMES, YEAR_1_MS, YEAR_10000_MS, DecodedColumn
from jdbcstore.analytics.java import resource
from jdbcstore.analytics.properties import looked_up, properties_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PREFIX = "jdbcstore_decode_"
"""Prefix of the decoders' function names, by which the planner rule recognises them."""
_RULE = "Decoding"
_DECODERS = {column.name: column.decode for column in COLUMNS}


def plan_decoding(spark: SparkSession) -> None:
    """Add the rule to the session's planner, once."""
    java: Any = spark._jvm
    session: Any = spark._jsparkSession
    methods = session.experimental()
    if any(rule.getClass().getSimpleName() == _RULE for rule in _items(java, methods)):
        return
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(java.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(resource(f"{_RULE}.java"))
    made = compiler.getClassLoader().loadClass(f"jdbcstore.{_RULE}").getConstructors()
    arguments = spark.sparkContext._gateway.new_array(java.Object, 3)  # type: ignore[union-attr]
    decode: Any = UserDefinedFunction(
        decode_batches, "msg binary", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    arguments[0], arguments[1], arguments[2] = PREFIX, decode._judf.func(), decode.evalType
    rules = java.java.util.ArrayList(_items(java, methods))
    rules.add(made[0].newInstance(arguments))
    getattr(methods, "extraOptimizations_$eq")(java.PythonUtils.toSeq(rules))


def _items(java: Any, methods: Any) -> Any:
    return java.scala.jdk.javaapi.CollectionConverters.asJava(methods.extraOptimizations())


def decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replace the last column, MSG, by the columns that its name lists: see ``Decoding.java``."""
    for given in batches:
        *names, question = given.schema.names
        batch, asked = MessageBatch(given.columns[-1]), question.split(",")
        columns = [_asked(batch, *each.split(".")) for each in asked]
        yield pa.RecordBatch.from_arrays([*given.columns[:-1], *columns], names=[*names, *asked])


def _asked(batch: MessageBatch, column: str, field: str = "", name: str = "") -> pa.Array:
    if not field:
        return batch.column(_DECODERS[column])
    # A field means a lookup in the map of properties.
    maps = batch.column(properties_with(int(field)))
    return looked_up(maps, bytes.fromhex(name).decode(), int(field))


_batches: list[MessageBatch] = []
"""The batch decoded last. Spark passes the same bytes for each column of a batch in turn."""


def _batch_of(blobs: pa.BinaryArray) -> MessageBatch:
    # A batch that is kept keeps its bytes alive, so no other batch can have their address.
    # Spark may decode in several threads, each of which may replace it at any time.
    for batch in tuple(_batches):
        if _place(batch.blobs) == _place(blobs):
            return batch
    batch = MessageBatch(blobs)
    _batches[:] = [batch]
    return batch


def _place(blobs: pa.BinaryArray) -> tuple[Any, ...]:
    return tuple(buffer and buffer.address for buffer in blobs.buffers()), blobs.offset, len(blobs)


@cache
def _function(column: DecodedColumn) -> Callable[[SparkColumn], SparkColumn]:
    number = COLUMNS.index(column)
    arrow_udf: Any = getattr(vectorized, "arrow_udf", None)
    if arrow_udf is None:  # before Spark 4.1
        in_pandas: Any = _decoder_in_pandas(number)
        return UserDefinedFunction(in_pandas, column.type, evalType=PythonEvalType.SQL_SCALAR_PANDAS_UDF)
    function: Callable[[SparkColumn], SparkColumn] = arrow_udf(_decoder(number), returnType=column.type)
    return function


def _decoder(number: int) -> Callable[[pa.Array], pa.Array]:
    def decode(blobs: pa.Array) -> pa.Array:
        return _batch_of(blobs).column(COLUMNS[number].decode)

    decode.__name__ = PREFIX + COLUMNS[number].name
    return decode


def _decoder_in_pandas(number: int) -> Callable[[Any], Any]:
    """Make a decoder for a Spark that passes and takes series; as objects, to keep integers exact."""
    decode_array = _decoder(number)

    def decode(blobs: Any) -> Any:
        import pandas as pd

        values = decode_array(pa.array(blobs, pa.binary()))
        listed = values.to_pylist()
        if pa.types.is_map(values.type):
            listed = [None if value is None else dict(value) for value in listed]
        return pd.Series(listed, dtype=object)

    decode.__name__ = decode_array.__name__
    return decode


def decoded(column: DecodedColumn, blob: SparkColumn) -> SparkColumn:
    """Return one of :data:`COLUMNS`, decoded from the MSG column when a query reads it."""
    value = _function(column)(blob)
    return (as_time(value) if column.name in TIMES else value).alias(column.name)


def as_time(value: SparkColumn) -> SparkColumn:
    """Convert epoch milliseconds to a timestamp; null for 0 and outside the calendar."""
    known = (value != 0) & value.between(YEAR_1_MS, YEAR_10000_MS - 1)
    return F.timestamp_millis(F.when(known, value))


def decoded_columns(blob: SparkColumn) -> list[SparkColumn]:
    """Return the columns that ``messages_decoded`` derives from the MSG column."""
    return [decoded(column, blob) for column in COLUMNS]
