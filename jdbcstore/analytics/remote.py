"""Sessions of Spark Connect, whose Java is on a server: what they are, and what they are sent."""

from __future__ import annotations

from typing import Any

from jdbcstore.analytics.spark_session import packed


def is_remote(spark: Any) -> bool:
    """Whether this is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


_sent: set[str] = set()
"""Sessions that have the package: a file that was sent cannot be replaced."""


def send(spark: Any) -> None:
    """Send this jdbcstore to the server and its workers, which may have another version, or none."""
    if spark.session_id not in _sent:
        spark.addArtifacts(str(packed()), pyfile=True)
        _sent.add(spark.session_id)
