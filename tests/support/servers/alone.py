"""One private database, by the name of its vendor, for what is run by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tests.support.servers.mariadb import MariadbServer
from tests.support.servers.mysql import MysqlServer
from tests.support.servers.postgresql import PostgresqlServer
from tests.support.servers.process import Server

_SERVERS: Mapping[str, type[Server]] = {
    "postgresql": PostgresqlServer,
    "mariadb": MariadbServer,
    "mysql": MysqlServer,
}
VENDORS = (*_SERVERS, "sqlite")


@contextmanager
def database_of(vendor: str) -> Iterator[str]:
    """The URL of a database of its own.

    :raises ServerMissing: the vendor's server is not installed
    """
    if vendor == "sqlite":
        with TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/mq.db"
        return
    server = _SERVERS[vendor]()
    try:
        yield server.url.render_as_string(hide_password=False)
    finally:
        server.close()
