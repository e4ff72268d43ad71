"""Spark SQL over the live tables of a message store, whoever wrote them.

>>> from jdbcstore import analytics
>>> spark = analytics.session()
>>> with analytics.connect(spark, "sqlite:///mq.db"):
...     spark.sql("SELECT destination, count(*) FROM messages GROUP BY destination").show()
"""

from jdbcstore.errors import ConfigurationError

try:
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise ConfigurationError("Spark is not installed; run: pip install 'jdbcstore[spark]'") from error

from jdbcstore.analytics.answers import as_json, explained
from jdbcstore.analytics.connection import Analytics, connect
from jdbcstore.analytics.session import session
from jdbcstore.analytics.views import VIEWS

__all__ = ["VIEWS", "Analytics", "as_json", "connect", "explained", "session"]
