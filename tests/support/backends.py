"""The databases that tests run on: the only list of vendors.

A backend's server is, in this order: the one named by its URL variable, whose user must be allowed
to create databases; a private one, where the programs are installed; a service of
docker-compose.yml, where a docker engine answers. Else its tests are skipped, or fail when
``JDBCSTORE_REQUIRE`` names it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlalchemy import URL, make_url

from jdbcstore import testing
from tests.support.databases import (
    Database,
    DerbyDatabase,
    GaleraDatabase,
    GroupDatabase,
    H2Database,
    HsqldbDatabase,
    MariadbDatabase,
    MssqlDatabase,
    MysqlDatabase,
    OracleDatabase,
    PooledDatabase,
    PostgresqlDatabase,
)
from tests.support.docker import SERVICE_PASSWORD
from tests.support.servers import (
    DerbyServer,
    H2Server,
    HsqldbServer,
    MariadbServer,
    MysqlServer,
    PostgresqlServer,
    Server,
)
from tests.support.servers.galera import GaleraServer
from tests.support.servers.group import GroupServer
from tests.support.servers.pgbouncer import PooledServer, TransactionPooledServer
from tests.support.variants import PLAIN, Variant, variants_of

ODBC_DRIVER = "MariaDB Unicode"
"""As Debian's odbc-mariadb registers it."""


@dataclass(frozen=True, kw_only=True)
class Capabilities(testing.Capabilities):
    """Features on which contract cases may depend, instead of asking for a vendor."""

    server: bool = True
    """The database is another process, reached over a network; else a file."""
    packets: bool = False
    """A setting of the server bounds the size of a message, far below what it could hold."""
    sessions: bool = True
    """A connection keeps its session of the server from one transaction to the next."""
    row_locks: bool = True
    """A locked row is locked for all nodes."""


@dataclass(frozen=True)
class Backend:
    """One database as a store reaches it: vendor and driver."""

    id: str
    scheme: str = ""
    driver: str = ""
    """The module that the scheme's driver is."""
    database: type[Database] = Database
    private: type[Server] | None = None
    service: str = ""
    """In docker-compose.yml, listening on ``port`` in its container."""
    port: int = 0
    administrator: str = ""
    """Who may create databases in the service, connecting to ``administrator_database``."""
    administrator_database: str = ""
    address: Callable[[URL], URL] = field(default=lambda url: url)
    """Bends a ``user:password@host:port/database`` URL to the driver's way."""
    capabilities: Capabilities = Capabilities()
    variant: Variant = PLAIN
    """How the stores of a contract case are opened."""
    on_request: bool = False
    """Run only where ``--backends`` names it."""
    like: str = ""
    """The backend whose own tests are also for this one."""
    contract_only: bool = False
    """Run only the contract suite on it, to save time."""
    odbc: str = ODBC_DRIVER
    """What ODBC calls its driver, where the Python driver is pyodbc."""

    @property
    def label(self) -> str:
        """What a test's name says of it."""
        return self.id if self.variant is PLAIN else f"{self.id}-{self.variant.id}"

    @property
    def vendor(self) -> str:
        """The backend whose SQL and whose own tests are also this one's."""
        return self.like or self.id

    @property
    def variable(self) -> str:
        return f"JDBCSTORE_TEST_{self.id.upper().replace('-', '_')}_URL"

    @property
    def url_from_environment(self) -> URL | None:
        value = os.environ.get(self.variable)
        return make_url(value) if value else None

    @property
    def missing_driver(self) -> str | None:
        """Why the Python driver cannot be used here; None when it can."""
        if not self.driver:
            return None
        try:
            driver = importlib.import_module(self.driver)
        except ImportError as missing:
            return f"the driver {self.driver} cannot be imported: {missing}"
        if self.driver == "pyodbc" and self.odbc not in driver.drivers():
            return f"ODBC has no driver {self.odbc!r}"
        return None

    def private_url(self, server: Server) -> URL:
        """How to reach a private server through this backend's driver."""
        return self.address(server.url.set(drivername=self.scheme))

    def service_url(self, host: str, port: int) -> URL:
        """How to reach the compose service that is published there."""
        return self.address(
            URL.create(
                self.scheme,
                self.administrator,
                SERVICE_PASSWORD,
                host,
                port,
                self.administrator_database,
            )
        )


def _pyodbc(url: URL) -> URL:
    # SQLAlchemy would write "Server=host,port", which this driver does not understand.
    odbc = {"driver": ODBC_DRIVER, "port": str(url.port), "charset": "utf8mb4"}
    return URL.create(url.drivername, url.username, url.password, url.host, database=url.database, query=odbc)


def _oracle(url: URL) -> URL:
    # What stands for the database in the URL would be a SID.
    return url.set(query={"service_name": url.database or ""})._replace(database=None)


def _mssql(url: URL) -> URL:
    odbc = {"driver": "ODBC Driver 18 for SQL Server", "TrustServerCertificate": "yes"}
    return url.update_query_dict(odbc)


BACKENDS = (
    Backend(
        "sqlite",
        scheme="sqlite",
        capabilities=Capabilities(server=False),
    ),
    Backend(
        "postgresql",
        scheme="postgresql+psycopg",
        driver="psycopg",
        database=PostgresqlDatabase,
        private=PostgresqlServer,
        service="postgresql",
        port=5432,
        administrator="postgres",
        administrator_database="postgres",
    ),
    Backend(
        "mariadb",
        scheme="mariadb+pymysql",
        driver="pymysql",
        database=MariadbDatabase,
        private=MariadbServer,
        capabilities=Capabilities(packets=True),
        service="mariadb",
        port=3306,
        administrator="root",
        administrator_database="mysql",
    ),
    Backend(
        "mariadb-pyodbc",
        scheme="mariadb+pyodbc",
        driver="pyodbc",
        database=MariadbDatabase,
        private=MariadbServer,
        capabilities=Capabilities(packets=True),
        service="mariadb",
        port=3306,
        administrator="root",
        administrator_database="mysql",
        address=_pyodbc,
    ),
    Backend(
        "mysql",
        scheme="mysql+pymysql",
        driver="pymysql",
        database=MysqlDatabase,
        private=MysqlServer,
        capabilities=Capabilities(packets=True),
        service="mysql",
        port=3306,
        administrator="root",
        administrator_database="mysql",
    ),
    Backend(
        "galera",
        scheme="mariadb+pymysql",
        driver="pymysql",
        database=GaleraDatabase,
        private=GaleraServer,
        capabilities=Capabilities(packets=True, row_locks=False),
        on_request=True,
        like="mariadb",
    ),
    Backend(
        "group-replication",
        scheme="mysql+pymysql",
        driver="pymysql",
        database=GroupDatabase,
        private=GroupServer,
        capabilities=Capabilities(packets=True, row_locks=False),
        on_request=True,
        like="mysql",
    ),
    Backend(
        "pgbouncer",
        scheme="postgresql+psycopg",
        driver="psycopg",
        database=PooledDatabase,
        private=PooledServer,
        on_request=True,
        like="postgresql",
    ),
    Backend(
        "pgbouncer-transaction",
        scheme="postgresql+psycopg",
        driver="psycopg",
        database=PooledDatabase,
        private=TransactionPooledServer,
        capabilities=Capabilities(sessions=False),
        on_request=True,
        like="postgresql",
    ),
    Backend(
        "h2",
        scheme="h2",
        driver="jpype",
        database=H2Database,
        private=H2Server,
        contract_only=True,
    ),
    Backend(
        "hsqldb",
        scheme="hsqldb",
        driver="jpype",
        database=HsqldbDatabase,
        private=HsqldbServer,
        contract_only=True,
    ),
    Backend(
        "derby",
        scheme="derby",
        driver="jpype",
        database=DerbyDatabase,
        private=DerbyServer,
        capabilities=Capabilities(snapshots=False),
        contract_only=True,
    ),
    Backend(
        "oracle",
        scheme="oracle+oracledb",
        driver="oracledb",
        database=OracleDatabase,
        service="oracle",
        port=1521,
        administrator="system",
        administrator_database="FREEPDB1",
        address=_oracle,
        contract_only=True,
    ),
    Backend(
        "mssql",
        scheme="mssql+pyodbc",
        driver="pyodbc",
        odbc="ODBC Driver 18 for SQL Server",
        database=MssqlDatabase,
        service="mssql",
        port=1433,
        administrator="sa",
        administrator_database="master",
        address=_mssql,
        contract_only=True,
    ),
)

MEMORY = Backend("memory", capabilities=Capabilities(durable=False, server=False))
"""Not a database: the store that keeps everything in this process."""

VARIED = [
    replace(
        backend,
        variant=variant,
        capabilities=replace(backend.capabilities, durable=False, one_writer=False)
        if variant.filtered
        else backend.capabilities,
    )
    for backend in (MEMORY, *BACKENDS)
    for variant in variants_of(backend.id)
]
"""Backends again, for stores that are not opened plainly."""

FILTERED = Backend("filtered", capabilities=Capabilities(durable=False, server=False, one_writer=False))
"""Two stores in memory as one: topics and a queue in another than the rest."""
