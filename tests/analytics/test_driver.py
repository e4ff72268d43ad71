"""What a task says whose machine lacks the database's driver, or its file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from jdbcstore.analytics.questions import connecting
from jdbcstore.errors import StoreUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jdbcstore.analytics import Analytics


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "org.example.Driver:example:mq",
            r"the JDBC driver org\.example\.Driver is not on .+: it must be in spark\.jars",
        ),
        (
            "org.sqlite.JDBC:sqlite:file:/nowhere/m%3Fq.db?open_mode=65",
            r"the SQLite file /nowhere/m\?q\.db is not on .+: use a database server, a local master",
        ),
    ],
)
def test_what_is_missing_is_named(
    spark: SparkSession, connect: Callable[[], Analytics], url: str, said: str
) -> None:
    connect()
    options = {"driver": "jdbcstore.StoreDriver", "url": f"jdbc:jdbcstore:other:{url}", "dbtable": "t"}
    with pytest.raises(StoreUnavailable, match=said), connecting():
        spark.read.format("jdbc").options(**options).load()
