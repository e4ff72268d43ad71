"""Encodes what is nested in a message: destinations, ids of every kind."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from jdbcstore.errors import InvalidMessage
from jdbcstore.message.destination import Destination
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
from jdbcstore.message.openwire import types
from jdbcstore.message.openwire.utf import short_utf

_set = object.__setattr__
_pack_i16, _pack_i32 = Struct(">h").pack, Struct(">i").pack
_pack_i64, _pack_two = Struct(">q").pack, Struct(">qq").pack

# Every function gives the bytes of a nested object that is there: a 1, its type, its fields.


def encode_destination(destination: Destination) -> bytes:
    encoded = destination._openwire
    if encoded is None:
        name = short_utf(destination.name, "the name of a destination")
        encoded = b"\1%c\1%b" % (types.DESTINATION_TYPES[destination.kind], name)
        _set(destination, "_openwire", encoded)
    return encoded


def encode_producer_id(producer_id: ProducerId) -> bytes:
    encoded = producer_id._openwire
    if encoded is None:
        # The value comes before the session here, and after it everywhere else.
        encoded = b"\1%c\1%b%b" % (
            types.PRODUCER_ID,
            short_utf(producer_id.connection_id, "a connection id"),
            _pack_two(producer_id.value, producer_id.session_id),
        )
        _set(producer_id, "_openwire", encoded)
    return encoded


def encode_message_id_name(message_id: MessageId, version: int) -> bytes:
    """All of a message id but its two numbers."""
    head = b"\1\x6e"
    if version >= types.VERSION:
        head += encode_string(message_id.text_view, "a message id's text view")
    producer_id = message_id.producer_id
    return head + (b"\0" if producer_id is None else encode_producer_id(producer_id))


def _encode_message_id(message_id: MessageId, version: int) -> bytes:
    numbers = _pack_two(message_id.producer_sequence, message_id.broker_sequence)
    return encode_message_id_name(message_id, version) + numbers


def _encode_local_transaction(transaction: LocalTransactionId) -> bytes:
    connection_id = _named(types.CONNECTION_ID, transaction.connection_id.value)
    return b"\1%c%b%b" % (types.LOCAL_TRANSACTION_ID, _pack_i64(transaction.value), connection_id)


def _encode_xa_transaction(transaction: XATransactionId) -> bytes:
    return b"\1%c%b%b%b" % (
        types.XA_TRANSACTION_ID,
        _pack_i32(transaction.format_id),
        encode_bytes(transaction.global_transaction_id),
        encode_bytes(transaction.branch_qualifier),
    )


def _encode_consumer_id(consumer_id: ConsumerId) -> bytes:
    numbers = _pack_two(consumer_id.session_id, consumer_id.value)
    return _named(types.CONSUMER_ID, consumer_id.connection_id) + numbers


def _encode_session_id(session_id: SessionId) -> bytes:
    return _named(types.SESSION_ID, session_id.connection_id) + _pack_i64(session_id.value)


def _named(number: int, text: str) -> bytes:
    return b"\1%c\1%b" % (number, short_utf(text, "an id"))


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Destination: encode_destination,
    ProducerId: encode_producer_id,
    LocalTransactionId: _encode_local_transaction,
    XATransactionId: _encode_xa_transaction,
    ConsumerId: _encode_consumer_id,
    SessionId: _encode_session_id,
    ConnectionId: lambda connection_id: _named(types.CONNECTION_ID, connection_id.value),
    BrokerId: lambda broker_id: _named(types.BROKER_ID, broker_id.value),
}


def encode_structure(structure: Any, version: int) -> bytes:
    """Any of these objects, or a 0 for none."""
    if structure is None:
        return b"\0"
    if isinstance(structure, MessageId):
        return _encode_message_id(structure, version)
    encoder = _ENCODERS.get(type(structure))
    if encoder is None:
        raise InvalidMessage(f"a {type(structure).__name__} cannot be the data structure of a message")
    return encoder(structure)


def encode_path(path: tuple[BrokerId, ...] | None) -> bytes:
    """An array of broker ids."""
    if path is None:
        return b"\0"
    return b"\1" + _pack_i16(len(path)) + b"".join(map(_ENCODERS[BrokerId], path))


def encode_string(text: str | None, what: str) -> bytes:
    return b"\0" if text is None else b"\1" + short_utf(text, what)


def encode_bytes(data: bytes | None) -> bytes:
    return b"\0" if data is None else b"\1" + _pack_i32(len(data)) + data
