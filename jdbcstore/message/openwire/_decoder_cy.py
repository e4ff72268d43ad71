"""Messages of OpenWire 11 whose producer has named them and that no network has forwarded: nearly all.

:func:`read_usual` reads such a message in few steps; :mod:`jdbcstore.message.openwire.decoder` reads any
other, field by field.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import Any

from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination, clean_name
from jdbcstore.message.ids import MESSAGE_ID_FIELDS, ConnectionId, LocalTransactionId, MessageId, ProducerId
from jdbcstore.message.message import NO_PROPERTIES, UNREAD, BodyType, MessageFields
from jdbcstore.message.openwire import wire_format as wire
from jdbcstore.message.openwire.content import StoredBytes, decode_utf
from jdbcstore.message.openwire.wire_format import BODY_TYPES, VERSION, Malformed
from jdbcstore.util.core import plain as cython
from jdbcstore.util.core import use_compiled
from jdbcstore.util.core.plain import new, places

_destination_head, _u16 = Struct(">BBBH").unpack_from, Struct(">H").unpack_from
_LOCAL_TRANSACTION = b"\1\x6f\1\x78\1"  # around its number: one follows, and a connection's id with a name
_MESSAGE_ID = b"\0\1\x6e\0"  # no original destination, and an id without text view

_read_command, _read_producer = Struct(">i?").unpack_from, Struct(">3sH").unpack_from
_read_two, _read_optional = Struct(">qq").unpack_from, Struct(">BBB").unpack_from
_HEADERS = Struct(">BBiB?qbBqB")
"""From the original transaction to the type, if nothing optional is there."""
_read_headers, _headers_size = _HEADERS.unpack_from, _HEADERS.size
_read_delivery, _read_int, _read_long = (
    Struct(">?qb").unpack_from,
    Struct(">i").unpack_from,
    Struct(">q").unpack_from,
)
_END = Struct(">BB?iBqB??Bqq?")
"""After the properties, as long as :data:`wire.TAIL`, with the presence of what is optional."""
_read_end, _end_size = _END.unpack_from, _END.size
_read_times, _times_size = Struct(">??Bqq?").unpack_from, Struct(">??Bqq?").size
_PRODUCER_ID = b"\1\x7b\1"
_SHORTEST = 36

_KINDS: dict[int, BodyType] = cython.declare(
    dict, {number: kind for number, kind in BODY_TYPES.items() if kind is not BodyType.BLOB}
)
_ID_CLASS: Any = cython.declare(object, MessageId)
_ID: Any = cython.declare(object, places(MessageId, MESSAGE_ID_FIELDS))
_FIELDS_CLASS: Any = cython.declare(object, MessageFields)
_FIELDS: Any = cython.declare(object, places(MessageFields, MessageFields.__slots__))
_STORED_CLASS: Any = cython.declare(object, StoredBytes)
_STORED: Any = cython.declare(object, places(StoredBytes, StoredBytes.__slots__))
_UNREAD: Any = cython.declare(object, UNREAD)
_NO_PROPERTIES: Any = cython.declare(object, NO_PROPERTIES)


@lru_cache(maxsize=256)
def make_destination(number: int, name: str) -> Destination:
    """Return the destination of this type number; raise :class:`Malformed` if it cannot have this name."""
    kind = wire.DESTINATION_KINDS.get(number)
    if kind is None:
        raise Malformed(f"{number} is not the type of a destination")
    try:
        return Destination(kind, clean_name(name))
    except InvalidDestination as error:
        raise Malformed(f"its destination has no valid name ({error})") from None


@lru_cache(maxsize=256)
def _usual_names(section: bytes) -> tuple[ProducerId, Destination, LocalTransactionId | None]:
    """Return the beginning of one producer's messages, the same in each, or in each of a transaction.

    It is the producer's id, the destination, the transaction, and the producer's id again.
    """
    producer_end = 5 + _u16(section, 3)[0] + 16
    producer = section[:producer_end]
    present, number, named, length = _destination_head(section, producer_end)
    name_end = producer_end + 5 + length
    transaction_id, rest = None, name_end + 1
    if section[name_end]:
        connection_at = name_end + 15
        rest = connection_at + _u16(section, name_end + 13)[0]
        if section[name_end : name_end + 2] + section[name_end + 10 : name_end + 13] != _LOCAL_TRANSACTION:
            raise Malformed("these are not the usual names")
        connection_id = ConnectionId(decode_utf(section[connection_at:rest]))
        transaction_id = LocalTransactionId(connection_id, _read_long(section, name_end + 2)[0])
    if present != 1 or named != 1 or section[rest:] != _MESSAGE_ID + producer:
        raise Malformed("these are not the usual names")
    value, session_id = _read_two(producer, producer_end - 16)
    return (
        ProducerId(decode_utf(producer[5 : producer_end - 16]), session_id, value),
        make_destination(number, decode_utf(section[name_end - length : name_end])),
        transaction_id,
    )


def read_usual(data: bytes, sequence: Any, container: Any) -> Any:
    """Return the fields of a message; None if it has others, or may be damaged.

    :raises struct.error: it may be damaged
    """
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    size: cython.Py_ssize_t = len(data)
    kind = None
    if size > _SHORTEST:
        (at,) = _read_int(data, 0)
        if at == size - 4:
            kind = _KINDS.get(data[4])
    end = 0 if kind is None else _end_of_names(data)
    if not end:
        return None
    command_id, response_required = _read_command(data, 5)
    producer_id, destination, transaction_id = _usual_names(data[10:end])
    producer_sequence, broker_sequence = _read_two(data, end)
    headers = _headers(data, end + 16)
    if headers is None:
        return None
    (
        at, group_id, group_sequence, correlation_id, persistent,
        expiration_ms, priority, reply_to, timestamp_ms, jms_type,
    ) = headers  # fmt: skip
    content_at, content_size, at = _span(data, at)
    properties_at, properties_size, at = _span(data, at)
    tail = _tail(data, at)
    if tail is None:
        return None
    (
        compressed, redelivery_counter, arrival_ms, user_id, from_bridge, droppable,
        in_time_ms, out_time_ms, first,
    ) = tail  # fmt: skip
    if not 0 <= priority <= 9:
        priority = min(max(priority, 0), 9)
    message_id = (producer_id, producer_sequence, broker_sequence if sequence is None else sequence, None)
    stored = (
        data, VERSION, end + 8, content_at, content_size, properties_at, properties_size,
        container,
    )  # fmt: skip
    values = (
        kind, destination, new(_ID_CLASS, _ID, message_id), priority,
        timestamp_ms, expiration_ms, correlation_id, reply_to, jms_type, persistent, group_id,
        group_sequence, redelivery_counter, user_id, compressed, None, transaction_id, None, producer_id,
        arrival_ms, in_time_ms, out_time_ms, None, None, None, None, command_id, response_required,
        from_bridge, droppable, first, None, None, False, sequence, _UNREAD,
        _NO_PROPERTIES if properties_size < 0 else _UNREAD,
        new(_STORED_CLASS, _STORED, stored),
    )  # fmt: skip
    return new(_FIELDS_CLASS, _FIELDS, values)


@cython.cfunc
def _end_of_names(data: bytes) -> cython.Py_ssize_t:
    """Return the offset of the message id's numbers; 0 if these are not the usual names.

    In front of it are the producer's id, the destination, perhaps a local transaction, and that id again.
    """
    size: cython.Py_ssize_t = len(data)
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    present, of_producer = _read_producer(data, 10)
    at = 34 + of_producer  # the length of the destination's name
    if present != _PRODUCER_ID or at + 2 > size:
        return 0
    at += 2 + (data[at] << 8 | data[at + 1])
    if at + 15 > size:
        return 0
    end = at + 26 + of_producer
    if data[at]:
        end += 14 + (data[at + 13] << 8 | data[at + 14])
    return 0 if end > size else end


@cython.cfunc
def _headers(data: bytes, offset: int) -> Any:
    """Return the content's offset, and the headers before it; None with an original transaction."""
    at: cython.Py_ssize_t = offset
    (
        transaction, group, group_sequence, correlation, persistent,
        expiration_ms, priority, reply, timestamp_ms, typed,
    ) = _read_headers(data, at)  # fmt: skip
    if transaction:
        return None
    group_id = correlation_id = reply_to = jms_type = None
    if group or correlation or reply or typed:
        group_id, at = _text(data, at + 1)
        (group_sequence,) = _read_int(data, at)
        correlation_id, at = _text(data, at + 4)
        persistent, expiration_ms, priority = _read_delivery(data, at)
        reply_to, at = _destination(data, at + 10)
        (timestamp_ms,) = _read_long(data, at)
        jms_type, at = _text(data, at + 8)
    else:
        at += _headers_size
    return (
        at, group_id, group_sequence, correlation_id, persistent, expiration_ms, priority, reply_to,
        timestamp_ms, jms_type,
    )  # fmt: skip


@cython.cfunc
def _tail(data: bytes, offset: int) -> Any:
    """Return the fields after the properties; None if there are unusual ones, or more bytes."""
    at: cython.Py_ssize_t = offset
    (
        structure, consumer, compressed, redelivery_counter, path, arrival_ms, user,
        from_bridge, droppable, cluster, in_time_ms, out_time_ms, first,
    ) = _read_end(data, at)  # fmt: skip
    at += _end_size
    user_id = None
    if user:
        user_id, at = _text(data, at - _times_size - 1)
        from_bridge, droppable, cluster, in_time_ms, out_time_ms, first = _read_times(data, at)
        at += _times_size
    if structure or consumer or path or cluster or at != len(data):
        return None
    return (
        compressed, redelivery_counter, arrival_ms, user_id, from_bridge, droppable, in_time_ms,
        out_time_ms, first,
    )  # fmt: skip


@cython.cfunc
def _span(data: bytes, offset: int) -> Any:
    """Return the start and length of optional bytes, -1 without them, and the offset of their end."""
    at: cython.Py_ssize_t = offset
    if at >= len(data):
        raise StructError("it ends too early")
    if not data[at]:
        return 0, -1, at + 1
    (size,) = _read_int(data, at + 1)
    if size < 0:
        raise StructError("a length is negative")
    return at + 5, size, at + 5 + size


@cython.cfunc
def _text(data: bytes, offset: int) -> Any:
    """Return an optional string, and the offset of its end."""
    at: cython.Py_ssize_t = offset
    end: cython.Py_ssize_t
    present, high, low = _read_optional(data, at)
    if not present:
        return None, at + 1
    end = at + 3 + (high << 8 | low)
    if end > len(data):
        raise StructError("a string ends too late")
    return decode_utf(data[at + 3 : end]), end


@cython.cfunc
def _destination(data: bytes, offset: int) -> Any:
    """Return an optional destination, and the offset of its end."""
    at: cython.Py_ssize_t = offset
    present, number, _ = _read_optional(data, at)
    if not present:
        return None, at + 1
    name, at = _text(data, at + 2)
    if name is None:
        raise StructError("a destination has no name")
    return make_destination(number, name), at


use_compiled(globals())
