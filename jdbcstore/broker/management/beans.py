"""The MBeans of ActiveMQ, by its names, with the attributes and operations that management tools ask for.

Attributes of features that this broker does not have are absent, rather than invented.
"""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

from jdbcstore.broker.management.audit import Actor
from jdbcstore.broker.management.management import MAX_BROWSED, Management
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.management.views import (
    BrokerView,
    ConnectionView,
    DestinationView,
    SubscriptionView,
)
from jdbcstore.config.users import BROWSE, MANAGE, VIEW
from jdbcstore.errors import DestinationNotFound, InvalidMessage, MessageNotFound, StoreError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.values import Byte, Char, Float, Long, Short, plain

DOMAIN = "org.apache.activemq"
_ESCAPED = re.compile(r'[:\\*?,="]')
_LONGEST = 4_000
"""Characters of a name or a pattern."""
_LONGEST_PATTERN = 300
"""Characters of one value with wildcards: what is compiled takes many times its size, and is cached."""
_AT_ONCE = 100
"""MBeans that are read before the broker goes on with other work."""
_PREVIEW = 255
"""Bytes of a body that are shown, as in ActiveMQ."""


class NoSuchBean(StoreError, LookupError):
    """There is no MBean of this name."""


class NotABeanName(StoreError, ValueError):
    """This is not an object name."""


@dataclass(frozen=True, slots=True, eq=False)
class BeanName:
    """An object name of JMX, or a pattern of such names."""

    domain: str
    keys: Mapping[str, str]
    more: bool = False
    """Whether it also matches names with more keys: it ends with ``,*``."""

    @classmethod
    def parse(cls, text: str) -> BeanName:
        """The name of this string.

        :raises NotABeanName: it is not one
        """
        if len(text) > _LONGEST:
            raise NotABeanName(f"It is longer than {_LONGEST} characters")
        domain, colon, rest = text.partition(":")
        if not colon:
            raise NotABeanName("Domain part must be specified" if text else "Empty object name")
        keys: dict[str, str] = {}
        more = False
        for part in rest.split(","):
            key, equals, value = part.partition("=")
            if part == "*":
                more = True
            elif not equals or not key or key in keys:
                raise NotABeanName(f"Key properties cannot be {'empty' if not part else repr(part[:80])}")
            else:
                keys[key] = value
        return cls(domain, keys, more)

    @property
    def is_pattern(self) -> bool:
        """Whether it may match several names."""
        return self.more or any(set(text) & set("*?") for text in (self.domain, *self.keys.values()))

    def matching(self, names: Iterable[BeanName]) -> list[BeanName]:
        """The names that this pattern matches.

        :raises NotABeanName: a value with wildcards is too long
        """
        of_domain = _matcher(self.domain)
        matchers = [(key, _matcher(pattern)) for key, pattern in self.keys.items()]
        return [
            name
            for name in names
            if (self.more or name.keys.keys() == self.keys.keys())
            and of_domain(name.domain)
            and all(key in name.keys and matches(name.keys[key]) for key, matches in matchers)
        ]

    @property
    def canonical_keys(self) -> str:
        """Its keys, sorted."""
        parts = [f"{key}={self.keys[key]}" for key in sorted(self.keys)]
        return ",".join([*parts, "*"] if self.more else parts)

    @property
    def registered_keys(self) -> str:
        """Its keys in ActiveMQ's order, by which tools build their trees."""
        return ",".join(f"{key}={value}" for key, value in self.keys.items())

    def __str__(self) -> str:
        return f"{self.domain}:{self.canonical_keys}"


def _matcher(pattern: str) -> Callable[[str], object]:
    if not set(pattern) & set("*?"):
        return pattern.__eq__
    if len(pattern) > _LONGEST_PATTERN:
        raise NotABeanName(f"A value with wildcards is longer than {_LONGEST_PATTERN} characters")
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match


def _escaped(text: str) -> str:
    """A key's value, as ActiveMQ writes what object names cannot have."""
    return _ESCAPED.sub("_", text)


Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """One signature of an operation of MBeans."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    """Each type of Java, and name."""
    returns: str
    role: str
    call: Callable[[Beans, BeanName, Actor, Sequence[Any]], Awaitable[Any]]

    @property
    def signature(self) -> str:
        return f"{self.name}({','.join(kind for kind, _ in self.parameters)})"


Keys = frozenset[tuple[str, str]]
"""The keys of a name, in any order."""


def _keys(name: BeanName) -> Keys:
    return frozenset(name.keys.items())


@dataclass(eq=False, repr=False)
class Beans:
    """The MBeans of one broker, as they were when each was read first.

    :param new_ids: makes the ids of messages that are sent
    """

    _management: Management
    _broker: str
    """The name of the broker."""
    _new_id: Callable[[], Any]
    _subscriptions: list[SubscriptionView] | None = field(default=None, init=False)
    _views: dict[str, DestinationView] | None = field(default=None, init=False)
    """All queues and topics by the names of their MBeans and by their own, once all were asked for."""
    _pending: dict[tuple[str | None, str | None], int] | None = field(default=None, init=False)
    """The pending messages of durable subscriptions, once one was asked for."""
    _named: dict[Keys, SubscriptionView] | None = field(default=None, init=False)
    """All subscriptions by the keys of their MBeans, once one was asked for."""
    _consumers: dict[str, list[dict[str, str]]] | None = field(default=None, init=False)
    """The names of consumers by destination."""
    _names: list[BeanName] | None = field(default=None, init=False)
    """Every MBean, once all were asked for."""
    _read: dict[Keys, Attributes] = field(default_factory=dict, init=False)
    _described: dict[Keys, dict[str, Any]] = field(default_factory=dict, init=False)
    _has_looked: bool = field(default=False, init=False)
    """Whether one destination was asked for: with the next one, all are read."""

    # Names

    def _name(self, **keys: str) -> BeanName:
        return BeanName(DOMAIN, {"type": "Broker", "brokerName": self._broker, **keys})

    def _of_destination(self, name: str, *, is_topic: bool) -> BeanName:
        kind = "Topic" if is_topic else "Queue"
        return self._name(destinationType=kind, destinationName=_escaped(name))

    def _of_subscription(self, one: SubscriptionView) -> BeanName:
        kind, _, name = one.destination.partition("://")
        consumer = one.consumer_id if one.name is None else f"Durable({one.client_id}_{one.name})"
        return self._name(
            destinationType=kind.capitalize(),
            destinationName=_escaped(name),
            endpoint="Consumer",
            clientId=_escaped(self._client_of(one)),
            consumerId=_escaped(consumer or ""),
        )

    def _of_connector(self, address: str) -> BeanName:
        return self._name(connector="clientConnectors", connectorName=_escaped(address))

    def _of_connection(self, one: ConnectionView) -> BeanName:
        keys = {"connectionViewType": "clientId", "connectionName": _escaped(one.client_id or one.id)}
        return BeanName(DOMAIN, {**self._of_connector(one.connector).keys, **keys})

    @property
    def version(self) -> str:
        """The version of the broker."""
        return self._view_of_broker.version

    # What follows is read once for all requests of a list: each of thousands of MBeans needs it, and reads
    # everything.

    @cached_property
    def _view_of_broker(self) -> BrokerView:
        return self._management.broker()

    @property
    def _serves(self) -> bool:
        return self._view_of_broker.obstacle is None

    @cached_property
    def _connections(self) -> list[ConnectionView]:
        return self._management.connections() if self._serves else []

    @cached_property
    def _clients(self) -> dict[str, str | None]:
        return {one.id: one.client_id for one in self._connections}

    @cached_property
    def _connections_by_name(self) -> dict[Keys, ConnectionView]:
        return {_keys(self._of_connection(one)): one for one in self._connections}

    async def _subscriptions_by_name(self) -> dict[Keys, SubscriptionView]:
        if self._named is None:
            found = await self._known_subscriptions()
            self._named = {_keys(self._of_subscription(one)): one for one in found}
        return self._named

    async def _pending_of(self, one: SubscriptionView) -> int:
        if self._pending is None:
            counted = await self._management.subscriptions(pending=True)
            self._pending = {(each.client_id, each.name): each.pending or 0 for each in counted}
        return max(self._pending.get((one.client_id, one.name), 0) - one.in_flight, 0)

    def _client_of(self, one: SubscriptionView) -> str:
        return one.client_id or self._clients.get(one.connection_id or "") or one.connection_id or ""

    async def names(self) -> list[BeanName]:
        """Every MBean."""
        if self._names is None:
            self._names = await self._all_names()
        return self._names

    async def _all_names(self) -> list[BeanName]:
        found = [self._name(), self._name(service="Health")]
        if not self._serves:
            return found
        names = [
            (self._of_destination(_bare(view.name), is_topic=view.is_topic), view)
            for view in await self._management.destinations()
        ]
        self._views = {str(name): view for name, view in names} | {view.name: view for _, view in names}
        found += [name for name, _ in names]
        found += [self._of_subscription(one) for one in await self._known_subscriptions()]
        found += [self._of_connector(address) for address in self._view_of_broker.addresses]
        return [*found, *(self._of_connection(one) for one in self._connections)]

    async def read_all(self, names: Sequence[BeanName]) -> dict[BeanName, Attributes]:
        """The attributes of several MBeans, without those that have ended meanwhile.

        :raises StoreError: the store cannot be read
        """
        found = {}
        for number, name in enumerate(names):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            try:
                found[name] = await self.read(name)
            except NoSuchBean:
                continue
        return found

    @cached_property
    def _dead_letter_queues(self) -> set[str]:
        return {str(one) for one in self._management.dead_letter_queues()}

    async def _known_subscriptions(self) -> list[SubscriptionView]:
        if self._subscriptions is None:
            self._subscriptions = await self._management.subscriptions() if self._serves else []
        return self._subscriptions

    # Attributes

    async def read(self, name: BeanName) -> Attributes:
        """The attributes of an MBean.

        :raises NoSuchBean: it does not exist
        :raises StoreError: the store cannot be read
        """
        known = _keys(name)
        if name.domain == DOMAIN and known in self._read:
            return self._read[known]
        found = await self._read_now(name)
        self._read[known] = found
        return found

    async def describe_all(self, names: Sequence[BeanName]) -> dict[BeanName, dict[str, Any]]:
        """Several MBeans as ``list`` shows them, without those that have ended meanwhile.

        :raises StoreError: the store cannot be read
        """
        found = {}
        for name, attributes in (await self.read_all(names)).items():
            known = _keys(name)
            if known not in self._described:
                self._described[known] = described(attributes, self.operations(name))
            found[name] = self._described[known]
        return found

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
        obstacle = self._view_of_broker.obstacle
        return "Good" if obstacle is None else f"Getting Worried {{{obstacle}}}"

    async def view(self, name: BeanName) -> DestinationView:
        """The queue or topic of an MBean.

        :raises NoSuchBean: it does not exist
        """
        if not self._has_looked and self._views is None:
            self._has_looked = True
            with contextlib.suppress(IndexError, StoreError):
                return (await self._management.destinations([self._destination(name)]))[0]
        await self.names()
        own = f"{name.keys.get('destinationType', '').lower()}://{name.keys.get('destinationName')}"
        found = (self._views or {}).get(own) or (self._views or {}).get(str(name))
        if found is None:
            raise _no_bean(name)
        return found

    def _destination(self, name: BeanName) -> Destination:
        kind = {"Queue": DestinationKind.QUEUE, "Topic": DestinationKind.TOPIC}.get(
            name.keys.get("destinationType", "")
        )
        if kind is None or "endpoint" in name.keys:
            raise _no_bean(name)
        return Destination(kind, name.keys.get("destinationName", ""))

    async def destination(self, name: BeanName) -> Destination:
        """The name of the queue or topic of an MBean.

        :raises NoSuchBean: it does not exist
        """
        return Destination.parse((await self.view(name)).name)

    async def _read_broker(self) -> Attributes:
        broker = self._view_of_broker
        views = await self._management.destinations() if self._serves else []
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
            "TotalConsumerCount": sum(one.is_active for one in subscriptions),
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
                    _reference(self._of_destination(_bare(view.name), is_topic=view.is_topic))
                    for view in found
                ]
                for kind, found in _by_kind(views).items()
            },
            "QueueSubscribers": self._references(subscriptions, lambda one: _kind(one) == "queue"),
            "TopicSubscribers": self._references(
                subscriptions, lambda one: _kind(one) == "topic" and one.name is None
            ),
            "DurableTopicSubscribers": self._references(
                subscriptions, lambda one: one.name is not None and one.is_active
            ),
            "InactiveDurableTopicSubscribers": self._references(
                subscriptions, lambda one: one.name is not None and not one.is_active
            ),
        }

    def _references(
        self, subscriptions: Sequence[SubscriptionView], wanted: Callable[[SubscriptionView], bool]
    ) -> list[dict[str, str]]:
        return [_reference(self._of_subscription(one)) for one in subscriptions if wanted(one)]

    async def _read_destination(self, view: DestinationView) -> Attributes:
        limit = view.memory_limit
        if self._consumers is None:
            self._consumers = {}
            for one in await self._known_subscriptions():
                self._consumers.setdefault(one.destination, []).append(_reference(self._of_subscription(one)))
        found: Attributes = {
            "Name": _bare(view.name),
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
            "Subscriptions": self._consumers.get(view.name, []),
        }
        if view.is_topic:  # those that are durable and have no consumer, too
            found["ConsumerCount"] = len(found["Subscriptions"])
        else:
            found |= {"CursorMemoryUsage": view.memory_used, "Paused": view.is_paused}
        return found

    async def _read_subscription(self, name: BeanName) -> Attributes:
        one = (await self._subscriptions_by_name()).get(_keys(name))
        if one is None:
            raise _no_bean(name)
        pending = 0 if one.name is None else await self._pending_of(one)
        is_topic = _kind(one) == "topic"
        return {
            "ClientId": self._client_of(one),
            "ConnectionId": one.connection_id or "NOTSET",
            "DestinationName": _bare(one.destination),
            "DestinationQueue": not is_topic,
            "DestinationTopic": is_topic,
            "DestinationTemporary": False,
            "Selector": one.selector,
            "SubscriptionName": one.name,
            "Active": one.is_active,
            "PrefetchSize": one.prefetch,
            "PendingQueueSize": pending,
            "DispatchedQueueSize": one.in_flight,
            "MessageCountAwaitingAcknowledge": one.in_flight,
            "DispatchedCounter": one.dispatched,
            "EnqueueCounter": one.dispatched + pending,
            "DequeueCounter": one.dispatched - one.in_flight,
        }

    def _read_connector(self, name: BeanName) -> Attributes:
        for address in self._view_of_broker.addresses:
            if self._of_connector(address).keys == name.keys:
                return {"Started": True, "StatisticsEnabled": True}
        one = self._connections_by_name.get(_keys(name))
        if one is None:
            raise _no_bean(name)
        return {
            "ClientId": one.client_id,
            "RemoteAddress": one.peer,
            "UserName": one.user or None,
            "Connected": True,
            "Active": True,
            "Slow": one.is_slow,
            "Blocked": False,
            "DispatchQueueSize": one.in_flight,
        }

    # Operations

    def operations(self, name: BeanName) -> tuple[Operation, ...]:
        """The operations of an MBean, which need not exist."""
        keys = name.keys
        if len(keys) == 2:
            return _OF_BROKER
        if keys.get("service") == "Health":
            return _OF_HEALTH
        if "endpoint" in keys:
            return _OF_DURABLES if keys.get("consumerId", "").startswith("Durable(") else ()
        if "connectionName" in keys:
            return _OF_CONNECTIONS
        if "destinationName" in keys:
            return _OF_TOPICS if keys.get("destinationType") == "Topic" else _OF_QUEUES
        return ()

    async def send(self, name: BeanName, actor: Actor, headers: Mapping[str, Any], body: str | None) -> str:
        """Send a message whose body is a string to the destination of an MBean; its id.

        :raises StoreError: it was not sent
        """
        destination, now_ms = await self.destination(name), round(datetime.now(UTC).timestamp() * 1000)
        given = {str(key): value for key, value in headers.items()}
        priority, ttl = given.pop("JMSPriority", 4), given.pop("JMSTimeToLive", 0)
        reply_to = given.pop("JMSReplyTo", None)
        try:
            message = Message(
                body,
                destination=destination,
                message_id=self._new_id(),
                timestamp_ms=now_ms,
                priority=int(priority),
                expiration_ms=now_ms + int(ttl) if int(ttl) else 0,
                persistent=str(given.pop("JMSDeliveryMode", "2")).lower() not in ("1", "non_persistent"),
                correlation_id=_text(given.pop("JMSCorrelationID", None)),
                jms_type=_text(given.pop("JMSType", None)),
                reply_to=None if reply_to is None else Destination.named(str(reply_to)),
                group_id=_text(given.pop("JMSXGroupID", None)),
                properties=given,
            )
        except (TypeError, ValueError) as error:
            raise InvalidMessage(str(error)) from None
        await self._management.send(actor, [message])
        return str(message.message_id)

    @property
    def management(self) -> Management:
        return self._management


def _no_bean(name: BeanName) -> NoSuchBean:
    return NoSuchBean(str(name))


def _reference(name: BeanName) -> dict[str, str]:
    return {"objectName": str(name)}


def _bare(name: str) -> str:
    return name.partition("://")[2]


def _kind(one: SubscriptionView) -> str:
    return one.destination.partition("://")[0]


def _by_kind(views: Sequence[DestinationView]) -> dict[str, list[DestinationView]]:
    found: dict[str, list[DestinationView]] = {"Queues": [], "Topics": []}
    for view in views:
        found["Topics" if view.is_topic else "Queues"].append(view)
    return found


def _percent(used: int, limit: int) -> int:
    return used * 100 // limit if limit else 0


def _spoken(seconds: float) -> str:
    """A duration as ActiveMQ says it."""
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


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def message_attributes(message: Message) -> Attributes:
    """A message as ``browse()`` shows it.

    :raises CorruptMessage: its properties or its body cannot be decoded
    """
    by_type: dict[str, dict[str, Any]] = {kind: {} for kind in dict.fromkeys(_PROPERTY_TYPES.values())}
    for name, value in message.properties.items():
        kind = next((each for type_, each in _PROPERTY_TYPES.items() if type(value) is type_), "String")
        by_type[kind][name] = plain(value)
    sent = datetime.fromtimestamp((message.timestamp_ms or 0) / 1000, UTC)
    texts = ", ".join(f"{name}={plain(value)}" for name, value in message.properties.items())
    found: Attributes = {
        "JMSMessageID": str(message.message_id),
        "JMSDestination": str(message.destination),
        "JMSTimestamp": sent.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "JMSExpiration": message.expiration_ms,
        "JMSPriority": message.priority,
        "JMSDeliveryMode": "PERSISTENT" if message.persistent else "NON-PERSISTENT",
        "JMSRedelivered": message.redelivery_counter > 0,
        "JMSCorrelationID": message.correlation_id,
        "JMSReplyTo": None if message.reply_to is None else str(message.reply_to),
        "JMSType": message.jms_type,
        "JMSXGroupID": message.group_id,
        "JMSXGroupSeq": message.group_sequence or 0,
        "JMSXUserID": message.user_id,
        "OriginalDestination": (
            None if message.original_destination is None else str(message.original_destination)
        ),
        "PropertiesText": f"{{{texts}}}",
        **{f"{kind}Properties": values for kind, values in by_type.items()},
    }
    body = message.body
    if message.body_type is BodyType.TEXT:
        found["Text"] = body
    elif isinstance(body, bytes):
        signed = [each - 256 if each > 127 else each for each in body[:_PREVIEW]]
        found |= {"BodyLength": len(body), "BodyPreview": signed}
    elif message.body_type is BodyType.MAP:
        found["ContentMap"] = plain(body)
    return found


_PROPERTY_TYPES: dict[type, str] = {
    bool: "Boolean",
    Byte: "Byte",
    Short: "Short",
    int: "Int",
    Long: "Long",
    Float: "Float",
    float: "Double",
    str: "String",
    Char: "String",
}


# What each operation does


async def _browse(beans: Beans, name: BeanName, _actor: Actor, given: Sequence[Any]) -> Any:
    choice = MessageChoice(selector=_selector(given))
    found = await beans.management.browse(await beans.destination(name), choice, limit=MAX_BROWSED)
    return [message_attributes(one) for one in found]


async def _get_message(beans: Beans, name: BeanName, _actor: Actor, given: Sequence[Any]) -> Any:
    try:
        found = await beans.management.message(await beans.destination(name), str(given[0]))
    except MessageNotFound:
        return None
    return message_attributes(found)


def _selector(given: Sequence[Any]) -> str | None:
    return str(given[0]) if given and given[0] else None


def _limit(given: Sequence[Any], at: int) -> int | None:
    """ActiveMQ takes 0 and -1 for no limit."""
    if len(given) <= at:
        return None
    try:
        number = int(given[at])
    except (TypeError, ValueError):
        raise InvalidMessage(f"maximumMessages must be a number, not {str(given[at])[:80]!r}") from None
    return number if number > 0 else None


async def _purge(beans: Beans, name: BeanName, actor: Actor, _given: Sequence[Any]) -> Any:
    await beans.management.purge(actor, await beans.destination(name))


def _one(message_id: Any) -> MessageChoice:
    return MessageChoice(ids=(str(message_id),))


async def _remove_one(beans: Beans, name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    outcome = await beans.management.remove(actor, await beans.destination(name), _one(given[0]))
    return outcome.count > 0


async def _remove(beans: Beans, name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    choice = MessageChoice(selector=_selector(given), limit=_limit(given, 1))
    return (await beans.management.remove(actor, await beans.destination(name), choice)).count


async def _move_one(beans: Beans, name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    source, to = await beans.destination(name), Destination.named(str(given[1]))
    return (await beans.management.move(actor, source, _one(given[0]), to)).count > 0


async def _move(beans: Beans, name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    source, to = await beans.destination(name), Destination.named(str(given[1]))
    choice = MessageChoice(selector=_selector(given), limit=_limit(given, 2))
    return (await beans.management.move(actor, source, choice, to)).count


async def _copy_one(beans: Beans, name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    source, to = await beans.destination(name), Destination.named(str(given[1]))
    return (await beans.management.copy(actor, source, _one(given[0]), to)).count > 0


async def _copy(beans: Beans, name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    source, to = await beans.destination(name), Destination.named(str(given[1]))
    choice = MessageChoice(selector=_selector(given), limit=_limit(given, 2))
    return (await beans.management.copy(actor, source, choice, to)).count


async def _retry_one(beans: Beans, name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    return (await beans.management.retry(actor, await beans.destination(name), _one(given[0]))).count > 0


async def _retry(beans: Beans, name: BeanName, actor: Actor, _given: Sequence[Any]) -> Any:
    return (await beans.management.retry(actor, await beans.destination(name), MessageChoice())).count


async def _pause(beans: Beans, name: BeanName, actor: Actor, _given: Sequence[Any]) -> Any:
    beans.management.pause(actor, await beans.destination(name))


async def _resume(beans: Beans, name: BeanName, actor: Actor, _given: Sequence[Any]) -> Any:
    beans.management.resume(actor, await beans.destination(name))


async def _reset(beans: Beans, name: BeanName, actor: Actor, _given: Sequence[Any]) -> Any:
    beans.management.reset(actor, await beans.destination(name))


async def _reset_all(beans: Beans, _name: BeanName, actor: Actor, _given: Sequence[Any]) -> Any:
    beans.management.reset(actor)


async def _cursor_size(beans: Beans, name: BeanName, _actor: Actor, _given: Sequence[Any]) -> Any:
    view = await beans.view(name)
    return (view.size or 0) - view.in_flight


async def _send(beans: Beans, name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    return await beans.send(name, actor, {}, _text(given[0]))


async def _send_with_headers(beans: Beans, name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    if not isinstance(given[0], dict):
        raise InvalidMessage("headers must be an object of names and values")
    return await beans.send(name, actor, given[0], _text(given[1]))


async def _send_with_properties(beans: Beans, name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    pairs = (part.partition("=") for part in str(given[0]).split(str(given[1]) if len(given) > 1 else ","))
    headers = {key.strip(): value for key, equals, value in pairs if equals}
    return await beans.send(name, actor, headers, headers.pop("body", None))


def _adding(kind: DestinationKind) -> Any:
    async def add(beans: Beans, _name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
        await beans.management.create(actor, Destination(kind, str(given[0])))

    return add


def _deleting(kind: DestinationKind) -> Any:
    async def delete(beans: Beans, _name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
        try:
            destination = Destination(kind, str(given[0]))
            await beans.management.delete(actor, destination, keep_subscriptions=True)
        except DestinationNotFound:
            return

    return delete


async def _destroy(beans: Beans, _name: BeanName, actor: Actor, given: Sequence[Any]) -> Any:
    await beans.management.destroy_subscription(actor, str(given[0]), str(given[1]))


async def _destroy_this(beans: Beans, name: BeanName, actor: Actor, _given: Sequence[Any]) -> Any:
    found = await beans.read(name)
    await beans.management.destroy_subscription(actor, found["ClientId"], found["SubscriptionName"])


async def _stop_connection(beans: Beans, name: BeanName, actor: Actor, _given: Sequence[Any]) -> Any:
    for one in beans.management.connections():
        if name.keys["connectionName"] == _escaped(one.client_id or one.id):
            beans.management.drop_connection(actor, one.id)


async def _say_health(beans: Beans, name: BeanName, _actor: Actor, _given: Sequence[Any]) -> Any:
    return (await beans.read(name))["CurrentStatus"]


_S, _I, _MAP = "java.lang.String", "int", "java.util.Map"
_ID, _TO, _SELECTOR, _MOST = (
    (_S, "messageId"),
    (_S, "destinationName"),
    (_S, "selector"),
    (_I, "maximumMessages"),
)
_COMPOSITE = "javax.management.openmbean.CompositeData"
_COMPOSITES = f"[L{_COMPOSITE};"


def _operations(
    *rows: tuple[str, tuple[tuple[str, str], ...], str, str, Callable[..., Awaitable[Any]]],
) -> tuple[Operation, ...]:
    return tuple(Operation(*row) for row in rows)


_SENDING = (
    ("sendTextMessage", ((_S, "body"),), _S, MANAGE, _send),
    ("sendTextMessage", ((_MAP, "headers"), (_S, "body")), _S, MANAGE, _send_with_headers),
    ("sendTextMessageWithProperties", ((_S, "properties"),), _S, MANAGE, _send_with_properties),
    (
        *("sendTextMessageWithProperties", ((_S, "properties"), (_S, "delimiter")), _S, MANAGE),
        _send_with_properties,
    ),
    ("resetStatistics", (), "void", MANAGE, _reset),
)
_OF_QUEUES = _operations(
    ("browse", (), _COMPOSITES, BROWSE, _browse),
    ("browse", (_SELECTOR,), _COMPOSITES, BROWSE, _browse),
    ("browseMessages", (), "java.util.List", BROWSE, _browse),
    ("browseMessages", (_SELECTOR,), "java.util.List", BROWSE, _browse),
    ("getMessage", (_ID,), _COMPOSITE, BROWSE, _get_message),
    ("purge", (), "void", MANAGE, _purge),
    ("removeMessage", (_ID,), "boolean", MANAGE, _remove_one),
    ("removeMatchingMessages", (_SELECTOR,), _I, MANAGE, _remove),
    ("removeMatchingMessages", (_SELECTOR, _MOST), _I, MANAGE, _remove),
    ("moveMessageTo", (_ID, _TO), "boolean", MANAGE, _move_one),
    ("moveMatchingMessagesTo", (_SELECTOR, _TO), _I, MANAGE, _move),
    ("moveMatchingMessagesTo", (_SELECTOR, _TO, _MOST), _I, MANAGE, _move),
    ("copyMessageTo", (_ID, _TO), "boolean", MANAGE, _copy_one),
    ("copyMatchingMessagesTo", (_SELECTOR, _TO), _I, MANAGE, _copy),
    ("copyMatchingMessagesTo", (_SELECTOR, _TO, _MOST), _I, MANAGE, _copy),
    ("retryMessage", (_ID,), "boolean", MANAGE, _retry_one),
    ("retryMessages", (), _I, MANAGE, _retry),
    ("pause", (), "void", MANAGE, _pause),
    ("resume", (), "void", MANAGE, _resume),
    ("cursorSize", (), _I, VIEW, _cursor_size),
    *_SENDING,
)
_OF_TOPICS = _operations(*_SENDING)
_OF_BROKER = _operations(
    ("addQueue", ((_S, "name"),), "void", MANAGE, _adding(DestinationKind.QUEUE)),
    ("addTopic", ((_S, "name"),), "void", MANAGE, _adding(DestinationKind.TOPIC)),
    ("removeQueue", ((_S, "name"),), "void", MANAGE, _deleting(DestinationKind.QUEUE)),
    ("removeTopic", ((_S, "name"),), "void", MANAGE, _deleting(DestinationKind.TOPIC)),
    ("destroyDurableSubscriber", ((_S, "clientId"), (_S, "subscriberName")), "void", MANAGE, _destroy),
    ("resetStatistics", (), "void", MANAGE, _reset_all),
)
_OF_HEALTH = _operations(("healthStatus", (), _S, VIEW, _say_health))
_OF_DURABLES = _operations(("destroy", (), "void", MANAGE, _destroy_this))
_OF_CONNECTIONS = _operations(("stop", (), "void", MANAGE, _stop_connection))


def described(attributes: Attributes, operations: tuple[Operation, ...]) -> dict[str, Any]:
    """An MBean as ``list`` shows it, not to be changed: it is the same for all of a kind."""
    return _described(tuple((name, _java_type(value)) for name, value in attributes.items()), operations)


@lru_cache(maxsize=128)
def _described(attributes: tuple[tuple[str, str], ...], operations: tuple[Operation, ...]) -> dict[str, Any]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for one in operations:
        arguments = [{"name": name, "type": kind, "desc": ""} for kind, name in one.parameters]
        by_name.setdefault(one.name, []).append({"args": arguments, "ret": one.returns, "desc": one.name})
    return {
        "class": DOMAIN,
        "desc": "Information on the management interface of the MBean",
        "attr": {name: {"rw": False, "type": kind, "desc": name} for name, kind in attributes},
        "op": {name: found[0] if len(found) == 1 else found for name, found in by_name.items()},
    }


def _java_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds = {int: "long", float: "double", dict: "java.util.Map", list: "[Ljavax.management.ObjectName;"}
    return kinds.get(type(value), _S)
