"""The entries that analytics must show for recorded rows."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Mapping
from typing import Any

from jdbcstore.message.values import Byte, Char, Float, Long, Short

NAMES = {Byte: "byte", Short: "short", int: "int", Long: "long", Float: "float", float: "double",
         bool: "boolean", Char: "char", str: "string", bytes: "bytes", dict: "map", list: "list",
         type(None): "null"}  # fmt: skip


def expected_entry(value: Any) -> dict[str, Any]:
    kind = NAMES[type(value)]
    number = isinstance(value, int) and kind != "boolean"
    return {
        "type": kind,
        "text": text_of(value),
        "boolean": value if kind == "boolean" else None,
        "long": int(value) if number else None,
        "double": float(value) if isinstance(value, float) else None,
        "bytes": value if isinstance(value, bytes) else None,
    }


def text_of(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case int():
            return str(int(value))
        case str():
            return well_formed(str.__str__(value))
        case Float() if math.isfinite(value):
            # Any decimal that is this float again; which one is not promised.
            return struct.pack(">f", value).hex()
        case float() | bytes():
            return str(plain(value))
    return json.dumps(plain(value))


def entry(fields: dict[str, Any]) -> dict[str, Any]:
    """Comparable, also where it is no number."""
    if fields["double"] is not None:
        if fields["type"] == "float" and math.isfinite(fields["double"]):
            text = fields["text"]
            packed = text if len(text) == 8 and "." not in text and "e" not in text[1:2] else None
            fields["text"] = packed or struct.pack(">f", float(text)).hex()
        fields["double"] = struct.pack(">d", fields["double"])
    return fields


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def well_formed(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")
