"""Reads OpenWire's loose encoding field by field, and every nested object."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeVar

from jdbcstore.destination import Destination, clean_name
from jdbcstore.errors import InvalidDestination
from jdbcstore.ids import (
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
from jdbcstore.openwire import types
from jdbcstore.openwire.types import Malformed
from jdbcstore.openwire.utf import decode_utf

T = TypeVar("T")

_TRANSACTION_IDS: tuple[type[Any], ...] = (LocalTransactionId, XATransactionId)

_presence_and_size = Struct(">Bi")
_u16, _i16, _i32, _i64 = Struct(">H"), Struct(">h"), Struct(">i"), Struct(">q")


class Reader:
    """A place in a blob. Reading past the end raises :class:`Malformed`."""

    __slots__ = ("at", "data", "version")

    def __init__(self, data: bytes, at: int, version: int) -> None:
        self.data = data
        self.at = at
        self.version = version

    def fixed(self, layout: Struct) -> tuple[Any, ...]:
        """The numbers of a struct."""
        start = self.at
        end = self.at = start + layout.size
        if end > len(self.data):
            raise Malformed("it ends too early")
        return layout.unpack_from(self.data, start)

    def number(self, layout: Struct) -> int:
        return self.fixed(layout)[0]  # type: ignore[no-any-return]

    def byte(self) -> int:
        at = self.at
        if at >= len(self.data):
            raise Malformed("it ends too early")
        self.at = at + 1
        return self.data[at]

    def skip(self, size: int) -> int:
        """Where ``size`` bytes start, which are passed over."""
        start = self.at
        if size < 0 or start + size > len(self.data):
            raise Malformed(f"a field of {size} bytes does not fit into the {len(self.data) - start} left")
        self.at = start + size
        return start

    def take(self, size: int) -> bytes:
        start = self.skip(size)
        return self.data[start : start + size]

    def string(self) -> str | None:
        return decode_utf(self.take(self.number(_u16))) if self.byte() else None

    def name(self) -> str:
        """A string that must be there."""
        text = self.string()
        if text is None:
            raise Malformed("a name is missing")
        return text

    def span(self) -> tuple[int, int]:
        """Where a byte array starts and how long it is; the length is -1 if there is none."""
        data, at = self.data, self.at
        if at < len(data) and data[at] == 0:
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
        if not self.byte():
            return None
        number = self.byte()
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
