"""The encoder of the MSG column: a message in OpenWire's loose encoding, uncached, its size in front.

From :func:`encode` down: the message, its headers, nested objects, the body, values, strings.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import Any

from jdbcstore.errors import ConfigurationError, InvalidMessage, MessageTooLarge
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
from jdbcstore.message.message import Body, BodyType, Message
from jdbcstore.message.openwire import wire_format as wire
from jdbcstore.message.openwire._encoder_cy import broker_sequence_at, usual_blob, usual_names, usual_tail
from jdbcstore.message.openwire.content import NOWHERE, StoredBytes
from jdbcstore.message.openwire.pieces import StoredPieces, head_of
from jdbcstore.message.openwire.wire_format import MAX_SIZE, MESSAGE_TYPES, VERSION
from jdbcstore.message.values import Byte, Char, Float, Long, Short, Value

_BYTES, _MAP, _STREAM, _BLOB = BodyType.BYTES, BodyType.MAP, BodyType.STREAM, BodyType.BLOB
_set = object.__setattr__
_i16, _i32, _i64, _two_i64 = Struct(">h").pack, Struct(">i").pack, Struct(">q").pack, Struct(">qq").pack
_head, _flags = wire.HEAD.pack, Struct(">??").pack
_delivery, _redelivery = Struct(">?qb").pack, Struct(">?i").pack

# Most messages have none of the optional headers, so one struct writes all headers of such a message.
# Each x is the zero of an absent header.
_usual_headers = Struct(">xxix?qbxqx").pack
_usual_tail = wire.TAIL.pack
_usual_numbers = wire.NUMBERS.pack
_present = wire.PRESENT.pack


def encode(
    message: Message,
    *,
    destination: Destination | None = None,
    message_id: MessageId | None = None,
    timestamp_ms: int | None = None,
    version: int = VERSION,
) -> bytes:
    """Return the message as ActiveMQ stores it; an unchanged decoded message gives the same bytes.

    ``destination``, ``message_id`` and ``timestamp_ms`` are used where the message has none.

    :param version: 11, or 6 for ActiveMQ before 5.12
    :raises InvalidMessage: a name is too long, a number out of range
    """
    if version not in (VERSION, wire.OLD_VERSION):
        raise ConfigurationError(
            f"OpenWire version {version} cannot be written; use 11, or 6 for ActiveMQ before 5.12"
        )
    return _encode(message, destination, message_id, timestamp_ms, version)[0]


def encode_for_store(
    message: Message,
    *,
    destination: Destination,
    message_id: MessageId,
    timestamp_ms: int,
) -> tuple[bytes, int]:
    """Encode as :func:`encode`; return also the offset of the message id's broker sequence in the bytes.

    The store sets the row's ID there with :func:`set_broker_sequence` once it is known.
    """
    return _encode(message, destination, message_id, timestamp_ms, VERSION)


def encode_for_wire(message: Message, version: int) -> tuple[bytes, int]:
    """Return a message with an id in version 11 or 6, and the offset of the id's broker sequence.

    :raises InvalidMessage: a name is too long, a number out of range
    :raises BodyInPieces: the body is not there
    """
    source: StoredBytes | None = message._source
    if source is not None and source.version == version:
        return source.blob, source.sequence_offset
    if isinstance(source, StoredPieces):
        source.read_body(message)
    return _encode(message, None, None, None, version)


def set_broker_sequence(blob: bytes, offset: int, sequence: int) -> bytes:
    """Return the blob with this broker sequence at the offset that :func:`encode_for_store` returned."""
    return blob[:offset] + _i64(sequence) + blob[offset + 8 :]


def _encode(
    message: Message,
    destination: Destination | None,
    message_id: MessageId | None,
    timestamp_ms: int | None,
    version: int,
) -> tuple[bytes, int]:
    message_id = message.message_id or message_id
    destination = message.destination or destination
    source: StoredBytes | None = message._source
    complete = message.message_id is message_id and message.destination is destination
    if source is not None and source.version == version and complete:
        return source.blob, source.sequence_offset
    if message.timestamp_ms is not None:
        timestamp_ms = message.timestamp_ms
    try:
        if source is None and version == VERSION and _get_rare(message) == _NOTHING_RARE:
            blob = _encode_usual(message, destination, message_id, timestamp_ms or 0)
            if blob is not None:
                return blob
        return encode_fields(message, source, destination, message_id, timestamp_ms or 0, version)
    except StructError as error:
        raise InvalidMessage(f"a number in the message is out of range: {error}") from error


_RARE = {
    None: (
        "transaction_id", "original_destination", "producer_id", "original_transaction_id", "group_id",
        "correlation_id", "reply_to", "jms_type", "data_structure", "target_consumer_id", "broker_path",
        "user_id", "cluster",
    ),
    0: (
        "command_id", "response_required", "group_sequence", "compressed", "redelivery_counter", "arrival_ms",
        "received_by_df_bridge", "droppable", "broker_out_time_ms", "first_for_consumer",
    ),
}  # fmt: skip
"""The headers that most new messages do not have, by the value that they have then."""
_get_rare = attrgetter(*_RARE[None], *_RARE[0])
_NOTHING_RARE = (None,) * len(_RARE[None]) + (0,) * len(_RARE[0])


def _encode_usual(
    message: Message, destination: Destination | None, message_id: MessageId | None, timestamp_ms: int
) -> tuple[bytes, int] | None:
    """Encode a new message without rare headers in the fewest steps; None if there is more to it.

    The bytes are those of :func:`encode_fields`, which takes any message.
    """
    kind = message.body_type
    if destination is None or message_id is None or message_id.text_view is not None or kind is _BLOB:
        return None
    producer_id = message_id.producer_id
    if producer_id is None:
        return None
    names = _usual_names(
        MESSAGE_TYPES[kind],
        producer_id._openwire or encode_producer_id(producer_id),
        destination._openwire or encode_destination(destination),
    )
    numbers = _usual_numbers(
        message_id.producer_sequence, message_id.broker_sequence,
        message.persistent, message.expiration_ms, message.priority, timestamp_ms,
    )  # fmt: skip
    content, properties = encode_body(message.body, kind, False), message.properties
    marshalled = _encode_bytes(encode_map(properties)) if properties else b"\0"
    head = b"\0" if content is None else _present(1, len(content))
    if len(names) + len(content or b"") + len(marshalled) > MAX_SIZE - _MOST_HEADERS:
        return None
    tail = usual_tail(message.broker_in_time_ms)
    blob = usual_blob(names, numbers, head, content or b"", marshalled, tail)
    return blob, broker_sequence_at(names)


_MOST_HEADERS = 1024
_usual_names = lru_cache(maxsize=4096)(usual_names)


def encode_fields(
    message: Message,
    source: StoredBytes | None,
    destination: Destination | None,
    message_id: MessageId | None,
    timestamp_ms: int,
    version: int,
) -> tuple[bytes, int]:
    """Return the fields of any message in their order; an absent one is a single 0."""
    producer_id = message.producer_id
    if producer_id is None and message_id is not None:
        producer_id = message_id.producer_id
    transaction_id, original = message.transaction_id, message.original_destination
    names = b"".join((
        _head(MESSAGE_TYPES[message.body_type], message.command_id, message.response_required),
        b"\0" if producer_id is None else encode_producer_id(producer_id),
        b"\0" if destination is None else encode_destination(destination),
        b"\0" if transaction_id is None else encode_structure(transaction_id, version),
        b"\0" if original is None else encode_destination(original),
        b"\0" if message_id is None else _encode_message_id_name(message_id, version),
    ))  # fmt: skip
    numbers = b""
    if message_id is not None:
        numbers = _two_i64(message_id.producer_sequence, message_id.broker_sequence)
    content = _content(message, source)
    rest = (
        numbers,
        encode_headers(message, timestamp_ms, version),
        b"\0" if content is None else b"\1" + _i32(len(content)),
        b"" if content is None else content,
        _encode_bytes(_marshalled_properties(message, source)),
        encode_tail(message, _data_structure(message, version), version),
    )
    size = len(names) + sum(map(len, rest))
    if size > MAX_SIZE:
        raise MessageTooLarge(size, MAX_SIZE, "send it in parts, or compressed")
    head = head_of(source.large) if isinstance(source, StoredPieces) else b""
    return b"".join((head, _i32(size), names, *rest)), len(head) + 4 + len(names) + 8


def _data_structure(message: Message, version: int) -> bytes:
    """Return the subject of an advisory: an id, a destination, or another message, without its size."""
    structure = message.data_structure
    if not isinstance(structure, Message):
        return encode_structure(structure, version)
    inner, nesting = structure, 1
    while isinstance(inner.data_structure, Message):
        inner, nesting = inner.data_structure, nesting + 1
    if nesting > wire.MAX_MESSAGE_NESTING:
        raise InvalidMessage(
            f"messages are nested {nesting} deep, and the limit is {wire.MAX_MESSAGE_NESTING};"
            " send them one by one"
        )
    return b"\1" + _encode(structure, None, None, None, version)[0][4:]


def _content(message: Message, source: StoredBytes | None) -> bytes | None:
    if source is not None and source.content_at != NOWHERE:
        return source.content
    return encode_body(message.body, message.body_type, message.compressed)


def _marshalled_properties(message: Message, source: StoredBytes | None) -> bytes | None:
    if source is not None and source.properties_at != NOWHERE:
        return source.marshalled_properties
    properties = message.properties
    return encode_map(properties) if properties else None


def encode_headers(message: Message, timestamp_ms: int, version: int) -> bytes:
    """Return the fields between message id and content: from the original transaction id to the type."""
    if (
        message.correlation_id is None
        and message.reply_to is None
        and message.jms_type is None
        and message.group_id is None
        and message.original_transaction_id is None
    ):
        return _usual_headers(
            message.group_sequence, message.persistent, message.expiration_ms, message.priority, timestamp_ms
        )
    return encode_any_headers(message, timestamp_ms, version)


def encode_any_headers(message: Message, timestamp_ms: int, version: int) -> bytes:
    """Encode the headers of any message."""
    reply_to, correlation_id = message.reply_to, message.correlation_id
    return b"".join((
        encode_structure(message.original_transaction_id, version),
        _encode_string(message.group_id, "group_id"),
        _i32(message.group_sequence),
        _encode_string(correlation_id, "correlation_id"),
        _delivery(message.persistent, message.expiration_ms, message.priority),
        b"\0" if reply_to is None else encode_destination(reply_to),
        _i64(timestamp_ms),
        _encode_string(message.jms_type, "jms_type"),
    ))  # fmt: skip


def encode_tail(message: Message, data_structure: bytes, version: int) -> bytes:
    """Return the fields after the properties, beginning with the data structure, which is already encoded."""
    if (
        message.data_structure is None
        and message.target_consumer_id is None
        and message.broker_path is None
        and message.user_id is None
        and message.cluster is None
        and version == VERSION
        and message.body_type is not _BLOB
    ):
        return _usual_tail(
            message.compressed,
            message.redelivery_counter,
            message.arrival_ms,
            message.received_by_df_bridge,
            message.droppable,
            message.broker_in_time_ms,
            message.broker_out_time_ms,
            message.first_for_consumer,
        )
    return encode_any_tail(message, data_structure, version)


def encode_any_tail(message: Message, data_structure: bytes, version: int) -> bytes:
    """Encode the tail of any message."""
    tail = [
        data_structure,
        encode_structure(message.target_consumer_id, version),
        _redelivery(message.compressed, message.redelivery_counter),
        _encode_path(message.broker_path),
        _i64(message.arrival_ms),
        _encode_string(message.user_id, "user_id"),
        _flags(message.received_by_df_bridge, message.droppable),
        _encode_path(message.cluster),
        _two_i64(message.broker_in_time_ms, message.broker_out_time_ms),
    ]
    if version >= VERSION:
        tail.append(b"\1" if message.first_for_consumer else b"\0")
    if message.body_type is _BLOB:
        tail.append(_encode_string(message.remote_blob_url, "remote_blob_url"))
        tail.append(_encode_string(message.mime_type, "mime_type"))
        tail.append(b"\1" if message.deleted_by_broker else b"\0")
    return b"".join(tail)


# Nested objects: a 1, the type number, the fields. Destinations and producer ids keep their encoding,
# since the same ones are written with every message.


def encode_destination(destination: Destination) -> bytes:
    encoded = destination._openwire
    if encoded is None:
        name = _short_utf(destination.name, "the name of a destination")
        encoded = b"\1%c\1%b" % (wire.DESTINATION_TYPES[destination.kind], name)
        _set(destination, "_openwire", encoded)
    return encoded


def encode_producer_id(producer_id: ProducerId) -> bytes:
    encoded = producer_id._openwire
    if encoded is None:
        # The value comes before the session here, and after it everywhere else.
        numbers = _two_i64(producer_id.value, producer_id.session_id)
        encoded = b"\1%c\1%b%b" % (
            wire.PRODUCER_ID,
            _short_utf(producer_id.connection_id, "a connection id"),
            numbers,
        )
        _set(producer_id, "_openwire", encoded)
    return encoded


def _encode_message_id_name(message_id: MessageId, version: int) -> bytes:
    """Return a message id without its two numbers."""
    head = b"\1\x6e"
    if version >= VERSION:
        head += _encode_string(message_id.text_view, "a message id's text view")
    producer_id = message_id.producer_id
    return head + (b"\0" if producer_id is None else encode_producer_id(producer_id))


def _encode_local_transaction(transaction: LocalTransactionId) -> bytes:
    connection_id = _named(wire.CONNECTION_ID, transaction.connection_id.value)
    return b"\1%c%b%b" % (wire.LOCAL_TRANSACTION_ID, _i64(transaction.value), connection_id)


def _encode_xa_transaction(transaction: XATransactionId) -> bytes:
    return b"\1%c%b%b%b" % (
        wire.XA_TRANSACTION_ID,
        _i32(transaction.format_id),
        _encode_bytes(transaction.global_transaction_id),
        _encode_bytes(transaction.branch_qualifier),
    )


def _encode_consumer_id(consumer_id: ConsumerId) -> bytes:
    numbers = _two_i64(consumer_id.session_id, consumer_id.value)
    return _named(wire.CONSUMER_ID, consumer_id.connection_id) + numbers


def _encode_session_id(session_id: SessionId) -> bytes:
    return _named(wire.SESSION_ID, session_id.connection_id) + _i64(session_id.value)


def _named(number: int, name: str) -> bytes:
    return b"\1%c\1%b" % (number, _short_utf(name, "an id"))


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Destination: encode_destination,
    ProducerId: encode_producer_id,
    LocalTransactionId: _encode_local_transaction,
    XATransactionId: _encode_xa_transaction,
    ConsumerId: _encode_consumer_id,
    SessionId: _encode_session_id,
    ConnectionId: lambda connection_id: _named(wire.CONNECTION_ID, connection_id.value),
    BrokerId: lambda broker_id: _named(wire.BROKER_ID, broker_id.value),
}


def encode_structure(structure: Any, version: int) -> bytes:
    """Return an id or destination as a nested object, or a 0 for None."""
    if structure is None:
        return b"\0"
    if isinstance(structure, MessageId):
        numbers = _two_i64(structure.producer_sequence, structure.broker_sequence)
        return _encode_message_id_name(structure, version) + numbers
    encoder = _ENCODERS.get(type(structure))
    if encoder is None:
        raise InvalidMessage(
            f"a {type(structure).__name__} cannot be the data structure of a message;"
            " use an id, a destination or a message"
        )
    return encoder(structure)


def _encode_path(path: tuple[BrokerId, ...] | None) -> bytes:
    """Return an array of broker ids."""
    if path is None:
        return b"\0"
    return b"\1" + _i16(len(path)) + b"".join(map(_ENCODERS[BrokerId], path))


def _encode_string(text: str | None, what: str) -> bytes:
    return b"\0" if text is None else b"\1" + _short_utf(text, what)


def _encode_bytes(data: bytes | None) -> bytes:
    return b"\0" if data is None else b"\1" + _i32(len(data)) + data


def encode_body(body: Body, kind: BodyType, compressed: bool) -> bytes | None:
    """Return the content field for a body that was checked by :class:`~jdbcstore.message.message.Message`.

    As in ActiveMQ's clients, an empty bytes, map or stream body has no content field.
    """
    if body is None or (not body and kind in (_BYTES, _MAP, _STREAM)):
        return None
    if kind is _BYTES:
        return _i32(len(body)) + zlib.compress(body) if compressed else body  # type: ignore
    if isinstance(body, str):
        raw = encode_utf(body)
        content = _i32(len(raw)) + raw
    elif isinstance(body, tuple):
        content = encode_values(body)
    else:
        content = body if isinstance(body, bytes) else encode_map(body)
    return zlib.compress(content) if compressed else content


# Values are encoded as a tag and the value, in properties, map bodies and stream bodies.

_tagged = {tag: Struct(">B" + code) for tag, code in (
    (wire.BYTE, "b"), (wire.CHAR, "H"), (wire.SHORT, "h"), (wire.INT, "i"), (wire.LONG, "q"),
    (wire.DOUBLE, "d"), (wire.FLOAT, "I"), (wire.BYTES, "i"), (wire.LIST, "i"), (wire.BIG_STRING, "i"),
)}  # fmt: skip
_INT, _int = wire.INT, _tagged[wire.INT].pack


def encode_map(values: Mapping[str, Value]) -> bytes:
    """Return a primitive map of values that were checked by :func:`jdbcstore.message.values.checked_map`."""
    out: list[bytes] = []
    _write_map(out, values)
    return b"".join(out)


def encode_values(values: tuple[Value, ...]) -> bytes:
    """Return the values one after the other, as in a stream body."""
    out: list[bytes] = []
    for value in values:
        _write(out, value)
    return b"".join(out)


def _write_map(out: list[bytes], values: Mapping[str, Value]) -> None:
    out.append(_i32(len(values)))
    for name, value in values.items():
        out.append(_encode_name(name))
        _write(out, value)


@lru_cache(maxsize=512)
def _encode_name(name: str) -> bytes:
    """Return the name of a property; cached since the same names come with every message."""
    return _short_utf(name, "a name")


def _write(out: list[bytes], value: Value) -> None:
    kind = type(value)
    if kind is str:
        out.append(_tagged_string(value))  # type: ignore[arg-type]
    elif kind is int:
        out.append(_int(_INT, value))
    elif kind is dict:
        out.append(b"\x0b")
        _write_map(out, value)  # type: ignore[arg-type]
    elif kind is list:
        out.append(_tagged[wire.LIST].pack(wire.LIST, len(value)))  # type: ignore[arg-type]
        for item in value:  # type: ignore[union-attr]
            _write(out, item)
    else:
        out.append(_WRITERS[kind](value))


def _tagged_string(text: str) -> bytes:
    raw = encode_utf(text)
    if len(text) * 2 >= wire.BIG_STRING_CHARS and java_length(text) >= wire.BIG_STRING_CHARS:
        return _tagged[wire.BIG_STRING].pack(wire.BIG_STRING, len(raw)) + raw
    return b"\x09" + len(raw).to_bytes(2, "big") + raw


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"\0",
    bool: lambda value: b"\1\1" if value else b"\1\0",
    float: lambda value: _tagged[wire.DOUBLE].pack(wire.DOUBLE, value),
    bytes: lambda value: _tagged[wire.BYTES].pack(wire.BYTES, len(value)) + value,
    Byte: lambda value: _tagged[wire.BYTE].pack(wire.BYTE, value),
    Short: lambda value: _tagged[wire.SHORT].pack(wire.SHORT, value),
    Long: lambda value: _tagged[wire.LONG].pack(wire.LONG, value),
    Float: lambda value: _tagged[wire.FLOAT].pack(wire.FLOAT, value.bits),
    Char: lambda value: _tagged[wire.CHAR].pack(wire.CHAR, ord(value)),
}

# Strings are Java's modified UTF-8: NUL as C0 80, astral characters as two surrogates of three bytes each.

_FOUR_BYTES = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")


def encode_utf(text: str) -> bytes:
    """Return the string in modified UTF-8. An unpaired surrogate is written as it is, as in Java."""
    if text.isascii():
        raw = text.encode("ascii")
    else:
        raw = text.encode("utf-8", "surrogatepass")
        if java_length(text) != len(text):
            raw = _FOUR_BYTES.sub(lambda match: _surrogate_pair(match[0]), raw)
    return raw.replace(b"\0", b"\xc0\x80") if b"\0" in raw else raw


@lru_cache(maxsize=4096)
def _surrogate_pair(four_bytes: bytes) -> bytes:
    offset = ord(four_bytes.decode()) - 0x10000
    pair = chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))
    return pair.encode("utf-8", "surrogatepass")


def java_length(text: str) -> int:
    """Return the number of Java chars, where an astral character counts twice."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def _short_utf(text: str, what: str) -> bytes:
    """Encode two bytes of length, then the string; raise :class:`InvalidMessage` beyond 65535 bytes."""
    raw = encode_utf(text)
    if len(raw) > 0xFFFF:
        raise InvalidMessage(f"{what} takes {len(raw)} bytes, and OpenWire has room for 65535; shorten it")
    return len(raw).to_bytes(2, "big") + raw
