"""Values and messages as JSON that keeps Java's types, the form in which the peer reads and reports them."""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any

from jdbcstore.message.destination import Destination
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.values import Byte, Char, Float, Long, Short

Json = dict[str, Any]

_NUMBERS = {"byte": Byte, "short": Short, "int": int, "long": Long}

_SCALARS: dict[type, Callable[[Any], Json]] = {
    type(None): lambda _: {"t": "null"},
    bool: lambda value: {"t": "boolean", "v": value},
    Byte: lambda value: {"t": "byte", "v": int(value)},
    Short: lambda value: {"t": "short", "v": int(value)},
    int: lambda value: {"t": "int" if -(1 << 31) <= value < 1 << 31 else "long", "v": value},
    Long: lambda value: {"t": "long", "v": int(value)},
    Float: lambda value: {"t": "float", "bits": value.bits - (value.bits >> 31 << 32)},
    float: lambda value: {"t": "double", "bits": struct.unpack(">q", struct.pack(">d", value))[0]},
    Char: lambda value: {"t": "char", "v": ord(value)},
    str: lambda value: {"t": "string", "v": value},
    bytes: lambda value: {"t": "bytes", "b64": b64encode(value).decode()},
}


def to_json(value: Any) -> Json:
    """``{"t": "short", "v": 7}``; floats by their IEEE bits, bytes in base64."""
    if isinstance(value, Mapping):
        return {"t": "map", "v": properties_to_json(value)}
    if isinstance(value, list | tuple):
        return {"t": "list", "v": [to_json(item) for item in value]}
    return _SCALARS[type(value)](value)


def from_json(value: Json) -> Any:
    """The inverse of :func:`to_json`."""
    match value:
        case {"t": "null"}:
            return None
        case {"t": "byte" | "short" | "int" | "long" as name, "v": number}:
            return _NUMBERS[name](number)
        case {"t": "float", "bits": bits}:
            return Float.from_bits(bits & 0xFFFFFFFF)
        case {"t": "double", "bits": bits}:
            return struct.unpack(">d", struct.pack(">q", bits))[0]
        case {"t": "char", "v": code}:
            return Char(chr(code))
        case {"t": "bytes", "b64": text}:
            return b64decode(text)
        case {"t": "map", "v": items}:
            return {name: from_json(item) for name, item in items.items()}
        case {"t": "list", "v": items}:
            return [from_json(item) for item in items]
        case {"v": plain}:
            return plain
    raise TypeError(f"not a typed value: {value!r}")


def properties_to_json(properties: Mapping[str, Any]) -> Json:
    return {name: to_json(value) for name, value in properties.items()}


def describe(message: Message) -> Json:
    """Every header, property and the body, under the names that the peer uses for what JMS reports."""
    assert message.message_id is not None
    return {
        "message_id": str(message.message_id),
        "producer_id": str(message.message_id.producer_id),
        "producer_sequence": message.message_id.producer_sequence,
        "destination": _name(message.destination),
        "original_destination": _name(message.original_destination),
        "transacted": bool(message.transaction_id or message.original_transaction_id),
        "persistent": message.persistent,
        "priority": message.priority,
        "timestamp": message.timestamp_ms,
        "expiration": message.expiration_ms,
        "correlation_id": message.correlation_id,
        "reply_to": _name(message.reply_to),
        "jms_type": message.jms_type,
        "group_id": message.group_id,
        "group_sequence": message.group_sequence,
        "redelivered": message.redelivery_counter > 0,
        "redelivery_counter": message.redelivery_counter,
        "user_id": message.user_id,
        "compressed": message.compressed,
        "arrival": message.arrival_ms,
        "broker_in_time": message.broker_in_time_ms,
        "properties": properties_to_json(message.properties),
        "kind": message.body_type.value,
        "body": to_json(message.body),
    }


def message_from(spec: Json, **headers: Any) -> Message:
    """The message that the peer would send for ``spec``, to be added by jdbcstore."""
    properties = {name: from_json(value) for name, value in spec.get("properties", {}).items()}
    reply_to = spec.get("reply_to")
    return Message(
        from_json(spec.get("body", {"t": "null"})),
        body_type=BodyType(spec["kind"]),
        group_id=properties.pop("JMSXGroupID", None),
        group_sequence=properties.pop("JMSXGroupSeq", 0),
        properties=properties,
        priority=spec.get("priority", 4),
        correlation_id=spec.get("correlation_id"),
        reply_to=None if reply_to is None else Destination.parse(reply_to),
        jms_type=spec.get("jms_type"),
        **headers,
    )


def _name(destination: Destination | None) -> str | None:
    return None if destination is None else destination.qualified_name
