"""The deletion of destinations, with their messages, that an administrator or a client asks for."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Sequence
from functools import partial

from jdbcstore.broker.destinations import DestinationRegistry
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.store_io.outbox import Outbox
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.errors import InvalidDestination, StoreClosed
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard

_ROUNDS = 10
"""Attempts of a deletion to remove what has arrived since it began."""
_PATIENCE = 60.0
"""Seconds that a deletion waits until a page of the queue is read."""


class DestinationDeletion:
    """Deletes queues and topics of a registry. Every method is called on the loop."""

    def __init__(self, *, destinations: DestinationRegistry, outbox: Outbox) -> None:
        self._destinations = destinations
        self._outbox = outbox
        self._is_stopping = False

    def stop(self) -> None:
        """Remove no more messages: a deletion under way fails."""
        self._is_stopping = True

    async def delete(
        self, destination: Queue | Topic, *, keep_subscriptions: bool = False
    ) -> tuple[int, int]:
        """Remove the messages of a queue without consumers and forget it, or delete a topic without them.

        A topic is deleted with the durable subscriptions to it alone, and what is sent meanwhile waits, and
        is sent to a topic of the same name. Returns how many messages of a queue were removed, and how many
        are left: those that have arrived since, and those that an open transaction has.

        :param keep_subscriptions: the durable subscriptions stay, without messages
        :raises StoreError: some of it could not be deleted, which stays
        :raises SubscriptionInUse: a durable subscription of the topic is in use
        """
        destinations, count, left = self._destinations, 0, 0
        if isinstance(destination, Topic):
            await destinations.durables.delete_topic(destination, keep_subscriptions=keep_subscriptions)
            await destinations.forget_drained(destination)
        else:
            with destination.held():
                for _ in range(_ROUNDS):
                    count += await destination.take(lambda _: True, partial(self._remove, destination))
                    async with asyncio.timeout(_PATIENCE):
                        await destination.settled()
                    if await destinations.forget_drained(destination) or destination.has_consumers:
                        break
                if destinations.is_current(destination):
                    left = await destinations.count(destination)
            destination.resume()
        await destinations.pauses.remove(destination.destination)
        return count, left

    def _remove(self, queue: Queue, entries: Sequence[Entry]) -> Future[None]:
        if self._is_stopping:
            raise StoreClosed("the broker is stopping; ask the next master")
        return queue.pending.acknowledge(entries)

    async def delete_unused(self, name: Destination) -> None:
        """Delete a destination without subscriptions, by its name; do nothing if it does not exist.

        :raises InvalidDestination: it has subscriptions, or there are several of the name
        :raises StoreError: some of it could not be deleted, which stays
        """
        if name.is_composite or is_wildcard(name):
            raise InvalidDestination(f"{name} names several destinations; delete each")
        await self._outbox.written()
        destination = self._destinations.by_name.get(name)
        if destination is None:
            return
        if destination.has_consumers or (isinstance(destination, Topic) and destination.durables):
            raise InvalidDestination(
                f"Destination: {name} still has an active subscription; end it before it is deleted"
            )
        await self.delete(destination)
