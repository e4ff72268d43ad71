"""Spark SQL over the live tables of a message store, whoever wrote them.

>>> from jdbcstore import analytics
>>> spark = analytics.session()
>>> with analytics.connect(spark, "sqlite:///mq.db"):
...     spark.sql("SELECT destination, count(*) FROM messages GROUP BY destination").show()
"""

from jdbcstore.errors import ConfigurationError

__all__ = ["VIEWS", "Analytics", "as_json", "connect", "explained", "register", "session"]

try:
    import pyarrow as _pyarrow  # noqa: F401
    import pyspark as _pyspark  # noqa: F401
except ImportError as _error:
    _missing = _error

    # What looks for Java and drivers can be had without Spark.
    def __getattr__(name: str) -> object:
        if name in __all__:
            raise ConfigurationError(
                "Spark is not installed; run: pip install 'jdbcstore[spark]'"
            ) from _missing
        raise AttributeError(name)

else:
    from jdbcstore.analytics.connection import Analytics, connect
    from jdbcstore.analytics.questions import as_json, explained
    from jdbcstore.analytics.session import session
    from jdbcstore.analytics.streaming import register
    from jdbcstore.analytics.views import VIEWS
