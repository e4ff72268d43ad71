"""Frames of OpenWire that are nearly right, chosen by a seed, and sessions of a broker that take them.

A frame begins as a right one of any command; then bytes are changed, removed, repeated or cut off, numbers
become the largest and the least, and parts of other frames are put into it. Its size is mostly right, since
otherwise nothing but the size would be read.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jdbcstore import Destination, Message
from jdbcstore.broker.openwire.commands import (
    FIRST_MESSAGE,
    LAST_MESSAGE,
    Throwable,
    Type,
    codec_version,
    read_command,
    write_command,
)
from jdbcstore.broker.openwire.frames import OpenWireFrameReader, agree, wire_format_info
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.errors import CorruptMessage, ProtocolError
from jdbcstore.message.destination import DestinationKind
from jdbcstore.message.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    XATransactionId,
)
from jdbcstore.message.message import BodyType
from jdbcstore.message.openwire import decode, encode, encode_for_wire
from jdbcstore.message.values import Byte, Char, Float, Long, Short
from tests.support.broker.openwire.serving import Served

VERSIONS = (9, 10, 12)
NAME = "ID:fuzz-1"
_CONNECTION = ConnectionId(NAME)
_CONSUMER = ConsumerId(NAME, 1, 1)
_PRODUCER = ProducerId(NAME, 1, 1)
_MESSAGE = MessageId(_PRODUCER, 1)
_LOCAL = LocalTransactionId(_CONNECTION, 1)
_XA = XATransactionId(131077, b"global", b"branch")
_QUEUE = Destination.queue("FUZZ")
_TOPIC = Destination.topic("FUZZ")
_TEMPORARY = Destination(DestinationKind.TEMPORARY_QUEUE, f"{NAME}:1")
_NUMBERS = (0, 1, -1, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, -0x80000000, -2)
_PROPERTIES = {
    "bool": True, "byte": Byte(1), "short": Short(2), "int": 3, "long": Long(4), "float": Float(1.5),
    "double": 2.5, "char": Char("c"), "string": "text", "bytes": b"\0\1", "null": None,
}  # fmt: skip
_LARGEST = 4096
_PAUSE = 0.0001
"""Seconds between two looks at a session that waits; the store's thread has its turn meanwhile."""


def right_frames(version: int) -> list[bytes]:
    """Frames of every command, also of those that only brokers send."""

    def made(kind: Type, **values: Any) -> bytes:
        return write_command(kind, version, command_id=7, response_required=True, **values)

    frames = [
        made(Type.CONNECTION_INFO, connection_id=_CONNECTION, client_id="c", user="u", password="p"),
        made(Type.SESSION_INFO, session_id=SessionId(NAME, 1)),
        made(
            *(Type.CONSUMER_INFO,),
            consumer_id=_CONSUMER, destination=_QUEUE, prefetch=10, selector="int > 2 AND string LIKE 't%'",
            exclusive=True, broker_path=[BrokerId("b")],
        ),
        made(Type.CONSUMER_INFO, consumer_id=ConsumerId(NAME, 1, 2), destination=_TOPIC, prefetch=10),
        made(Type.CONSUMER_INFO, consumer_id=ConsumerId(NAME, 1, 3), destination=_QUEUE, browser=True),
        made(
            *(Type.CONSUMER_INFO,),
            consumer_id=ConsumerId(NAME, 1, 4), destination=Destination.topic("ActiveMQ.Advisory.TempQueue"),
        ),
        made(
            *(Type.CONSUMER_INFO,),
            consumer_id=ConsumerId(NAME, 1, 5), destination=_TOPIC, subscription_name="durable",
        ),
        made(Type.PRODUCER_INFO, producer_id=_PRODUCER, destination=_QUEUE, window=1000),
        *(made(Type.TRANSACTION_INFO, connection_id=_CONNECTION, transaction_id=one, operation=operation)
          for one in (_LOCAL, _XA) for operation in range(8)),
        made(Type.DESTINATION_INFO, connection_id=_CONNECTION, operation=0, timeout=10,
             destination=_TEMPORARY),
        made(Type.DESTINATION_INFO, connection_id=_CONNECTION, destination=_QUEUE, operation=1),
        made(Type.REMOVE_SUBSCRIPTION_INFO, connection_id=_CONNECTION, subscription_name="s", client_id="c"),
        made(Type.KEEP_ALIVE_INFO),
        made(Type.SHUTDOWN_INFO),
        *(made(Type.REMOVE_INFO, object_id=one, last_delivered=1)
          for one in (_CONNECTION, SessionId(NAME, 1), _CONSUMER, _PRODUCER)),
        made(Type.CONTROL_COMMAND, command="shutdown"),
        made(Type.FLUSH_COMMAND),
        made(Type.CONNECTION_ERROR, error=Throwable("java.lang.Error", "e"), connection_id=_CONNECTION),
        made(Type.CONSUMER_CONTROL, destination=_QUEUE, consumer_id=_CONSUMER, prefetch=5),
        made(Type.CONNECTION_CONTROL, connected_brokers="tcp://x:1", token=b"t"),
        made(Type.PRODUCER_ACK, producer_id=_PRODUCER, size=1),
        made(Type.MESSAGE_PULL, consumer_id=_CONSUMER, destination=_QUEUE, timeout=1, message_id=_MESSAGE),
        made(Type.MESSAGE_DISPATCH, consumer_id=_CONSUMER, destination=_QUEUE),
        *(made(Type.MESSAGE_ACK, consumer_id=_CONSUMER, destination=_QUEUE, ack_type=kind, first=_MESSAGE,
               last=_MESSAGE, count=1, cause=Throwable("java.lang.Error", "e"),
               transaction_id=_LOCAL if kind % 2 else None)
          for kind in range(8)),
        made(Type.RESPONSE, correlation_id=1),
        made(Type.EXCEPTION_RESPONSE, correlation_id=1, error=Throwable("java.lang.Error", "e")),
        made(Type.DATA_ARRAY_RESPONSE, correlation_id=1, data=[_XA]),
        made(Type.INTEGER_RESPONSE, correlation_id=1, result=1),
        made(Type.BROKER_INFO, broker_id=BrokerId("b"), broker_name="b", peers=[]),
        wire_format_info(1 << 20, 30_000, "fuzz"),
    ]  # fmt: skip
    frames += right_messages(version)
    return frames


def right_messages(version: int) -> list[bytes]:
    """Messages of each type with every field."""
    bodies: list[tuple[BodyType, Any]] = [
        (BodyType.TEXT, "text é"),
        (BodyType.BYTES, b"\0\1\2"),
        (BodyType.MAP, {"a": 1, "b": {"c": [Long(2), "x"]}}),
        (BodyType.STREAM, (1, "two", b"3", 4.0)),
        (BodyType.OBJECT, b"\xac\xed\0\5t\0\1x"),
        (BodyType.MESSAGE, None),
    ]
    frames = []
    for number, (kind, body) in enumerate(bodies):
        for transaction_id in (None, _LOCAL):
            message = Message(
                body,
                body_type=kind,
                properties=_PROPERTIES,
                destination=(_QUEUE, _TOPIC, Destination.queue("A,topic://B"))[number % 3],
                message_id=MessageId(_PRODUCER, number + 1),
                reply_to=_TEMPORARY,
                correlation_id="c",
                jms_type="t",
                group_id="g" if number % 2 else None,
                expiration_ms=number * 1000,
                transaction_id=transaction_id,
                command_id=8,
                response_required=bool(number % 2),
                persistent=bool(number % 2),
            )
            frames.append(encode(message, version=codec_version(version)))
    return frames


def truncations(frame: bytes) -> Iterator[bytes]:
    """The frame cut off after each of its bytes, with a size that says so."""
    for end in range(5, len(frame)):
        yield (end - 4).to_bytes(4, "big") + frame[4:end]


class Fuzzer:
    """Endless frames, the same for the same seed."""

    def __init__(self, seed: int, version: int) -> None:
        self.random = random.Random(seed)
        self.version = version
        self._right = right_frames(version)
        self._ways: list[Callable[[bytearray], None]] = [
            self._flip, self._flip, self._number, self._number, self._cut, self._insert, self._repeat,
            self._splice, self._type, self._nothing,
        ]  # fmt: skip

    def frame(self) -> bytes:
        chance = self.random
        if chance.random() < 0.02:
            return self._sized(bytearray(chance.randbytes(chance.randrange(1, 300))))
        body = bytearray(chance.choice(self._right)[4:])
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            chance.choice(self._ways)(body)
            del body[_LARGEST:]
        return self._sized(body)

    def _sized(self, body: bytearray) -> bytes:
        size = len(body)
        if self.random.random() < 0.005:
            size = self.random.choice((0, -1, 1 << 30, 0x7FFFFFFF, size + 1, max(size - 1, 0)))
        return size.to_bytes(4, "big", signed=True) + body

    def _at(self, body: bytearray) -> int:
        return self.random.randrange(max(len(body), 1))

    def _flip(self, body: bytearray) -> None:
        if body:
            body[self._at(body)] ^= 1 << self.random.randrange(8)

    def _number(self, body: bytearray) -> None:
        size, at = self.random.choice((1, 2, 4, 8)), self._at(body)
        number = self.random.choice(_NUMBERS) & ((1 << 8 * size) - 1)
        body[at : at + size] = number.to_bytes(size, "big")

    def _cut(self, body: bytearray) -> None:
        at = self._at(body)
        del body[at : at + self.random.choice((1, 2, 4, 8, len(body)))]

    def _insert(self, body: bytearray) -> None:
        at = self._at(body)
        body[at:at] = self.random.randbytes(self.random.choice((1, 2, 4, 50)))

    def _repeat(self, body: bytearray) -> None:
        at = self._at(body)
        part = body[at : at + self.random.choice((1, 4, 20))]
        body[at:at] = part * self.random.choice((1, 2, 30))

    def _splice(self, body: bytearray) -> None:
        other = self.random.choice(self._right)
        start = self.random.randrange(4, len(other))
        at = self._at(body)
        body[at : at + self.random.randrange(20)] = other[start : start + self.random.randrange(60)]

    def _type(self, body: bytearray) -> None:
        if body:
            body[0] = self.random.choice((*range(40), 100, 255))

    def _nothing(self, body: bytearray) -> None:
        """It stays as it is."""


def reads(data: bytes, version: int) -> bool:
    """Whether a frame can be read to its last field; any error but the expected ones is the caller's."""
    reader = OpenWireFrameReader(1 << 20)
    reader.feed(data)
    try:
        frame = reader.read()
        if frame is None:
            return False
        if frame[4] == Type.WIRE_FORMAT_INFO:
            agree(frame, 1 << 20, 30_000)
        elif FIRST_MESSAGE <= frame[4] <= LAST_MESSAGE:
            message = decode(frame, version=codec_version(version))
            _ = message.properties, message.body
            encode_for_wire(message, codec_version(version))
        else:
            repr(read_command(frame, version))
    except (ProtocolError, CorruptMessage):
        return False
    return True


class Wire(asyncio.Transport):
    """A transport whose other end reads everything, and whose input is what a fuzzer writes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.connection: ClientConnection
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Read by the other end at once."""

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """The fuzzer looks at ``accepts_frames`` itself."""

    def resume_reading(self) -> None:
        """As above."""

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    abort = close


class InProcess:
    """Passes frames to sessions of a broker in this process, without sockets; one session at a time."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.sessions = 0
        self._wire: Wire | None = None
        self._message = {version: right_messages(version)[0] for version in VERSIONS}

    def feed(self, frames: list[bytes], version: int) -> None:
        """Let them be handled, each as far as the session goes on."""
        self._served.run(self._feed(frames, version))

    async def _feed(self, frames: list[bytes], version: int) -> None:
        for frame in frames:
            wire = self._wire
            if wire is None or wire.connection.replies.ended:
                wire = await self._open(version)
            await self._give(wire, frame)

    async def _open(self, version: int) -> Wire:
        self.sessions += 1
        wire = self._wire = Wire()
        connection = self._served.openwire.make_connection()
        assert isinstance(connection, ClientConnection)
        wire.connection = connection
        connection.connection_made(wire)
        offer = bytearray(wire_format_info(1 << 20, 30_000, "fuzz"))
        offer[13:17] = version.to_bytes(4, "big")
        login = {"connection_id": _CONNECTION, "client_id": "c" if self.sessions % 2 else None}
        await self._give(wire, bytes(offer))
        await self._give(
            wire,
            write_command(Type.CONNECTION_INFO, version, failover_reconnect=self.sessions % 3 == 0, **login),
        )
        if self.sessions % 2:  # so that acknowledgements find something
            for frame in (
                write_command(
                    Type.CONSUMER_INFO, version, consumer_id=_CONSUMER, destination=_QUEUE, prefetch=5
                ),
                write_command(Type.TRANSACTION_INFO, version, transaction_id=_LOCAL, operation=0),
                right_messages(version)[0],
            ):
                await self._give(wire, frame)
        return wire

    async def _give(self, wire: Wire, frame: bytes) -> None:
        connection, replies = wire.connection, wire.connection.replies
        connection.get_buffer(len(frame))[: len(frame)] = frame
        connection.buffer_updated(len(frame))
        while not replies.accepts_frames and not replies.ended:
            await asyncio.sleep(_PAUSE)
        if replies.ended and not wire.is_closing():
            wire.close()
        await asyncio.sleep(0)  # what follows a frame comes in the loop's next round

    def close(self) -> None:
        if self._wire is not None:
            self._served.call(self._wire.close)


class _Failures(logging.Handler):
    """Keeps the log's records that have an exception: what should have been an error of the protocol."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.name == "asyncio":
            self.found.append(self.format(record))


@contextmanager
def failures() -> Iterator[list[str]]:
    """What is logged meanwhile with a traceback."""
    handler = _Failures()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler.found
    finally:
        root.removeHandler(handler)
