"""Rewriting a statement's text: for many rows, for the marks of a driver, to be looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count, groupby
from operator import itemgetter
from typing import Any

from jdbcstore.config.placeholders import Template
from jdbcstore.database.adapters.sql import Key

_MARK = re.compile(r"\?|'(?:[^']|'')*'|\"[^\"]*\"")


def with_marks(text: str, paramstyle: str) -> str:
    """A statement with ``?`` for each parameter, as a driver takes it together with a tuple of values."""
    if paramstyle == "qmark":
        return text
    numbers = count(1)
    if paramstyle in ("format", "pyformat"):
        text = text.replace("%", "%%")

    def mark(found: re.Match[str]) -> str:
        if found[0] != "?":
            return found[0]
        return "%s" if paramstyle in ("format", "pyformat") else f":{next(numbers)}"

    return _MARK.sub(mark, text)


@lru_cache(maxsize=1024)
def multi_row(text: str, count: int) -> str:
    """An INSERT of one row as an INSERT of so many."""
    head, values = text.rsplit("VALUES ", 1)
    return f"{head}VALUES {', '.join([values] * count)}"


@lru_cache
def guarded_row(text: str, guard: str) -> str:
    """An INSERT of one row as one of none where a query finds nothing; the query's parameters come last."""
    head, values = text.rsplit("VALUES ", 1)
    return f"{head}SELECT {values.strip()[1:-1]} FROM {guard.split('FROM ', 1)[1]}"  # noqa: S608


@lru_cache(maxsize=1024)
def in_list(text: str, count: int) -> str:
    """A statement about one key, ``... = ?`` at its end, as one about so many."""
    head, mark = text.rsplit(" = ", 1)
    return f"{head} IN ({', '.join([mark] * count)})"


@lru_cache(maxsize=1024)
def in_pairs(text: str, count: int) -> str:
    """A statement about one message, ``... AND container = ? AND key = ?`` at its end, as one about so many.

    It takes all the keys, to find them by, and then container and key of each.
    """
    head, *conditions = text.rsplit(" AND ", 2)
    (container, _), (key, mark) = [condition.rsplit(" = ", 1) for condition in conditions]
    pairs = ", ".join([f"({mark}, {mark})"] * count)
    return f"{in_list(f'{head} AND {key} = {mark}', count)} AND ({container}, {key}) IN ({pairs})"


def by_container(keys: Sequence[Key], most: int) -> Iterator[tuple[str, list[int]]]:
    """The IDs of each container, at most so many at a time.

    In one order for all: concurrent deletes cannot deadlock.
    """
    for container, group in groupby(sorted(keys), key=itemgetter(0)):
        ids = [id_ for _, id_ in group]
        for start in range(0, len(ids), most):
            yield container, ids[start : start + most]


def count_columns(cursor: Any, template: Template) -> int:
    """How many columns a query returns, found out by reading none of its rows."""
    text = template.render(lambda _, name: "0" if name == "limit" else "NULL")
    cursor.execute(f"SELECT * FROM (\n{text}\n) AS looked_at LIMIT 0")  # noqa: S608
    cursor.fetchall()
    return len(cursor.description)
