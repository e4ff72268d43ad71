"""Private database servers: booted by a test run for itself, on loopback, and removed with their data."""

from tests.support.servers.java import DerbyServer, H2Server, HsqldbServer
from tests.support.servers.mariadb import MariadbServer
from tests.support.servers.mysql import MysqlServer
from tests.support.servers.postgresql import PostgresqlServer
from tests.support.servers.process import Server, ServerMissing

__all__ = [
    "DerbyServer",
    "H2Server",
    "HsqldbServer",
    "MariadbServer",
    "MysqlServer",
    "PostgresqlServer",
    "Server",
    "ServerMissing",
]
