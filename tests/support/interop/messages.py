"""Messages of every kind, as specifications that both the peer and jdbcstore can make a message of."""

from __future__ import annotations

from typing import Any

from jdbcstore.message.values import Byte, Char, Float, Long, Short
from tests.support.interop.typed import Json, properties_to_json, to_json

ASTRAL = "astral \U0001f600 \U0001d11e end"
LONG_TEXT = "żółw and turtle, " * 5000

VALUES: dict[str, Any] = {
    "true": True,
    "byte": Byte(-128),
    "short": Short(32767),
    "char": Char("€"),
    "half_a_pair": Char("\ud800"),
    "int": -(1 << 31),
    "small_long": Long(1),
    "long": (1 << 63) - 1,
    "float": Float(3.14),
    "infinity": Float(float("-inf")),
    "double": 5e-324,
    "minus_zero": -0.0,
    "nan": float("nan"),
    "string": "zażółć gęślą jaźń 日本語",
    "astral": ASTRAL,
    "empty": "",
    "long_string": "ü" * 9000,
    "null": None,
}
NESTED = {"list": ["a", 1, {"inner": {"n": Long(2)}, "empty": []}], "map": {"l": [True, 1.5], "m": {}}}


def spec(kind: str, body: Any = None, **headers: Any) -> Json:
    """What the peer's ``send`` takes; ``properties`` are plain values."""
    properties = properties_to_json(headers.pop("properties", {}))
    return {"kind": kind, "body": to_json(body), "properties": properties, **headers}


def text(body: str, **headers: Any) -> Json:
    return spec("text", body, **headers)


BODIES: dict[str, Json] = {
    "text": text("hello, world"),
    "text-empty": text(""),
    "text-none": spec("text"),
    "text-astral": text(ASTRAL),
    "text-odd": text("NUL \0, half a pair \ud800, line\r\n"),
    "text-long": text(LONG_TEXT),
    "bytes": spec("bytes", bytes(range(256))),
    "bytes-long": spec("bytes", bytes(range(256)) * 300),
    "map": spec("map", {**VALUES, "bytes": b"\x00\xff"}),
    "map-nested": spec("map", NESTED),
    "stream": spec("stream", [*VALUES.values(), b"\x00\xff"]),
    "message": spec("message"),
}

HEADERS: dict[str, Json] = {
    "properties": text("all types", properties={**VALUES, "bytes": b"\x00\x01"}),
    "properties-nested": text("nested", properties=NESTED),
    "headers": text(
        "headers",
        correlation_id="corr-ü",
        jms_type="a.type",
        reply_to="topic://REPLY.TO",
        priority=9,
    ),
    "group": text("group", properties={"JMSXGroupID": "g-1", "JMSXGroupSeq": 3}),
    "group-close": text("group", properties={"JMSXGroupID": "g-1", "JMSXGroupSeq": -1}),
    "lowest-priority": text("low", priority=0),
}

ALL = {**BODIES, **HEADERS}


def said(described: Json) -> Json:
    """What a description has in common with the specification that the message was made of."""
    names = ("kind", "body", "properties", "correlation_id", "reply_to", "jms_type", "priority")
    return {name: described[name] for name in names} | {
        "group": (described["group_id"], described["group_sequence"])
    }


def specified(message: Json) -> Json:
    """The same of the specification itself. A body or properties of none are the same as empty ones."""
    properties = dict(message["properties"])
    group_id = properties.pop("JMSXGroupID", {"v": None})["v"]
    group_sequence = properties.pop("JMSXGroupSeq", {"v": 0})["v"]
    return {
        "kind": message["kind"],
        "body": message["body"],
        "properties": properties,
        "correlation_id": message.get("correlation_id"),
        "reply_to": message.get("reply_to"),
        "jms_type": message.get("jms_type"),
        "priority": message.get("priority", 4),
        "group": (group_id, group_sequence),
    }
