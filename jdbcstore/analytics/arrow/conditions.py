"""Conditions on messages: the part for the database, and the whole over Arrow columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import ColumnElement

from jdbcstore.analytics.arrow.selecting import Selecting
from jdbcstore.analytics.arrow.table import VIEW, ViewRows, check_name, schema_of
from jdbcstore.database.tables import Tables
from jdbcstore.errors import ConfigurationError


class Condition(Protocol):
    """A condition that each returned message fulfils."""

    @property
    def names(self) -> frozenset[str]:
        """The columns that it is about."""

    def clause(self, tables: Tables) -> ColumnElement[bool] | None:
        """Return SQL that matches all these messages, and possibly more; None if there is no such SQL."""

    def mask(self, rows: ViewRows) -> pa.Array:
        """Return the mask of the rows that satisfy the condition; null counts as false."""


def conditions(where: Any) -> list[Condition]:
    """Return the conditions that ``where`` describes, the cheapest first.

    :raises ConfigurationError: one is not valid
    :raises InvalidSelector: a selector is not valid
    """
    several = [] if where is None else where if isinstance(where, list) else [where]
    return sorted(map(_condition, several), key=_cost)


def _condition(each: Any) -> Condition:
    if isinstance(each, str):
        return Selecting(each)
    if isinstance(each, pc.Expression):
        return Expression(each)
    if isinstance(each, tuple) and len(each) == 3:
        return ColumnComparison.of(*each)
    raise ConfigurationError(
        f"{each!r} is not a condition; give a tuple (column, operator, value), a JMS selector, an expression"
        " of pyarrow.compute, or a list of these",
        option="where",
    )


def _cost(condition: Condition) -> int:
    return any(VIEW[name].stored == "msg" for name in condition.names)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_SYNONYMS = {"==": "=", "<>": "!="}
_SETS = ("in", "not in")
_NUMBERS = frozenset({"id", "msgid_seq", "expiration", "priority"})
_NAMES = frozenset({"container", "destination", "msgid_prod", "xid"})
_LONG = range(-(1 << 63), 1 << 63)
_MOST = 500
"""Values in a list for the database, whose statements have a bounded length."""


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """A column compared with a value or, by ``in`` and ``not in``, with several."""

    name: str
    operator: str
    value: Any
    """An Arrow scalar, or an array."""

    @classmethod
    def of(cls, name: str, operator: str, value: Any) -> ColumnComparison:
        """Return the comparison of a column with a value.

        :raises ConfigurationError: there is no such column or operator, or the value is of another type
        """
        check_name(name, "where")
        symbol = _SYNONYMS.get(operator, operator)
        if symbol not in _OPERATIONS and symbol not in _SETS:
            raise ConfigurationError(
                f"{operator!r} is not an operator; use one of {', '.join((*_OPERATIONS, *_SETS))}",
                option="where",
            )
        type_ = VIEW[name].type
        if pa.types.is_map(type_):
            raise ConfigurationError(
                f"the column {name} has several values: use a selector, such as 'table = 7'", option="where"
            )
        try:
            if symbol in _SETS:
                return cls(name, symbol, pa.array([each for each in value if each is not None], type_))
            return cls(name, symbol, pa.scalar(value, type_))
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as error:
            raise ConfigurationError(
                f"the column {name} is of the type {type_}, which {value!r} does not match", option="where"
            ) from error

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.name})

    def clause(self, tables: Tables) -> ColumnElement[bool] | None:
        """Return SQL for what compares alike everywhere: numbers, and equality of names, which a database's
        collation may match too widely, so that the mask checks names again."""
        several = self.operator in _SETS
        value = self.value.to_pylist() if several else self.value.as_py()
        values = value if several else [value]
        if not 0 < len(values) <= _MOST or None in values:
            return None
        exact = self.operator in ("=", "in") and all(map(_is_plain, values))
        if self.name not in _NUMBERS and not (self.name in _NAMES and exact):
            return None
        column = tables.messages.c["container" if self.name == "destination" else self.name]
        condition: ColumnElement[bool] = _IN_SQL[self.operator](column, value)
        return condition

    def mask(self, rows: ViewRows) -> pa.Array:
        column = rows.column(self.name)
        if self.operator not in _SETS:
            return pc.fill_null(_OPERATIONS[self.operator](column, self.value), False)
        among = pc.is_in(column, self.value)
        return among if self.operator == "in" else pc.and_(pc.invert(among), column.is_valid())


_IN_SQL: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "in": lambda column, value: column.in_(value),
    "not in": lambda column, value: column.not_in(value),
}


def _is_plain(value: Any) -> bool:
    """Return whether the value is a string that every database takes as a parameter."""
    return isinstance(value, str) and bool(value) and "\0" not in value


_ROW = "__row__"


class Expression:
    """An expression of ``pyarrow.compute`` over the columns."""

    def __init__(self, expression: pc.Expression) -> None:
        self._expression = expression
        # It has no list of its columns; a name in it that is not a column costs time, and changes nothing.
        words = {*re.findall(r"\w+", str(expression))}
        self.names = frozenset(name for name in VIEW if name in words)
        try:
            self._found(ViewRows({}), 0)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, TypeError) as error:
            raise ConfigurationError(
                f"the expression {expression} is not valid: {str(error).splitlines()[0]};"
                f" the columns are {', '.join(VIEW)}",
                option="where",
            ) from error

    def clause(self, tables: Tables) -> None:
        """Return None: an expression cannot be translated to SQL."""

    def mask(self, rows: ViewRows) -> pa.Array:
        mask = np.zeros(len(rows), bool)
        mask[self._found(rows, len(rows)).to_numpy()] = True
        return pa.array(mask)

    def _found(self, rows: ViewRows, count: int) -> pa.Array:
        """Return the numbers of the rows for which the expression is true."""
        schema = schema_of([*self.names]) if self.names else pa.schema([])
        columns = [
            rows.column(name) if count else pa.array([], schema.field(name).type) for name in schema.names
        ]
        numbered = pa.RecordBatch.from_arrays(
            [*columns, pa.array(np.arange(count))], names=[*schema.names, _ROW]
        )
        return numbered.filter(self._expression).column(_ROW)


def fulfilled(rows: ViewRows, all_of: Sequence[Condition], needed: Iterable[str]) -> ViewRows:
    """Return the rows that satisfy all conditions. A row that one condition rejects is decoded no further.

    ``needed``: columns that are asked for afterwards.
    """
    for place, condition in enumerate(all_of):
        if not len(rows):
            return rows
        mask = condition.mask(rows)
        if not pc.all(mask).as_py():
            later = {*needed}.union(*(other.names for other in all_of[place + 1 :]))
            rows = rows.filter(mask, later)
    return rows
