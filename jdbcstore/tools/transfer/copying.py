"""Moving a store to another database, row by row.

Messages come first, each page in a transaction of its own, and subscriptions last, all in one: a copy
that was killed has messages only, and is taken up where it was. A row is never written over.
"""

from __future__ import annotations

from dataclasses import dataclass

from jdbcstore.abc import Progress
from jdbcstore.config import Configuration
from jdbcstore.database.connection import Connection
from jdbcstore.errors import StoresDiffer
from jdbcstore.tools.transfer.comparing import Comparison, compare_ends
from jdbcstore.tools.transfer.end import End, MarkRow, MessageRow, Subscription, Target, values_of

_LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did, and how both stores compare behind it."""

    messages: int
    """Written now; others were there from a copy before."""
    comparison: Comparison


def copy(source: Configuration, target: Configuration, progress: Progress | None = None) -> Copied:
    """Copy every row of a store to a database that has none, or what an earlier copy has left in it.

    Messages keep their IDs, bytes and prepared transactions, subscriptions their marks and their
    acknowledgements ahead of them; sequences go on behind the source's. Then both are read again and
    compared. Nothing may write to either meanwhile.

    :param progress: told of messages, each twice: copied, and compared
    :raises StoresDiffer: the target has a message that the source has not; nothing was written over
    :raises NotMaster: the target's locker says that another may write
    """
    with End(source) as origin, Target(target) as goal:
        if origin.place == goal.place:
            raise StoresDiffer(f"{origin.place} is both source and target; name two stores")
        copied = _copy_messages(origin, goal, progress)
        _copy_subscriptions(origin, goal)
        return Copied(copied, compare_ends(origin, goal, progress))


def _copy_messages(origin: End, goal: Target, progress: Progress | None) -> int:
    copied, after = 0, -1
    for page in origin.messages():
        missing = _missing(goal, page, after)
        goal.add(missing)
        copied += len(missing)
        after = page[-1].id
        if progress is not None:
            progress(len(page))
    _missing(goal, [], after)
    return copied


def _missing(goal: Target, page: list[MessageRow], after: int) -> list[MessageRow]:
    """Those messages of a page that the target has not, if it has no others in their place."""
    up_to = page[-1].id if page else _LAST
    there = goal.names(after, up_to, len(page) + 1)
    names = {row.name for row in page}
    for name in there:
        if tuple(name) not in names:
            raise StoresDiffer(
                f"{goal.place} has a message with ID {name[0]} in {name[1]} that the source has not; copy"
                " into an empty database, or see jdbcstore audit"
            )
    found = {name[0] for name in there}
    return [row for row in page if row.id not in found]


def _copy_subscriptions(origin: End, goal: Target) -> None:
    marks = [
        mark for container in sorted(origin.containers()) for mark in _missing_marks(origin, goal, container)
    ]
    if any(0 < mark.priority < 10 for mark in marks):
        goal.session.widen_acks_key()
    with goal.transaction() as connection:
        for mark in marks:
            connection.execute(goal.rows.add_mark, **values_of(mark))
        for subscription in sorted(origin.subscriptions_ahead()):
            _copy_ahead(connection, origin, goal, subscription)
        goal.reserve(connection, origin.reserved())


def _missing_marks(origin: End, goal: Target, container: str) -> list[MarkRow]:
    there = {mark.key for mark in goal.marks(container)}
    return [mark for mark in origin.marks(container) if mark.key not in there]


def _copy_ahead(connection: Connection, origin: End, goal: Target, subscription: Subscription) -> None:
    # All of a subscription's were written with its marks, or none.
    if next(goal.ahead(subscription), None) is not None:
        return
    add, rows = goal.rows.add_ahead, []
    for row in origin.ahead(subscription):
        rows.append(add.row(**values_of(row)))
        if len(rows) == 1000:
            connection.execute_many(add, rows)
            rows = []
    connection.execute_many(add, rows)
