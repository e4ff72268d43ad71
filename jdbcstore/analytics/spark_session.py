"""The Spark session: started locally with every driver found, and the package shipped to its workers."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext, accumulators, java_gateway

from jdbcstore.analytics.java import find_java, make_shim, scratch
from jdbcstore.analytics.spark_settings import (
    PYTHON,
    all_settings,
    check_running,
    check_settings,
    chosen_master,
    is_local,
)
from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark loggers that also print each error that is raised."""


LOST = (Py4JError, EOFError, ConnectionError)
"""Errors of calls to Java, among them those after its end: see :func:`has_ended`."""
_ENDING = 5.0
"""Seconds for which Java may remove its files when it is to end."""


def session(master: str | None = None, **settings: str) -> SparkSession:
    """Return the running session; else start one on this machine's cores, with every JDBC driver found.

    ``settings`` are Spark's own, given as a mapping: ``session(**{"spark.driver.memory": "4g"})``. They
    replace ours; jars, packages and Java options are added to ours. ``spark.pyspark.python`` is the Python
    of the workers. ``spark.jars.packages`` fetches drivers that are not installed.

    :raises ConfigurationError: no Java was found, or Spark does not start with it; a setting is refused; or
        the running session has another master or other settings
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    errors_once()
    check_settings(settings)
    master = chosen_master(master, settings)
    running = SparkSession.getActiveSession()
    if running is not None:
        check_session(running)
        static = dict(running.sparkContext.getConf().getAll())
        check_running({**static, **running.conf.getAll}, master, settings)
        return running
    submitted = _submitted()
    check_settings(submitted)
    if submitted:
        origin = "spark-submit"
    else:
        java = find_java()
        origin = f"Java {java.version} of {java.origin}"
        os.environ["JAVA_HOME"] = str(make_shim(java))
        name_this_machine(os.environ)
    # Workers decode messages, so they must run this Python's version, by default this very Python.
    os.environ["PYSPARK_PYTHON"] = settings.get(PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable
    master = master or submitted.get("spark.master", "local[*]")
    builder = SparkSession.builder.appName("jdbcstore").master(master)
    for name, value in all_settings(master, submitted, settings).items():
        builder = builder.config(name, value)
    try:
        with ended_if_interrupted():
            return check_session(builder.getOrCreate())
    except PySparkRuntimeError as error:
        raise ConfigurationError(
            f"Spark did not start with {origin}, see stderr for the reason; set JAVA_HOME to use another Java"
        ) from error


def name_this_machine(environment: MutableMapping[str, str]) -> None:
    """Let Spark use the loopback address if the machine's own name has none, because Java would fail."""
    if "SPARK_LOCAL_IP" in environment or "SPARK_LOCAL_HOSTNAME" in environment:
        return
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        environment.update(SPARK_LOCAL_IP="127.0.0.1", SPARK_LOCAL_HOSTNAME="localhost")


def errors_once() -> None:
    """Make PySpark raise its errors without printing them too."""
    # Its thread prints a traceback if Java ends.
    # The former name is that of Spark 4.0.
    server: Any = getattr(accumulators, "AccumulatorServer", None) or accumulators.AccumulatorTCPServer
    server.handle_error = lambda *_: None
    for logger in _LOGGERS:
        logging.getLogger(logger).disabled = True


def _submitted() -> dict[str, str]:
    """Return the configuration of spark-submit, if it started this program; else empty."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


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
    """Kill a JVM that is being started in the block if the block fails: nothing else would."""
    started: list[subprocess.Popen[bytes]] = []
    gateway: Any = java_gateway
    start = gateway.Popen

    def note(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))
        return started[-1]

    gateway.Popen = note
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        gateway.Popen = start


def has_ended(error: BaseException) -> bool:
    """Return whether a call has failed with this error because Java has ended."""
    if type(error) is Py4JError:
        return "Trace:" not in str(error)  # which Java would have answered
    return isinstance(error, (Py4JNetworkError, EOFError, ConnectionError))


def is_java_over() -> bool:
    """Return whether the Java that this process started has ended."""
    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def end_java() -> None:
    """End the Java that this process started, by force if it is too busy to end by itself."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return
    process.stdin.close()  # which it reads, to end with us
    try:
        process.wait(_ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_shipped: set[str] = set()
"""Applications whose workers have the package."""


def ship(spark: SparkSession) -> None:
    """Send this jdbcstore to the workers of a cluster, whichever version they have installed, if any.

    Local workers use the driver's own.
    """
    context = spark.sparkContext
    if is_local(str(context.master)) or context.applicationId in _shipped:
        return
    context.addPyFile(str(packed()))
    _shipped.add(context.applicationId)


def packed() -> Path:
    """Return a zip of this package: a new one, unless it was imported from one in ``--py-files``."""
    package = Path(__file__).parents[1]
    if not package.is_dir():
        return package.parent
    archive = scratch("package") / "jdbcstore.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for module in sorted(package.rglob("*.py")):
            # Without a time: the same modules are the same zip.
            entry = zipfile.ZipInfo(module.relative_to(package.parent).as_posix())
            file.writestr(entry, module.read_bytes(), zipfile.ZIP_DEFLATED)
    return archive
