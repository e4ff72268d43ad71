"""Messages of Artemis's core protocol, as which those of STOMP and OpenWire are stored too."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jdbcstore.errors import CorruptMessage, InvalidDestination, InvalidMessage
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.values import Value
from jdbcstore.tools.importing.artemis.buffer import Buffer

_PACKET = 13
"""Bytes in front of a packet, which offsets include."""
_MULTICAST = 0

_ROUTE, _PREFIX = "_AMQ_ROUTE_TO", "_AMQ_PREFIX"
_SCHEDULED = "_AMQ_SCHED_DELIVERY"
_COMPRESSED, _LARGE_SIZE = "_AMQ_LARGE_COMPRESSED", "_AMQ_LARGE_SIZE"
_CONTENT_TYPE = "_AMQ_CONTENT_TYPE"
_OF_OPENWIRE = "__HDR_"
_OF_FRAMES = ("destination", "receipt", "content-length", "transaction", "destination-type", "persistent")
"""Headers of SEND that Artemis keeps as properties."""
_DROPPED = frozenset(
    {
        *("JMSType", "JMSCorrelationID", "JMSReplyTo", "JMSXUserID", "__AMQ_CID", "_AMQ_ROUTING_TYPE"),
        *("_AMQ_GROUP_ID", "_AMQ_GROUP_SEQUENCE", "_AMQ_VALIDATED_USER", "JMSXGroupID", "JMSXGroupSeq"),
        *(_PREFIX, _SCHEDULED, _COMPRESSED, _LARGE_SIZE, _CONTENT_TYPE, "_AMQ_AD"),
    }
)


@dataclass(slots=True)
class Envelope:
    """Facts of the journal about a message, beside its record."""

    number: int
    destination: Destination
    message_id: MessageId
    """The one of the row, without the client's."""
    deliveries: int
    large_body: Callable[[], bytes]
    """Reads the body of a large message, which is stored elsewhere."""


@dataclass(slots=True)
class _Headers:
    number: int
    address: str | None
    user_id: bytes | None
    kind: int
    persistent: bool
    expiration_ms: int
    timestamp_ms: int
    priority: int
    properties: dict[str, Value]


def read_core(record: bytes, envelope: Envelope, *, is_large: bool) -> Message:
    """Return the message of a record.

    :param is_large: whether the record has no body
    :raises CorruptMessage: it is damaged, or of a kind that has no counterpart
    :raises InvalidMessage: it has a value that OpenWire cannot hold
    """
    buffer = Buffer(record)
    if is_large:
        headers = _read_headers(buffer)
        body = envelope.large_body()
    else:
        buffer.skip(1 + 8)  # the protocol, its number
        buffer.nullable_simple_string()
        size = buffer.integer()
        if size != buffer.left:
            raise CorruptMessage(f"it says that it has {size} bytes, and {buffer.left} follow")
        body = buffer.take(buffer.integer() - _PACKET)
        headers = _read_headers(buffer)
    if buffer.left:
        raise CorruptMessage(f"{buffer.left} bytes are left over")
    if headers.number != envelope.number:
        raise CorruptMessage(f"it has the numbers {envelope.number} and {headers.number}")
    body = _inflated(body, headers.properties)
    sent = headers.properties.get(_LARGE_SIZE)
    if is_large and isinstance(sent, int) and len(body) != sent:
        raise CorruptMessage(f"its body has {len(body)} bytes in its file, and {sent} were sent")
    return _message(headers, body, envelope)


def skip_core(buffer: Buffer) -> None:
    """Pass a message that begins with its protocol, and is followed by something else."""
    buffer.skip(1 + 8)
    buffer.nullable_simple_string()
    buffer.skip(buffer.integer())


def _read_headers(buffer: Buffer) -> _Headers:
    number, address = buffer.long(), buffer.nullable_simple_string()
    user_id = buffer.take(16) if buffer.boolean() else None
    kind, persistent = buffer.byte(), buffer.boolean()
    expiration_ms, timestamp_ms, priority = buffer.long(), buffer.long(), buffer.byte()
    properties = buffer.properties()
    return _Headers(
        number, address, user_id, kind, persistent, expiration_ms, timestamp_ms, min(priority, 9), properties
    )


def _inflated(body: bytes, properties: Mapping[str, Value]) -> bytes:
    if properties.get(_COMPRESSED) is not True:
        return body
    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise CorruptMessage(f"its compressed body cannot be read: {error}") from error


def _message(headers: _Headers, body: bytes, envelope: Envelope) -> Message:
    properties = headers.properties
    kind, content = _body(headers.kind, body)
    theirs = {name.removeprefix(_OF_OPENWIRE): properties[name] for name in properties if _is_openwire(name)}
    ours = envelope.message_id
    view = theirs.get("MESSAGE_ID")
    if not isinstance(view, str):
        view = None if headers.user_id is None else f"ID:{UUID(bytes=headers.user_id)}"
    return Message(
        content,
        body_type=kind,
        destination=envelope.destination,
        message_id=MessageId(ours.producer_id, ours.producer_sequence, 0, view),
        priority=headers.priority,
        timestamp_ms=headers.timestamp_ms,
        expiration_ms=headers.expiration_ms,
        correlation_id=_text(properties.get("JMSCorrelationID")),
        reply_to=_reply_to(properties.get("JMSReplyTo")),
        jms_type=_text(properties.get("JMSType")),
        persistent=headers.persistent,
        group_id=_text(properties.get("_AMQ_GROUP_ID", properties.get("JMSXGroupID"))),
        group_sequence=_number(properties.get("_AMQ_GROUP_SEQUENCE", properties.get("JMSXGroupSeq"))),
        redelivery_counter=envelope.deliveries,
        user_id=_text(
            theirs.get("USER_ID", properties.get("_AMQ_VALIDATED_USER", properties.get("JMSXUserID")))
        ),
        original_destination=original_of(properties, theirs.get("ORIG_DESTINATION")),
        producer_id=_producer(theirs.get("PRODUCER_ID")),
        arrival_ms=_number(theirs.get("ARRIVAL")),
        broker_in_time_ms=_number(theirs.get("BROKER_IN_TIME")),
        droppable=theirs.get("DROPPABLE") is True,
        properties=own_properties(properties, is_frame=headers.user_id is None and not theirs),
    )


def own_properties(properties: Mapping[str, Value], *, is_frame: bool) -> dict[str, Value]:
    """Return the properties set by a client, and the origin of a dead letter."""
    own = {
        name: value
        for name, value in properties.items()
        if name not in _DROPPED and not _is_openwire(name) and not name.startswith(_ROUTE)
    }
    if is_frame and "destination" in own:
        for name in _OF_FRAMES:
            own.pop(name, None)
    if isinstance(content_type := properties.get(_CONTENT_TYPE), str):
        own["content-type"] = content_type
    return own


def _is_openwire(name: str) -> bool:
    return name.startswith(_OF_OPENWIRE) and name != "__HDR_dlqDeliveryFailureCause"


def _body(kind: int, body: bytes) -> tuple[BodyType, Any]:
    read = _BODIES.get(kind)
    if read is None:
        raise CorruptMessage(
            f"its kind {kind} has no counterpart: a message in another, or one of a later version"
        )
    return read(body)


def _stream_body(body: bytes) -> tuple[BodyType, Any]:
    buffer, items = Buffer(body), []
    while buffer.left:
        items.append(buffer.value(Buffer.nullable_string))
    return BodyType.STREAM, items


_BODIES: dict[int, Callable[[bytes], tuple[BodyType, Any]]] = {
    0: lambda body: (BodyType.BYTES, body) if body else (BodyType.MESSAGE, None),
    2: lambda body: (BodyType.OBJECT, Buffer(body).sized() if body else None),
    3: lambda body: (BodyType.TEXT, Buffer(body).nullable_simple_string() if body else None),
    4: lambda body: (BodyType.BYTES, body),
    5: lambda body: (BodyType.MAP, Buffer(body).properties() if body else {}),
    6: _stream_body,
}


def _text(value: Value) -> str | None:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if value is None else str(value)


def _number(value: Value) -> int:
    return int(value) if isinstance(value, int) else 0


def _producer(value: Value) -> ProducerId | None:
    try:
        return ProducerId.parse(value) if isinstance(value, str) and value else None
    except InvalidMessage:
        return None


def _reply_to(value: Value) -> Destination | None:
    return None if not isinstance(value, str) else destination_of(value)


def original_of(properties: Mapping[str, Value], theirs: Value = None) -> Destination | None:
    """Return where a dead letter was; otherwise ``theirs``, which a client has set."""
    if isinstance(address := properties.get("_AMQ_ORIG_ADDRESS"), str):
        is_topic = properties.get("_AMQ_ORIG_ROUTING_TYPE") == _MULTICAST
        return destination_of(address, DestinationKind.TOPIC if is_topic else DestinationKind.QUEUE)
    return destination_of(theirs) if isinstance(theirs, str) else None


def destination_of(name: str, default: DestinationKind = DestinationKind.QUEUE) -> Destination | None:
    """Return the destination of a name with or without a prefix; None if it cannot be one."""
    try:
        return Destination.named(name, default)
    except InvalidDestination:
        return None
