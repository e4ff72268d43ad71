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
from dataclasses import dataclass, field

from sqlalchemy import URL, make_url

from tests.databases import Database, MariadbDatabase, MysqlDatabase, PostgresqlDatabase
from tests.docker import SERVICE_PASSWORD
from tests.servers import MariadbServer, PostgresqlServer, Server

ODBC_DRIVER = "MariaDB Unicode"
"""As Debian's odbc-mariadb registers it."""


@dataclass(frozen=True)
class Capabilities:
    """What conformance cases may depend on; they never ask for a vendor."""

    durable: bool = True
    """What was stored is there when the store is opened again."""
    server: bool = True
    """The database is another process, reached over a network; else a file."""
    packets: bool = False
    """A setting of the server bounds the size of a message, far below what it could hold."""


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
    not_yet: str | None = None
    """Why it cannot be tested at all so far."""

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
        if self.driver == "pyodbc" and ODBC_DRIVER not in driver.drivers():
            return f"ODBC has no driver {ODBC_DRIVER!r}"
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
        capabilities=Capabilities(packets=True),
        service="mysql",
        port=3306,
        administrator="root",
        administrator_database="mysql",
    ),
    Backend("oracle", service="oracle", not_yet="its adapter is not built yet"),
    Backend("mssql", service="mssql", not_yet="its adapter is not built yet"),
)

MEMORY = Backend("memory", capabilities=Capabilities(durable=False, server=False))
"""Not a database: the store that keeps everything in this process."""
