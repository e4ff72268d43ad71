"""New messages as a source of Spark's Structured Streaming: the format ``jdbcstore``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jdbcstore.analytics.session import check_session
from jdbcstore.analytics.shipping import ship
from jdbcstore.analytics.streaming.source import MessageStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MessageStream", "register"]


def register(spark: SparkSession) -> None:
    """Teach a session the format ``jdbcstore``, which ``spark.readStream`` reads; its workers too.

    >>> messages = spark.readStream.format("jdbcstore").option("url", "sqlite:///mq.db").load()
    """
    check_session(spark)
    ship(spark)
    spark.dataSource.register(MessageStream)
