"""The producers of one OpenWire connection: their windows, and repeated messages after a reconnect."""

from __future__ import annotations

from struct import Struct

from jdbcstore.broker.api import ProducerInfo
from jdbcstore.broker.directory import Directory
from jdbcstore.broker.openwire.commands import Command, Type, write_command
from jdbcstore.errors import ProtocolError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ConsumerId, ProducerId, SessionId
from jdbcstore.message.message import Message

_MOST_PRODUCERS = 10_000
_MESSAGE_SIZE = 1024
"""Bytes that ActiveMQ adds to the content of a message in a producer's window."""
_i32 = Struct(">i").pack


class Producers:
    """The open producers of a client."""

    def __init__(self, directory: Directory) -> None:
        self.windows: dict[ProducerId, bytes] = {}
        """For each producer, a ProducerAck without the size at its end; empty if the producer does not wait
        for it."""
        self.stored: dict[ProducerId, int] = {}
        """The last stored number of each producer that may repeat messages after a reconnect."""
        self._directory = directory

    def add(self, command: Command, version: int, connection_id: str) -> None:
        """Add the producer of a PRODUCER_INFO.

        :raises ProtocolError: there are too many
        """
        if len(self.windows) >= _MOST_PRODUCERS:
            raise ProtocolError(f"the connection has {_MOST_PRODUCERS} producers, the maximum; close some")
        producer_id: ProducerId = command["producer_id"]
        destination: Destination | None = command["destination"]
        self.windows[producer_id] = b""
        if command["window"] > 0:
            self.windows[producer_id] = write_command(Type.PRODUCER_ACK, version, producer_id=producer_id)[
                :-4
            ]
        if destination is not None:
            self._directory.add(
                ProducerInfo(connection_id=connection_id, producer_id=producer_id, destination=destination)
            )

    def remove(self, producer_id: ProducerId, connection_id: str) -> None:
        """Remove a producer; do nothing if it is unknown."""
        self.windows.pop(producer_id, None)
        self.stored.pop(producer_id, None)
        self._directory.remove_producer(connection_id, producer_id)

    def remove_of(self, session: SessionId, connection_id: str) -> None:
        """Remove the producers of a JMS session."""
        for producer_id in [*self.windows]:
            if is_of(producer_id, session):
                self.remove(producer_id, connection_id)

    def clear(self) -> None:
        """Forget all producers, because the client's connection has ended."""
        self.windows.clear()
        self.stored.clear()


def is_of(member: ConsumerId | ProducerId, session: SessionId) -> bool:
    """Return whether a consumer or a producer belongs to a JMS session."""
    return member.session_id == session.value and member.connection_id == session.connection_id


def acknowledgement(head: bytes, message: Message) -> bytes:
    """Return the ProducerAck for a message, with its size as counted by ActiveMQ's producers.

    :param head: the producer's bytes from :attr:`Producers.windows`
    """
    properties = message._source.marshalled_properties if message._source is not None else None
    return head + _i32(_MESSAGE_SIZE + message.body_size + len(properties or b""))
