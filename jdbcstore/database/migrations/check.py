"""The schema check: missing parts, and differences that are left unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Table
from sqlalchemy.types import CHAR, NCHAR, Integer, LargeBinary, Numeric, String

from jdbcstore.config.store import length_of
from jdbcstore.database.adapters.base import Worded
from jdbcstore.database.engine import Database
from jdbcstore.database.migrations.found import FoundColumn
from jdbcstore.database.migrations.migration import Migration, migration_of
from jdbcstore.database.migrations.steps import EnlargeBinary, ForbidNull


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check."""

    revision: str | None
    """The recorded revision."""
    found: str | None
    """The last revision that is complete."""
    missing: tuple[str, ...]
    """Steps that ``jdbcstore migrate`` would take."""
    wrong: tuple[str, ...]
    """Differences that it cannot change, and on which a store may fail."""
    notes: tuple[str, ...]
    """Deliberate differences, which are left unchanged."""

    @property
    def fits(self) -> bool:
        return not self.missing and not self.wrong


def check(database: Database) -> Report:
    """Check the schema without changing anything.

    :raises SchemaError: the tables have other names than those configured
    :raises StoreUnavailable: the database does not answer
    """
    with migration_of(database, only_look=True) as migration:
        judged = [*_judge(migration)]
        return Report(
            migration.recorded,
            migration.start.id if migration.start else None,
            tuple(planned.step.title for planned in migration.plan),
            tuple(text for is_wrong, text in judged if is_wrong),
            tuple(text for is_wrong, text in judged if not is_wrong),
        )


def _judge(migration: Migration) -> Iterator[tuple[bool, str]]:
    """Yield the differences: whether each is wrong, and its description."""
    tables = migration.tables
    stuck = ForbidNull(tables.messages.c.container, migration.adapter)
    if stuck.is_nullable(migration.found) and stuck.nulls(migration.found):
        yield (
            True,
            f"{stuck.column.name} of {stuck.table.name} is NULL in some rows, which no broker reads: delete"
            " them, then migrate",
        )
    to_change = [planned.step for planned in migration.plan if isinstance(planned.step, EnlargeBinary)]
    untouched = {column for table in tables.all for column in table.columns}
    untouched -= {step.column for step in to_change}
    for table in tables.all:
        there = migration.found.table(table)
        columns = {} if there is None else there.columns
        for column in table.columns:
            if column in untouched and column.key in columns:
                yield from _judge_type(table, column, columns[column.key])


def _judge_type(table: Table, column: Column[Any], actual: FoundColumn) -> Iterator[tuple[bool, str]]:
    what = f"{column.name} of {table.name} is {actual.type}, not {column.type}"
    wanted: Any = column.type
    length = getattr(wanted, "length", None)
    if isinstance(wanted, Worded):
        if str(actual.type).upper() == wanted.text.upper():
            return
        wanted, length = wanted.impl, length_of(wanted.text)
    kind, found_length = _kind(actual.type), getattr(actual.type, "length", None)
    if kind is not None and kind is not _kind(wanted):
        yield True, what
    elif kind is String:
        if length and found_length and length != found_length:
            yield found_length < length, what
        elif isinstance(actual.type, CHAR | NCHAR) and not isinstance(wanted, CHAR | NCHAR):
            yield False, what
    elif kind is not Numeric and str(actual.type) != str(wanted):
        yield False, what


def _kind(type_: Any) -> type[Any] | None:
    """Return the family of a type; None for types unknown to SQLAlchemy."""
    return next((kind for kind in (String, LargeBinary, Integer, Numeric) if isinstance(type_, kind)), None)
