"""A database that refuses some rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.databases import Database

# The store checks messages before they reach the database. These rules are the database's own.
_CHECK = ("ALTER TABLE ACTIVEMQ_MSGS ADD CONSTRAINT refuse CHECK (CONTAINER <> 'queue://BAD')",)
_REFUSE_BAD = {
    "sqlite": (
        "CREATE TRIGGER refuse BEFORE INSERT ON ACTIVEMQ_MSGS WHEN NEW.CONTAINER = 'queue://BAD'"
        " BEGIN SELECT RAISE(ABORT, 'refused'); END",
    ),
    **dict.fromkeys(("postgresql", "mariadb", "mysql"), _CHECK),
}


def refuse_bad(database: Database) -> None:
    for statement in _REFUSE_BAD[database.engine.dialect.name]:
        database.execute(statement)


@contextmanager
def refused(database: Database, what: str) -> Iterator[None]:
    """While this lasts, a SQLite database refuses to do it."""
    database.execute(f"CREATE TRIGGER refused BEFORE {what} BEGIN SELECT RAISE(ABORT, 'refused'); END")
    yield
    database.execute("DROP TRIGGER refused")
