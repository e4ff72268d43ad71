"""What queues and topics are to the engine."""

from __future__ import annotations

from asyncio import Future
from typing import Protocol

from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.store_io.transaction import Target
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message


class BrokerDestination(Target, Protocol):
    """A queue or a topic, to the engine."""

    memory: MemoryUsage

    @property
    def destination(self) -> Destination: ...

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Done when it is durable, if it is stored at all, and there is room for more."""

    def is_idle(self) -> bool:
        """Whether it holds nothing, nobody consumes it, and that was so when this was last asked."""

    def add(self, subscription: BaseSubscription) -> None:
        """A consumer begins; it is to be told of this source of its messages."""

    def close(self) -> None:
        """The broker stops: forget what is in memory."""


def routed(message: Message, member: Destination) -> Message:
    """The message of one member of a composite."""
    if message.destination == member:
        return message
    return message.replace(
        destination=member, original_destination=message.original_destination or message.destination
    )
