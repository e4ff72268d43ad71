"""Tables of another program's: found by their columns, and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Select, inspect

from jdbcstore.config import StoreConfig
from jdbcstore.database.engine import Database

_AT_ONCE = 100


class OtherTables:
    """The tables of a database, none of which is ours. Close it after use.

    A file of SQLite gets a log beside it (WAL), as each that is opened here, unless its URL says
    ``immutable=1``.

    :param url: SQLAlchemy's, or a JDBC URL
    :raises StoreUnavailable: it cannot be reached
    """

    def __init__(self, url: str) -> None:
        self.database = Database(url, StoreConfig(), must_exist=True)
        with self.database.translated():
            self._engine = self.database.connect_with(pool_size=2)
            try:
                self._connection = self._engine.connect()
            except BaseException:
                self._engine.dispose()
                raise

    def close(self) -> None:
        self._connection.close()
        self._engine.dispose()

    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """Return the columns of each table, by name in small letters, with their types."""
        with self.database.translated():
            looker = inspect(self._connection)
            return {
                name: {column["name"].lower(): str(column["type"]) for column in looker.get_columns(name)}
                for name in sorted(looker.get_table_names())
            }

    def fetch(self, statement: Select[Any], **values: Any) -> list[Any]:
        """Return all rows."""
        with self.database.translated():
            return [*self._connection.execute(statement, values)]

    def stream(self, statement: Select[Any]) -> Iterator[Any]:
        """Yield the rows, of which few are in memory at a time."""
        with self.database.translated(), self._engine.connect() as connection:
            yield from _streaming(connection).execute(statement)


def _streaming(connection: Connection) -> Connection:
    """Return it so that it reads some rows at a time, which PostgreSQL does in a transaction only."""
    raw = connection.connection.dbapi_connection
    levels = () if raw is None else connection.dialect.get_isolation_level_values(raw)
    level = "REPEATABLE READ" if "REPEATABLE READ" in levels else "SERIALIZABLE"
    return connection.execution_options(isolation_level=level, yield_per=_AT_ONCE)
