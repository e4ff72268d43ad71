"""Reads OpenWire's loose encoding field by field, and every nested object."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, TypeVar

from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination, clean_name
from jdbcstore.message.ids import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    TransactionId,
    XATransactionId,
)
from jdbcstore.message.openwire import types
from jdbcstore.message.openwire.types import Malformed
from jdbcstore.message.openwire.utf import decode_utf

T = TypeVar("T")

_TRANSACTION_IDS: tuple[type[Any], ...] = (LocalTransactionId, XATransactionId)

_presence_and_size = Struct(">Bi")
_i16, _i32, _i64 = Struct(">h"), Struct(">i"), Struct(">q")


class Reader:
    """A place in a blob.

    Reading past the end raises IndexError or struct.error, which only the decoder catches: asking
    each time whether there is more would cost more than reading.
    """

    __slots__ = ("at", "data", "version")

    def __init__(self, data: bytes, at: int, version: int) -> None:
        self.data = data
        self.at = at
        self.version = version

    def fixed(self, layout: Struct) -> tuple[Any, ...]:
        """The numbers of a struct."""
        at = self.at
        self.at = at + layout.size
        return layout.unpack_from(self.data, at)

    def number(self, layout: Struct) -> int:
        return self.fixed(layout)[0]  # type: ignore[no-any-return]

    def byte(self) -> int:
        at = self.at
        self.at = at + 1
        return self.data[at]

    def skip(self, size: int) -> int:
        """Where ``size`` bytes start, which are passed over."""
        start = self.at
        end = start + size
        if size < 0 or end > len(self.data):
            raise Malformed(f"a field of {size} bytes does not fit into the {len(self.data) - start} left")
        self.at = end
        return start

    def string(self) -> str | None:
        data, at = self.data, self.at
        self.at = at + 3
        if not data[at]:
            self.at = at + 1
            return None
        start = self.skip(data[at + 1] << 8 | data[at + 2])
        return decode_utf(data[start : self.at])

    def name(self) -> str:
        """A string that must be there."""
        text = self.string()
        if text is None:
            raise Malformed("a name is missing")
        return text

    def span(self) -> tuple[int, int]:
        """Where a byte array starts and how long it is; the length is -1 if there is none."""
        at = self.at
        if not self.data[at]:
            self.at = at + 1
            return 0, -1
        _, size = self.fixed(_presence_and_size)
        return self.skip(size), size

    def binary(self) -> bytes:
        start, size = self.span()
        if size < 0:
            raise Malformed("a part of a transaction id is missing")
        return self.data[start : start + size]

    def nested(self, *expected: type[T]) -> T | None:
        """A nested object of one of these types, or none."""
        at = self.at
        if not self.data[at]:
            self.at = at + 1
            return None
        number = self.data[at + 1]
        self.at = at + 2
        read = _READERS.get(number)
        if read is None:
            raise Malformed(f"{number} is no type of an object that a message can hold")
        structure = read(self)
        if not isinstance(structure, expected):
            raise Malformed(f"an object of type {number} is where {expected[0].__name__} should be")
        return structure

    def transaction_id(self) -> TransactionId | None:
        transaction_id: TransactionId | None = self.nested(*_TRANSACTION_IDS)
        return transaction_id

    def path(self) -> tuple[BrokerId, ...] | None:
        if not self.byte():
            return None
        count = self.number(_i16)
        if not 0 <= count <= len(self.data) - self.at:
            raise Malformed(f"a path of {count} brokers does not fit")
        return tuple(self._step() for _ in range(count))

    def _step(self) -> BrokerId:
        broker_id = self.nested(BrokerId)
        if broker_id is None:
            raise Malformed("a broker on the path is missing")
        return broker_id


@lru_cache(maxsize=256)
def make_destination(number: int, name: str) -> Destination:
    """The destination of this type; :class:`Malformed` if it can have no such name."""
    kind = types.DESTINATION_KINDS.get(number)
    if kind is None:
        raise Malformed(f"{number} is no type of a destination")
    try:
        return Destination(kind, clean_name(name))
    except InvalidDestination as error:
        raise Malformed(f"it names no destination ({error})") from None


def read_message_id(reader: Reader) -> MessageId:
    text_view = reader.string() if reader.version >= types.VERSION else None
    producer_id = reader.nested(ProducerId)
    return MessageId(producer_id, reader.number(_i64), reader.number(_i64), text_view)


def _read_producer_id(reader: Reader) -> ProducerId:
    connection_id, value = reader.name(), reader.number(_i64)
    return ProducerId(connection_id, reader.number(_i64), value)


def _read_local_transaction(reader: Reader) -> LocalTransactionId:
    value, connection_id = reader.number(_i64), reader.nested(ConnectionId)
    if connection_id is None:
        raise Malformed("a transaction has no connection")
    return LocalTransactionId(connection_id, value)


def _read_xa_transaction(reader: Reader) -> XATransactionId:
    return XATransactionId(reader.number(_i32), reader.binary(), reader.binary())


def _read_destination(number: int) -> Callable[[Reader], Destination]:
    return lambda reader: make_destination(number, reader.name())


_READERS: dict[int, Callable[[Reader], object]] = {
    **{number: _read_destination(number) for number in types.DESTINATION_KINDS},
    types.MESSAGE_ID: read_message_id,
    types.LOCAL_TRANSACTION_ID: _read_local_transaction,
    types.XA_TRANSACTION_ID: _read_xa_transaction,
    types.CONNECTION_ID: lambda reader: ConnectionId(reader.name()),
    types.BROKER_ID: lambda reader: BrokerId(reader.name()),
    types.SESSION_ID: lambda reader: SessionId(reader.name(), reader.number(_i64)),
    types.CONSUMER_ID: lambda reader: ConsumerId(reader.name(), reader.number(_i64), reader.number(_i64)),
    types.PRODUCER_ID: _read_producer_id,
}
