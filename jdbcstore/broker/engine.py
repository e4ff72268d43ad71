"""The broker's engine: routes between connectors, destinations and the store.

Where topics plug in: :meth:`Engine._make_destination` makes what a topic is,
:meth:`Engine._subscribe_to_topics` what its consumer is; :meth:`Engine.unsubscribe` and
:meth:`Engine.disconnected` are theirs.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from dataclasses import dataclass
from typing import Protocol

from jdbcstore.abc import Store
from jdbcstore.broker.api import BrokerTransaction, Consumer, Subscription, SubscriptionRequest
from jdbcstore.broker.browser import Browser
from jdbcstore.broker.completions import StoreLine
from jdbcstore.broker.dead_letters import DeadLetters
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.outbox import Outbox
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.subscription import BaseSubscription, all_done
from jdbcstore.broker.transaction import EngineTransaction, Target
from jdbcstore.clock import Clock, SystemClock
from jdbcstore.destination import Destination
from jdbcstore.errors import InvalidDestination
from jdbcstore.message import Message
from jdbcstore.patterns import DestinationPattern, is_wildcard
from jdbcstore.selector import Selector

log = logging.getLogger(__name__)


class BrokerDestination(Target, Protocol):
    """A queue or a topic, to the engine."""

    @property
    def destination(self) -> Destination: ...

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Done when it is durable, if it is stored at all, and there is room for more."""

    def disconnected(self, connection_id: str) -> None:
        """A connection is gone, and with it what is its own."""

    def add(self, subscription: BaseSubscription) -> None:
        """A consumer begins; it is to be told of this source of its messages."""

    def close(self) -> None:
        """The broker stops: forget what is in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Limits of an engine."""

    max_pending_count: int = 2_000
    """Writes on their way to the store; keep it well below the store's own limit, where it blocks."""
    max_pending_bytes: int = 16 * 1024 * 1024
    memory_limit: int = 64 * 1024 * 1024
    """Bytes of messages in memory."""
    audited: bool = False
    """Whether the store has ``enable_audit``: it then drops a message id that it has seen, wherever."""


class Engine:
    """See :class:`jdbcstore.broker.api.Broker`. Make, start, use and stop it on one loop.

    The store stays the caller's: it is opened before and closed after.
    """

    def __init__(
        self,
        store: Store,
        policies: Policies | None = None,
        *,
        options: EngineOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.policies = policies or Policies()
        self._store = store
        self._options = options or EngineOptions()
        self._clock = clock or SystemClock()
        self._destinations: dict[Destination, BrokerDestination] = {}
        self._subscriptions: dict[BaseSubscription, list[DestinationPattern]] = {}
        """Each, and the wildcards in it."""
        self._parts: Parts

    async def start(self) -> None:
        """Find out what the store holds.

        :raises StoreError: it cannot be read
        """
        loop, options = asyncio.get_running_loop(), self._options
        line = StoreLine(loop, options.max_pending_count, options.max_pending_bytes)
        self._parts = Parts(loop, self._store, self._clock, line, MemoryUsage(options.memory_limit))
        self._parts.outbox = Outbox(self._parts)
        self._parts.dead_letters = DeadLetters(self._parts, self.destination, audited=options.audited)
        self._parts.last_sequence = await self._parts.run(self._store.last_sequence)
        for destination in await self._parts.run(self._store.destinations):
            self._destinations[destination] = self._make_destination(destination, is_empty=False)

    async def stop(self) -> None:
        """Close what consumers there are, wait for what is under way, and forget the rest."""
        for subscription in list(self._subscriptions):
            subscription.close()
        await self._parts.settled()
        for destination in self._destinations.values():
            destination.close()
        self._parts.close()

    def _make_destination(self, destination: Destination, *, is_empty: bool) -> BrokerDestination:
        """What a destination is; ``is_empty`` if the store holds nothing of it."""
        policy = self.policies.of(destination)
        if destination.is_topic:
            raise InvalidDestination(f"{destination}: there are no topics yet")
        return Queue(self._parts, destination, policy, is_empty=is_empty)

    def destination(self, destination: Destination) -> BrokerDestination:
        """The queue or topic of this name, made if it is new."""
        found = self._destinations.get(destination)
        if found is None:
            if is_wildcard(destination):
                raise InvalidDestination(f"{destination} has wildcards, and messages go to plain names")
            found = self._destinations[destination] = self._make_destination(destination, is_empty=True)
            for subscription, patterns in self._subscriptions.items():
                if any(pattern.matches(destination) for pattern in patterns):
                    found.add(subscription)
        return found

    def send(self, message: Message, connection_id: str) -> Future[None]:
        found = self._destinations.get(message.destination) if message.destination else None
        if found is not None:
            return found.send(message, connection_id)
        try:
            routed = self._route(message)
        except InvalidDestination as error:
            return self._parts.failed(error)
        return all_done(self._parts.loop, [target.send(each, connection_id) for target, each in routed])

    def begin(self, connection_id: str) -> BrokerTransaction:
        return EngineTransaction(self._parts, self._route, connection_id)

    def _route(self, message: Message) -> list[tuple[BrokerDestination, Message]]:
        """Each destination that a message goes to, and what it gets."""
        if message.destination is None:
            raise InvalidDestination("a message needs a destination to be sent to")
        members = message.destination.members
        return [(self.destination(member), _routed(message, member)) for member in members]

    def subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> Future[Subscription]:
        future: Future[Subscription] = self._parts.loop.create_future()
        begin = self._subscribe_to_topics if request.destination.is_topic else self._subscribe_to_queues
        try:
            begin(request, consumer, future)
        except Exception as error:
            future.set_exception(error)
        return future

    def _subscribe_to_topics(
        self,
        request: SubscriptionRequest,
        consumer: Consumer,  # noqa: ARG002
        future: Future[Subscription],  # noqa: ARG002
    ) -> None:
        """Make what a topic's consumer is, and :meth:`hand_over` it, at once or later."""
        raise InvalidDestination(f"{request.destination}: there are no topics yet")

    def _subscribe_to_queues(
        self, request: SubscriptionRequest, consumer: Consumer, future: Future[Subscription]
    ) -> None:
        policy = self.policies.of(request.destination)
        usual = policy.queue_browser_prefetch if request.browser else policy.queue_prefetch
        prefetch = usual if request.prefetch is None else request.prefetch
        selector = None if request.selector is None else Selector(request.selector)
        if request.browser:
            page_size = policy.max_browse_page_size
            subscription: BaseSubscription = Browser(
                self._parts, request, consumer, prefetch, selector, page_size
            )
        else:
            subscription = BaseSubscription(self._parts.loop, request, consumer, prefetch, selector)
        self.hand_over(subscription, future)

    def hand_over(self, subscription: BaseSubscription, future: Future[Subscription]) -> None:
        """Complete a ``subscribe``, and then add it to every destination that it is for.

        Nothing is delivered before those who wait for the future have been called.
        """
        loop = self._parts.loop

        def complete() -> None:
            if future.cancelled():
                subscription.close()
            else:
                future.set_result(subscription)
                loop.call_soon(self._add, subscription)

        subscription.on_close = self._forget
        loop.call_soon(complete)

    def _add(self, subscription: BaseSubscription) -> None:
        if subscription.closed:
            return
        members = subscription.request.destination.members
        patterns = [DestinationPattern(member) for member in members if is_wildcard(member)]
        self._subscriptions[subscription] = patterns
        found = {self.destination(member) for member in members if not is_wildcard(member)}
        found.update(
            candidate
            for destination, candidate in self._destinations.items()
            if any(pattern.matches(destination) for pattern in patterns)
        )
        for destination in found:
            destination.add(subscription)
        if isinstance(subscription, Browser):
            subscription.begin()

    def _forget(self, subscription: BaseSubscription) -> None:
        self._subscriptions.pop(subscription, None)

    def unsubscribe(self, client_id: str, subscription_name: str) -> Future[None]:
        raise NotImplementedError(client_id, subscription_name)

    def disconnected(self, connection_id: str) -> None:
        for destination in list(self._destinations.values()):
            destination.disconnected(connection_id)


def _routed(message: Message, member: Destination) -> Message:
    """The message of one member of a composite."""
    if message.destination == member:
        return message
    return message.replace(
        destination=member, original_destination=message.original_destination or message.destination
    )
