"""The operations of a management, whatever it manages: a broker, or queues that processes share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from jdbcstore.broker.management.audit import Actor
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.texts import counted
from jdbcstore.broker.operations import Operation
from jdbcstore.errors import DestinationNotFound
from jdbcstore.message.destination import Destination

_MOST_SEEN = 5000
"""The most messages to search when those of a selector or a group are counted."""
_PAGE = 200
"""Messages that are looked at in one turn of the loop."""


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


class Performing(Protocol):
    """A management, as HTTP and the console use it."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The rows of :data:`jdbcstore.broker.operations.OPERATIONS` that can be done, by name."""

    async def perform(self, operation: Operation, actor: Actor, *values: Any, **arguments: Any) -> Any:
        """Do what a row says, with the values of its path, and return its result.

        :raises StoreError: what its method raises
        """

    async def affected(self, destination: Destination, choice: MessageChoice | None, /) -> Affected | None:
        """Count what an operation on messages of a queue, or on a whole destination, would be for.

        None for a destination that does not exist.

        :param choice: the messages; None for all that there is
        :raises StoreError: the selector is invalid, or the store cannot be read
        """


async def affected(views: Views, destination: Destination, choice: MessageChoice | None) -> Affected | None:
    """Count messages of a broker, as :meth:`Performing.affected` says."""
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
