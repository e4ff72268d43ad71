"""A SQLAlchemy statement as the text that the driver takes with a tuple of values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.sql import ClauseElement

from jdbcstore.database.adapters.sql import Sql, Written
from jdbcstore.database.adapters.text import with_marks


def compile_sql(
    statement: Callable[[], ClauseElement], dialect: Dialect, column_keys: list[str] | None = None
) -> Sql:
    """The statement, its parameters in the order in which they stand, each as often as it does.

    It is made when it is first needed: to build all of a store's takes longer than the rest of opening it.
    """
    return Sql(lambda: _compile(statement(), dialect, column_keys))


def _compile(statement: ClauseElement, dialect: Dialect, column_keys: list[str] | None) -> Written:
    positional = _positional(dialect)
    compiled: Any = statement.compile(dialect=positional, column_keys=column_keys)
    # A dialect may bind a constant of its own, such as the 0 of OFFSET.
    constants = {
        name: bound.value
        for name, bound in compiled.binds.items()
        if bound.value is not None and not bound.required
    }
    text = compiled.string if positional is dialect else with_marks(compiled.string, dialect.paramstyle)
    return Written(text, tuple(compiled.positiontup), constants)


def _positional(dialect: Dialect) -> Dialect:
    """The dialect itself, or one like it whose parameters have neither names nor numbers."""
    if dialect.paramstyle in ("qmark", "format"):
        return dialect
    other: Any = copy.copy(dialect)
    other.paramstyle, other.positional = "qmark", True
    return other  # type: ignore[no-any-return]
