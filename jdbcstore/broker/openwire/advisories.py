"""Advisories: messages about connections, producers, consumers, destinations and other messages.

Every JMS client subscribes to advisories of temporary destinations when it connects, because it does not
reply to a destination that it was not notified of. Advisories are consumed from topics,
``ActiveMQ.Advisory.>``, and are never stored. Each contains the added or removed object, and a new consumer
gets one for every existing object. An advisory about a message contains the message, mostly without its body.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from jdbcstore.broker.api import (
    ConnectionInfo,
    DurableInfo,
    Known,
    MessageEvent,
    MessageEventKind,
    ProducerInfo,
    SubscriptionRequest,
)
from jdbcstore.broker.directory import Directory
from jdbcstore.broker.openwire.commands import Type, codec_version, write_body, write_command
from jdbcstore.broker.transport.output import ClientOutput
from jdbcstore.errors import StoreError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import ConnectionId, ConsumerId, MessageId, ProducerId
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.encoder import encode_for_wire, encode_map
from jdbcstore.message.patterns import DestinationPattern

log = logging.getLogger(__name__)

_PREFIX = "ActiveMQ.Advisory."
_LENGTH = 4
"""Bytes of a frame before the command: its size."""
_CONNECTIONS = Destination.topic(_PREFIX + "Connection")
_MASTER = Destination.topic(_PREFIX + "MasterBroker")
"""The topics of advisories without an object, for every new consumer, because only a master has clients."""
_KINDS = {
    DestinationKind.QUEUE: "Queue",
    DestinationKind.TOPIC: "Topic",
    DestinationKind.TEMPORARY_QUEUE: "TempQueue",
    DestinationKind.TEMPORARY_TOPIC: "TempTopic",
}
_OF_DESTINATIONS = {kind: Destination.topic(_PREFIX + name) for kind, name in _KINDS.items()}
_OF_TEMPORARY = (
    _OF_DESTINATIONS[DestinationKind.TEMPORARY_QUEUE],
    _OF_DESTINATIONS[DestinationKind.TEMPORARY_TOPIC],
)
_EMPTY: dict[BodyType, Any] = {BodyType.BYTES: b"", BodyType.MAP: {}, BodyType.STREAM: ()}
"""The replacement of a body that is not sent; other messages have no body."""
_ADD, _REMOVE = 0, 1


def is_advisory(destination: Destination) -> bool:
    """Return whether a consumer of this destination gets only advisories."""
    return destination.is_topic and all(_is_about_itself(member) for member in destination.members)


def is_of_temporary(destination: Destination) -> bool:
    """Return whether a consumer of this destination gets only advisories of temporary destinations."""
    return all(member in _OF_TEMPORARY for member in destination.members)


def _is_about_itself(destination: Destination) -> bool:
    return destination.is_topic and destination.name.startswith(_PREFIX)


class _About(NamedTuple):
    data: bytes | None
    """The added or removed object as a command, or the message."""
    properties: Mapping[str, str | int]


class Advisories:
    """A connection's consumers of advisories; a :class:`~jdbcstore.broker.api.Watcher`.

    Advisories need no acknowledgement.
    """

    def __init__(
        self,
        *,
        output: ClientOutput,
        directory: Directory,
        connection_id: str,
        version: int,
        broker_name: str,
        url: str = "",
    ) -> None:
        self._output = output
        self._directory = directory
        self._version = version
        self._origin = {
            "originBrokerName": broker_name,
            "originBrokerId": broker_name,
            "originBrokerURL": url,
        }
        self._consumers: dict[ConsumerId, list[DestinationPattern]] = {}
        self._wants_all = False
        """Whether any consumer wants advisories beyond temporary destinations."""
        self._producer = ProducerId(f"{connection_id}-advisories", -1, 1)
        self._numbers = count(1)

    def __contains__(self, consumer_id: ConsumerId) -> bool:
        return consumer_id in self._consumers

    def __len__(self) -> int:
        return len(self._consumers)

    def add(self, consumer_id: ConsumerId, destination: Destination) -> None:
        """Send a consumer the current objects, and every change."""
        patterns = self._consumers[consumer_id] = [
            DestinationPattern(member) for member in destination.members
        ]
        only_temporary = is_of_temporary(destination)
        self._wants_all = self._wants_all or not only_temporary
        self._directory.watch(self, only_temporary=not self._wants_all)
        if _is_wanted(_MASTER, patterns):
            self._send(_MASTER, _About(None, {}), consumer_id)
        for known in self._directory.all_known(only_temporary=only_temporary):
            for topic, member in _topics(known):
                if _is_wanted(topic, patterns):
                    self._send(topic, self._about(known, member, is_removed=False), consumer_id, consumer_id)

    def remove(self, consumer_id: ConsumerId) -> None:
        self._consumers.pop(consumer_id, None)
        if not self._consumers:
            self.close_watch()

    def close_watch(self) -> None:
        """Stop the notifications."""
        self._directory.unwatch(self)

    def added(self, what: Known) -> None:
        self._changed(what, is_removed=False)

    def removed(self, what: Known) -> None:
        self._changed(what, is_removed=True)

    def happened(self, event: MessageEvent) -> None:
        topic = _topic_of(event)
        wanting = self._wanting(topic)
        if not wanting:
            return
        try:
            if event.kind is MessageEventKind.UNWANTED:
                self._dispatch(topic, _readdressed(event.message, topic, self._version), wanting)
                return
            about = _About(self._about_event(event), _properties(event))
            for consumer_id in wanting:
                self._send(topic, about, consumer_id)
        except StoreError as error:
            log.warning("an advisory about a message of %s is not sent: %s", event.destination, error)

    def _about_event(self, event: MessageEvent) -> bytes | None:
        message = event.message
        if event.kind is MessageEventKind.FULL:
            return None
        if event.kind is MessageEventKind.FAST_PRODUCER:
            producer = {"producer_id": _producer_of(message), "destination": event.destination}
            return self._body(Type.PRODUCER_INFO, **producer)
        if event.kind is MessageEventKind.SLOW_CONSUMER and event.request is not None:
            return self._consumer(event.request, is_removed=False)
        if not event.includes_body:
            message = message.replace(body_type=message.body_type, body=_EMPTY.get(message.body_type))
        return encode_for_wire(message, codec_version(self._version))[0][_LENGTH:]

    def _wanting(self, topic: Destination) -> list[ConsumerId]:
        """Return the consumers of an advisory topic; none if the client reads too slowly."""
        if self._output.is_choked and topic not in _OF_TEMPORARY:
            return []
        return [consumer for consumer, patterns in self._consumers.items() if _is_wanted(topic, patterns)]

    def _changed(self, what: Known, *, is_removed: bool) -> None:
        for topic, member in _topics(what):
            wanting = self._wanting(topic)
            if wanting:
                about = self._about(what, member, is_removed=is_removed)
                for consumer_id in wanting:
                    self._send(topic, about, consumer_id)

    def _about(self, what: Known, member: Destination | None, *, is_removed: bool) -> _About:
        match what:
            case ConnectionInfo():
                return _About(self._connection(what, is_removed), {})
            case Destination():
                operation = _REMOVE if is_removed else _ADD
                return _About(self._body(Type.DESTINATION_INFO, destination=what, operation=operation), {})
            case ProducerInfo():
                assert member is not None  # noqa: S101 - it has a destination
                number = self._directory.count_producers(member)
                return _About(self._of_producer(what, is_removed), {"producerCount": number})
            case DurableInfo():
                data = self._body(
                    Type.REMOVE_SUBSCRIPTION_INFO,
                    client_id=what.client_id,
                    subscription_name=what.subscription_name,
                )
                return _About(data, {"consumerCount": self._directory.count_consumers(what.destination)})
            case SubscriptionRequest():
                assert member is not None  # noqa: S101 - it has a destination
                number = self._directory.count_consumers(member)
                return _About(self._consumer(what, is_removed), {"consumerCount": number})

    def _connection(self, connection: ConnectionInfo, is_removed: bool) -> bytes:
        connection_id = ConnectionId(connection.connection_id)
        if is_removed:
            return self._body(Type.REMOVE_INFO, object_id=connection_id)
        return self._body(
            Type.CONNECTION_INFO,
            connection_id=connection_id,
            client_id=connection.client_id,
            password="",
            user=connection.user,
            client_ip=connection.peer,
        )

    def _of_producer(self, producer: ProducerInfo, is_removed: bool) -> bytes:
        if is_removed:
            return self._body(Type.REMOVE_INFO, object_id=producer.producer_id)
        return self._body(
            Type.PRODUCER_INFO, producer_id=producer.producer_id, destination=producer.destination
        )

    def _consumer(self, request: SubscriptionRequest, is_removed: bool) -> bytes:
        # STOMP clients do not name their consumers.
        consumer_id = request.consumer_id or ConsumerId(request.connection_id, -1, id(request))
        if is_removed:
            return self._body(Type.REMOVE_INFO, object_id=consumer_id)
        return self._body(
            Type.CONSUMER_INFO,
            consumer_id=consumer_id,
            browser=request.browser,
            destination=request.destination,
            prefetch=request.prefetch,
            selector=request.selector,
            subscription_name=request.subscription_name,
            no_local=request.no_local,
            exclusive=request.exclusive,
            retroactive=request.retroactive,
            priority=request.priority,
            **({} if self._version < _CLIENT_ID_SINCE else {"client_id": request.client_id}),
        )

    def _body(self, kind: Type, **values: object) -> bytes:
        return write_body(kind, self._version, **values)

    def _send(
        self, topic: Destination, about: _About, consumer_id: ConsumerId, target: ConsumerId | None = None
    ) -> None:
        message = self._body(
            Type.MESSAGE,
            producer_id=self._producer,
            destination=topic,
            message_id=MessageId(self._producer, next(self._numbers)),
            type="Advisory",
            properties=encode_map({**self._origin, **about.properties}),
            data=about.data,
            target=target,
        )
        self._dispatch(topic, message, [consumer_id])

    def _dispatch(self, topic: Destination, message: bytes, consumers: Sequence[ConsumerId]) -> None:
        for consumer_id in consumers:
            values = {"consumer_id": consumer_id, "destination": topic, "message": message}
            self._output.write(write_command(Type.MESSAGE_DISPATCH, self._version, **values))


_CLIENT_ID_SINCE = 10
"""The first version of the wire format in which a consumer has the id of its client."""


def _topics(what: Known) -> list[tuple[Destination, Destination | None]]:
    """Return the topics of advisories about an object, each with the destination concerned, if any."""
    match what:
        case ConnectionInfo():
            return [(_CONNECTIONS, None)]
        case Destination():
            return [] if _is_about_itself(what) else [(_OF_DESTINATIONS[what.kind], None)]
        case DurableInfo():
            return [(_topic("Consumer", what.destination), what.destination)]
        case _:
            kind = "Producer" if isinstance(what, ProducerInfo) else "Consumer"
            members = [member for member in what.destination.members if not _is_about_itself(member)]
            return [(_topic(kind, member), member) for member in members]


def _topic(what: str, destination: Destination) -> Destination:
    kind = "Topic" if destination.is_topic else "Queue"
    return Destination.topic(f"{_PREFIX}{what}.{kind}.{destination.name}")


def _topic_of(event: MessageEvent) -> Destination:
    """Return the topic of advisories about message events of a destination."""
    if event.kind in (MessageEventKind.EXPIRED, MessageEventKind.UNWANTED):
        return _topic(event.kind, event.destination)
    return Destination.topic(
        f"{_PREFIX}{event.kind}.{_KINDS[event.destination.kind]}.{event.destination.name}"
    )


def _producer_of(message: Message) -> ProducerId | None:
    return message.producer_id or (None if message.message_id is None else message.message_id.producer_id)


def _readdressed(message: Message, topic: Destination, version: int) -> bytes:
    """Return a copy of a message for dispatch from another topic."""
    original = None if message.original_destination is None else message.destination
    message = message.replace(destination=topic, original_destination=original, transaction_id=None)
    return encode_for_wire(message, codec_version(version))[0][_LENGTH:]


def _properties(event: MessageEvent) -> dict[str, str | int]:
    """Return the properties, with ActiveMQ's spelling."""
    request = event.request
    consumer_id = "" if request is None else str(request.consumer_id or request.connection_id)
    match event.kind:
        case MessageEventKind.DEAD:
            return {}
        case MessageEventKind.FULL:
            return {"usageName": f"{event.destination}:memory", "usageCount": event.count}
        case MessageEventKind.FAST_PRODUCER:
            return {"producerId": str(_producer_of(event.message))}
        case MessageEventKind.SLOW_CONSUMER:
            return {"consumerId": consumer_id}
    properties: dict[str, str | int] = {"orignalMessageId": str(event.message.message_id)}
    if event.kind is not MessageEventKind.EXPIRED:
        properties["orignalDestination"] = str(event.destination)
    if request is not None:
        properties["consumerId"] = consumer_id
    if event.kind is MessageEventKind.DISCARDED:
        properties["discardedCount"] = event.count
    return properties


def _is_wanted(topic: Destination, patterns: list[DestinationPattern]) -> bool:
    return any(pattern.matches(topic) for pattern in patterns)
