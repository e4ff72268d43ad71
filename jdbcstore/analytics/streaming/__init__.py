"""The Structured Streaming format ``jdbcstore``: new messages of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jdbcstore.analytics.spark_session import check_session, ship
from jdbcstore.analytics.streaming.source import MessageStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MessageStream", "register"]


def register(spark: SparkSession) -> None:
    """Register the format ``jdbcstore`` for ``spark.readStream`` with a session and its workers.

    >>> messages = spark.readStream.format("jdbcstore").option("url", "sqlite:///mq.db").load()
    """
    check_session(spark)
    ship(spark)
    spark.dataSource.register(MessageStream)
