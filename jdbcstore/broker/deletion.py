"""The deletion of destinations with their messages, for an administrator or a client."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial

from jdbcstore.broker.destinations import DestinationRegistry
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.store_io.outbox import Outbox
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.errors import InvalidDestination, StoreClosed
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard

GoesOn = Callable[[int, int], bool]
_ROUNDS = 10
"""Attempts of a deletion to remove messages that arrived since it began."""
_PATIENCE = 60.0
"""Seconds for which a deletion waits for a page of the queue."""


class _Steps:
    """The batches of one deletion, and whether it was stopped between two of them."""

    def __init__(self, goes_on: GoesOn) -> None:
        self._goes_on = goes_on
        self.is_whole = True

    def __call__(self, done: int, seen: int) -> bool:
        self.is_whole = self._goes_on(done, seen)
        return self.is_whole


class DestinationDeletion:
    """Deletes queues and topics of a registry. Every method is called on the loop."""

    def __init__(self, *, destinations: DestinationRegistry, outbox: Outbox) -> None:
        self._destinations = destinations
        self._outbox = outbox
        self._is_stopping = False

    def stop(self) -> None:
        """Remove no more messages; a running deletion fails."""
        self._is_stopping = True

    async def delete(
        self,
        destination: Queue | Topic,
        *,
        keep_subscriptions: bool = False,
        goes_on: GoesOn = lambda _done, _seen: True,
    ) -> tuple[int, int]:
        """Delete a queue or topic without consumers, with its messages.

        A topic is deleted with the durable subscriptions to it alone. Messages sent while these are deleted
        wait, and go to a new topic of the same name. Return the number of removed messages, and the number
        that a queue still has: messages that arrived since, or are in an open transaction.

        :param keep_subscriptions: the durable subscriptions stay, without messages
        :param goes_on: called after each batch with the numbers of removed and examined messages. If it
            returns false, the destination stays with the rest of its messages
        :raises StoreError: a part could not be deleted, and stays
        :raises SubscriptionInUse: a durable subscription of the topic is in use
        """
        destinations, left, steps = self._destinations, 0, _Steps(goes_on)
        if isinstance(destination, Topic):
            count = await destinations.durables.delete_topic(
                destination, keep_subscriptions=keep_subscriptions, goes_on=steps
            )
            if steps.is_whole:
                await destinations.forget_drained(destination)
        else:
            count, left = await self._empty(destination, steps)
        if steps.is_whole:
            if isinstance(destination, Queue):
                destination.resume()
            await destinations.pauses.remove(destination.destination)
        return count, left

    async def _empty(self, queue: Queue, steps: _Steps) -> tuple[int, int]:
        """Remove the messages of a queue until it is forgotten or has a consumer.

        Return the numbers of removed and remaining messages.
        """
        destinations, count = self._destinations, 0
        with queue.held():
            for _ in range(_ROUNDS):
                count += await queue.take(lambda _: True, partial(self._remove, queue), goes_on=steps)
                if not steps.is_whole:
                    break
                async with asyncio.timeout(_PATIENCE):
                    await queue.until_idle()
                if await destinations.forget_drained(queue) or queue.has_consumers:
                    break
            left = await destinations.count(queue) if destinations.is_current(queue) else 0
        return count, left

    def _remove(self, queue: Queue, entries: Sequence[Entry]) -> Future[None]:
        if self._is_stopping:
            raise StoreClosed("the broker is stopping; use the next master")
        return queue.pending.acknowledge(entries)

    async def delete_unused(self, name: Destination) -> None:
        """Delete a destination without subscriptions, by its name; do nothing if it does not exist.

        :raises InvalidDestination: it has subscriptions, or the name names several destinations
        :raises StoreError: a part could not be deleted, and stays
        """
        if name.is_composite or is_wildcard(name):
            raise InvalidDestination(f"{name} names several destinations; delete each")
        await self._outbox.written()
        destination = self._destinations.by_name.get(name)
        if destination is None:
            return
        if destination.has_consumers or (isinstance(destination, Topic) and destination.durables):
            raise InvalidDestination(f"Destination: {name} still has an active subscription; end it first")
        await self.delete(destination)
