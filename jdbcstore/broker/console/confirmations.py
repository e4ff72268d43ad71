"""Confirmations of operations: by the number of messages that they are for now, and a name that is typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jdbcstore.broker.console.rendering import visible
from jdbcstore.broker.console.visits import Visit
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.texts import counted
from jdbcstore.broker.operations import NotARequest
from jdbcstore.errors import DestinationNotFound
from jdbcstore.message.destination import Destination

_MOST_SEEN = 5000
"""Messages that are searched to count those of a selector or a group."""
_PAGE = 200
"""Messages that are looked at in one turn of the loop."""
_MARGIN = 10


class Confirmed(Protocol):
    """An operation that is confirmed."""

    @property
    def typed(self) -> str:
        """The field with the name that has to be typed; empty if what is done can be undone."""


@dataclass(frozen=True, slots=True)
class Affected:
    """The messages, or subscriptions, that an operation would be for, counted a moment ago."""

    count: int
    noun: str = "message"
    seen: int | None = None
    """The messages that were searched, if there are more."""

    def __str__(self) -> str:
        if self.seen is None:
            return counted(self.count, self.noun)
        return f"at least {counted(self.count, self.noun)}, of the first {self.seen:,} that were searched"


async def affected(views: Views, destination: Destination, choice: MessageChoice | None) -> Affected | None:
    """Count what an operation on messages of a queue, or on a whole destination, would be for.

    None for a destination that does not exist.

    :param choice: the messages; None for all that there is
    :raises StoreError: the selector is invalid, or the store cannot be read
    """
    try:
        if destination.is_topic:
            subscriptions = [
                one for one in await views.subscriptions() if one.destination == str(destination)
            ]
            return Affected(sum(one.name is not None for one in subscriptions), "durable subscription")
        if choice is None or choice == MessageChoice(limit=choice.limit):
            size = (await views.destination(destination)).size or 0
            return Affected(size if choice is None or choice.limit is None else min(size, choice.limit))
        if choice.ids is not None:
            return Affected(len(await views.browse(destination, choice, limit=len(choice.ids))))
        return await _searched(views, destination, choice)
    except DestinationNotFound:
        return None


async def _searched(views: Views, queue: Destination, choice: MessageChoice) -> Affected:
    count = seen = 0
    after = None
    while choice.limit is None or count < choice.limit:
        page = await views.page(queue, choice, after=after, limit=_PAGE)
        count, seen, after = count + len(page.messages) + page.transient, seen + page.seen, page.next
        if after is None:
            return Affected(count if choice.limit is None else min(count, choice.limit))
        if seen >= _MOST_SEEN:
            return Affected(count, seen=seen)
    return Affected(choice.limit)


def chosen_by(visit: Visit) -> str:
    """Return what a form chooses messages by, to be compared with what they were counted for."""
    return " · ".join(visit.text(name).strip() for name in ("limit", "origin", "selector"))


def check(action: Confirmed, visit: Visit, now: Affected | None) -> None:
    """Check that what is confirmed is still what was asked.

    :raises NotConfirmed: it has to be asked again, and why
    """
    name = visit.text(action.typed) if action.typed else ""
    if name and visit.text("typed").strip() not in (name.strip(), visible(name).strip()):
        raise NotConfirmed(f"type {visible(name)} to confirm this, because it cannot be undone")
    if now is None:
        return
    if visit.text("counted_for") != chosen_by(visit):
        raise NotConfirmed(f"this is for {now}; confirm it")
    said = visit.number("counted", least=0, most=1 << 62) or 0
    if now.count > said + max(said // 10, _MARGIN):
        raise NotConfirmed(f"there are more than before: {now} instead of {said:,}; confirm it again")


class NotConfirmed(NotARequest):
    """An operation that has to be confirmed, or confirmed again."""
