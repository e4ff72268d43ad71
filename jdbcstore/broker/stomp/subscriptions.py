"""The subscriptions of one connection, under the names that the client has for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from jdbcstore.broker.stomp.consumer import StompConsumer
from jdbcstore.broker.stomp.frames import Frame, Version
from jdbcstore.broker.stomp.requests import required
from jdbcstore.errors import ProtocolError
from jdbcstore.message.destination import Destination

log = logging.getLogger(__name__)


class Subscriptions:
    """All that are open, in their order."""

    def __init__(self, connection_id: str, most: int) -> None:
        self._connection_id = connection_id.replace(":", "-")
        self._most = most
        self._numbered = 0
        self._told = False
        self._consumers: dict[str, StompConsumer] = {}
        """By what begins the names to acknowledge by, in version 1.2."""
        self._by_id: dict[str, StompConsumer] = {}

    def __iter__(self) -> Iterator[StompConsumer]:
        return iter(self._consumers.values())

    def next_prefix(self) -> str:
        """What is to begin the names to acknowledge by, in which nothing has to be escaped.

        They are of this connection alone: a client that comes back and acknowledges what it got before
        must not hit another message.

        :raises ProtocolError: there are too many
        """
        if len(self._consumers) >= self._most:
            if not self._told:
                self._told = True
                log.warning(
                    "connection %s has %d subscriptions, which is max_subscriptions: more are refused",
                    *(self._connection_id, self._most),
                    extra={"limit": "max_subscriptions", "connection": self._connection_id},
                )
            raise ProtocolError(f"a connection has {self._most} subscriptions at most; open another")
        self._numbered += 1
        return f"{self._connection_id}-{self._numbered}-"

    def add(self, consumer: StompConsumer) -> None:
        """As in ActiveMQ, an id may be used twice; it is then the later one's."""
        self._consumers[consumer.ack_prefix] = consumer
        if consumer.subscription_id is not None:
            self._by_id[consumer.subscription_id] = consumer

    def remove(self, consumer: StompConsumer) -> None:
        self._consumers.pop(consumer.ack_prefix, None)
        if consumer.subscription_id is not None and self._by_id.get(consumer.subscription_id) is consumer:
            del self._by_id[consumer.subscription_id]

    def take_all(self) -> list[StompConsumer]:
        taken = [*self._consumers.values()]
        self._consumers, self._by_id = {}, {}
        return taken

    def with_id(self, subscription_id: str) -> StompConsumer | None:
        return self._by_id.get(subscription_id)

    def of(self, destination: Destination) -> StompConsumer | None:
        """The first one of a destination: version 1.0 knows subscriptions without an id."""
        matching = (one for one in self._consumers.values() if one.request.destination == destination)
        return next(matching, None)

    def acknowledged(
        self, frame: Frame, version: Version, transaction: str | None = None
    ) -> tuple[StompConsumer, str]:
        """Whose message an ACK or NACK is for, and what the consumer calls it.

        It may be one that the same transaction has acknowledged already, with a later one in mode ``client``.

        :raises ProtocolError: nobody's, or it does not say
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
                consumer = self._by_id.get(subscription_id)
            elif version is Version.V1_1:
                raise ProtocolError(f"{command} needs the subscription; add the header")
            else:
                consumer = next((one for one in self._consumers.values() if one.has(key, transaction)), None)
        if consumer is None or not consumer.has(key, transaction):
            raise ProtocolError(f"Unexpected {command} received for message-id [{ack[:200]}]")
        return consumer, key
