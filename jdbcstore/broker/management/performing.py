"""The interface of a management's operations, on a broker or on shared queues."""

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
"""The most messages to search when messages of a selector or a group are counted."""
_PAGE = 200
"""Messages read per iteration of the event loop."""


@dataclass(frozen=True, slots=True)
class Affected:
    """The recent count of messages or subscriptions that an operation would affect."""

    count: int
    noun: str = "message"
    seen: int | None = None
    """The number of searched messages, if there are more."""

    def __str__(self) -> str:
        if self.seen is None:
            return counted(self.count, self.noun)
        return f"at least {counted(self.count, self.noun)} (only the first {self.seen:,} were searched)"


class Performing(Protocol):
    """The interface of a management for HTTP and the console."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The available operations of :data:`jdbcstore.broker.operations.OPERATIONS`, by name."""

    async def perform(self, operation: Operation, actor: Actor, *values: Any, **arguments: Any) -> Any:
        """Run an operation with the values of its path, and return its result.

        :raises StoreError: the errors of its method
        """

    async def affected(self, destination: Destination, choice: MessageChoice | None, /) -> Affected | None:
        """Count the messages that an operation on a queue's messages, or on a whole destination, would
        affect.

        None for a destination that does not exist.

        :param choice: the messages; None for all
        :raises StoreError: the selector is invalid, or the store cannot be read
        """


async def affected(views: Views, destination: Destination, choice: MessageChoice | None) -> Affected | None:
    """Count messages of a broker, see :meth:`Performing.affected`."""
    try:
        if destination.is_topic:
            subscriptions = [
                subscription
                for subscription in await views.subscriptions()
                if subscription.destination == str(destination)
            ]
            return Affected(
                sum(subscription.name is not None for subscription in subscriptions), "durable subscription"
            )
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
