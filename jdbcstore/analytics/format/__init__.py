"""The format ``jdbcstore`` of Spark: the views of a store, its new messages as a stream, rows to send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jdbcstore.analytics.format.source import StoreSource
from jdbcstore.analytics.remote import is_remote, send
from jdbcstore.analytics.spark_session import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register the format ``jdbcstore`` with a session and its workers; also of Spark Connect.

    >>> messages = spark.read.format("jdbcstore").option("url", "sqlite:///mq.db").load()
    >>> arriving = spark.readStream.format("jdbcstore").option("url", "sqlite:///mq.db").load()
    >>> rows.write.format("jdbcstore").option("url", "sqlite:///mq.db").mode("append").save()
    """
    if is_remote(spark):
        send(spark)
    else:
        ship(spark)
    spark.dataSource.register(StoreSource)
