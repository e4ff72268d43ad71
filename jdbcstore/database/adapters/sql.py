"""Statements as they are run, and batches of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Row = tuple[Any, ...]
Key = tuple[str, int]
"""CONTAINER and ID of a message: who has an ID may be mistaken about whose it is."""


@dataclass(frozen=True, slots=True)
class Written:
    """A statement's text in the driver's own parameter style, and its parameters in bind order."""

    text: str
    names: tuple[str, ...]
    constants: dict[str, Any]


class Sql:
    """A statement, written out when it is first needed: of all there are, a process runs few.

    ``cut`` says that reading must end after ``limit`` rows, because the text does not say so.
    """

    def __init__(self, write: Callable[[], Written], *, cut: bool = False) -> None:
        self._write = write
        self.cut = cut

    @cached_property
    def _written(self) -> Written:
        return self._write()

    @cached_property
    def text(self) -> str:
        return self._written.text

    @cached_property
    def names(self) -> tuple[str, ...]:
        return self._written.names

    @cached_property
    def constants(self) -> dict[str, Any]:
        return self._written.constants

    def row(self, **values: Any) -> Row:
        """These values in bind order."""
        if self.constants:
            values = {**self.constants, **values}
        return tuple([values[name] for name in self.names])


@dataclass(slots=True)
class Batch:
    """One database transaction's worth of writes, applied in the order of the fields."""

    adds: list[Row]
    """Rows of ACTIVEMQ_MSGS in the column order of :attr:`WriteStatements.add_message`."""
    updates: list[Row]
    removes: list[Key]
    others: list[tuple[Sql, list[Row]]]


@dataclass(frozen=True, slots=True)
class WriteStatements:
    """The statements that a batch is made of."""

    add_message: Sql
    update_message: Sql
    remove_message: Sql
