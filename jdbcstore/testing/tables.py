"""The tables of a store, as another process sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, text


class RawTables:
    """The tables of a JdbcStore, seen over connections of their own: each statement sees committed rows.

    Nothing is kept open between two calls.
    """

    length: ClassVar[str] = "LENGTH"
    """The function that counts the bytes of a binary column."""
    renaming: ClassVar[str] = "ALTER TABLE {old} RENAME TO {new}"
    """The statement that renames a table."""
    isolation: ClassVar[Any] = "SERIALIZABLE"
    """The isolation level of :meth:`transaction`, as SQLAlchemy names it."""
    engine: Engine
    """The engine of those connections, in autocommit."""

    def __init__(self, url: str | URL) -> None:
        self.engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def rows(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(sql), parameters)]

    def execute(self, sql: str, **parameters: Any) -> int:
        """Run a statement, committed at once, and return its row count."""
        with self.engine.connect() as connection:
            return connection.execute(text(sql), parameters).rowcount

    def rename(self, old: str, new: str) -> None:
        """Rename a table."""
        with self.engine.connect() as connection:
            connection.exec_driver_sql(self.renaming.format(old=old, new=new))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Return a connection whose statements are one transaction, rolled back at the end."""
        with self.engine.execution_options(isolation_level=self.isolation).connect() as connection:
            yield connection
            connection.rollback()

    @contextlib.contextmanager
    def blocked(self) -> Iterator[None]:
        """Hold the lock that the first write of a store needs: its writer waits."""
        with self.transaction() as connection:
            connection.exec_driver_sql("UPDATE JDBCSTORE_STATE SET NUMBER = NUMBER + 0")
            yield

    def empty(self) -> None:
        """Leave only the rows of new tables. No store may have written since it was opened."""
        with self.engine.connect() as connection:
            for table in ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "JDBCSTORE_ACKS"):
                connection.exec_driver_sql(f"DELETE FROM {table}")
            connection.exec_driver_sql("UPDATE ACTIVEMQ_LOCK SET TIME = NULL, BROKER_NAME = NULL")
            connection.exec_driver_sql("UPDATE JDBCSTORE_STATE SET NUMBER = 0")
