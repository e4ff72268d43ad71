"""A private server, or one database of it, by the name of its vendor, for what is run by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.databases import (
    Database,
    MariadbDatabase,
    MysqlDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
)
from tests.support.servers.mariadb import MariadbServer
from tests.support.servers.mysql import MysqlServer
from tests.support.servers.postgresql import PostgresqlServer
from tests.support.servers.process import Server

_SERVERS: Mapping[str, tuple[type[Server], type[Database]]] = {
    "postgresql": (PostgresqlServer, PostgresqlDatabase),
    "mariadb": (MariadbServer, MariadbDatabase),
    "mysql": (MysqlServer, MysqlDatabase),
}
SERVERS = tuple(_SERVERS)
VENDORS = (*SERVERS, "sqlite")


@contextmanager
def server_of(vendor: str) -> Iterator[tuple[Server, Callable[[], Database]]]:
    """A server, and what makes empty databases on it, which are to be closed.

    :raises ServerMissing: it is not installed
    """
    make, kind = _SERVERS[vendor]
    server = make()
    try:
        yield server, partial(kind, server.url)
    finally:
        server.close()


@contextmanager
def database_of(vendor: str) -> Iterator[str]:
    """The URL of a database of its own.

    :raises ServerMissing: the vendor's server is not installed
    """
    if vendor == "sqlite":
        with TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/mq.db"
        return
    with server_of(vendor) as (server, _):
        yield server.url.render_as_string(hide_password=False)


@contextmanager
def opened(vendor: str) -> Iterator[Database]:
    """A database of its own.

    :raises ServerMissing: the vendor's server is not installed
    """
    if vendor == "sqlite":
        with TemporaryDirectory() as folder, closing(SqliteDatabase(Path(folder))) as database:
            yield database
        return
    with server_of(vendor) as (_, make), closing(make()) as database:
        yield database
