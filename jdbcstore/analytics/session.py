"""A Spark session that reads message stores: quick to start, quiet, on whatever Java there is."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jdbcstore.analytics.drivers import jars_found, packages
from jdbcstore.analytics.java import find_java, make_shim
from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NATIVE = "/usr/lib/x86_64-linux-gnu/jni:/usr/lib/aarch64-linux-gnu/jni:/usr/lib/jni"
"""Where Debian keeps the native half of SQLite's driver, which only its own Java looks into."""

_LOGGING = Path(__file__).with_name("log4j2.properties")

# What Arrow checks at each access of Java's is right as pyarrow made it, and costs a tenth of the time.
_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's: they print each error that is raised as well."""

_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""Of a master that is this machine: others would not reach the driver."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Redacts user names too, wherever Spark shows its configuration or a query's options.
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|\.user$",
    "spark.sql.shuffle.partitions": "8",
}


def session(master: str | None = None, **settings: str) -> SparkSession:
    """A session on this machine's cores with every JDBC driver that is here; or the one that is running.

    ``settings`` are Spark's own, given as a mapping: ``session(**{"spark.driver.memory": "4g"})``; they
    win over ours. ``spark.jars.packages`` fetches drivers that are not here.

    :raises ConfigurationError: there is no Java, or it does not run Spark
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    for logger in _LOGGERS:
        logging.getLogger(logger).disabled = True
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    found = find_java()
    os.environ["JAVA_HOME"] = str(make_shim(found))
    # Workers decode, so they must be this Python, which has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = master or "local[*]"
    builder = SparkSession.builder.appName("jdbcstore").master(master)
    jars = ",".join(map(str, jars_found()))
    java = f"-Djava.library.path={_NATIVE} -Dlog4j2.configurationFile={_LOGGING} {_ARROW}"
    own = {
        **_SETTINGS,
        **(_LOOPBACK if master.startswith("local") else {}),
        "spark.jars": jars,
        **({"spark.jars.packages": packages()} if packages() else {}),
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": f"-Djava.library.path={_NATIVE}",
    }
    for name, value in {**own, **settings}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise ConfigurationError(
            f"Spark did not start with Java {found.version} of {found.origin}, which said why on stderr;"
            " JAVA_HOME names another Java"
        ) from error
