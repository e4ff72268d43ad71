"""Errors of a server of Spark Connect, in words of this side."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

from jdbcstore.analytics.remote_views import explained
from jdbcstore.errors import ConfigurationError, SchemaError

RAISED = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan jdbcstore:
Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1, in main
    import pyarrow as pa
{}
"""


def test_a_package_that_the_server_lacks_is_not_missing_here() -> None:
    said = RAISED.format("ModuleNotFoundError: No module named 'pyarrow'")
    with pytest.raises(ConfigurationError, match=r"Spark Connect's server.*'pyarrow'.*there"), explained():
        raise PySparkException(said)
    said = RAISED.format("jdbcstore.errors.SchemaError: the tables are missing")
    with pytest.raises(SchemaError, match="the tables are missing"), explained():
        raise PySparkException(said)
