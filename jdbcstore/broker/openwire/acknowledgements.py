"""A fast reader of acknowledgements, of which a client may send one for each message.

Consecutive acknowledgements mostly differ only in the numbers of the message. So the constant bytes of the
last one are kept with their meaning, and the next frame is compared with them instead of parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple

from jdbcstore.broker.api import Delivery
from jdbcstore.broker.openwire._acknowledged_cy import acknowledged
from jdbcstore.broker.openwire.commands import Throwable, Type, read_command, write_id
from jdbcstore.broker.openwire.frames import OpenWireFrameReader
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ConsumerId, MessageId, ProducerId, TransactionId

Pending = Mapping[int, tuple[Delivery, MessageId, Destination]]
"""Unacknowledged deliveries of a consumer by number: each delivery, the id of its message, its source."""

_BEGINNING = 10
"""Bytes of a frame before its first field: its size, type, command id, and whether it wants a response."""
_END = 5
"""Bytes after the ids of the messages, in a frame without a cause: the count, and the absent cause."""
_head, _numbers = Struct(">i?").unpack_from, Struct(">qq")


class Acknowledgement(NamedTuple):
    """An acknowledgement or rejection of some messages."""

    command_id: int
    response_required: bool
    destination: Destination | None
    transaction_id: TransactionId | None
    consumer_id: ConsumerId
    ack_type: int
    first: MessageId | None
    last: MessageId | None
    message_count: int
    cause: Throwable | None


class AcknowledgementReader:
    """Reads the acknowledgements of one connection.

    :param version: the version of the wire format
    """

    def __init__(self, version: int) -> None:
        self._version = version
        self._names = b""
        """The destination, the transaction and the consumer of the last acknowledgement, encoded."""
        self._known: tuple[Destination | None, TransactionId | None, ConsumerId] | None = None
        self._id = b""
        """The id of its last message without the two numbers at the end; then the producer's id."""
        self._producer_id: ProducerId | None = None
        self._single: tuple[int, int] | None = None
        """The first and last offset of the numbers of the only message, whose id may occur once or twice.
        None if it must be parsed, or has two messages."""

    def read(self, frame: bytes) -> Acknowledgement:
        """Return the acknowledgement in a frame, which includes its size.

        :raises ProtocolError: it is damaged; the rest of the input is ignored
        """
        known, self._single = self._known, None
        if known is not None and frame.startswith(self._names, _BEGINNING) and not frame[-1]:
            at = _BEGINNING + len(self._names)
            ids = self._read_ids(frame, at + 1)
            if ids is not None:
                command_id, response_required = _head(frame, 5)
                kind = (frame[at] ^ 0x80) - 0x80
                count = 1 if ids[0] is ids[1] else int.from_bytes(frame[-_END:-1], "big")
                return Acknowledgement(command_id, response_required, *known, kind, *ids, count, None)
        return self._read_anew(frame)

    def read_like(self, frame: bytes, reader: OpenWireFrameReader, pending: Pending) -> dict[int, Delivery]:
        """Return the deliveries that the next acknowledgements cover, by number, as long as they are like the
        last one.

        Each covers one message, and has its id once, or twice as both ends of a range.

        :param frame: the last frame, without a transaction and a request for a response
        """
        if self._single is None:
            return {}
        first_at, last_at = self._single
        like = frame, first_at, last_at, self._producer_id, pending
        return reader.read_many(lambda data, at: acknowledged(data, at, *like))

    def _read_ids(self, frame: bytes, at: int) -> tuple[MessageId | None, MessageId] | None:
        """Return the ids of the first and the last message, if both are from the known producer."""
        each = len(self._id) + _numbers.size
        end = len(frame) - _END
        start = end - each
        if start < at or not frame.startswith(self._id, start):
            return None
        last_at = end - _numbers.size
        last = MessageId(self._producer_id, *_numbers.unpack_from(frame, last_at))
        if start == at + 1 and not frame[at]:
            self._single = last_at, last_at
            return None, last
        if start != at + each or not frame.startswith(self._id, at):
            return None
        if frame[at:start] == frame[start:end]:
            self._single = last_at - each, last_at
            return last, last
        return MessageId(self._producer_id, *_numbers.unpack_from(frame, at + len(self._id))), last

    def _read_anew(self, frame: bytes) -> Acknowledgement:
        command = read_command(frame, self._version)
        names = command["destination"], command["transaction_id"], command["consumer_id"]
        first, last, cause = command["first"], command["last"], command["cause"]
        self._names = b"".join(write_id(name, self._version) for name in names)
        self._known = names if frame.startswith(self._names, _BEGINNING) else None
        if last is None or last.text_view is not None or last.producer_id is None:
            self._known = None
        else:
            self._id = write_id(last, self._version)[: -_numbers.size]
            self._producer_id = last.producer_id
        return Acknowledgement(
            command.command_id,
            command.response_required,
            *names,
            command["ack_type"],
            first,
            last,
            command["count"],
            cause,
        )


MESSAGE_ACK = int(Type.MESSAGE_ACK)
"""The number in a form that is fast to compare."""
