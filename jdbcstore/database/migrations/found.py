"""The configured tables as they are in the database's catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, func, inspect, literal_column, select
from sqlalchemy.types import TypeEngine

from jdbcstore.database.tables import Tables


@dataclass(frozen=True, slots=True)
class FoundColumn:
    type: TypeEngine[Any]
    nullable: bool


@dataclass(slots=True)
class FoundTable:
    """A table in the database; names are in lower case, as the keys of the defined columns are."""

    columns: dict[str, FoundColumn] = field(default_factory=dict)
    indexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Index -> its columns."""
    key: tuple[str, ...] = ()
    key_name: str | None = None


class FoundSchema:
    """The tables that exist. Without a connection they are assumed to, with rows of all kinds."""

    def __init__(self, tables: dict[str, FoundTable], connection: Connection | None = None) -> None:
        self._tables = tables
        self.connection = connection
        self._counts: dict[str, int | None] = {}

    @classmethod
    def read(cls, connection: Connection, tables: Iterable[Table]) -> FoundSchema:
        """Read the catalogue."""
        inspector = inspect(connection)
        known = {}
        for table in tables:
            if not inspector.has_table(table.name):
                continue
            key = inspector.get_pk_constraint(table.name)
            known[_name(table)] = FoundTable(
                {
                    column["name"].lower(): FoundColumn(column["type"], bool(column["nullable"]))
                    for column in inspector.get_columns(table.name)
                },
                {
                    str(index["name"]).lower(): tuple(str(name).lower() for name in index["column_names"])
                    for index in inspector.get_indexes(table.name)
                },
                tuple(column.lower() for column in key["constrained_columns"]),
                key["name"],
            )
        return cls(known, connection)

    def table(self, table: Table) -> FoundTable | None:
        return self._tables.get(_name(table))

    def add(self, table: Table) -> FoundTable:
        """Note that a table was created."""
        return self._tables.setdefault(_name(table), FoundTable())

    def discard(self, table: Table) -> None:
        """Note that a table was dropped."""
        self._tables.pop(_name(table), None)

    def rows(self, table: Table) -> int | None:
        """Return the number of rows of a table, counted once; None without a connection."""
        if self.table(table) is None:
            return 0
        if _name(table) not in self._counts:
            self._counts[_name(table)] = self.count(select(ONE.label("one")).select_from(table))
        return self._counts[_name(table)]

    def count(self, query: Select[Any]) -> int | None:
        """Return the number of rows of a query; None without a connection."""
        if self.connection is None:
            return None
        counted = select(func.count()).select_from(query.subquery("counted"))
        return int(self.connection.execute(counted).scalar_one())

    def exists(self, query: Select[Any]) -> bool:
        """Return whether a query finds a row."""
        if self.connection is None:
            return True
        return self.connection.execute(query.limit(1)).first() is not None

    def version(self, tables: Tables) -> str | None:
        """Return the recorded revision."""
        if self.connection is None or self.table(tables.version) is None:
            return None
        row = self.connection.execute(select(tables.version.c.version_num)).first()
        return None if row is None else str(row[0])


ONE: ColumnElement[int] = literal_column("1")

_MESSAGES = {"id", "container", "msgid_prod", "msgid_seq", "expiration", "msg"}


def messages_elsewhere(connection: Connection, tables: Tables) -> list[str]:
    """Return tables with other names and the columns of ACTIVEMQ_MSGS."""
    inspector = inspect(connection)
    columns = inspector.get_multi_columns()
    return sorted(
        name
        for (_, name), columns_of_table in columns.items()
        if name != str(tables.messages.name)
        and {column["name"].lower() for column in columns_of_table} >= _MESSAGES
    )


def _name(table: Table) -> str:
    # A quoted name answers lower() with itself.
    return str(table.name).lower()
