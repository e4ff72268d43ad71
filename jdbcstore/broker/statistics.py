"""Answers to messages that request counters: ActiveMQ's ``statisticsBrokerPlugin``.

A message to ``ActiveMQ.Statistics.Broker``, ``ActiveMQ.Statistics.Subscription`` or
``ActiveMQ.Statistics.Destination.NAME`` is answered at its reply-to with map messages, one for each object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from typing import Any

from jdbcstore.broker.counters import Counters
from jdbcstore.broker.destinations import DestinationRegistry
from jdbcstore.broker.directory import Directory
from jdbcstore.broker.memory import MemoryUsage, Resources
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.message.values import Long

_PREFIX = "ActiveMQ.Statistics"
_DESTINATION = f"{_PREFIX}.Destination"
_BROKER = f"{_PREFIX}.Broker"
_SUBSCRIPTION = f"{_PREFIX}.Subscription"
_END = "ActiveMQ.Statistics.Destination.List.End.With.Null"
"""A marker in the name or a property: an empty map follows the last answer."""
_FIRST = "ActiveMQ.Statistics.Destination.Include.First.Message.Timestamp"

Values = dict[str, Any]


class StatisticsAnswers:
    """Answers requests for counters; used on the loop only.

    :param deliver: sends a message to a destination, without a waiting caller
    """

    def __init__(
        self,
        options: EngineOptions,
        resources: Resources,
        destinations: DestinationRegistry,
        directory: Directory,
        deliver: Callable[[Message], None],
    ) -> None:
        self._name, self._addresses = options.name, options.addresses
        self._resources = resources
        self._destinations = destinations
        self._directory = directory
        self._deliver = deliver
        self._producer = ProducerId("ID:jdbcstore-statistics", 1, 1)
        self._numbers = count(1)

    @staticmethod
    def accepts(message: Message) -> bool:
        """Return whether a message is a request."""
        destination = message.destination
        return (
            message.reply_to is not None
            and destination is not None
            and destination.name.startswith((_DESTINATION, _BROKER, _SUBSCRIPTION))
        )

    async def answer(self, request: Message) -> None:
        """Send the answers to a request.

        :raises StoreError: a queue cannot be counted
        """
        destination = request.destination
        assert destination is not None  # noqa: S101 - takes() has looked
        if destination.name.startswith(_DESTINATION):
            wanted = destination.name.removeprefix(_DESTINATION).removeprefix(".")
            name = wanted.replace(_END, "")
            async for values in self._of_destinations(destination, name, request):
                self._send(request, values)
            if name != wanted or _END in request.properties:
                self._send(request, {})
        elif destination.name.startswith(_SUBSCRIPTION):
            for values in [*self._of_subscriptions()]:
                self._send(request, values)
        else:
            self._send(request, await self._of_broker())

    def _send(self, request: Message, values: Values) -> None:
        message = Message(
            {**self._origin, **values} if values else {},
            destination=request.reply_to,
            message_id=MessageId(self._producer, next(self._numbers)),
            correlation_id=request.correlation_id,
            jms_type="Advisory",
            persistent=False,
            timestamp_ms=self._resources.loop.clock.now_ms(),
        )
        self._deliver(message)

    @property
    def _origin(self) -> Values:
        return {"brokerName": self._name, "brokerId": self._name}

    async def _of_destinations(
        self, asked: Destination, name: str, request: Message
    ) -> AsyncIterator[Values]:
        """Yield the counters of each destination that matches a name, which may have wildcards."""
        if not name:
            return
        pattern = DestinationPattern(Destination(asked.kind, name))
        held = Counter(
            entry.destination
            for subscription in self._destinations.subscriptions
            for entry in subscription.held
        )
        for destination in [*self._destinations.by_name.values()]:
            own = destination.destination
            if not pattern.matches(own):
                continue
            values = {
                "destinationName": str(own),
                **_counted(destination.counters, await self._size(destination), held[own]),
                **_memory(destination.memory),
                "consumerCount": Long(destination.consumer_count),
                "producerCount": Long(self._directory.count_producers(own)),
            }
            if _FIRST in request.properties:
                values |= await self._first(destination)
            yield values

    async def _size(self, destination: Queue | Topic) -> int:
        if isinstance(destination, Topic):
            return 0
        size = destination.size
        return await self._destinations.count(destination) if size is None else size

    async def _first(self, destination: Queue | Topic) -> Values:
        if isinstance(destination, Topic):
            return {}
        store = destination.store
        messages = [] if store is None else [*await self._resources.loop.run(lambda: store.recover(1))]
        first = next(iter([*messages, *destination.transient_messages()]), None)
        return {} if first is None else {"firstMessageTimestamp": Long(first.broker_in_time_ms or 0)}

    async def _of_broker(self) -> Values:
        total, size = Counters(), 0
        total.add(self._destinations.forgotten)
        for destination in [*self._destinations.by_name.values()]:
            total.add(destination.counters)
            size += await self._size(destination)
        subscriptions = self._destinations.subscriptions
        addresses = self._addresses()
        of_connectors = {
            "openwire": addresses.get("tcp", ""),
            "stomp": addresses.get("stomp", ""),
            "ssl": addresses.get("ssl", ""),
            "stomp+ssl": addresses.get("stomp+ssl", ""),
        }
        stored, files = self._resources.stored, self._resources.files
        return {
            **_counted(total, size, sum(len(subscription.held) for subscription in subscriptions)),
            **_memory(self._resources.memory),
            **_memory(stored, "store"),
            **_memory(files, "temp"),
            "consumerCount": Long(len(subscriptions)),
            "producerCount": Long(self._directory.producer_count),
            **of_connectors,
            "vm": "",
            "dataDirectory": "",
        }

    def _of_subscriptions(self) -> Iterator[Values]:
        for number, subscription in enumerate(self._destinations.subscriptions, 1):
            yield _of_subscription(subscription, number)


def _of_subscription(subscription: BaseSubscription, number: int) -> Values:
    request = subscription.request
    consumer = request.consumer_id
    return {
        "destinationName": str(request.destination).partition("://")[2],
        "clientId": request.client_id or request.connection_id,
        "connectionId": request.connection_id,
        "sessionId": Long(number if consumer is None else consumer.session_id),
        "selector": request.selector,
        "enqueueCounter": Long(subscription.dispatched),
        "dequeueCounter": Long(max(subscription.dispatched - len(subscription.held), 0)),
        "dispatchedCounter": Long(subscription.dispatched),
        "dispatchedQueueSize": Long(len(subscription.held)),
        "prefetchSize": int(subscription.prefetch),
        "maximumPendingMessageLimit": 0,
        "exclusive": request.exclusive,
        "retroactive": request.retroactive,
        "slowConsumer": subscription.is_slow,
    }


def _counted(counters: Counters, size: int, in_flight: int) -> Values:
    average = counters.waited_ms / counters.dispatched if counters.dispatched else 0.0
    return {
        "size": Long(size),
        "enqueueCount": Long(counters.enqueued),
        "dequeueCount": Long(counters.dequeued),
        "dispatchCount": Long(counters.dispatched),
        "expiredCount": Long(counters.expired),
        "inflightCount": Long(in_flight),
        "messagesCached": Long(0),
        "averageMessageSize": Long(0),
        "averageEnqueueTime": float(average),
        "maxEnqueueTime": 0.0,
        "minEnqueueTime": 0.0,
    }


def _memory(usage: MemoryUsage | None, name: str = "memory") -> Values:
    used, limit = (0, 0) if usage is None else (usage.used, usage.limit)
    return {
        f"{name}PercentUsage": int(100 * used // limit if limit else 0),
        f"{name}Usage": Long(used),
        f"{name}Limit": Long(limit),
    }
