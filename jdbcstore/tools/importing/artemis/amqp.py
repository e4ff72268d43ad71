"""Messages of AMQP 1.0's clients, which Artemis stores as they were sent, as messages of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from jdbcstore.errors import CorruptMessage, StoreError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.values import Value
from jdbcstore.tools.importing.artemis import records
from jdbcstore.tools.importing.artemis.amqp_types import Described, Symbol, read_value
from jdbcstore.tools.importing.artemis.buffer import Buffer
from jdbcstore.tools.importing.artemis.core import Envelope, destination_of, original_of, own_properties

_HEADER, _DELIVERY, _ANNOTATIONS, _PROPERTIES, _APPLICATION = 0x70, 0x71, 0x72, 0x73, 0x74
_DATA, _SEQUENCE, _VALUE, _FOOTER = 0x75, 0x76, 0x77, 0x78
_NAMES = {
    "amqp:header:list": _HEADER,
    "amqp:delivery-annotations:map": _DELIVERY,
    "amqp:message-annotations:map": _ANNOTATIONS,
    "amqp:properties:list": _PROPERTIES,
    "amqp:application-properties:map": _APPLICATION,
    "amqp:data:binary": _DATA,
    "amqp:amqp-sequence:list": _SEQUENCE,
    "amqp:amqp-value:*": _VALUE,
    "amqp:footer:map": _FOOTER,
}
_KINDS = {
    0: BodyType.MESSAGE, 1: BodyType.OBJECT, 2: BodyType.MAP, 3: BodyType.BYTES, 4: BodyType.STREAM,
    5: BodyType.TEXT,
}  # fmt: skip
_KIND, _REPLY_KIND = "x-opt-jms-msg-type", "x-opt-jms-reply-to"
_REPLY_KINDS = {
    0: DestinationKind.QUEUE, 1: DestinationKind.TOPIC, 2: DestinationKind.TEMPORARY_QUEUE,
    3: DestinationKind.TEMPORARY_TOPIC,
}  # fmt: skip
_SERIALISED, _OCTETS = "application/x-java-serialized-object", "application/octet-stream"
_TEXT = re.compile(
    r"(?:text/.*|application/(?:.*\+)?(?:xml|json|javascript|ecmascript)(?:;.*)?)", re.IGNORECASE
)
_ANNOTATION, _FOOT = "JMS_AMQP_MA_", "JMS_AMQP_FT_"
_OF_BROKERS = ("x-opt-jms-", "x-opt-delivery-", "x-opt-ingress-time", "x-opt-ORIG", "x-opt-routing-type")
_LAST = 12
"""The last of the properties, from 0."""


@dataclass(slots=True)
class _Sections:
    header: list[Any] = field(default_factory=list)
    annotations: dict[Any, Any] = field(default_factory=dict)
    properties: list[Any] = field(default_factory=list)
    application: dict[Any, Any] = field(default_factory=dict)
    data: list[bytes] = field(default_factory=list)
    sequence: list[Any] | None = None
    value: Described | None = None
    value_bytes: bytes = b""
    footer: dict[Any, Any] = field(default_factory=dict)

    def add(self, part: Any, raw: bytes) -> None:
        """Add a section.

        :raises CorruptMessage: it is none, or of another type than it should be
        """
        code = part.descriptor if isinstance(part, Described) else None
        code = _NAMES.get(code, code) if isinstance(code, Symbol) else code
        value = part.value if isinstance(part, Described) else None
        match code, value:
            case 0x70, list():
                self.header = value
            case 0x71, dict():
                pass
            case 0x72, dict():
                self.annotations = value
            case 0x73, list():
                self.properties = value
            case 0x74, dict():
                self.application = value
            case 0x75, bytes():
                self.data.append(value)
            case 0x76, list():
                self.sequence = [*(self.sequence or ()), *value]
            case 0x77, _:
                self.value, self.value_bytes = part, raw
            case 0x78, dict():
                self.footer = value
            case _:
                raise CorruptMessage(f"a section of it is {code!r}, which is none of AMQP's")

    def read(self, data: bytes) -> None:
        """Add the sections of an encoded message."""
        buffer = Buffer(data)
        while buffer.left:
            start = buffer.at
            self.add(read_value(buffer), data[start : buffer.at])

    def head(self, at: int) -> Any:
        return self.header[at] if at < len(self.header) else None

    def property(self, at: int) -> Any:
        return self.properties[at] if at < len(self.properties) else None


def read_amqp(record: bytes, envelope: Envelope) -> Message:
    """Return the message of a record.

    :raises CorruptMessage: it is damaged, or has a value that JMS does not have
    :raises InvalidMessage: it has a value that OpenWire cannot hold
    """
    buffer = Buffer(record)
    sections = _Sections()
    protocol = buffer.byte()
    buffer.skip(8)  # its number
    if protocol == records.AMQP_LARGE:
        extra, expiration_ms = _read_large(buffer, sections, envelope)
    else:
        extra, expiration_ms = _read_standard(buffer, sections, protocol)
    if buffer.left:
        raise CorruptMessage(f"{buffer.left} bytes are left over")
    try:
        return _message(sections, extra, expiration_ms, envelope)
    except StoreError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise CorruptMessage(f"a header of it has a value of the wrong type: {error}") from error


def _read_standard(buffer: Buffer, sections: _Sections, protocol: int) -> tuple[dict[str, Value], int]:
    """Read the sections; return the broker's additions and the time of expiration."""
    buffer.skip(8)  # the format
    buffer.nullable_simple_string()
    sections.read(buffer.sized())
    extra = _extra(buffer) if protocol >= records.AMQP_2 else {}
    return extra, buffer.long() if protocol == records.AMQP_3 else 0


def _read_large(buffer: Buffer, sections: _Sections, envelope: Envelope) -> tuple[dict[str, Value], int]:
    """Do the same for a large message, whose sections are in the file with its body.

    Those before the body are in the record, too: as the broker has changed them.
    """
    buffer.skip(1 + 8)  # durable, the format
    buffer.nullable_simple_string()
    extra = _extra(buffer)
    body = envelope.large_body()
    if not body:
        raise CorruptMessage("the file with the body of this large message is empty")
    sections.read(body)
    for section in _saved(buffer):
        if section is not None:
            sections.add(section, b"")
    expiration_ms = buffer.long() if buffer.left >= 8 else 0
    buffer.skip(min(buffer.left, 1))
    return extra, expiration_ms


def skip_amqp(buffer: Buffer) -> None:
    """Pass a message that begins with its protocol, and is followed by something else.

    :raises CorruptMessage: it is damaged, or of another protocol
    """
    protocol = buffer.byte()
    buffer.skip(8)
    if protocol == records.AMQP_LARGE:
        buffer.skip(1 + 8)
        buffer.nullable_simple_string()
        buffer.skip(buffer.integer())
        _saved(buffer)
        buffer.skip(8 + 1)
    elif protocol in (records.AMQP, records.AMQP_2, records.AMQP_3):
        buffer.skip(8)
        buffer.nullable_simple_string()
        buffer.skip(buffer.integer())
        if protocol >= records.AMQP_2:
            buffer.skip(buffer.integer())
        if protocol == records.AMQP_3:
            buffer.skip(8)
    else:
        raise CorruptMessage(f"its protocol has the number {protocol}, which is not known")


def _extra(buffer: Buffer) -> dict[str, Value]:
    """Return the properties that the broker has added."""
    size = buffer.integer()
    if not size:
        return {}
    at = buffer.skip(size)
    part = Buffer(buffer.data, at, at + size)
    return part.properties()


def _saved(buffer: Buffer) -> list[Any]:
    """Return the sections before the body, which the record of a large message has, too."""
    sections = []
    for numbers in (2, 3, 1, 2):  # where each begins
        buffer.skip(4 * numbers)
        sections.append(read_value(buffer))
    return sections


def _message(
    sections: _Sections, extra: Mapping[str, Value], expiration_ms: int, envelope: Envelope
) -> Message:
    kind, body = _body(sections)
    created_ms, expires_ms = sections.property(9), sections.property(8)
    if not expiration_ms:
        ttl_ms = sections.head(2)
        expiration_ms = expires_ms or (created_ms + ttl_ms if created_ms and ttl_ms else 0)
    ours = envelope.message_id
    user = sections.property(1)
    priority = sections.head(1)
    reply = sections.property(4)
    return Message(
        body,
        body_type=kind,
        destination=envelope.destination,
        message_id=MessageId(
            ours.producer_id, ours.producer_sequence, 0, _id(sections.property(0), is_message=True)
        ),
        priority=4 if priority is None else min(int(priority), 9),
        timestamp_ms=created_ms or 0,
        expiration_ms=expiration_ms,
        correlation_id=_id(sections.property(5), is_message=False),
        reply_to=None if reply is None else _reply_to(str(reply), sections.annotations.get(_REPLY_KIND)),
        jms_type=_string(sections.property(3)),
        persistent=bool(sections.head(0)),
        group_id=_string(sections.property(10)),
        group_sequence=_group_sequence(sections.property(11)),
        redelivery_counter=envelope.deliveries + (sections.head(4) or 0),
        user_id=user.decode(errors="replace") if isinstance(user, bytes) else None,
        original_destination=original_of(extra),
        properties=_all_properties(sections, extra),
    )


def _all_properties(sections: _Sections, extra: Mapping[str, Value]) -> dict[str, Value]:
    properties = {str(name): _plain(value) for name, value in sections.application.items()}
    for name, value in sections.annotations.items():
        if not str(name).startswith(_OF_BROKERS):
            properties[f"{_ANNOTATION}{name}"] = _plain(value)
    for name, value in sections.footer.items():
        properties[f"{_FOOT}{name}"] = _plain(value)
    content_type, encoding = sections.property(6), sections.property(7)
    if content_type is not None and content_type not in (_OCTETS, _SERIALISED):
        properties["JMS_AMQP_ContentType"] = str(content_type)
    if encoding is not None:
        properties["JMS_AMQP_ContentEncoding"] = str(encoding)
    if sections.property(_LAST) is not None:
        properties["JMS_AMQP_ReplyToGroupID"] = str(sections.property(_LAST))
    return {**properties, **own_properties(extra, is_frame=False)}


def _body(sections: _Sections) -> tuple[BodyType, Any]:
    kind = _KINDS.get(sections.annotations.get(_KIND, -1))
    content_type = str(sections.property(6) or "")
    if sections.sequence is not None:
        return BodyType.STREAM, [_plain(item) for item in sections.sequence]
    if sections.value is None:
        return _data_body(b"".join(sections.data), kind, content_type)
    match value := sections.value.value:
        case None:
            return (kind, None) if kind in (BodyType.MESSAGE, BodyType.OBJECT) else (BodyType.TEXT, None)
        case str() if not isinstance(value, Symbol):
            return BodyType.TEXT, value
        case bytes():
            return (BodyType.OBJECT if content_type == _SERIALISED else BodyType.BYTES), value
        case list():
            return BodyType.STREAM, [_plain(item) for item in value]
        case dict():
            return BodyType.MAP, {str(name): _plain(item) for name, item in value.items()}
    return BodyType.BYTES, sections.value_bytes


def _data_body(data: bytes, kind: BodyType | None, content_type: str) -> tuple[BodyType, Any]:
    if content_type == _SERIALISED:
        return BodyType.OBJECT, data or None
    if kind is BodyType.MESSAGE and not data:
        return BodyType.MESSAGE, None
    if kind is BodyType.TEXT or (kind is None and _TEXT.fullmatch(content_type)):
        try:
            return BodyType.TEXT, data.decode()
        except UnicodeDecodeError:
            pass
    return BodyType.BYTES, data


def _plain(value: Any) -> Any:
    """Return a value as JMS has it."""
    match value:
        case Symbol():
            return str(value)
        case UUID():
            return str(value)
        case Described():
            return _plain(value.value)
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {str(_plain(key)): _plain(item) for key, item in value.items()}
    return value


def _string(value: Any) -> str | None:
    return None if value is None else str(value)


def _group_sequence(value: Any) -> int:
    number = 0 if value is None else int(value)
    return number - 2**32 if number >= 2**31 else number


def _id(value: Any, *, is_message: bool) -> str | None:
    """Return an id as a string, in the form that AMQP's mapping to JMS gives it."""
    match value:
        case None:
            return None
        case UUID():
            return f"ID:AMQP_UUID:{value}"
        case bytes():
            return f"ID:AMQP_BINARY:{value.hex().upper()}" if is_message else value.decode(errors="replace")
        case int():
            return f"ID:AMQP_ULONG:{int(value)}"
    return str(value)


def _reply_to(name: str, kind: Any) -> Destination | None:
    return destination_of(name, _REPLY_KINDS.get(kind, DestinationKind.QUEUE))
