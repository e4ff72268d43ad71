"""The steps that revisions are made of. Each looks whether it is needed, and can be run again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any

from alembic import op
from sqlalchemy import Column, Index, MetaData, PrimaryKeyConstraint, Table
from sqlalchemy.schema import CreateIndex, CreateTable, DropTable

from jdbcstore.database.migrations.found import Found, FoundColumn

Advance = Callable[[int], None]


class Effect(Enum):
    """What a step means to a large table and to those who use it."""

    NONE = ""
    WRITES = "changes rows"
    READS = "reads the whole table; who writes waits"
    SCANS = "reads or copies the whole table; everybody waits"
    COPIES = "copies the whole table; everybody waits"


class Step(ABC):
    """One change of one table; ``title`` says which, for people, and no other step has the same."""

    effect = Effect.NONE

    def __init__(self, table: Table, title: str) -> None:
        self.table = table
        self.title = title

    @abstractmethod
    def is_needed(self, found: Found) -> bool: ...

    @abstractmethod
    def run(self, found: Found, advance: Advance) -> None:
        """Do it, through Alembic, and note what is there now. ``advance`` is told of rows done."""

    def rows(self, found: Found) -> int | None:
        """How many rows it goes through; None where that is not known."""
        return 0 if self.effect is Effect.NONE else found.rows(self.table)


class MakeTable(Step):
    """Make a table that is absent, without the columns that later revisions add."""

    def __init__(self, table: Table, *later: Column[Any]) -> None:
        super().__init__(table, f"create the table {table.name}")
        self._later = frozenset(later)

    def is_needed(self, found: Found) -> bool:
        return found.table(self.table) is None

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        made = plain(self.table, self._later)
        op.execute(CreateTable(made))
        there = found.add(self.table)
        there.columns = {str(c.name).lower(): FoundColumn(c.type, bool(c.nullable)) for c in made.columns}
        there.key = tuple(str(c.name).lower() for c in made.primary_key.columns)
        there.key_name = made.primary_key.name and str(made.primary_key.name)


class DropTheTable(Step):
    """Drop a table, whatever is in it."""

    def __init__(self, table: Table) -> None:
        super().__init__(table, f"drop the table {table.name}")

    def is_needed(self, found: Found) -> bool:
        return found.table(self.table) is not None

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        op.execute(DropTable(self.table))
        found.discard(self.table)


class AddColumn(Step):
    """Add a column to a table that is there without it."""

    def __init__(self, column: Column[Any]) -> None:
        super().__init__(column.table, f"add the column {column.name} to {column.table.name}")
        self.column = column

    def is_needed(self, found: Found) -> bool:
        there = found.table(self.table)
        return there is None or self.column.key not in there.columns

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        op.add_column(self.table.name, _plain_column(self.column))
        column = FoundColumn(self.column.type, bool(self.column.nullable))
        found.add(self.table).columns[str(self.column.key)] = column


class MakeIndex(Step):
    """Make an index of which there is none of that name."""

    effect = Effect.READS

    def __init__(self, table: Table, index: Index) -> None:
        super().__init__(table, f"create the index {index.name}")
        self._index = index
        self._name = str(index.name).lower()

    def is_needed(self, found: Found) -> bool:
        there = found.table(self.table)
        return there is None or self._name not in there.indexes

    def run(self, found: Found, advance: Advance) -> None:  # noqa: ARG002
        op.execute(CreateIndex(self._index))
        found.add(self.table).indexes[self._name] = tuple(str(c.key) for c in self._index.columns)


def indexes_of(table: Table, *suffixes: str) -> list[MakeIndex]:
    """The steps that make those indexes of a table whose names end so."""
    by_name = {str(index.name).upper(): index for index in table.indexes}
    return [MakeIndex(table, by_name[f"{table.name}_{suffix}".upper()]) for suffix in suffixes]


def plain(table: Table, without: frozenset[Column[Any]] = frozenset()) -> Table:
    """The table alone: without indexes, and without some of its columns.

    Columns are known by their names, as Alembic wants it.
    """
    columns = [_plain_column(column) for column in table.columns if column not in without]
    key = table.primary_key
    names = [column.name for column in key.columns if column not in without]
    return Table(
        table.name,
        MetaData(),
        *columns,
        PrimaryKeyConstraint(*names, name=key.name and str(key.name), **key.dialect_kwargs),
        **table.dialect_kwargs,
    )


def _plain_column(column: Column[Any]) -> Column[Any]:
    default: Any = column.server_default
    return Column(
        column.name,
        column.type,
        nullable=column.nullable,
        server_default=None if default is None else default.arg,
        autoincrement=False,
    )
