"""Making the store's writer wait, from outside: a second connection holds what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.databases import Database

_HOLD = {
    "sqlite": ("BEGIN IMMEDIATE", "ROLLBACK"),
    "postgresql": ("BEGIN; LOCK TABLE ACTIVEMQ_MSGS IN EXCLUSIVE MODE", "ROLLBACK"),
    **dict.fromkeys(("mariadb", "mysql"), ("LOCK TABLES ACTIVEMQ_MSGS READ", "UNLOCK TABLES")),
}


@contextmanager
def writes_held(database: Database) -> Iterator[None]:
    """While this lasts, messages can be read, and no write to them gets through."""
    hold, release = _HOLD[database.engine.dialect.name]
    with database.engine.connect() as connection:
        connection.exec_driver_sql(hold)
        try:
            yield
        finally:
            connection.exec_driver_sql(release)
