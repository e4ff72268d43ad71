"""Each vendor as Spark needs it: JDBC driver, URL, session settings, and how it reports transactions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import urlencode

from sqlalchemy import URL, Connection

from jdbcstore.analytics.pushdown import Meaning, of_mysql, of_postgresql, of_sqlite
from jdbcstore.database.tables import Tables
from jdbcstore.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor's JDBC driver, the settings of its connections, and its reports of transactions."""

    driver: str
    """Its class."""
    jars: tuple[str, ...]
    """Patterns of file names; the first file found is used."""
    package: str
    """Maven coordinates."""
    debian: str
    url: Callable[[URL], str]
    """The JDBC URL without user and password; its connections are read-only and do not wait for locks."""
    meaning: Callable[[Connection, Tables], Meaning]
    """Reads from the database what may be pushed down to it."""
    namespace: Callable[[URL, str | None], tuple[str, ...]]
    """The namespace of a table in the catalog, from the URL and the user's default schema."""
    read_only: str
    """The first statement of each connection of a stream: makes it read-only."""
    snapshot: str = ""
    """The first statement of a connection that reads the exported ``{snapshot}``; empty: not supported."""
    export: str = ""
    """The query that exports the snapshot of its transaction and returns its name."""
    begin: str = ""
    """The statement that begins that transaction."""
    begun: str = "0"
    """Expression for the upper bound of the transactions that have begun; zero if it is not reported."""
    unfinished: str = "0"
    """Expression for a number below which every transaction is over; zero if it is not reported."""
    uncommitted: str = ""
    """The statement after which the next one sees uncommitted rows; empty: not supported."""
    is_file: bool = False
    """The database is a file; tasks run in other working directories."""


def _sqlite(url: URL) -> str:
    # The last connection to close the file, or the first after a kill, locks it for a moment.
    return f"jdbc:sqlite:{Path(str(url.database)).absolute()}?open_mode=1&busy_timeout=60000"


def _postgresql(url: URL) -> str:
    # Results are binary only for server-prepared statements: prepare at the first execution.
    options = {"prepareThreshold": "-1", "readOnly": "true", "readOnlyMode": "always"}
    options["ApplicationName"] = "jdbcstore analytics"
    tls = {name: str(url.query[name]) for name in ("sslmode", "sslrootcert") if name in url.query}
    if "host" in url.query:
        raise ConfigurationError(
            "Spark cannot read a URL with several hosts; give one host, for example a replica"
        )
    return f"jdbc:postgresql://{_host(url)}:{url.port or 5432}/{url.database}?{urlencode(options | tls)}"


def _mariadb(url: URL) -> str:
    return _mysql(url, "tx")


def _mysql(url: URL, variables: str = "transaction") -> str:
    # Spark has no dialect for jdbc:mariadb: it would quote names as strings, and silently read the names.
    port = url.port or url.query.get("port") or 3306
    session = f"{variables}_read_only=1,{variables}_isolation='READ-COMMITTED'"
    options = f"permitMysqlScheme&sessionVariables={session}"
    return f"jdbc:mysql://{_host(url)}:{port}/{url.database}?{options}"


def _host(url: URL) -> str:
    host = url.host or "localhost"
    return f"[{host}]" if ":" in host else host


_MYSQL = Vendor(
    driver="org.mariadb.jdbc.Driver",
    jars=("mariadb-java-client.jar", "mariadb-java-client-[0-9]*.jar"),
    package="org.mariadb.jdbc:mariadb-java-client:2.7.12",
    debian="libmariadb-java",
    url=_mysql,
    meaning=of_mysql,
    namespace=lambda url, _: (str(url.database),),
    read_only="SET SESSION TRANSACTION READ ONLY",
    uncommitted="SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
)

VENDORS = {
    "sqlite": Vendor(
        driver="org.sqlite.JDBC",
        jars=("xerial-sqlite-jdbc.jar", "sqlite-jdbc.jar", "sqlite-jdbc-[0-9]*.jar"),
        package="org.xerial:sqlite-jdbc:3.46.1.3",
        debian="libxerial-sqlite-jdbc-java",
        url=_sqlite,
        meaning=of_sqlite,
        namespace=lambda _url, _schema: (),
        read_only="PRAGMA query_only = 1",
        is_file=True,
    ),
    "postgresql": Vendor(
        driver="org.postgresql.Driver",
        jars=("postgresql.jar", "postgresql-[0-9]*.jar"),
        package="org.postgresql:postgresql:42.7.4",
        debian="libpostgresql-jdbc-java",
        url=_postgresql,
        meaning=of_postgresql,
        namespace=lambda _, schema: (schema or "public",),
        read_only="SET default_transaction_read_only = on",
        snapshot=(
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
            " SET TRANSACTION SNAPSHOT '{snapshot}'"
        ),
        export="SELECT pg_export_snapshot()",
        begin="BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        begun="CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)",
        unfinished="CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)",
    ),
    "mariadb": replace(_MYSQL, url=_mariadb),
    "mysql": _MYSQL,
}
"""The vendors by the name of the store's adapter."""


def vendor_of(name: str) -> Vendor:
    """The vendor of this adapter.

    :raises ConfigurationError: analytics does not support it
    """
    vendor = VENDORS.get(name)
    if vendor is None:
        raise ConfigurationError(f"analytics supports {', '.join(VENDORS)}, not {name}")
    return vendor


JARS_VARIABLE = "JDBCSTORE_JARS"
"""A directory of jars; or, where Maven's repository can be reached, ``group:artifact:version,...``."""
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+(,[\w.-]+:[\w.-]+:[\w.-]+)*")
_SYSTEM = (Path("/usr/share/java"), Path("/usr/local/share/java"))


def find_jar(vendor: Vendor) -> Path | None:
    """The jar of the vendor's driver, in the directory in JDBCSTORE_JARS or the system's, or None."""
    for directory in _directories():
        for pattern in vendor.jars:
            for jar in sorted(directory.glob(pattern), reverse=True):
                return jar
    return None


def _directories() -> Iterator[Path]:
    named = os.environ.get(JARS_VARIABLE)
    if named and not packages():
        yield Path(named)
    yield from _SYSTEM


def jars_beside(given: Iterable[str]) -> list[Path]:
    """Every driver found, for a session that can read any vendor, except those that the session has already.

    ``given``: lists of jars, or of Maven coordinates, separated by commas.
    """
    names = [name.strip().rpartition("/")[2] for each in given for name in each.split(",")]
    found = (find_jar(vendor) for vendor in VENDORS.values() if not _among(vendor, names))
    return sorted({jar for jar in found if jar is not None})


def _among(vendor: Vendor, names: list[str]) -> bool:
    artifact = vendor.package.rpartition(":")[0] + ":"
    return any(
        name.startswith(artifact) or any(fnmatch(name, pattern) for pattern in vendor.jars) for name in names
    )


def packages() -> str:
    """Maven coordinates in JDBCSTORE_JARS for Spark to fetch; empty if it names a directory or is unset."""
    named = os.environ.get(JARS_VARIABLE, "").strip()
    return named if _COORDINATES.fullmatch(named) else ""


def cure(vendor: Vendor) -> str:
    """Advice on installing a missing driver."""
    return (
        f"install Debian's {vendor.debian}, or set {JARS_VARIABLE} to a directory with the jar,"
        f" or, where Maven's repository can be reached, {JARS_VARIABLE}={vendor.package}"
    )


def missing_driver(name: str, vendor: Vendor) -> ConfigurationError:
    """The error for a session without this vendor's driver, with advice."""
    jar = find_jar(vendor)
    if jar is not None:
        return ConfigurationError(
            f"this Spark session was started without the JDBC driver for {name}, which is at hand: start it"
            f" with spark-submit --jars {jar}, or set spark.jars={jar} before a session of your own starts"
        )
    return ConfigurationError(f"Spark has no JDBC driver for {name} ({vendor.driver}); {cure(vendor)}")
