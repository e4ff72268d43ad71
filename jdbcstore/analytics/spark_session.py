"""The Spark session: started locally with every driver found, and the package shipped to its workers."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import java_gateway

import jdbcstore
from jdbcstore.analytics.java import find_java, make_shim, resource_path, scratch
from jdbcstore.analytics.vendors import jars_found, packages
from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_NATIVE = "/usr/lib/x86_64-linux-gnu/jni:/usr/lib/aarch64-linux-gnu/jni:/usr/lib/jni"
"""Debian's directories for the native part of SQLite's driver; only Debian's own Java searches them."""

# Arrow's bounds and null checks are unnecessary on batches from pyarrow, and cost a tenth of the time.
_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark loggers that also print each error that is raised."""

_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
}
"""Settings for a local master only: a cluster could not reach the driver, and needs more partitions."""

_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    # Redacts user names too, wherever Spark shows its configuration or a query's options.
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|\.user$",
}


def session(master: str | None = None, **settings: str) -> SparkSession:
    """The running session; else a new one on this machine's cores, with every JDBC driver found.

    ``settings`` are Spark's own, given as a mapping: ``session(**{"spark.driver.memory": "4g"})``; they
    override ours. ``spark.jars.packages`` fetches drivers that are not installed.

    :raises ConfigurationError: no Java was found, or Spark does not start with it
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
    # Workers decode messages, so they must run this Python, which has this package.
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
            f"Spark did not start with {origin}, see stderr for the reason; set JAVA_HOME to use another Java"
        ) from error


def _submitted() -> dict[str, str]:
    """The configuration of spark-submit, if it started this program; else empty."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _settings(master: str) -> dict[str, str]:
    """Our settings for this master."""
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
    """Return the session if its JVM is reachable.

    :raises ConfigurationError: it is a Spark Connect session
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigurationError(
            "a Spark Connect session cannot read message stores yet: the decoder and the drivers must be"
            " loaded into its JVM, which is on a server; use jdbcstore.analytics.session(), or start Spark"
            " with SPARK_REMOTE unset"
        )
    return spark


@contextmanager
def ended_if_interrupted() -> Iterator[None]:
    """Kill a JVM that is being started in the block if the block is interrupted: nothing else would."""
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


_shipped: set[str] = set()
"""Applications whose workers have the package."""


def ship(spark: SparkSession) -> None:
    """Send this jdbcstore to the workers of a cluster, whichever version they have installed, if any.

    Local workers use the driver's own.
    """
    context = spark.sparkContext
    if str(context.master).partition("[")[0] == "local" or context.applicationId in _shipped:
        return
    context.addPyFile(str(_packed()))
    _shipped.add(context.applicationId)


def _packed() -> Path:
    """A zip of this package: the one in ``--py-files`` if it was imported from there, else a new one."""
    package = Path(jdbcstore.__file__).parent
    if not package.is_dir():
        return package.parent
    archive = scratch("package") / "jdbcstore.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted(package.rglob("*.py")):
            file.write(module, module.relative_to(package.parent))
    return archive
