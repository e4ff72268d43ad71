"""Messages as frames, and frames as messages, as ActiveMQ's STOMP connector makes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from jdbcstore.broker.api import Delivery
from jdbcstore.broker.stomp.destinations import DestinationNames
from jdbcstore.broker.stomp.frames import Frame, Version, encode_head, escape
from jdbcstore.errors import InvalidMessage, ProtocolError
from jdbcstore.message.body import BodyType
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import Message
from jdbcstore.message.values import Float, Value

_DROPPED = ("message-id", "redelivered", "subscription", "JMSXUserID")
"""A consumer must be able to rely on these being the broker's."""
_GIVEN = frozenset({
    *("ack", "browser", "content-length", "correlation-id", "destination", "expires", "message-id"),
    *("original-destination", "persistent", "priority", "redelivered", "reply-to", "subscription"),
    *("timestamp", "type", "JMSXUserID"),
})  # fmt: skip
"""Headers of a MESSAGE that no property can stand for."""
_LONGEST_NUMBER = 19


def to_message(
    frame: Frame,
    destination: Destination,
    message_id: MessageId,
    now_ms: int,
    names: DestinationNames,
    user_id: str | None = None,
) -> Message:
    """The message of a SEND; takes the headers that are not properties out of the frame's.

    Without ``content-length`` it is a text, with it bytes; ``amq-msg-type`` says otherwise.

    :raises ProtocolError: a header or the body is not what it should be
    """
    headers = frame.headers
    body = _body(frame)
    for name in _DROPPED:
        headers.pop(name, None)
    fields: dict[str, Any] = {"timestamp_ms": now_ms, "user_id": user_id}
    fields["persistent"] = headers.pop("persistent", None) == "true"
    if headers:
        _take_rare(headers, fields, names)
    try:
        return Message(body, destination=destination, message_id=message_id, properties=headers, **fields)
    except InvalidMessage as error:
        raise ProtocolError(str(error)) from error


def _body(frame: Frame) -> str | bytes:
    kind = frame.headers.get("amq-msg-type")
    if kind is None:
        is_text = frame.headers.pop("content-length", None) is None
    else:
        is_text = kind.lower() == "text"
        if not is_text and kind.lower() != "bytes":
            raise ProtocolError(f"Unsupported message type '{kind[:20]}': amq-msg-type is text or bytes")
    if not is_text:
        return frame.body
    try:
        return frame.body.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("the body is not UTF-8; send it with a content-length, as bytes") from error


def _take_rare(headers: dict[str, str], fields: dict[str, Any], names: DestinationNames) -> None:
    for header in _RARE.keys() & headers.keys():
        field, read = _RARE[header]
        value = headers.pop(header)
        if read is not None:
            fields[field] = read(header, value)
    reply_to = headers.get("reply-to")
    if reply_to is not None:
        try:
            fields["reply_to"] = names.destination(reply_to, strict=True)
        except ProtocolError:
            return  # stays a property, for clients that have names of their own for where to answer
        del headers["reply-to"]


def _number(name: str, text: str) -> int:
    text = text.strip()
    try:
        if len(text) <= _LONGEST_NUMBER and text.isascii():
            return int(text)
    except ValueError:
        pass
    raise ProtocolError(f"the header {name} is {text[:20]!r}, and should be a whole number")


def _priority(name: str, text: str) -> int:
    return min(9, max(0, _number(name, text)))


def _text(name: str, text: str) -> str:  # noqa: ARG001
    return text


def _is_persistent(name: str, text: str) -> bool:  # noqa: ARG001
    return text.strip() in ("2", "PERSISTENT")


_RARE: dict[str, tuple[str, Callable[[str, str], Any] | None]] = {
    "JMSDeliveryMode": ("persistent", _is_persistent),
    "JMSXDeliveryCount": ("", None),
    "JMSRedelivered": ("", None),
    "JMSXGroupID": ("group_id", _text),
    "JMSXGroupSeq": ("group_sequence", _number),
    **dict.fromkeys(("correlation-id", "JMSCorrelationID"), ("correlation_id", _text)),
    **dict.fromkeys(("type", "JMSType"), ("jms_type", _text)),
    **dict.fromkeys(("expires", "JMSExpiration"), ("expiration_ms", _number)),
    **dict.fromkeys(("timestamp", "JMSTimestamp"), ("timestamp_ms", _number)),
    **dict.fromkeys(("priority", "JMSPriority"), ("priority", _priority)),
}
"""What becomes of headers that are not properties; ActiveMQ knows some by their JMS names too."""


class MessageFrames:
    """Makes the MESSAGE frames of one connection."""

    __slots__ = ("_destination", "_destination_text", "_names", "_producer_id", "_producer_text", "_version")

    def __init__(self, names: DestinationNames, version: Version) -> None:
        self._names = names
        self._version = version
        # Those of the message before, which are often those of the next.
        self._producer_id: ProducerId | None = None
        self._producer_text = ""
        self._destination: Destination | None = None
        self._destination_text = ""

    def encode(self, delivery: Delivery, subscription: str, ack: str = "") -> bytes:
        """A MESSAGE. ``subscription`` and ``ack`` are lines, made as they are to be by :meth:`line`."""
        message, destination = delivery.message, delivery.destination
        content, size = _content(message)
        if destination is not self._destination:
            self._destination = destination
            self._destination_text = escape(self._names.text(destination), self._version)
        head = (
            f"MESSAGE\n{subscription}{ack}"
            f"message-id:{self._message_id(message.message_id)}\n"
            f"destination:{self._destination_text}\n"
            f"timestamp:{message.timestamp_ms or 0}\nexpires:{message.expiration_ms}\n"
            f"priority:{message.priority}\n{self._more(message, delivery.redelivered, size)}\n"
        )
        return b"".join((encode_head(head), content, b"\0\n"))

    def end_of_browser(self, subscription: str, destination: Destination) -> bytes:
        """What ActiveMQ sends when a browser has seen everything."""
        name = self.line("destination", self._names.text(destination))
        return encode_head(f"MESSAGE\n{subscription}message-id:0\nbrowser:end\n{name}\n") + b"\0\n"

    def line(self, name: str, value: str | None) -> str:
        """A header, or nothing."""
        return "" if value is None else f"{name}:{escape(value, self._version)}\n"

    def _message_id(self, message_id: MessageId | None) -> str:
        if message_id is None:
            return ""
        if message_id.text_view is not None or message_id.producer_id is None:
            return escape(str(message_id), self._version)
        if message_id.producer_id is not self._producer_id:
            self._producer_id = message_id.producer_id
            self._producer_text = escape(f"{message_id.producer_id}:", self._version)
        return f"{self._producer_text}{message_id.producer_sequence}"

    def _more(self, message: Message, redelivered: bool, size: int | None) -> str:
        """The headers that only some messages have."""
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
                lines.append(f"{name}:{escape(given, self._version)}\n")
        for name, value in message.properties.items():
            if name not in _GIVEN or (name == "reply-to" and reply_to is None):
                text = value if type(value) is str else java_text(value)
                lines.append(f"{_escaped(name, self._version)}:{escape(text, self._version)}\n")
        return "".join(lines)


@lru_cache(maxsize=4096)
def _escaped(text: str, version: Version) -> str:
    return escape(text, version)


def _content(message: Message) -> tuple[bytes, int | None]:
    """The body, and its content-length if it has one: bytes do, a text only if a NUL would end it, or if
    its producer wanted it so."""
    body = message.body
    if isinstance(body, str):
        try:
            content = body.encode()
        except UnicodeEncodeError:  # half a surrogate pair, as Java can have it
            content = body.encode(errors="replace")
        has_size = b"\0" in content or "content-length" in message.properties
        return content, len(content) if has_size else None
    if message.body_type is BodyType.BYTES and isinstance(body, bytes):
        return body, len(body)
    return b"", None


def java_text(value: Value) -> str:
    """A property as Java's ``String.valueOf`` writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_float(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={java_text(one)}" for name, one in value.items()) + "}"
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
    """The fewest digits that make the same 32 bits."""
    texts = (f"{value:.{digits}g}" for digits in range(6, 10))
    text = next((text for text in texts if Float(float(text)).bits == value.bits), repr(float(value)))
    return f"{Decimal(text):f}" if 1e-3 <= abs(value) < 1e7 else text
