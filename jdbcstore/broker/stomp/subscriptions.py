"""The subscriptions of one STOMP connection, and the messages in flight on each."""

from __future__ import annotations

import itertools
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial

from jdbcstore.broker.api import Delivery, SubscriptionRequest
from jdbcstore.broker.large import LargeTransfers
from jdbcstore.broker.stomp.frames import Frame, Version, required, whole_number
from jdbcstore.broker.stomp.messages import (
    END_OF_MESSAGE,
    DestinationNames,
    LongContent,
    MessageFrames,
    addressed,
)
from jdbcstore.broker.transport.consumers import ClientConsumer
from jdbcstore.broker.transport.replies import Replies
from jdbcstore.errors import BodyInPieces, CorruptMessage, ProtocolError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import BodyType
from jdbcstore.message.openwire.pieces import body_in_pieces

log = logging.getLogger(__name__)

_CONVERT_STRINGS = "convert_string_expressions:"
"""The prefix of a selector that makes numbers in string properties compare as numbers, as in ActiveMQ."""

_DURABLE_NAMES = (
    "activemq.subscriptionName",
    "activemq.subcriptionName",  # in ActiveMQ before 5.7
    "durable-subscription-name",
    "durable-subscriber-name",
)
"""Headers of SUBSCRIBE and UNSUBSCRIBE; the last two are Artemis's."""

Acked = list[tuple[str, Delivery]]
"""Acknowledged deliveries, each with its key for acknowledgements."""


class AckMode(StrEnum):
    """A client's way to acknowledge: not at all, cumulatively, or one by one."""

    AUTO = "auto"
    CLIENT = "client"
    INDIVIDUAL = "client-individual"

    @classmethod
    def _missing_(cls, value: object) -> AckMode:  # noqa: ARG003
        """Treat an unknown mode as ``auto``, like ActiveMQ."""
        return cls.AUTO


def subscription_request(
    headers: Mapping[str, str],
    names: DestinationNames,
    version: Version,
    connection_id: str,
    client_id: str | None,
    client: str = "",
) -> SubscriptionRequest:
    """Return the request in the headers of a SUBSCRIBE.

    :raises ProtocolError: a header is invalid
    """
    destination = names.destination(addressed(headers["destination"], headers.get("subscription-type", "")))
    name = durable_name(headers)
    if name is not None and not destination.is_topic:
        raise ProtocolError(
            f"Invalid Subscription: cannot durably subscribe to a Queue destination: {destination}"
        )
    if name is not None and client_id is None:
        raise ProtocolError("a durable subscription needs a client id; set client-id in CONNECT")
    browser = headers.get("browser") == "true"
    if browser and version is Version.V1_0:
        raise ProtocolError("Browsers need STOMP 1.1 or 1.2; accept one of these in CONNECT")
    if browser and destination.is_topic:
        raise ProtocolError(f"only queues can be browsed, and {destination} is a topic")
    selector = headers.get("selector")
    prefetch, priority = headers.get("activemq.prefetchSize"), headers.get("activemq.priority", "0")
    limit = None
    if prefetch is not None:  # a STOMP client cannot pull
        limit = max(1, whole_number("activemq.prefetchSize", prefetch, 0, 2**31 - 1))
    return SubscriptionRequest(
        destination=destination,
        connection_id=connection_id,
        prefetch=limit,
        selector=None if selector is None else _CONVERT_STRINGS + selector,
        browser=browser,
        client_id=None if name is None else client_id,
        subscription_name=name,
        retroactive=_flag(headers, "activemq.retroactive"),
        no_local=_flag(headers, "activemq.noLocal"),
        exclusive=_flag(headers, "activemq.exclusive"),
        priority=whole_number("activemq.priority", priority, -128, 127),
        client=client,
    )


def durable_name(headers: Mapping[str, str]) -> str | None:
    """Return the name of a durable subscription, from the header of any supported broker."""
    return next((headers[header] for header in _DURABLE_NAMES if header in headers), None)


def _flag(headers: Mapping[str, str], name: str) -> bool:
    return headers.get(name, "").strip().lower() == "true"


class _Taken:
    """A delivery with its message, because the broker drops the message meanwhile."""

    def __init__(self, delivery: Delivery) -> None:
        self.message = delivery.message
        self.destination = delivery.destination
        self.redelivered = delivery.redelivered


class StompConsumer(ClientConsumer):
    """One subscription of a client.

    :param ack_prefix: the first part of the keys in acknowledgements, in version 1.2
    :param large: the bodies that the store keeps in pieces
    """

    def __init__(
        self,
        *,
        replies: Replies,
        request: SubscriptionRequest,
        mode: AckMode,
        subscription_id: str | None,
        frames: MessageFrames,
        ack_prefix: str,
        large: LargeTransfers | None,
        on_end: Callable[[StompConsumer, Exception], None],
    ) -> None:
        super().__init__(replies=replies, request=request, on_end=on_end)
        self.mode = mode
        self.subscription_id = subscription_id
        self.ack_prefix = ack_prefix
        self._large = large
        self._frames = frames
        self._version = frames.version
        self._line = frames.line("subscription", subscription_id)
        self._numbers = itertools.count(1)
        self._pending: OrderedDict[str, Delivery] = OrderedDict()
        """Unacknowledged deliveries by their keys, in delivery order."""
        self._in_transaction: dict[str, str] = {}
        """By key, the open transaction that has acknowledged a delivery."""
        self._auto: list[Delivery] = []
        """Deliveries in mode ``auto`` that have not been passed to the transport yet."""

    def deliver(self, delivery: Delivery) -> None:
        try:
            self._deliver(delivery)
        except LongContent as content:
            self._deliver_long(delivery, content)
        except BodyInPieces as error:
            self._deliver_large(delivery, error)
        except CorruptMessage as error:  # a body is decoded late
            self._reject_later(delivery, error)

    def _deliver(self, delivery: Delivery) -> None:
        if self.mode is AckMode.AUTO:
            self._output.write(self._frames.encode(delivery, self._line))
            if not self._auto:
                self._output.after_flush.append(self._flushed)
            self._auto.append(delivery)
            return
        if self._version is Version.V1_2:
            key = str(next(self._numbers))
            ack = f"ack:{self.ack_prefix}{key}\n"
        else:
            key, ack = str(delivery.message.message_id), ""
        self._output.write(self._frames.encode(delivery, self._line, ack))
        self._pending[key] = delivery

    def _deliver_large(self, delivery: Delivery, error: BodyInPieces) -> None:
        """Write a message part by part; in mode ``auto`` it is acknowledged at its end."""
        large, body = self._large, body_in_pieces(delivery.message)
        if large is None or body is None:
            self._reject_later(delivery, error)
            return
        of = delivery.message, body, self._frames.max_inflated
        self._stream(delivery, partial(large.size_for_client, *of), large.for_client(*of))

    def _deliver_long(self, delivery: Delivery, content: LongContent) -> None:
        """Write a message in memory part by part, so that consumers that do not read share one body."""

        async def size() -> int | None:
            return content.size

        async def parts() -> AsyncIterator[bytes]:
            for part in content.parts():
                yield part

        self._stream(delivery, size, parts())

    def _stream(
        self, delivery: Delivery, size: Callable[[], Awaitable[int | None]], parts: AsyncIterator[bytes]
    ) -> None:
        taken, ack, key = _Taken(delivery), "", ""
        if self.mode is not AckMode.AUTO:
            key = str(delivery.message.message_id)
            if self._version is Version.V1_2:
                key = str(next(self._numbers))
                ack = f"ack:{self.ack_prefix}{key}\n"
            self._pending[key] = delivery

        async def frame() -> AsyncIterator[bytes]:
            head = self._frames.encode_head(taken, self._line, ack, await size())
            yield head + await anext(parts, b"")
            async for part in parts:
                yield part
            # The line feed after a frame is only for TCP clients.
            yield END_OF_MESSAGE[:1] if self._output.is_packed else END_OF_MESSAGE
            if self.mode is AckMode.AUTO:
                self._replies.track(self.subscription.acknowledge([delivery]), None, fatal=True)

        is_text = delivery.message.body_type is BodyType.TEXT
        self._write_in_parts(delivery, frame(), partial(self._pending.pop, key, None), is_text=is_text)

    def browsed(self) -> None:
        self._output.write(self._frames.end_of_browser(self._line, self.request.destination))

    def _flushed(self) -> None:
        """Acknowledge the deliveries in mode ``auto``, after they were passed to the transport."""
        deliveries, self._auto = self._auto, []
        if deliveries:
            self._replies.track(self.subscription.acknowledge(deliveries), None, fatal=True)

    def has(self, key: str, transaction: str | None = None) -> bool:
        """Return whether a delivery is unacknowledged, or only acknowledged in this transaction."""
        return key in self._pending or (
            transaction is not None and self._in_transaction.get(key) == transaction
        )

    def take(self, key: str) -> Acked:
        """Remove and return the deliveries that an ACK covers; in mode ``client``, all up to it."""
        pending = self._pending
        if key not in pending:
            return []
        if self.mode is not AckMode.CLIENT:
            return [(key, pending.pop(key))]
        taken = []
        while True:
            oldest = pending.popitem(last=False)
            taken.append(oldest)
            if oldest[0] == key:
                return taken

    def take_one(self, key: str) -> Delivery:
        """Remove and return the delivery that a NACK rejects."""
        if self.request.browser:
            raise ProtocolError("Cannot NACK a message of a browser, which does not consume messages")
        return self._pending.pop(key)

    def acked_in(self, transaction: str, acked: Acked) -> None:
        """Record that a transaction, which may be rolled back, has acknowledged deliveries."""
        self._in_transaction.update((key, transaction) for key, _ in acked)

    def settle(self, acked: Acked) -> None:
        """Forget deliveries whose transaction has ended."""
        for key, _ in acked:
            self._in_transaction.pop(key, None)

    def put_back(self, acked: Acked) -> None:
        """Make deliveries unacknowledged again, before the others, because their transaction was rolled
        back."""
        self.settle(acked)
        for key, delivery in reversed(acked):
            self._pending[key] = delivery
            self._pending.move_to_end(key, last=False)

    def close(self, *, has_left: bool = False) -> None:
        """Return the unacknowledged deliveries to the broker.

        :param has_left: whether the client has ended its connection
        """
        self._pending.clear()
        self._auto = []
        self.subscription.close(has_left=has_left)


class StompSubscriptions:
    """The open subscriptions of one connection, in the order of their SUBSCRIBE frames."""

    def __init__(self, connection_id: str, limit: int) -> None:
        self._connection_id = connection_id.replace(":", "-")
        self._limit = limit
        self._numbered = 0
        self._warned = False
        self._consumers: dict[str, StompConsumer] = {}
        """By their ``ack_prefix``."""
        self.by_id: dict[str, StompConsumer] = {}
        """The subscriptions that have an id."""

    def __iter__(self) -> Iterator[StompConsumer]:
        return iter(self._consumers.values())

    def next_prefix(self) -> str:
        """Return a new ``ack_prefix``, without characters that need an escape.

        It is unique to this connection, because a client that acknowledges a message of its previous
        connection must not hit another message.

        :raises ProtocolError: there are too many subscriptions
        """
        if len(self._consumers) >= self._limit:
            if not self._warned:
                self._warned = True
                log.warning(
                    "connection %s has %d subscriptions (max_subscriptions); further ones are rejected",
                    *(self._connection_id, self._limit),
                    extra={"limit": "max_subscriptions", "connection": self._connection_id},
                )
            raise ProtocolError(
                f"the connection has {self._limit} subscriptions, the maximum; open another connection"
            )
        self._numbered += 1
        return f"{self._connection_id}-{self._numbered}-"

    def add(self, consumer: StompConsumer) -> None:
        """Add a consumer. As in ActiveMQ, an id may be used twice, and then names the later subscription."""
        self._consumers[consumer.ack_prefix] = consumer
        if consumer.subscription_id is not None:
            self.by_id[consumer.subscription_id] = consumer

    def remove(self, consumer: StompConsumer) -> None:
        self._consumers.pop(consumer.ack_prefix, None)
        if consumer.subscription_id is not None and self.by_id.get(consumer.subscription_id) is consumer:
            del self.by_id[consumer.subscription_id]

    def remove_all(self) -> list[StompConsumer]:
        removed = [*self._consumers.values()]
        self._consumers, self.by_id = {}, {}
        return removed

    def of(self, destination: Destination) -> StompConsumer | None:
        """Return the first consumer of a destination, because in version 1.0 a subscription may have no
        id."""
        for consumer in self._consumers.values():
            if consumer.request.destination == destination:
                return consumer
        return None

    def acknowledged(
        self, frame: Frame, version: Version, transaction: str | None = None
    ) -> tuple[StompConsumer, str]:
        """Return the consumer of an ACK or NACK, and the key of the delivery.

        In mode ``client``, the same transaction may have acknowledged it already with a later delivery.

        :raises ProtocolError: it does not name a delivery that can be acknowledged
        """
        headers, command = frame.headers, frame.command
        if version is Version.V1_2:
            ack = required(headers, "id", command)
            prefix, dash, key = ack.rpartition("-")
            consumer = self._consumers.get(prefix + dash)
        else:
            key = ack = required(headers, "message-id", command)
            subscription_id = headers.get("subscription")
            if subscription_id is not None:
                consumer = self.by_id.get(subscription_id)
            elif version is Version.V1_1:
                raise ProtocolError(f"{command} needs the header subscription; add it")
            else:
                consumer = next(
                    (candidate for candidate in self._consumers.values() if candidate.has(key, transaction)),
                    None,
                )
        if consumer is None or not consumer.has(key, transaction):
            raise ProtocolError(f"Unexpected {command} received for message-id [{ack[:200]}]")
        return consumer, key
