"""The Java virtual machine of this process, and the JDBC drivers in it.

The first connection starts it, and it runs until the process ends. It does not survive a fork: open the
store in the child.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jdbcstore.database.adapters.urls import subprotocol
from jdbcstore.errors import ConfigurationError, MissingDriver

JARS = "JDBCSTORE_JDBC_JARS"
"""The environment variable with jar files, or directories of them, separated as in PATH."""
OPTIONS = ("-Xrs", "-Xss8m")
"""Of the virtual machine. -Xrs: Ctrl-C and SIGTERM stay Python's, as with ``interrupt``.

-Xss: the main thread's stack stays Python's. By default Java guards all of it below the first megabyte, which
Python 3.12 and 3.13 need for deeply nested JSON: a body or a request with it would end the process.
"""
_SHARED = Path("/usr/share/java")
"""Debian's directory of jar files."""

USUAL_JARS = {
    "axiondb": ("axion.jar",),
    "db2": ("db2jcc4.jar", "db2jcc.jar", "jcc.jar"),
    "derby": ("derby.jar", "derbyclient.jar"),
    "h2": ("h2.jar",),
    "hsqldb": ("hsqldb.jar",),
    "informix-sqli": ("ifxjdbc.jar",),
    "sapdb": ("sapdbc.jar",),
    "sybase": ("jconn4.jar",),
}
"""By subprotocol, the usual names of its driver's jar files."""

_lock = threading.Lock()
_drivers: dict[tuple[Path, ...], list[Any]] = {}
"""The drivers in a set of jar files, loaded once: a driver's in-memory databases belong to its classes."""


def driver_for(url: str) -> Any:
    """Return the ``java.sql.Driver`` that takes this JDBC URL: from the user's jar files, or Debian's.

    :raises MissingDriver: jpype is not installed
    :raises ConfigurationError: Java or the driver is not installed
    """
    kind = subprotocol(url)
    jars = USUAL_JARS.get(kind, ())
    paths = _paths(jars)
    with _lock:
        _start()
        if paths not in _drivers:
            _drivers[paths] = _load(paths)
    for driver in _drivers[paths]:
        if driver.acceptsURL(url):
            return driver
    usual = f" ({' or '.join(jars)})" if jars else ""
    raise ConfigurationError(
        f"no JDBC driver here takes jdbc:{kind}:; name its jar file{usual} in the environment"
        f" variable {JARS}, or install the Debian package that has it"
    )


def find_jar(kind: str) -> Path | None:
    """Return the subprotocol's jar file under its usual name: the user's, or Debian's."""
    names = USUAL_JARS[kind]
    return next((path for path in _paths(names) if path.name in names and path.exists()), None)


def _start() -> None:
    try:
        import jpype
    except ImportError:
        raise MissingDriver("jpype", "jdbc") from None
    if jpype.isJVMStarted():
        return
    try:
        jpype.startJVM(*OPTIONS, interrupt=False)
    except (jpype.JVMNotFoundException, OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"Java could not be started for the JDBC driver: {error}; install a Java runtime, version 11"
            " or later (Debian: default-jre-headless), or point JAVA_HOME at one"
        ) from error


def _load(paths: tuple[Path, ...]) -> list[Any]:
    """Return the drivers in these files, and those on the class path of a JVM that was already running."""
    import jpype

    # Jar files cannot be added to the class path of a running JVM.
    urls = [path.absolute().as_uri() for path in paths]
    url = jpype.JClass("java.net.URL")
    parent = jpype.JClass("java.lang.ClassLoader").getSystemClassLoader()
    loader = jpype.JClass("java.net.URLClassLoader")([url(text) for text in urls], parent)
    return list(jpype.JClass("java.util.ServiceLoader").load(jpype.JClass("java.sql.Driver"), loader))


def _paths(jars: Iterable[str]) -> tuple[Path, ...]:
    """Return the user's jar files, and the vendor's in Debian's directory."""
    paths: list[Path] = []
    for text in (os.environ.get(JARS, ""), os.environ.get("CLASSPATH", "")):
        for part in filter(None, text.split(os.pathsep)):
            path = Path(part)
            paths += sorted(path.glob("*.jar")) if path.is_dir() else [path]
    paths += [_SHARED / name for name in jars if (_SHARED / name).exists()]
    return tuple(paths)
