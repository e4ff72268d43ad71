"""ActiveMQ's MBeans, with the attributes that management tools read.

Attributes of features that this broker does not have are absent instead of invented.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from jdbcstore.broker.condition import BrokerState
from jdbcstore.broker.management.bean_names import DOMAIN, BeanName, Keys, NoSuchBean, escaped
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.texts import bare
from jdbcstore.broker.management.views import (
    BrokerView,
    ConnectionView,
    DestinationView,
    SubscriptionView,
)
from jdbcstore.errors import StoreError
from jdbcstore.message.destination import Destination, DestinationKind

Attributes = dict[str, Any]
_Read = TypeVar("_Read")
_AT_ONCE = 100
"""MBeans read before the broker continues with other work."""


def _once(
    read: Callable[[Beans], Awaitable[_Read]],
) -> Callable[[Beans], Coroutine[Any, Any, _Read]]:
    """Cache a method for all requests of a list, because each of thousands of MBeans needs it."""

    async def known(beans: Beans) -> _Read:
        name = read.__name__
        if name not in beans.known:
            beans.known[name] = await read(beans)
        result: _Read = beans.known[name]
        return result

    return known


@dataclass(eq=False, repr=False)
class Beans:
    """A snapshot of the MBeans of one broker; each is read once."""

    _seen: Views
    _broker: str
    """The name of the broker."""
    known: dict[str, Any] = field(default_factory=dict, init=False)
    """Cached values by the name of the method."""
    _read: dict[Keys, Attributes] = field(default_factory=dict, init=False)
    _has_looked: bool = field(default=False, init=False)
    """Whether one destination was already read alone; the next read reads all."""

    # Names

    def _name(self, **keys: str) -> BeanName:
        return BeanName(DOMAIN, {"type": "Broker", "brokerName": self._broker, **keys})

    def _of_destination(self, name: str, *, is_topic: bool) -> BeanName:
        kind = "Topic" if is_topic else "Queue"
        return self._name(destinationType=kind, destinationName=escaped(name))

    def _of_subscription(self, view: SubscriptionView) -> BeanName:
        kind, _, name = view.destination.partition("://")
        consumer = view.consumer_id if view.name is None else f"Durable({view.client_id}_{view.name})"
        return self._name(
            destinationType=kind.capitalize(),
            destinationName=escaped(name),
            endpoint="Consumer",
            clientId=escaped(self._client_of(view)),
            consumerId=escaped(consumer or ""),
        )

    def _of_connector(self, address: str) -> BeanName:
        return self._name(connector="clientConnectors", connectorName=escaped(address))

    def _of_connection(self, view: ConnectionView) -> BeanName:
        keys = {"connectionViewType": "clientId", "connectionName": escaped(view.client_id or view.id)}
        return BeanName(DOMAIN, {**self._of_connector(view.connector).keys, **keys})

    @cached_property
    def view_of_broker(self) -> BrokerView:
        """The view of the broker, read once."""
        return self._seen.broker()

    @property
    def _serves(self) -> bool:
        return self.view_of_broker.condition.serves

    @cached_property
    def _connections(self) -> list[ConnectionView]:
        return self._seen.connections() if self._serves else []

    @cached_property
    def _clients(self) -> dict[str, str | None]:
        return {view.id: view.client_id for view in self._connections}

    @cached_property
    def _connections_by_name(self) -> dict[Keys, ConnectionView]:
        return {self._of_connection(view).known_by: view for view in self._connections}

    @_once
    async def _known_subscriptions(self) -> list[SubscriptionView]:
        return await self._seen.subscriptions() if self._serves else []

    @_once
    async def _subscriptions_by_name(self) -> dict[Keys, SubscriptionView]:
        views = await self._known_subscriptions()
        return {self._of_subscription(view).known_by: view for view in views}

    @_once
    async def _consumers(self) -> dict[str, list[dict[str, str]]]:
        """Return references to consumers, by destination."""
        consumers: dict[str, list[dict[str, str]]] = {}
        for view in await self._known_subscriptions():
            consumers.setdefault(view.destination, []).append(_reference(self._of_subscription(view)))
        return consumers

    @_once
    async def _pending(self) -> dict[tuple[str | None, str | None], int]:
        views = await self._seen.subscriptions(pending=True)
        return {(view.client_id, view.name): view.pending or 0 for view in views}

    def _client_of(self, view: SubscriptionView) -> str:
        return view.client_id or self._clients.get(view.connection_id or "") or view.connection_id or ""

    @_once
    async def _destinations(self) -> list[tuple[BeanName, DestinationView]]:
        if not self._serves:
            return []
        views = await self._seen.destinations()
        return [(self._of_destination(bare(view.name), is_topic=view.is_topic), view) for view in views]

    @_once
    async def _views(self) -> dict[str, DestinationView]:
        """Return all queues and topics, by the names of their MBeans and by their own names."""
        named = await self._destinations()
        return {str(name): view for name, view in named} | {view.name: view for _, view in named}

    @_once
    async def names(self) -> list[BeanName]:
        """Return every MBean."""
        return [
            self._name(),
            self._name(service="Health"),
            *(name for name, _ in await self._destinations()),
            *(self._of_subscription(view) for view in await self._known_subscriptions()),
            *(self._of_connector(address) for address in self.view_of_broker.addresses),
            *(self._of_connection(view) for view in self._connections),
        ]

    async def read_all(self, names: Sequence[BeanName]) -> dict[BeanName, Attributes]:
        """Return the attributes of several MBeans, without MBeans that have ended meanwhile.

        :raises StoreError: the store cannot be read
        """
        attributes = {}
        for number, name in enumerate(names):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            try:
                attributes[name] = await self.read(name)
            except NoSuchBean:
                continue
        return attributes

    @cached_property
    def _dead_letter_queues(self) -> set[str]:
        return {str(queue) for queue in self._seen.dead_letter_queues()}

    # Attributes

    async def read(self, name: BeanName) -> Attributes:
        """Return the attributes of an MBean.

        :raises NoSuchBean: it does not exist
        :raises StoreError: the store cannot be read
        """
        known = name.known_by
        if name.domain == DOMAIN and known in self._read:
            return self._read[known]
        attributes = await self._read_now(name)
        self._read[known] = attributes
        return attributes

    async def _read_now(self, name: BeanName) -> Attributes:
        keys = name.keys
        if name.domain == DOMAIN and keys.get("type") == "Broker" and keys.get("brokerName") == self._broker:
            if len(keys) == 2:
                return await self._read_broker()
            if keys.keys() == {"type", "brokerName", "service"} and keys["service"] == "Health":
                return {"CurrentStatus": self._health()}
            if "endpoint" in keys:
                return await self._read_subscription(name)
            if "destinationName" in keys and len(keys) == 4:
                return await self._read_destination(await self.view(name))
            if "connector" in keys:
                return self._read_connector(name)
        raise _no_bean(name)

    def _health(self) -> str:
        condition = self.view_of_broker.condition
        return "Good" if condition.state is BrokerState.SERVING else f"Getting Worried {{{condition}}}"

    async def view(self, name: BeanName) -> DestinationView:
        """Return the queue or topic of an MBean.

        :raises NoSuchBean: it does not exist
        """
        if not self._has_looked and "_destinations" not in self.known:
            self._has_looked = True
            with contextlib.suppress(IndexError, StoreError):
                return (await self._seen.destinations([self._destination(name)]))[0]
        views = await self._views()
        own = f"{name.keys.get('destinationType', '').lower()}://{name.keys.get('destinationName')}"
        view = views.get(own) or views.get(str(name))
        if view is None:
            raise _no_bean(name)
        return view

    def _destination(self, name: BeanName) -> Destination:
        kind = {"Queue": DestinationKind.QUEUE, "Topic": DestinationKind.TOPIC}.get(
            name.keys.get("destinationType", "")
        )
        if kind is None or "endpoint" in name.keys:
            raise _no_bean(name)
        return Destination(kind, name.keys.get("destinationName", ""))

    async def destination(self, name: BeanName) -> Destination:
        """Return the name of the queue or topic of an MBean.

        :raises NoSuchBean: it does not exist
        """
        return Destination.parse((await self.view(name)).name)

    async def _read_broker(self) -> Attributes:
        broker = self.view_of_broker
        views = await self._seen.destinations() if self._serves else []
        subscriptions = await self._known_subscriptions()
        uptime = round(broker.uptime * 1000)
        return {
            "BrokerName": self._broker,
            "BrokerId": broker.name or None,
            "BrokerVersion": broker.version,
            "Slave": not self._serves,
            "Persistent": True,
            "StatisticsEnabled": True,
            "Uptime": _spoken(broker.uptime),
            "UptimeMillis": uptime,
            "CurrentConnectionsCount": broker.connections,
            "TotalConnectionsCount": broker.connections_total,
            "TotalConsumerCount": sum(view.is_active for view in subscriptions),
            "TotalProducerCount": sum(view.producers for view in views),
            "TotalMessageCount": sum(view.size or 0 for view in views),
            "TotalEnqueueCount": broker.enqueued,
            "TotalDequeueCount": broker.dequeued,
            "MemoryLimit": broker.memory_limit,
            "MemoryPercentUsage": _percent(broker.memory_used, broker.memory_limit),
            "TempLimit": broker.temp_limit,
            "TempPercentUsage": _percent(broker.temp_used, broker.temp_limit),
            "StorePercentUsage": 0,
            "TransportConnectors": {address: address for address in broker.addresses},
            **{
                kind: [
                    _reference(self._of_destination(bare(view.name), is_topic=view.is_topic))
                    for view in of_kind
                ]
                for kind, of_kind in _by_kind(views).items()
            },
            "QueueSubscribers": self._references(subscriptions, lambda view: _kind(view) == "queue"),
            "TopicSubscribers": self._references(
                subscriptions, lambda view: _kind(view) == "topic" and view.name is None
            ),
            "DurableTopicSubscribers": self._references(
                subscriptions, lambda view: view.name is not None and view.is_active
            ),
            "InactiveDurableTopicSubscribers": self._references(
                subscriptions, lambda view: view.name is not None and not view.is_active
            ),
        }

    def _references(
        self, subscriptions: Sequence[SubscriptionView], wanted: Callable[[SubscriptionView], bool]
    ) -> list[dict[str, str]]:
        return [_reference(self._of_subscription(view)) for view in subscriptions if wanted(view)]

    async def _read_destination(self, view: DestinationView) -> Attributes:
        limit = view.memory_limit
        attributes: Attributes = {
            "Name": bare(view.name),
            "DLQ": view.name in self._dead_letter_queues,
            "ConsumerCount": view.consumers,
            "ProducerCount": view.producers,
            "QueueSize": view.size or 0,
            "EnqueueCount": view.enqueued,
            "DequeueCount": view.dequeued,
            "DispatchCount": view.dispatched,
            "InFlightCount": view.in_flight,
            "ExpiredCount": view.expired,
            "AverageEnqueueTime": (view.average_wait or 0.0) * 1000,
            "MemoryUsageByteCount": view.memory_used,
            "MemoryLimit": limit,
            "MemoryPercentUsage": _percent(view.memory_used, limit),
            "Subscriptions": (await self._consumers()).get(view.name, []),
        }
        if view.is_topic:  # including durable subscriptions without a consumer
            attributes["ConsumerCount"] = len(attributes["Subscriptions"])
        else:
            attributes |= {"CursorMemoryUsage": view.memory_used, "Paused": view.is_paused}
        return attributes

    async def _read_subscription(self, name: BeanName) -> Attributes:
        view = (await self._subscriptions_by_name()).get(name.known_by)
        if view is None:
            raise _no_bean(name)
        pending = 0
        if view.name is not None:
            counted = (await self._pending()).get((view.client_id, view.name), 0)
            pending = max(counted - view.in_flight, 0)
        is_topic = _kind(view) == "topic"
        return {
            "ClientId": self._client_of(view),
            "ConnectionId": view.connection_id or "NOTSET",
            "DestinationName": bare(view.destination),
            "DestinationQueue": not is_topic,
            "DestinationTopic": is_topic,
            "DestinationTemporary": False,
            "Selector": view.selector,
            "SubscriptionName": view.name,
            "Active": view.is_active,
            "PrefetchSize": view.prefetch,
            "PendingQueueSize": pending,
            "DispatchedQueueSize": view.in_flight,
            "MessageCountAwaitingAcknowledge": view.in_flight,
            "DispatchedCounter": view.dispatched,
            "EnqueueCounter": view.dispatched + pending,
            "DequeueCounter": view.dispatched - view.in_flight,
            "SlowConsumer": view.is_slow,
        }

    def _read_connector(self, name: BeanName) -> Attributes:
        for address in self.view_of_broker.addresses:
            if self._of_connector(address).keys == name.keys:
                return {"Started": True, "StatisticsEnabled": True}
        view = self._connections_by_name.get(name.known_by)
        if view is None:
            raise _no_bean(name)
        return {
            "ClientId": view.client_id,
            "RemoteAddress": view.peer,
            "UserName": view.user or None,
            "Connected": True,
            "Active": True,
            "Slow": view.is_slow,
            "Blocked": False,
            "DispatchQueueSize": view.in_flight,
        }


def _no_bean(name: BeanName) -> NoSuchBean:
    return NoSuchBean(str(name))


def _reference(name: BeanName) -> dict[str, str]:
    return {"objectName": str(name)}


def _kind(view: SubscriptionView) -> str:
    return view.destination.partition("://")[0]


def _by_kind(views: Sequence[DestinationView]) -> dict[str, list[DestinationView]]:
    by_kind: dict[str, list[DestinationView]] = {"Queues": [], "Topics": []}
    for view in views:
        by_kind["Topics" if view.is_topic else "Queues"].append(view)
    return by_kind


def _percent(used: int, limit: int) -> int:
    return used * 100 // limit if limit else 0


def _spoken(seconds: float) -> str:
    """Format a duration like ActiveMQ."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count, rest = divmod(int(seconds), size)
            text = f"{count} {unit}{'s' if count > 1 else ''}"
            smaller = {"day": ("hour", 3_600), "hour": ("minute", 60)}.get(unit)
            if smaller and rest >= smaller[1]:
                more = rest // smaller[1]
                text += f" {more} {smaller[0]}{'s' if more > 1 else ''}"
            return text
    return f"{seconds:.3f} seconds"
