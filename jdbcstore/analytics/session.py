"""A Spark session that reads message stores: quick to start, quiet, on whatever Java there is."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import java_gateway

from jdbcstore.analytics.drivers import jars_found, packages
from jdbcstore.analytics.java import find_java, make_shim
from jdbcstore.analytics.resources import resource_path
from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NATIVE = "/usr/lib/x86_64-linux-gnu/jni:/usr/lib/aarch64-linux-gnu/jni:/usr/lib/jni"
"""Where Debian keeps the native half of SQLite's driver, which only its own Java looks into."""

# What Arrow checks at each access of Java's is right as pyarrow made it, and costs a tenth of the time.
_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's: they print each error that is raised as well."""

_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
}
"""Of a master that is this machine: others would not reach the driver, and have more to divide."""

_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    # Redacts user names too, wherever Spark shows its configuration or a query's options.
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|\.user$",
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
        return check_session(running)
    submitted = _submitted()
    if submitted:
        origin = "spark-submit"
    else:
        found = find_java()
        origin = f"Java {found.version} of {found.origin}"
        os.environ["JAVA_HOME"] = str(make_shim(found))
    # Workers decode, so they must be this Python, which has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = master or submitted.get("spark.master", "local[*]")
    ours = {name: value for name, value in _settings(master).items() if name not in submitted}
    builder = SparkSession.builder.appName("jdbcstore").master(master)
    for name, value in {**ours, **settings}.items():
        builder = builder.config(name, value)
    try:
        with ended_if_interrupted():
            return check_session(builder.getOrCreate())
    except PySparkRuntimeError as error:
        raise ConfigurationError(
            f"Spark did not start with {origin}, which said why on stderr; JAVA_HOME names another Java"
        ) from error


def _submitted() -> dict[str, str]:
    """What spark-submit was told, which has started Java and this program; nothing where it has not."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _settings(master: str) -> dict[str, str]:
    """Ours, for the cores of this machine or for a cluster."""
    executor = f"-Djava.library.path={_NATIVE} {_ARROW}"
    logging_ = resource_path("log4j2.properties")
    return {
        **_SETTINGS,
        **(_LOCAL if master.startswith("local") else {}),
        "spark.jars": ",".join(map(str, jars_found())),
        **({"spark.jars.packages": packages()} if packages() else {}),
        "spark.driver.extraJavaOptions": f"{executor} -Dlog4j2.configurationFile={logging_}",
        "spark.executor.extraJavaOptions": executor,
    }


def check_session(spark: SparkSession) -> SparkSession:
    """The session, which must have its Java in reach.

    :raises ConfigurationError: it is one of Spark Connect
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigurationError(
            "a session of Spark Connect cannot read message stores yet: its Java, where the decoder and the"
            " drivers are put in, is a server's; take jdbcstore.analytics.session(), or start Spark with"
            " SPARK_REMOTE unset"
        )
    return spark


@contextmanager
def ended_if_interrupted() -> Iterator[None]:
    """A Java that is being started in the block ends with it: nobody else would know of it."""
    started: list[subprocess.Popen[bytes]] = []
    gateway: Any = java_gateway
    start = gateway.Popen

    def note(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))
        return started[-1]

    gateway.Popen = note
    try:
        yield
    except KeyboardInterrupt:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        gateway.Popen = start
