"""Inventory of installed drivers and tools, and the state of the selected database."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jdbcstore.analytics import java, vendors
from jdbcstore.analytics.vendors import VENDORS
from jdbcstore.config import Configuration
from jdbcstore.database.adapters.jdbc.jvm import JARS, USUAL_JARS, find_jar
from jdbcstore.database.adapters.registry import BUILT_IN, GENERIC, adapter_class
from jdbcstore.database.checkup import examine as health_of
from jdbcstore.database.engine import Database
from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import ConfigurationError, SchemaError, StoreError, installation
from jdbcstore.journal.logs import health as stream_health
from jdbcstore.journal.logs import not_serving
from jdbcstore.stores.opening import with_journals
from jdbcstore.util.checkup import Checkup, Diagnosis

_DISTRIBUTIONS = {"argon2": "argon2-cffi", "jpype": "JPype1", "stomp": "stomp.py"}
"""Distributions whose module has another name."""
_DEBIAN = {"derby": "libderbyclient-java", "h2": "libh2-java", "hsqldb": "libhsqldb-java"}
"""Debian packages of JDBC drivers for the Java bridge."""
_PATIENCE = 10.0
"""Seconds for which a database may take to answer."""
_ODBC = {
    "MariaDB, MySQL": ("maria", "mysql", "install Debian's odbc-mariadb"),
    "SQL Server": ("sql server", "freetds", "install Microsoft's msodbcsql18, or Debian's tdsodbc"),
}
"""Words in the names of each vendor's ODBC drivers, and how to install one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A driver or tool, installed or missing."""

    group: str
    name: str
    purpose: str
    found: str | None
    """Version or location; None if missing."""
    cure: str | None = None
    """Command that installs it."""


def examine() -> Iterator[Finding]:
    """Check everything except the store. The only process started is ``java -version``."""
    yield from _python_drivers()
    yield from _odbc_drivers()
    yield from _bridge_drivers()
    yield _package("Broker", "aiohttp", "broker --health", "broker")
    yield _package("Broker", "argon2", "broker --users, passwd", "broker")
    yield _package("Broker", "stomp", "demo", "demo")
    yield _package("Broker", "textual", "top", "top")
    yield from _spark()


def examine_store(configuration: Configuration) -> tuple[Finding, StoreError | None]:
    """Check that the configured store can be connected to; also returns the error if not.

    A missing SQLite file is not an error: it is created when the store is opened.
    """
    place = str(configuration.data_source.masked().url)
    try:
        with configuration.locating_errors():
            return Finding("Store", place, *_reached(configuration)), None
    except SchemaError as error:
        return Finding("Store", place, "", "not created yet", str(error)), None
    except StoreError as error:
        return Finding("Store", place, "", None, str(error)), error


def examine_health(configuration: Configuration) -> Checkup | None:
    """Look once at the state of the configured database; None if it has no tables yet.

    :raises StoreError: the database cannot be looked at
    """
    try:
        session = DatabaseSession.configured(configuration, read_only=True)
    except SchemaError:
        return None
    with contextlib.closing(session):
        return health_of(session)


def examine_streams(configuration: Configuration) -> Iterator[tuple[Finding, Sequence[Diagnosis]]]:
    """Ask the servers of each journal's stream once; yield its faults, too."""
    for config in with_journals(configuration):
        if config.journal is None or not config.journal.use_journal or config.journal.stream is None:
            continue
        try:
            health = stream_health(config.journal)
        except StoreError as error:
            yield Finding("Journal", config.journal.place, "", None, str(error)), ()
            continue
        if health is None:
            continue
        if health.present == 0:  # opening the store detects missing records
            yield Finding("Journal", health.place, health.sync, "not created yet"), ()
            continue
        state = None
        if health.present is not None:
            led = "" if health.leader is None else f", led by {health.leader}"
            state = f"{health.current} of {health.present} replicas are current{led}{health.named_behind}"
        if health.problem is None and health.current != health.replicas:
            state = "; ".join([str(state), *not_serving(config.journal)])
        elif health.problem is not None and not health.is_unsafe:
            problem = "; ".join([health.problem, *not_serving(config.journal)])
            health = dataclasses.replace(health, problem=problem)
        yield Finding("Journal", health.place, health.sync, state, health.problem), [*health.diagnoses]


def _reached(configuration: Configuration) -> tuple[str, str]:
    """Return the name of the adapter; the response time of the database, and what its server is."""
    timeout = min(configuration.store.network_timeout or _PATIENCE, _PATIENCE)
    database = Database.configured(configuration.replace(network_timeout=timeout), must_exist=True)
    engine = database.connect_with(limited=True)
    begun = time.monotonic()
    try:
        with database.translated(), engine.connect():
            answers = f"answers in {(time.monotonic() - begun) * 1000:.0f} ms"
            return database.adapter.name, f"{answers}: {database.adapter.server}"
    finally:
        engine.dispose()


def _python_drivers() -> Iterator[Finding]:
    """Yield each driver module once, with its databases."""
    wanted: dict[tuple[str, str], list[str]] = {}
    for name in BUILT_IN:
        if name not in GENERIC:
            for driver in dict.fromkeys(adapter_class(name).drivers.values()):
                wanted.setdefault(driver, []).append(name)
    for (module, extra), names in wanted.items():
        yield _package("Python drivers", module, ", ".join(names), extra)


def _package(group: str, module: str, purpose: str, extra: str) -> Finding:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        return Finding(group, module, purpose, None, installation(extra))
    except ImportError as error:
        return Finding(
            group, module, purpose, None, f"cannot be imported: {error}; install the missing library"
        )
    try:
        installed = version(_DISTRIBUTIONS.get(module, module))
    except PackageNotFoundError:
        installed = "in Python"
    return Finding(group, module, purpose, installed)


def _odbc_drivers() -> Iterator[Finding]:
    try:
        names = importlib.import_module("pyodbc").drivers()
    except ImportError:
        return
    for purpose, (*words, cure) in _ODBC.items():
        drivers = [name for name in names if any(word in name.lower() for word in words)]
        there = ", ".join(drivers) or None
        yield Finding("ODBC drivers", f"of {purpose}", "pyodbc", there, None if there else cure)


def _bridge_drivers() -> Iterator[Finding]:
    for kind, jars in USUAL_JARS.items():
        debian = f"install Debian's {_DEBIAN[kind]}, or " if kind in _DEBIAN else ""
        cure = f"{debian}name {' or '.join(jars)} in {JARS}"
        yield _placed("JDBC drivers for the extra jdbc", f"jdbc:{kind}:", "jpype", find_jar(kind), cure)


def _spark() -> Iterator[Finding]:
    for module in ("pyspark", "pandas", "pyarrow"):
        yield _package("Spark", module, "jdbcstore sql, report", "spark")
    yield _java()
    for name, vendor in VENDORS.items():
        jar = vendors.find_jar(vendor)
        yield _placed("Spark", f"JDBC driver of {name}", "jdbcstore sql, report", jar, vendors.cure(vendor))


def _java() -> Finding:
    purpose = "Spark, and JDBC drivers"
    try:
        installed = java.find_java()
    except ConfigurationError as error:
        return Finding("Spark", "Java", purpose, None, str(error))
    return Finding("Spark", "Java", purpose, f"{installed.version}, of {installed.origin}: {installed.home}")


def _placed(group: str, name: str, purpose: str, place: Path | None, cure: str) -> Finding:
    return Finding(group, name, purpose, None if place is None else str(place), None if place else cure)
