"""How Spark reaches each vendor: driver, URL, and what a connection is told before it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

from sqlalchemy import URL, Connection

from jdbcstore.analytics.meaning import Meaning, of_mysql, of_postgresql, of_sqlite
from jdbcstore.database.tables import Tables
from jdbcstore.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor's JDBC driver, and how it is spoken to."""

    driver: str
    """The class."""
    jars: tuple[str, ...]
    """File names to look for, as patterns; the first that is found is taken."""
    package: str
    """Where Maven has it."""
    debian: str
    url: Callable[[URL], str]
    """The JDBC URL, without user and password; its connections cannot write, and wait for nobody."""
    meaning: Callable[[Connection, Tables], Meaning]
    """Finds out what this database may answer in Spark's stead."""
    namespace: Callable[[URL, str | None], tuple[str, ...]]
    """What stands before a table's name in a catalog, of the URL and the user's first schema."""
    snapshot: str = ""
    """What a connection runs first to read the picture that another exports as ``{snapshot}``."""
    export: str = ""
    """Run in a transaction with this vendor, gives the name of its picture."""
    begin: str = ""
    """Starts that transaction."""


def _sqlite(url: URL) -> str:
    # Who closes the file last, or opens it behind one that was killed, locks it for a moment.
    return f"jdbc:sqlite:{Path(str(url.database)).absolute()}?open_mode=1&busy_timeout=60000"


def _postgresql(url: URL) -> str:
    # Prepared from the first execution on, a statement's results come in binary.
    options = {"prepareThreshold": "-1", "readOnly": "true", "readOnlyMode": "always"}
    options["ApplicationName"] = "jdbcstore analytics"
    tls = {name: str(url.query[name]) for name in ("sslmode", "sslrootcert") if name in url.query}
    if "host" in url.query:
        raise ConfigurationError("several hosts in one URL are not read by Spark; name one, a replica say")
    return f"jdbc:postgresql://{_host(url)}:{url.port or 5432}/{url.database}?{urlencode(options | tls)}"


def _mariadb(url: URL) -> str:
    return _mysql(url, "tx")


def _mysql(url: URL, variables: str = "transaction") -> str:
    # Under jdbc:mariadb: Spark has no dialect, quotes names as texts, and silently reads the names.
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
    ),
    "postgresql": Vendor(
        driver="org.postgresql.Driver",
        jars=("postgresql.jar", "postgresql-[0-9]*.jar"),
        package="org.postgresql:postgresql:42.7.4",
        debian="libpostgresql-jdbc-java",
        url=_postgresql,
        meaning=of_postgresql,
        namespace=lambda _, schema: (schema or "public",),
        snapshot=(
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
            " SET TRANSACTION SNAPSHOT '{snapshot}'"
        ),
        export="SELECT pg_export_snapshot()",
        begin="BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    ),
    "mariadb": replace(_MYSQL, url=_mariadb),
    "mysql": _MYSQL,
}
"""By the name of the store's adapter."""


def vendor_of(name: str) -> Vendor:
    """The vendor of this adapter.

    :raises ConfigurationError: Spark is not yet taught to read it
    """
    vendor = VENDORS.get(name)
    if vendor is None:
        raise ConfigurationError(f"analytics reads {', '.join(VENDORS)}, and not yet {name}")
    return vendor
