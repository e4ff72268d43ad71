"""Nothing happens behind the back of a conformance case, and no time is lost on making databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect

from jdbcstore import Clock, Store
from tests.backends import Backend
from tests.conftest import OpenStore, new_database
from tests.databases import Database
from tests.pool import ServerPool

TABLES = (
    "ACTIVEMQ_MSGS",
    "ACTIVEMQ_ACKS",
    "ACTIVEMQ_LOCK",
    "JDBCSTORE_ACKS",
    "JDBCSTORE_STATE",
    "JDBCSTORE_VERSION",
)


@pytest.fixture
def open_store(open_store: OpenStore) -> OpenStore:
    """As everywhere, but without cleanup in the background unless a case says otherwise."""

    def open_quietly(*, clock: Clock | None = None, cleanup_period: float = 0, **options: Any) -> Store:
        return open_store(clock=clock, cleanup_period=cleanup_period, **options)

    return open_quietly


@pytest.fixture(scope="session")
def used_databases() -> Iterator[dict[str, Database]]:
    """By backend: a database with the tables in it, emptied."""
    databases: dict[str, Database] = {}
    yield databases
    for database in databases.values():
        database.close()


@pytest.fixture
def database(
    backend: Backend,
    server_pool: ServerPool,
    used_databases: dict[str, Database],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Database]:
    """An empty database. On a server it is the last case's, emptied: making one takes a third of a second."""
    reusable = backend.capabilities.server and not (
        "server" in request.fixturenames or request.node.get_closest_marker("new_database")
    )
    database = used_databases.pop(backend.label, None) if reusable else None
    if database is None:
        database = new_database(backend, server_pool, tmp_path, request)
    yield database
    if reusable and _has_been_emptied(database):
        used_databases[backend.label] = database
    else:
        database.close()


def _has_been_emptied(database: Database) -> bool:
    """Whether it has our tables and nothing else; they have only the rows of the beginning then."""
    with database.engine.connect() as connection:
        found = sorted(name.upper() for name in inspect(connection).get_table_names())
        if found != sorted(map(database.spell, TABLES)):
            return False
        _empty(connection)
    return True


def empty(database: Database) -> None:
    """Leave only the rows that new tables have. No store may have written since it was opened."""
    with database.engine.connect() as connection:
        _empty(connection)


def _empty(connection: Connection) -> None:
    for table in ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "JDBCSTORE_ACKS"):
        connection.exec_driver_sql(f"DELETE FROM {table}")
    connection.exec_driver_sql("UPDATE ACTIVEMQ_LOCK SET TIME = NULL, BROKER_NAME = NULL")
    connection.exec_driver_sql("UPDATE JDBCSTORE_STATE SET NUMBER = 0")
