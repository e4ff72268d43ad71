"""Conversion of messages and destinations to and from STOMP frames, like ActiveMQ's STOMP connector."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from jdbcstore.broker.api import Delivery
from jdbcstore.broker.stomp.frames import Frame, Version, encode_head, escape, whole_number
from jdbcstore.broker.transport.output import HIGH_WATER
from jdbcstore.errors import InvalidDestination, InvalidMessage, ProtocolError
from jdbcstore.message.destination import Destination, DestinationKind, clean_name
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.content import check_inflated
from jdbcstore.message.openwire.pieces import LargeBody, with_body_in_pieces
from jdbcstore.message.values import Float, Value

_PREFIXES = {
    "/queue/": DestinationKind.QUEUE,
    "/topic/": DestinationKind.TOPIC,
    "/remote-temp-queue/": DestinationKind.TEMPORARY_QUEUE,
    "/remote-temp-topic/": DestinationKind.TEMPORARY_TOPIC,
}
_PREFIX_OF = {kind: prefix for prefix, kind in _PREFIXES.items()}
_TEMPORARY = {
    "/temp-queue/": DestinationKind.TEMPORARY_QUEUE,
    "/temp-topic/": DestinationKind.TEMPORARY_TOPIC,
}
_MAX_TEMPORARY = 10_000
_PART = 64 * 1024
_DROPPED = ("message-id", "redelivered", "subscription", "JMSXUserID")
"""Headers of SEND that are ignored, because consumers rely on the broker's values."""
_RESERVED = frozenset({
    *("ack", "browser", "content-length", "correlation-id", "destination", "expires", "message-id"),
    *("original-destination", "persistent", "priority", "redelivered", "reply-to", "subscription"),
    *("timestamp", "type", "JMSXUserID"),
})  # fmt: skip
"""Headers of a MESSAGE that the broker sets; a property of the same name is not written."""

END_OF_MESSAGE = b"\0\n"
"""The end of a MESSAGE."""


class DestinationNames:
    """The destination names of one connection: ``/temp-queue/x`` is a different queue for each connection."""

    __slots__ = ("_connection_id", "_names", "_temporary")

    def __init__(self, connection_id: str) -> None:
        self._connection_id = connection_id
        self._temporary: dict[str, Destination] = {}
        self._names: dict[Destination, str] = {}

    def destination(self, text: str, *, strict: bool = False) -> Destination:
        """Return the destination in a header. A list with commas is a composite.

        As in ActiveMQ, a name without a prefix is a queue, unless ``strict``.

        :raises ProtocolError: it does not name a destination
        """
        if "/temp-" not in text:
            return _parse_destination(text, strict)
        members = [self._member(part, strict) for part in text.strip().split(",")]
        return members[0] if len(members) == 1 else _composite(members)

    def text(self, destination: Destination) -> str:
        """Return the name of a destination for a client of this connection."""
        return self._names.get(destination) or _destination_text(destination)

    def _member(self, text: str, strict: bool) -> Destination:
        known = self._temporary.get(text)
        if known is not None:
            return known
        for prefix, kind in _TEMPORARY.items():
            if text.startswith(prefix):
                if len(self._temporary) >= _MAX_TEMPORARY:
                    raise ProtocolError(
                        f"the connection has {_MAX_TEMPORARY} temporary destinations, the maximum"
                    )
                destination = Destination(kind, f"{self._connection_id}:{len(self._temporary) + 1}")
                self._temporary[text] = destination
                self._names[destination] = text
                return destination
        return _parse_destination(text, strict)


def addressed(text: str, routing_type: str) -> str:
    """Return the name of a destination with the separate routing type of an Artemis client."""
    is_topic = routing_type.upper() == "MULTICAST" and text and not text.startswith("/")
    return f"/topic/{text}" if is_topic else text


@lru_cache(maxsize=4096)
def _parse_destination(text: str, strict: bool) -> Destination:
    members = [_parse_member(part, text, strict) for part in text.strip().split(",")]
    return members[0] if len(members) == 1 else _composite(members)


def _parse_member(part: str, text: str, strict: bool) -> Destination:
    kind, name = DestinationKind.QUEUE, part
    for prefix, known in _PREFIXES.items():
        if part.startswith(prefix):
            kind, name, strict = known, part[len(prefix) :], False
    if strict:
        raise ProtocolError(
            f"Illegal destination name: [{text[:80]}]; start it with /queue/, /topic/ or /temp-queue/"
        )
    try:
        return Destination(kind, clean_name(name))
    except InvalidDestination as error:
        raise ProtocolError(f"Illegal destination name: [{text[:80]}]: {error}") from error


def _composite(members: list[Destination]) -> Destination:
    """Return a composite, spelt as in ActiveMQ.

    The kind of the first member applies to all without their own.
    """
    first, *others = members
    return Destination(
        first.kind, ",".join((first.name, *(destination.qualified_name for destination in others)))
    )


@lru_cache(maxsize=4096)
def _destination_text(destination: Destination) -> str:
    return _PREFIX_OF[destination.kind] + destination.name


def to_message(
    frame: Frame,
    destination: Destination,
    message_id: MessageId,
    now_ms: int,
    names: DestinationNames,
    user_id: str | None = None,
    large: LargeBody | None = None,
) -> Message:
    """Return the message of a SEND; headers that are not fields become properties.

    Without ``content-length`` the body is a string, with it bytes, unless ``amq-msg-type`` decides.

    :param large: the body, if it is kept in pieces
    :raises ProtocolError: a header or the body is invalid
    """
    headers = frame.headers
    body = _body(frame)
    fields: dict[str, Any] = {
        "destination": destination,
        "message_id": message_id,
        "timestamp_ms": now_ms,
        "broker_in_time_ms": now_ms,
        "persistent": headers.pop("persistent", None) == "true",
    }
    if user_id is not None:
        fields["user_id"] = user_id
    if headers:
        if not _NO_PROPERTIES.isdisjoint(headers):
            _read_optional(headers, fields, names)
        fields["properties"] = headers
    try:
        message = Message(body, **fields)
    except InvalidMessage as error:
        raise ProtocolError(str(error)) from error
    return message if large is None else with_body_in_pieces(message, message.body_type, large)


def is_text(headers: Mapping[str, str]) -> bool:
    """Return whether the body of a SEND is a string.

    :raises ProtocolError: the headers name another kind
    """
    kind = headers.get("amq-msg-type")
    if kind is None:
        return "content-length" not in headers
    if kind.lower() not in ("text", "bytes"):
        raise ProtocolError(f"Unsupported message type '{kind[:20]}'; set amq-msg-type to text or bytes")
    return kind.lower() == "text"


def _body(frame: Frame) -> str | bytes:
    kind = frame.headers.get("amq-msg-type")
    headers = frame.headers
    if headers.pop("content-length", None) is not None if kind is None else not is_text(headers):
        return frame.body
    try:
        return frame.body.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("the body is not UTF-8; add a content-length to send it as bytes") from error


def _read_optional(headers: dict[str, str], fields: dict[str, Any], names: DestinationNames) -> None:
    for name in _DROPPED:
        headers.pop(name, None)
    for header in _OPTIONAL.keys() & headers.keys():
        field, read = _OPTIONAL[header]
        value = headers.pop(header)
        if read is not None:
            fields[field] = read(header, value)
    reply_to = headers.get("reply-to")
    if reply_to is not None:
        try:
            fields["reply_to"] = names.destination(reply_to, strict=True)
        except ProtocolError:
            return  # it stays a property, for clients with their own names of reply destinations
        del headers["reply-to"]


def _priority(name: str, text: str) -> int:
    return min(9, max(0, whole_number(name, text)))


def _string(name: str, text: str) -> str:  # noqa: ARG001
    return text


def _is_persistent(name: str, text: str) -> bool:  # noqa: ARG001
    return text.strip() in ("2", "PERSISTENT")


_OPTIONAL: dict[str, tuple[str, Callable[[str, str], Any] | None]] = {
    "JMSDeliveryMode": ("persistent", _is_persistent),
    "JMSXDeliveryCount": ("", None),
    "JMSRedelivered": ("", None),
    "JMSXGroupID": ("group_id", _string),
    "JMSXGroupSeq": ("group_sequence", whole_number),
    **dict.fromkeys(("correlation-id", "JMSCorrelationID"), ("correlation_id", _string)),
    **dict.fromkeys(("type", "JMSType"), ("jms_type", _string)),
    **dict.fromkeys(("expires", "JMSExpiration"), ("expiration_ms", whole_number)),
    **dict.fromkeys(("timestamp", "JMSTimestamp"), ("timestamp_ms", whole_number)),
    **dict.fromkeys(("priority", "JMSPriority"), ("priority", _priority)),
}
"""Headers that do not become properties, because they set a field or are ignored; ActiveMQ accepts some by
their JMS names too."""
_NO_PROPERTIES = frozenset((*_DROPPED, *_OPTIONAL, "reply-to"))


class MessageFrames:
    """Makes the MESSAGE frames of one connection.

    :param max_inflated: the most bytes of a decompressed body; None means the limit of the codec
    """

    __slots__ = (
        *("_destination", "_destination_text", "_names", "_producer_id"),
        *("_producer_text", "max_inflated", "version"),
    )

    def __init__(self, names: DestinationNames, version: Version, max_inflated: int | None = None) -> None:
        self.max_inflated = max_inflated
        self._names = names
        self.version = version
        # Values of the previous message, which the next one often shares.
        self._producer_id: ProducerId | None = None
        self._producer_text = ""
        self._destination: Destination | None = None
        self._destination_text = ""

    def encode_head(self, delivery: Delivery, subscription: str, ack: str, size: int | None) -> bytes:
        """Return a MESSAGE up to its body, with this content-length if it is known."""
        return self.encode(delivery, subscription, ack, (b"", size))[: -len(END_OF_MESSAGE)]

    def encode(
        self,
        delivery: Delivery,
        subscription: str,
        ack: str = "",
        content: tuple[bytes, int | None] | None = None,
    ) -> bytes:
        """Return a MESSAGE.

        ``subscription`` and ``ack`` are complete header lines from :meth:`line`.

        :param content: the body and its content-length, if they are not the message's
        :raises CorruptMessage: the body is damaged, or inflates beyond the limit
        :raises BodyInPieces: the body is not in the message
        :raises LongContent: the body is long
        """
        message, destination = delivery.message, delivery.destination
        if self.max_inflated is not None and message.compressed:
            check_inflated(message, self.max_inflated)
        body, size = content or _content(message)
        if destination is not self._destination:
            self._destination = destination
            self._destination_text = escape(self._names.text(destination), self.version)
        head = (
            f"MESSAGE\n{subscription}{ack}"
            f"message-id:{self._message_id(message.message_id)}\n"
            f"destination:{self._destination_text}\n"
            f"timestamp:{message.timestamp_ms or 0}\nexpires:{message.expiration_ms}\n"
            f"priority:{message.priority}\n{self._optional_headers(message, delivery.redelivered, size)}\n"
        )
        return b"".join((encode_head(head), body, END_OF_MESSAGE))

    def end_of_browser(self, subscription: str, destination: Destination) -> bytes:
        """Return the MESSAGE that ends a browser's messages, like ActiveMQ's."""
        name = self.line("destination", self._names.text(destination))
        return encode_head(f"MESSAGE\n{subscription}message-id:0\nbrowser:end\n{name}\n") + b"\0\n"

    def line(self, name: str, value: str | None) -> str:
        """Return a header line; empty if there is no value."""
        return "" if value is None else f"{name}:{escape(value, self.version)}\n"

    def _message_id(self, message_id: MessageId | None) -> str:
        if message_id is None:
            return ""
        if message_id.text_view is not None or message_id.producer_id is None:
            return escape(str(message_id), self.version)
        if message_id.producer_id is not self._producer_id:
            self._producer_id = message_id.producer_id
            self._producer_text = escape(f"{message_id.producer_id}:", self.version)
        return f"{self._producer_text}{message_id.producer_sequence}"

    def _optional_headers(self, message: Message, redelivered: bool, size: int | None) -> str:
        """Return the lines of optional headers."""
        lines = []
        if size is not None:
            lines.append(f"content-length:{size}\n")
        if message.persistent:
            lines.append("persistent:true\n")
        if redelivered:
            lines.append("redelivered:true\n")
        reply_to, original = message.reply_to, message.original_destination
        for name, given in (
            ("correlation-id", message.correlation_id),
            ("type", message.jms_type),
            ("JMSXUserID", message.user_id),
            ("reply-to", None if reply_to is None else self._names.text(reply_to)),
            ("original-destination", None if original is None else self._names.text(original)),
        ):
            if given is not None:
                lines.append(f"{name}:{escape(given, self.version)}\n")
        for name, value in message.properties.items():
            if name not in _RESERVED or (name == "reply-to" and reply_to is None):
                text = value if type(value) is str else java_text(value)
                lines.append(f"{_escaped(name, self.version)}:{escape(text, self.version)}\n")
        return "".join(lines)


@lru_cache(maxsize=4096)
def _escaped(text: str, version: Version) -> str:
    return escape(text, version)


class LongContent(Exception):
    """The long content of a message in memory, which is written part by part instead of copied."""

    def __init__(self, body: str | bytes, *, is_sized: bool) -> None:
        super().__init__()
        self._body = body
        self._is_sized = is_sized

    @property
    def size(self) -> int | None:
        """The content-length, if it has one."""
        return sum(map(len, self.parts())) if self._is_sized else None

    def parts(self) -> Iterator[bytes]:
        """Yield the content."""
        for start in range(0, len(self._body), _PART):
            part = self._body[start : start + _PART]
            # Half a surrogate pair, which a Java string may contain, is replaced.
            yield part if isinstance(part, bytes) else part.encode(errors="replace")


def _content(message: Message) -> tuple[bytes, int | None]:
    """Return the body, and its content-length if it has one: for bytes, for a string with a NUL, and if the
    producer set it.

    :raises LongContent: it is long
    """
    body = message.body
    if isinstance(body, str):
        if len(body) > HIGH_WATER:
            raise LongContent(body, is_sized="\0" in body or "content-length" in message.properties)
        try:
            content = body.encode()
        except UnicodeEncodeError:  # half a surrogate pair, which a Java string may contain
            content = body.encode(errors="replace")
        has_size = b"\0" in content or "content-length" in message.properties
        return content, len(content) if has_size else None
    if message.body_type is BodyType.BYTES and isinstance(body, bytes):
        if len(body) > HIGH_WATER:
            raise LongContent(body, is_sized=True)
        return body, len(body)
    return b"", None


def java_text(value: Value) -> str:
    """Format a property like Java's ``String.valueOf``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_float(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={java_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(java_text, value)) + "]"
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _java_float(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (math.inf, -math.inf):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = _shortest(value) if isinstance(value, Float) else repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return shortest if "." in shortest else f"{shortest}.0"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{len(digits) - 1 + int(exponent)}"


def _shortest(value: Float) -> str:
    """Return the fewest digits that parse to the same 32 bits."""
    texts = (f"{value:.{digits}g}" for digits in range(6, 10))
    text = next((text for text in texts if Float(float(text)).bits == value.bits), repr(float(value)))
    return f"{Decimal(text):f}" if 1e-3 <= abs(value) < 1e7 else text
