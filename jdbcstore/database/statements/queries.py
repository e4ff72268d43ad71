"""Rows in the shape of the store's own statements, where one statement alone does not give it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from jdbcstore.database.adapters.sql import Row, Sql

MAX_SEQUENCE = 2**63 - 1

Fetch = Callable[..., list[Row]]
"""(statement, **values) -> its rows."""


class Query(ABC):
    """What can be fetched in place of one statement."""

    @abstractmethod
    def rows(self, fetch: Fetch, **values: Any) -> list[Row]:
        """The rows, found by statements that ``fetch`` runs one after another."""


Statement = Sql | Query


class Lanes(NamedTuple):
    """One query for each priority's lane.

    The lowest lane has its own, with a range: SQLite would take an equality for the better index,
    and walk through all that is not prioritised, which has priority 0.
    """

    lowest: Statement
    other: Statement

    def of(self, priority: int) -> Statement:
        return self.other if priority else self.lowest


@dataclass(frozen=True, slots=True)
class Picked(Query):
    """Some columns of a statement, in another order; ``sorted`` where it promises none."""

    sql: Sql
    columns: tuple[int | None, ...]
    """None stands for NULL."""
    sort: bool = False

    def rows(self, fetch: Fetch, **values: Any) -> list[Row]:
        found = [
            tuple([None if column is None else row[column] for column in self.columns])
            for row in fetch(self.sql, **values)
        ]
        return sorted(found, key=lambda row: row[:2]) if self.sort else found


@dataclass(frozen=True, slots=True)
class MessageByName(Query):
    """IDs and priorities by a statement that does not know what is in doubt."""

    name: Statement
    place: Sql
    """(id_, container) -> ID, PRIORITY: whether it is there."""

    def rows(self, fetch: Fetch, **values: Any) -> list[Row]:
        container = values["container"]
        found = fetch(self.name, **values)
        return [row for row in found if fetch(self.place, id_=row[0], container=container)]


@dataclass(frozen=True, slots=True)
class MessageById(Query):
    """A message's ID and MSG, by a statement that does not ask for the destination."""

    place: Sql
    """(id_, container) -> ID, PRIORITY: whether it is there."""
    message: Sql
    """(id_) -> MSG"""

    def rows(self, fetch: Fetch, **values: Any) -> list[Row]:
        return [
            (id_, blob)
            for id_, _ in fetch(self.place, **values)
            for (blob,) in fetch(self.message, id_=values["id_"])
        ]


@dataclass(frozen=True, slots=True)
class SubscriptionRows(Query):
    """A subscription's rows, selector and pattern by a statement that finds nothing else."""

    marks: Sql
    description: Sql
    """(container, client_id, sub_name) -> SELECTOR, SUB_DEST"""

    def rows(self, fetch: Fetch, **values: Any) -> list[Row]:
        marks = fetch(self.marks, **values)
        described = fetch(self.description, **values) if marks else []
        return [(*row[:4], *described[0]) for row in marks] if described else []


@dataclass(frozen=True, slots=True)
class OneLane(Query):
    """One priority's messages, by a statement that takes a place in each of ten lanes."""

    sql: Sql

    def rows(self, fetch: Fetch, **values: Any) -> list[Row]:
        places = {f"last_{lane}": MAX_SEQUENCE for lane in range(10)}
        places[f"last_{values['priority']}"] = values["after"]
        return fetch(self.sql, **values, **places)


@dataclass(frozen=True, slots=True)
class Pending(Query):
    """A subscription's messages, by a statement that knows its mark alone, without what is ahead of it.

    What is pending is asked for behind the page: an acknowledgement that was there before is seen,
    wherever it has gone meanwhile.
    """

    page: Sql
    still: Sql
    """(..., after, up_to) -> ID of what is pending between"""

    def rows(self, fetch: Fetch, **values: Any) -> list[Row]:
        found: list[Row] = []
        limit, more = values["limit"], True
        while more and len(found) < limit:
            rows = fetch(self.page, **values)
            more = len(rows) == limit
            if rows:
                values["up_to"] = rows[-1][0]
                pending = {id_ for (id_,) in fetch(self.still, **values)}
                found += [row for row in rows if row[0] in pending]
                values["after"] = values["up_to"]
        return found[:limit]


@dataclass(frozen=True, slots=True)
class PendingCount(Query):
    """How many messages are pending, by a statement that knows the marks alone.

    Whether it counts messages in doubt is not known, so where there are some, it is not asked.
    """

    behind_marks: Sql
    ahead: Sql
    in_doubt: Statement
    own: Statement

    def rows(self, fetch: Fetch, **values: Any) -> list[Row]:
        if fetch(self.in_doubt, **{**values, "after": -1, "limit": 1}):
            return fetch(self.own, **values)
        [(count,)] = fetch(self.behind_marks, **values)
        [(ahead,)] = fetch(self.ahead, **values)
        return [(max(0, int(count) - int(ahead)),)]


@dataclass(frozen=True, slots=True)
class Narrowed(Query):
    """Those rows of our own statement that are of something that another statement finds, too."""

    own: Sql
    other: Sql
    columns: tuple[tuple[int, int], ...]
    """What must be equal: a column of ours, and one of the other's."""

    def rows(self, fetch: Fetch, **values: Any) -> list[Row]:
        found = {tuple([row[theirs] for _, theirs in self.columns]) for row in fetch(self.other, **values)}
        rows = fetch(self.own, **values) if found else []
        return [row for row in rows if tuple([row[ours] for ours, _ in self.columns]) in found]
