"""Statements as a driver takes them, batches of them, and the guards under which a batch is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count, groupby
from operator import itemgetter
from typing import Any, NamedTuple

from jdbcstore.config.statements import Template
from jdbcstore.errors import LockLost, StoreError

Row = tuple[Any, ...]
MSG = 5
"""The position of MSG in a row of ACTIVEMQ_MSGS."""
_blob = itemgetter(MSG)
Key = tuple[str, int]
"""CONTAINER and ID of a message: an ID alone may by now be that of a message in another destination."""

_MARK = re.compile(r"\?|'(?:[^']|'')*'|\"[^\"]*\"")


@dataclass(frozen=True, slots=True)
class SqlText:
    """A statement's text in the driver's own parameter style, and its parameters in bind order."""

    text: str
    names: tuple[str, ...]
    constants: dict[str, Any]


class Sql:
    """A statement, compiled when it is first used: of all there are, a process runs few.

    ``cut`` means that the reader must stop after ``limit`` rows, because the text has no limit.
    """

    def __init__(self, write: Callable[[], SqlText], *, cut: bool = False) -> None:
        self._write = write
        self.cut = cut
        self.is_by_id = False
        """Whether it reads a page in the order of IDs."""

    @cached_property
    def _written(self) -> SqlText:
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
        """Return these values in bind order."""
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

    @property
    def size(self) -> int:
        """The bytes of its messages."""
        return sum(map(len, map(_blob, self.adds)))


@dataclass(frozen=True, slots=True)
class WriteStatements:
    """The statements that a batch is made of."""

    add_message: Sql
    update_message: Sql
    remove_message: Sql


def deposed() -> StoreError:
    return LockLost(
        "another master has taken over, and this store can no longer write; open it again to wait for the"
        " lock",
        refused=True,
    )


class RowGuard(NamedTuple):
    """A condition that, once checked, holds until the end of the transaction.

    ``sql`` selects and locks one row, or with ``touches`` updates one. If the condition
    does not hold, ``refusal`` returns the error. A guard without a lock may end before the transaction.
    """

    sql: Sql
    values: Row
    touches: bool
    refusal: Callable[[], StoreError] = deposed
    locks: bool = True


class Guards(NamedTuple):
    """The guards of a transaction: ``first`` checked before it writes, ``last`` before it commits.

    Rows that others must not wait for during a long transaction are among the last.
    """

    first: tuple[RowGuard, ...] = ()
    last: tuple[RowGuard, ...] = ()


UNGUARDED = Guards()


class EpochGuard(NamedTuple):
    """The guards of the master's epoch.

    A long transaction is guarded by ``long``, which checks the lock's row only at its end: locked until
    then, the row could not be renewed by the lock's holder. One of the application's own is guarded by
    ``joined``, which no other such transaction waits for.
    """

    short: Guards
    long: Guards
    joined: Guards


def with_marks(text: str, paramstyle: str) -> str:
    """Return a statement with ``?`` for each parameter, in the driver's style for a tuple of values."""
    if paramstyle == "qmark":
        return text
    numbers = count(1)
    if paramstyle in ("format", "pyformat"):
        text = text.replace("%", "%%")

    def mark(match: re.Match[str]) -> str:
        if match[0] != "?":
            return match[0]
        return "%s" if paramstyle in ("format", "pyformat") else f":{next(numbers)}"

    return _MARK.sub(mark, text)


@lru_cache(maxsize=1024)
def multi_row(text: str, count: int) -> str:
    """Return an INSERT of one row, as an INSERT of ``count`` rows."""
    head, values = text.rsplit("VALUES ", 1)
    return f"{head}VALUES {', '.join([values] * count)}"


@lru_cache
def guarded_row(text: str, guard: str) -> str:
    """Return an INSERT of one row, if a query finds one; the query's parameters come last."""
    head, values = text.rsplit("VALUES ", 1)
    return f"{head}SELECT {values.strip()[1:-1]} FROM {guard.split('FROM ', 1)[1]}"  # noqa: S608


@lru_cache(maxsize=1024)
def in_list(text: str, count: int) -> str:
    """Return a statement about one key, ending in ``... = ?``, as one about ``count`` keys."""
    head, mark = text.rsplit(" = ", 1)
    return f"{head} IN ({', '.join([mark] * count)})"


@lru_cache(maxsize=1024)
def in_pairs(text: str, count: int) -> str:
    """Turn a statement about one message, ending in ``... AND container = ? AND key = ?``, to one about more.

    Its parameters are all the keys, for the index, and then container and key of each.
    """
    head, *conditions = text.rsplit(" AND ", 2)
    (container, _), (key, mark) = [condition.rsplit(" = ", 1) for condition in conditions]
    pairs = ", ".join([f"({mark}, {mark})"] * count)
    return f"{in_list(f'{head} AND {key} = {mark}', count)} AND ({container}, {key}) IN ({pairs})"


def by_container(keys: Sequence[Key], most: int) -> Iterator[tuple[str, list[int]]]:
    """Yield the IDs of each container, in chunks of at most ``most``.

    Always in the same order, so that concurrent deletes cannot deadlock.
    """
    for container, group in groupby(sorted(keys), key=itemgetter(0)):
        ids = [id_ for _, id_ in group]
        for start in range(0, len(ids), most):
            yield container, ids[start : start + most]


def count_columns(cursor: Any, template: Template) -> int:
    """Return the number of columns that a query returns, found without reading a row."""
    text = template.render(lambda _, name: "0" if name == "limit" else "NULL")
    cursor.execute(f"SELECT * FROM (\n{text}\n) AS looked_at LIMIT 0")  # noqa: S608
    cursor.fetchall()
    return len(cursor.description)
