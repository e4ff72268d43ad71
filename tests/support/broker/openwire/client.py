"""A socket that speaks OpenWire, and bytes where a test wants them wrong."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
from typing import Any, Self

from jdbcstore import Destination, Message
from jdbcstore.broker.openwire.commands import Command, Type, codec_version, read_command, write_command
from jdbcstore.broker.openwire.frames import OpenWireFrameReader, wire_format_info
from jdbcstore.message.ids import ConnectionId, ConsumerId, MessageId, ProducerId, SessionId, TransactionId
from jdbcstore.message.openwire import decode, encode
from tests.support.broker.stomp.serving import PATIENCE

_NUMBERS = itertools.count(1)
DISPATCH_HEAD = 10
"""Bytes of a dispatch before its first field."""


def offer_of(properties: bytes) -> bytes:
    """Return the frame of an offer with these marshalled properties."""
    body = struct.pack(">B8si?i", Type.WIRE_FORMAT_INFO, b"ActiveMQ", 12, True, len(properties)) + properties
    return struct.pack(">i", len(body)) + body


class Client:
    """A client that has agreed on the wire format, and has logged in unless ``login`` is False."""

    def __init__(
        self,
        port: int,
        version: int = 12,
        *,
        login: bool = True,
        speaks_first: bool = False,
        connection_id: str | None = None,
        address: str = "127.0.0.1",
        patience: float = PATIENCE,
        max_frame_size: int = 1 << 30,
        inactivity_ms: int = 30_000,
        **info: Any,
    ) -> None:
        self.socket = socket.create_connection((address, port), timeout=patience)
        self.version = version
        self.connection_id = connection_id or f"ID:test-{next(_NUMBERS)}"
        self.session_id = SessionId(self.connection_id, 1)
        self.producer_id = ProducerId(self.connection_id, 1, 1)
        self._offered = max_frame_size, inactivity_ms
        self._reader = OpenWireFrameReader(max_frame_size)
        self._ids = itertools.count(1)
        self._sent = itertools.count(1)
        self._consumers = itertools.count(1)
        self._has_offered = False
        if speaks_first:  # as JMS clients do, too
            self._offer()
        self.offer = self.frame()
        if login:
            self.agree()
            self.connect(**info)

    def agree(self) -> Command:
        """Answer the broker's offer of a wire format; returns what it says of itself."""
        if not self._has_offered:
            self._offer()
        return self.expect(Type.BROKER_INFO)

    def _offer(self) -> None:
        self._has_offered = True
        offer = wire_format_info(*self._offered, "tests")
        at = 4 + 1 + 8
        self.socket.sendall(offer[:at] + self.version.to_bytes(4, "big") + offer[at + 4 :])

    def connect(self, **info: Any) -> None:
        self.request(Type.CONNECTION_INFO, connection_id=ConnectionId(self.connection_id), **info)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.socket.close()

    def write(self, kind: Type, *, wants: bool = True, **values: Any) -> int:
        """Send a command, and return its id."""
        command_id = next(self._ids)
        frame = write_command(kind, self.version, command_id=command_id, response_required=wants, **values)
        self.socket.sendall(frame)
        return command_id

    def request(self, kind: Type, **values: Any) -> Command:
        """Send a command, and expect that it is done."""
        command_id = self.write(kind, **values)
        return self.answer(command_id, Type.RESPONSE)

    def answer(self, command_id: int, kind: Type) -> Command:
        response = self.expect(kind)
        assert response["correlation_id"] == command_id
        return response

    def refused(self, kind: Type, **values: Any) -> tuple[str, str]:
        """Send a command that fails; the class of its exception, and the text."""
        error = self.answer(self.write(kind, **values), Type.EXCEPTION_RESPONSE)["error"]
        return error.name, error.text

    def message(self, destination: Destination, body: Any, **fields: Any) -> bytes:
        """The frame of a message."""
        message_id = MessageId(self.producer_id, next(self._sent))
        fields = {"response_required": True, "timestamp_ms": 1, **fields}
        message = Message(
            body, destination=destination, message_id=message_id, command_id=next(self._ids), **fields
        )
        return encode(message, version=codec_version(self.version))

    def send(self, destination: Destination, body: Any, **fields: Any) -> None:
        frame = self.message(destination, body, **fields)
        self.socket.sendall(frame)
        self.answer(decode(frame).command_id, Type.RESPONSE)

    def consume(self, destination: Destination, prefetch: int = 1000, **info: Any) -> ConsumerId:
        consumer_id = ConsumerId(self.connection_id, 1, next(self._consumers))
        self.request(
            *(Type.CONSUMER_INFO,),
            **{"consumer_id": consumer_id, "destination": destination, "prefetch": prefetch, **info},
        )
        return consumer_id

    def frame(self) -> bytes | None:
        """The next frame, with its size; None at the end of the connection."""
        while (frame := self._reader.read()) is None:
            data = self.socket.recv(65536)
            if not data:
                return None
            self._reader.feed(data)
        return frame

    def _frame_but(self, other: Type) -> bytes | None:
        """The next frame that is not of this type."""
        while (frame := self.frame()) is not None and frame[4] == other:
            pass
        return frame

    def expect(self, kind: Type) -> Command:
        # The broker sends these whenever a test, on a busy machine, is silent for ten seconds.
        frame = self.frame() if kind is Type.KEEP_ALIVE_INFO else self._frame_but(Type.KEEP_ALIVE_INFO)
        assert frame is not None, f"the connection ended instead of {kind.name}"
        command = read_command(frame, self.version)
        assert command.type is kind, f"{command}"
        return command

    def dispatched(self) -> tuple[Message, int]:
        """The message that is dispatched next, and its redelivery counter."""
        frame = self._frame_but(Type.KEEP_ALIVE_INFO)
        assert frame is not None, "the connection ended instead of a dispatch"
        assert frame[4] == Type.MESSAGE_DISPATCH, frame[4]
        empty = write_command(Type.MESSAGE_DISPATCH, self.version)
        at = DISPATCH_HEAD
        for _ in range(2):  # the consumer, and the destination
            at = after_nested(frame, at)
        assert frame[at] == 1, "there is no message in it"
        assert len(empty) < len(frame)
        body = frame[at + 1 : -4]
        return decode(len(body).to_bytes(4, "big") + body), int.from_bytes(frame[-4:], "big")

    def acknowledge(
        self,
        consumer_id: ConsumerId,
        first: Message,
        last: Message | None = None,
        kind: int = 2,
        transaction_id: TransactionId | None = None,
        count: int = 1,
    ) -> None:
        last = last or first
        self.request(
            *(Type.MESSAGE_ACK,),
            consumer_id=consumer_id,
            destination=last.destination,
            ack_type=kind,
            count=count,
            first=first.message_id,
            last=last.message_id,
            transaction_id=transaction_id,
        )

    def ends(self) -> bool:
        """Whether the broker has closed the connection; waits for it, whatever else comes before."""
        with contextlib.suppress(ConnectionError):
            while self.frame() is not None:
                pass
        return True


def after_nested(frame: bytes, at: int) -> int:
    """The place after a consumer id or a destination."""
    assert frame[at] == 1
    kind, length = frame[at + 1], int.from_bytes(frame[at + 3 : at + 5], "big")
    return at + 5 + length + (16 if kind == 122 else 0)
