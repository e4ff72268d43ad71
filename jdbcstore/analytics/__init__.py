"""Spark SQL over the live tables of a message store, ours or ActiveMQ's.

>>> from jdbcstore import analytics
>>> spark = analytics.session()
>>> with analytics.connect(spark, "sqlite:///mq.db"):
...     spark.sql("SELECT destination, count(*) FROM messages GROUP BY destination").show()
"""

from __future__ import annotations

import contextlib
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jdbcstore.analytics.arrow import decode
    from jdbcstore.analytics.comments import VIEWS
    from jdbcstore.analytics.connected import Analytics
    from jdbcstore.analytics.connection import connect, stored_in
    from jdbcstore.analytics.format import register
    from jdbcstore.analytics.questions import as_json, explained
    from jdbcstore.analytics.spark_session import session
    from jdbcstore.analytics.typed import with_properties

__all__ = [
    "VIEWS",
    "Analytics",
    "as_json",
    "connect",
    "decode",
    "explained",
    "register",
    "session",
    "stored_in",
    "with_properties",
]

_MODULES = {
    "arrow": ("decode",),
    "comments": ("VIEWS",),
    "connected": ("Analytics",),
    "connection": ("connect", "stored_in"),
    "questions": ("as_json", "explained"),
    "format": ("register",),
    "spark_session": ("session",),
    "typed": ("with_properties",),
}
_PLACES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


def _installed_version() -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("pyspark")
    return None


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used: Arrow, Java and drivers can be had without Spark."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(_PLACES[name]), name)
        except ImportError as error:
            missing = (error.name or "").partition(".")[0]
            if isinstance(error, ModuleNotFoundError) and missing not in ("pyarrow", "pyspark", "py4j"):
                raise
            from jdbcstore.errors import ConfigurationError, installation

            if (installed := _installed_version()) is not None and int(installed.partition(".")[0]) < 4:
                raise ConfigurationError(
                    f"PySpark {installed} is too old: {name} needs 4.0 or newer; run:"
                    f" {installation('spark')}, or write jdbcstore.read_arrow(...) to Parquet for it"
                ) from error
            raise ConfigurationError(f"Spark is not installed; run: {installation('spark')}") from error
        globals()[name] = value
        return value
