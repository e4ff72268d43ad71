"""A rule for Spark's planner: messages are decoded on the way, and only what a query asks of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from jdbcstore.analytics.batch import Batch
from jdbcstore.analytics.columns import COLUMNS
from jdbcstore.analytics.properties import looked_up, properties_with
from jdbcstore.analytics.resources import resource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "jdbcstore_decode_"
"""What functions are called that decode a column, before its name: the rule knows them by it."""
_RULE = "Decoding"
_DECODERS = {column.name: column.decode for column in COLUMNS}


def plan_decoding(spark: SparkSession) -> None:
    """Give the session's planner the rule, once."""
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
    """Batches whose last column is MSG, and called what to put in its place: see ``Decoding.java``."""
    for given in batches:
        *names, question = given.schema.names
        batch, asked = Batch(given.columns[-1]), question.split(",")
        found = [_asked(batch, *each.split(".")) for each in asked]
        yield pa.RecordBatch.from_arrays([*given.columns[:-1], *found], names=[*names, *asked])


def _asked(batch: Batch, column: str, field: str = "", name: str = "") -> pa.Array:
    if not field:
        return batch.column(_DECODERS[column])
    # Only a map of properties is looked up in.
    maps = batch.column(properties_with(int(field)))
    return looked_up(maps, bytes.fromhex(name).decode(), int(field))
