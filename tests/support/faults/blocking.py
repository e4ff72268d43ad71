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

_ROW_LOCKS = (
    "SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM {} WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'"
)
WAITING = {
    "postgresql": "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    "mariadb": _ROW_LOCKS.format("information_schema.GLOBAL_STATUS"),
    "mysql": _ROW_LOCKS.format("performance_schema.global_status"),
}
"""How many statements wait for a locked row, by dialect; InnoDB's list of transactions is a cached one."""


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
