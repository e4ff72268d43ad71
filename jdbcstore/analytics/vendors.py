"""Each vendor as Spark needs it: JDBC driver, URL, session settings, and how it reports transactions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Table, bindparam, text

from jdbcstore.analytics.addresses import (
    JdbcAddress,
    MysqlAddress,
    MysqlEndpoint,
    for_connector_j,
    for_mariadb,
    for_mysql_with_mariadb,
    of_libpq,
    of_odbc,
    of_pymysql,
)
from jdbcstore.analytics.addresses import of_sqlite as address_of_sqlite
from jdbcstore.analytics.pushdown import Meaning, of_mysql, of_postgresql, of_sqlite
from jdbcstore.database.tables import Tables
from jdbcstore.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class JdbcDriver:
    """One JDBC driver: its files, and the form of its addresses."""

    name: str
    """Its class."""
    jars: tuple[str, ...]
    """Patterns of file names; the first file found is used."""
    package: str
    """Maven coordinates."""
    address: Callable[[URL, Any], JdbcAddress]
    """The address from the URL and an open connection of the Python driver; its connections are read-only and
    do not wait for locks."""
    debian: str = ""
    """Debian's package; empty: there is none."""
    fetch_size: int = 1
    """The fetch size with which it holds one row at a time; ``CopiedRows.java`` and SQLite always do."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor's JDBC drivers, its settings of connections, and its reports of transactions."""

    drivers: tuple[JdbcDriver, ...]
    """In the order of preference."""
    meaning: Callable[[Connection, Tables], Meaning]
    """Reads from the database what may be pushed down to it."""
    schema: Callable[[Connection, Tables], str]
    """The schema in which the connection finds the tables, for all names of them; empty: there are none."""
    identity: Callable[[Connection, Table, str], str]
    """A query for one string that another database, or the table of another schema, does not have."""
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


def _sqlite(url: URL, raw: Any) -> JdbcAddress:
    [file] = raw.execute(_SQLITE_FILE).fetchone()
    return address_of_sqlite(file, url.query)


def _postgresql(_url: URL, raw: Any) -> JdbcAddress:
    info = raw.info
    given = info.get_parameters()
    known = {"dbname": info.dbname, "user": info.user, "port": str(info.port)}
    if "host" in given:  # else libpq chose a socket, whose server is most likely this machine's
        known["host"] = info.host
    return of_libpq(given | known, info.password)


def _mysql(written: MysqlAddress) -> Callable[[URL, Any], JdbcAddress]:
    def address(url: URL, raw: Any) -> JdbcAddress:
        if url.get_driver_name() == "pyodbc":
            return of_odbc(url, written)
        user, password, database = map(_text, (raw.user, raw.password, raw.db))
        place = MysqlEndpoint(raw.host, raw.port, database or "", user, password)
        return of_pymysql(place, url.query, written)

    return address


def _text(value: str | bytes | None) -> str | None:
    # PyMySQL encodes passwords so.
    return value.decode("latin1") if isinstance(value, bytes) else value


_SQLITE_FILE = "SELECT file FROM pragma_database_list WHERE name = 'main'"


def _identity_of_sqlite(_connection: Connection, _table: Table, _schema: str) -> str:
    return _SQLITE_FILE


def _schema_of_postgresql(connection: Connection, tables: Tables) -> str:
    names = [str(table.name) for table in (*tables.all, tables.history)]
    rows = connection.execute(
        text(
            "SELECT DISTINCT n.nspname FROM pg_catalog.pg_class c"
            " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relname IN :names AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
            " AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1"
        ).bindparams(bindparam("names", expanding=True)),
        {"names": names},
    )
    schemas = [str(name) for name in rows.scalars()]
    if len(schemas) != 1:
        raise ConfigurationError(
            f"the tables are in several schemas, {', '.join(schemas)}, and may be those of several stores;"
            f" name one in the URL: ?options=-csearch_path%3D{schemas[0]}",
            option="url",
        )
    return schemas[0]


_MAY_IDENTIFY = (
    "SELECT pg_catalog.has_function_privilege(p.oid, 'EXECUTE') FROM pg_catalog.pg_proc p"
    " WHERE p.proname = 'pg_control_system' AND p.pronamespace = 'pg_catalog'::regnamespace"
)


def _identity_of_postgresql(connection: Connection, table: Table, schema: str) -> str:
    # A standby has the identifier of its primary.
    allowed = connection.exec_driver_sql(_MAY_IDENTIFY).scalar()
    system = "(SELECT system_identifier FROM pg_catalog.pg_control_system())" if allowed else "''"
    result = connection.execute(
        text(
            "SELECT c.oid::bigint FROM pg_catalog.pg_class c"
            " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relname = :name AND n.nspname = :schema"
        ),
        {"name": str(table.name), "schema": schema},
    )
    return (
        f"SELECT pg_catalog.concat_ws(' ', {system}, pg_catalog.current_database(),"  # noqa: S608
        " n.nspname, c.relname, c.oid) FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE c.oid = {result.scalar_one()}"
    )


def _schema_of_mysql(connection: Connection, _tables: Tables) -> str:
    return str(connection.exec_driver_sql("SELECT DATABASE()").scalar_one())


def _identity_of_mysql(_connection: Connection, _table: Table, schema: str) -> str:
    name = f"CONVERT(0x{schema.encode().hex()} USING utf8mb4)"
    return (
        "SELECT CONCAT_WS(' ', @@hostname, @@port, @@datadir, schema_name)"  # noqa: S608
        f" FROM information_schema.schemata WHERE schema_name = {name}"
    )


def _mariadb_driver(written: MysqlAddress) -> JdbcDriver:
    return JdbcDriver(
        name="org.mariadb.jdbc.Driver",
        jars=("mariadb-java-client.jar", "mariadb-java-client-[0-9]*.jar"),
        package="org.mariadb.jdbc:mariadb-java-client:2.7.12",
        address=_mysql(written),
        debian="libmariadb-java",
    )


def _mysql_vendor(*drivers: JdbcDriver) -> Vendor:
    return Vendor(
        drivers=drivers,
        meaning=of_mysql,
        schema=_schema_of_mysql,
        identity=_identity_of_mysql,
        read_only="SET SESSION TRANSACTION READ ONLY",
        uncommitted="SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    )


_CONNECTOR_J = JdbcDriver(
    name="com.mysql.cj.jdbc.Driver",
    jars=("mysql-connector-j.jar", "mysql-connector-j-[0-9]*.jar"),
    package="com.mysql:mysql-connector-j:9.4.0",
    address=_mysql(for_connector_j),
    fetch_size=-(2**31),
)

VENDORS = {
    "sqlite": Vendor(
        drivers=(
            JdbcDriver(
                name="org.sqlite.JDBC",
                jars=("xerial-sqlite-jdbc.jar", "sqlite-jdbc.jar", "sqlite-jdbc-[0-9]*.jar"),
                package="org.xerial:sqlite-jdbc:3.46.1.3",
                address=_sqlite,
                debian="libxerial-sqlite-jdbc-java",
            ),
        ),
        meaning=of_sqlite,
        schema=lambda _connection, _tables: "",
        identity=_identity_of_sqlite,
        read_only="PRAGMA query_only = 1",
        is_file=True,
    ),
    "postgresql": Vendor(
        drivers=(
            JdbcDriver(
                name="org.postgresql.Driver",
                jars=("postgresql.jar", "postgresql-[0-9]*.jar"),
                package="org.postgresql:postgresql:42.7.4",
                address=_postgresql,
                debian="libpostgresql-jdbc-java",
            ),
        ),
        meaning=of_postgresql,
        schema=_schema_of_postgresql,
        identity=_identity_of_postgresql,
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
    "mariadb": _mysql_vendor(_mariadb_driver(for_mariadb)),
    "mysql": _mysql_vendor(_CONNECTOR_J, _mariadb_driver(for_mysql_with_mariadb)),
}
"""The vendors by the name of the store's adapter."""


def vendor_of(name: str) -> Vendor:
    """Return the vendor of this adapter.

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
    """Return the jar of a driver, from the directory in JDBCSTORE_JARS or one of the system's, or None."""
    for driver in vendor.drivers:
        for directory in _directories():
            for pattern in driver.jars:
                for jar in sorted(directory.glob(pattern), reverse=True):
                    return jar
    return None


def _directories() -> Iterator[Path]:
    named = os.environ.get(JARS_VARIABLE)
    if named and not packages():
        yield Path(named)
    yield from _SYSTEM


def jars_beside(given: Iterable[str]) -> list[Path]:
    """Return every driver found, for a session that can read any vendor, except those it already has.

    ``given``: lists of jars, or of Maven coordinates, separated by commas.
    """
    names = [name.strip().rpartition("/")[2] for each in given for name in each.split(",")]
    jars = (find_jar(vendor) for vendor in VENDORS.values() if not _among(vendor, names))
    return sorted({jar for jar in jars if jar is not None})


def _among(vendor: Vendor, names: list[str]) -> bool:
    return any(
        name.startswith(driver.package.rpartition(":")[0] + ":")
        or any(fnmatch(name, pattern) for pattern in driver.jars)
        for driver in vendor.drivers
        for name in names
    )


def packages() -> str:
    """Return the Maven coordinates in JDBCSTORE_JARS; empty if it names a directory or is unset."""
    named = os.environ.get(JARS_VARIABLE, "").strip()
    return named if _COORDINATES.fullmatch(named) else ""


def cure(vendor: Vendor) -> str:
    """Return advice on installing a missing driver."""
    [debian] = filter(None, (driver.debian for driver in vendor.drivers))
    return (
        f"install Debian's {debian}, or set {JARS_VARIABLE} to a directory with the jar,"
        f" or, where Maven's repository can be reached, {JARS_VARIABLE}={vendor.drivers[0].package}"
    )


def missing_driver(name: str, vendor: Vendor) -> ConfigurationError:
    """Return the error for a session without this vendor's drivers, with advice."""
    jar = find_jar(vendor)
    if jar is not None:
        return ConfigurationError(
            f"this Spark session was started without the JDBC driver for {name}, which is at hand: start it"
            f" with spark-submit --jars {jar}, or set spark.jars={jar} before a session of your own starts"
        )
    classes = " or ".join(driver.name for driver in vendor.drivers)
    return ConfigurationError(f"Spark has no JDBC driver for {name} ({classes}); {cure(vendor)}")
