"""The broker's engine: routes between connectors, destinations and the store."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Callable
from functools import partial

from jdbcstore.abc import Store
from jdbcstore.broker.api import BrokerTransaction, Consumer, Subscription, SubscriptionRequest
from jdbcstore.broker.destinations import BrokerDestination, routed
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.queues.browser import Browser
from jdbcstore.broker.queues.dead_letters import DeadLetters, renamed
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.store_io.completions import StoreLine
from jdbcstore.broker.store_io.gates import Gates
from jdbcstore.broker.store_io.outbox import Outbox
from jdbcstore.broker.store_io.transaction import EngineTransaction, OpenTransactions
from jdbcstore.broker.subscription import BaseSubscription, all_done
from jdbcstore.broker.temporary import Temporary
from jdbcstore.broker.topics.durable import Durables
from jdbcstore.broker.topics.subscriber import TopicSubscriber
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.errors import InvalidDestination, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern, is_wildcard
from jdbcstore.message.selector import Selector
from jdbcstore.util.clock import Clock, SystemClock

log = logging.getLogger(__name__)

_IDLE_PERIOD = 30.0
"""Seconds after which a destination is forgotten that was idle all the time."""


class Engine:
    """See :class:`jdbcstore.broker.api.Broker`. Make, start, use and stop it on one loop.

    The store stays the caller's: it is opened before and closed after. ``on_defect`` is called on the loop
    with an error that the engine did not expect and after which it is not to be trusted: somebody may wait
    for good, and what was stored be delivered by the next engine only.
    """

    def __init__(
        self,
        store: Store,
        policies: Policies | None = None,
        *,
        options: EngineOptions | None = None,
        clock: Clock | None = None,
        on_defect: Callable[[Exception], None] | None = None,
    ) -> None:
        self._defect_handler = on_defect
        self.policies = policies or Policies()
        self._store = store
        self._options = options or EngineOptions()
        self._clock = clock or SystemClock()
        self._destinations: dict[Destination, BrokerDestination] = {}
        self._subscriptions: dict[BaseSubscription, list[DestinationPattern]] = {}
        """Each, and the wildcards in it."""
        self._temporary = Temporary()
        self._tasks: set[asyncio.Task[None]] = set()
        """What takes a while; the loop alone would forget them."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._durables: Durables
        self._parts: Parts

    async def start(self) -> None:
        """Find out what the store holds.

        :raises StoreError: it cannot be read
        """
        loop, options = asyncio.get_running_loop(), self._options
        line = StoreLine(loop, options.max_pending_count, options.max_pending_bytes, self._on_defect)
        self._parts = Parts(
            loop,
            self._store,
            self._clock,
            line,
            MemoryUsage(options.memory_limit),
            options.folder,
            files=MemoryUsage(options.temp_limit, high_water_mark=100, name="temp_limit"),
            on_defect=self._on_defect,
        )
        self._parts.concurrent = options.concurrent_store_and_dispatch_queues
        self._parts.transactions = OpenTransactions(options.memory_limit, self._parts.notices)
        self._parts.find = self.destination
        self._parts.outbox = Outbox(self._parts)
        self._parts.gates = Gates(loop, self._parts.guarded)
        self._parts.dead_letters = DeadLetters(self._parts, self.destination, audited=options.audited)
        self._parts.last_sequence = await self._parts.run(self._store.last_sequence)
        self._durables = Durables(self._parts, self.policies, self._topics)
        destinations = await self._parts.run(self._store.destinations)
        await self._durables.load(destinations)
        for destination in destinations:
            if not (destination.is_topic and is_wildcard(destination)):
                self._destinations[destination] = self._make_destination(destination, is_empty=False)
        self._idle_timer = loop.call_later(_IDLE_PERIOD, self._look_for_idle)

    async def stop(self) -> None:
        """Close what consumers there are, wait for what is under way, and forget the rest."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for subscription in list(self._subscriptions):
            subscription.close()
        await self._parts.settled()
        for destination in self._destinations.values():
            destination.close()
        self._parts.close()

    def forget_idle(self) -> None:
        """Forget the destinations that were idle since this was called last.

        Clients invent names without end. What is forgotten holds nothing, here or in the store, and is made
        again when it is named again.
        """
        for name, found in [*self._destinations.items()]:
            if found.is_idle():
                del self._destinations[name]
                found.close()

    def _look_for_idle(self) -> None:
        self.forget_idle()
        self._idle_timer = self._parts.loop.call_later(_IDLE_PERIOD, self._look_for_idle)

    def _on_defect(self, error: Exception) -> None:
        log.error("the broker has met an error that it did not expect", exc_info=error)
        if self._defect_handler is not None:
            self._defect_handler(error)

    def _make_destination(self, destination: Destination, *, is_empty: bool) -> BrokerDestination:
        """What a destination is; ``is_empty`` if the store holds nothing of it."""
        policy = self.policies.of(destination)
        if not destination.is_topic:
            return Queue(self._parts, destination, policy, is_empty=is_empty)
        topic = Topic(self._parts, destination, policy)
        self._durables.introduce(topic)
        return topic

    def _topics(self) -> list[Topic]:
        return [found for found in self._destinations.values() if isinstance(found, Topic)]

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

    def knows(self, destination: Destination) -> bool:
        return destination in self._destinations

    def send(self, message: Message, connection_id: str) -> Future[None]:
        if self._parts.gates.is_closed(connection_id):
            return self._parts.gates.send(connection_id, partial(self._send, message, connection_id))
        return self._send(message, connection_id)

    def _send(self, message: Message, connection_id: str) -> Future[None]:
        found = self._destinations.get(message.destination) if message.destination else None
        try:
            if message.reply_to is not None:
                self._temporary.expect_reply(message.reply_to, connection_id)
            if found is not None:
                return found.send(message, connection_id)
            targets = self._route(message, connection_id)
        except StoreError as error:
            return self._parts.failed(error)
        if len(targets) > 1:
            return self._send_together(message, connection_id)
        [(target, each)] = targets
        return target.send(each, connection_id)

    def _send_together(self, message: Message, connection_id: str) -> Future[None]:
        """To all members of a composite, or to none."""
        transaction = self.begin(connection_id)
        room = transaction.send(message)
        if room.done() and room.exception() is not None:
            transaction.rollback()
            return room
        commit = transaction.commit()
        return commit if room.done() else all_done(self._parts.loop, [commit, room])

    def begin(self, connection_id: str) -> BrokerTransaction:
        return EngineTransaction(
            self._parts, lambda message: self._route(message, connection_id), connection_id
        )

    def _route(self, message: Message, connection_id: str) -> list[tuple[BrokerDestination, Message]]:
        """Each destination that a message goes to, and what it gets."""
        if message.destination is None:
            raise InvalidDestination("a message needs a destination to be sent to")
        members = message.destination.members
        self._temporary.use(members, connection_id)
        messages = [routed(message, member) for member in members]
        if self._options.audited:
            others = [each.replace(message_id=renamed(each.message_id)) for each in messages[1:]]
            messages[1:] = others
        return [(self.destination(member), each) for member, each in zip(members, messages, strict=True)]

    def subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> Future[Subscription]:
        future: Future[Subscription] = self._parts.loop.create_future()
        members = request.destination.members
        try:
            if len({member.is_topic for member in members}) > 1:
                raise InvalidDestination(f"{request.destination} has queues and topics; subscribe to each")
            self._temporary.own(members, request.connection_id)
            if not members[0].is_topic:
                self._subscribe_to_queues(request, consumer, future)
            elif request.subscription_name is None:
                self._subscribe_to_topics(request, consumer, future)
            else:
                task = self._parts.loop.create_task(self._subscribe_durably(request, consumer, future))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except Exception as error:
            future.set_exception(error)
        return future

    def _subscribe_to_topics(
        self, request: SubscriptionRequest, consumer: Consumer, future: Future[Subscription]
    ) -> None:
        policy, memory = self.policies.of(request.destination.members[0]), self._parts.memory
        if not request.destination.is_composite and not is_wildcard(request.destination):
            memory = self.destination(request.destination).memory
        self.hand_over(TopicSubscriber(self._parts, request, consumer, policy, memory), future)

    async def _subscribe_durably(
        self, request: SubscriptionRequest, consumer: Consumer, future: Future[Subscription]
    ) -> None:
        try:
            subscription = await self._durables.subscribe(request, consumer)
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        else:
            self.hand_over(subscription, future)

    def _subscribe_to_queues(
        self, request: SubscriptionRequest, consumer: Consumer, future: Future[Subscription]
    ) -> None:
        for member in request.destination.members:
            if not is_wildcard(member):
                self.destination(member)
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
            subscription = BaseSubscription(self._parts, request, consumer, prefetch, selector)
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
                self._add(subscription)
                future.set_result(subscription)
                loop.call_soon(subscription.begin)

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

    def _forget(self, subscription: BaseSubscription) -> None:
        self._subscriptions.pop(subscription, None)

    def unsubscribe(self, client_id: str, subscription_name: str) -> Future[None]:
        return self._parts.loop.create_task(self._durables.unsubscribe(client_id, subscription_name))

    def disconnected(self, connection_id: str) -> None:
        self._drop(connection_id)
        if self._parts.gates.is_closed(connection_id):  # what has to wait there may still come in
            self._parts.gates.call(connection_id, lambda: self._drop(connection_id))

    def _drop(self, connection_id: str) -> None:
        for flow in self._parts.flows.pop(connection_id, ()):
            flow.drop(connection_id)
        for own in self._temporary.end(connection_id):
            ended = self._destinations.pop(own, None)
            if ended is not None:
                ended.close()
                ended.memory.release(ended.memory.used)  # also of what was given back
