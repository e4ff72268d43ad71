"""Properties as typed columns of Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import jdbcstore
from jdbcstore import Message, analytics
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.values import Float, Long, Short
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jdbcstore.analytics import Analytics


@pytest.mark.backends("sqlite")
def test_properties_with_a_type(
    spark: SparkSession, database: Database, connect: Callable[[], Analytics]
) -> None:
    """Integers of all sizes are longs, all numbers doubles, and everything is a string."""
    with jdbcstore.open(database.url) as store:
        for value in (Short(7), Long(8), Float(1.5), True, "nine", b"x", None):
            store.queue("Q").add_message(Message("", properties={"a.b'": value, "at": Long(86_400_000)}))
        store.queue("Q").add_message(Message(""))
    connect()
    frame = spark.table("messages_decoded").orderBy("id")

    def values(type_: str) -> list[object]:
        typed = analytics.with_properties(frame, {"a.b'": type_})
        return [row[0] for row in typed.select("`a.b'`").collect()]

    assert values("long") == [7, 8, None, None, None, None, None, None]
    assert values("double") == [7.0, 8.0, 1.5, None, None, None, None, None]
    assert values("boolean") == [None, None, None, True, None, None, None, None]
    assert values("bytes") == [*[None] * 5, bytearray(b"x"), None, None]
    assert values("string")[:5] == ["7", "8", "1.5", "true", "nine"]
    at = analytics.with_properties(frame, {"at": "timestamp"}).selectExpr("unix_millis(at)").collect()
    assert [row[0] for row in at] == [86_400_000] * 7 + [None]

    with pytest.raises(ConfigurationError, match="choose one of boolean, long, double"):
        analytics.with_properties(frame, {"at": "int"})
    with pytest.raises(ConfigurationError, match=r"column ID already; .* \{'my_ID': \('ID', 'long'\)\}"):
        analytics.with_properties(frame, {"ID": "long"})
    with pytest.raises(ConfigurationError, match="there is a column AT already"):
        analytics.with_properties(frame, {"at": "long", "AT": "long"})
    renamed = analytics.with_properties(frame, {"my_type": ("at", "long")})
    assert {row.my_type for row in renamed.select("my_type").collect()} == {86_400_000, None}
