"""Display of bodies and properties: each value with its Java type. Java objects are never deserialised."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jdbcstore.errors import BodyInPieces, CorruptMessage
from jdbcstore.message.facts import facts_of
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.readable import indented, text_of_bytes
from jdbcstore.message.values import Byte, Char, Float, Long, Short, plain

MOST_TEXT = 256 * 1024
"""The most characters of a body that are shown."""
MOST_BYTES = 4096
_MOST_ROWS = 1000
_PREVIEW = 80
_KINDS = {
    BodyType.MESSAGE: "Message, without a body",
    BodyType.TEXT: "TextMessage",
    BodyType.BYTES: "BytesMessage",
    BodyType.MAP: "MapMessage",
    BodyType.STREAM: "StreamMessage",
    BodyType.OBJECT: "ObjectMessage",
    BodyType.BLOB: "BlobMessage",
}
_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (Byte, "byte"),
    (Short, "short"),
    (Long, "long"),
    (int, "int"),
    (Float, "float"),
    (float, "double"),
    (Char, "char"),
    (str, "String"),
    (bytes, "byte[]"),
    (Mapping, "Map"),
    (Sequence, "List"),
)

Row = tuple[str, str, str]
"""A name, a type and a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBody:
    """The body of a message as text, rows or a hex dump."""

    kind: str
    """The kind of message, as JMS calls it."""
    note: str = ""
    text: str | None = None
    rows: Sequence[Row] | None = None
    dump: str | None = None
    has_dump: bool = False
    """Whether it can be shown as a hex dump instead, which shows each byte as it was sent."""


def shown_body(message: Message, *, as_hex: bool = False) -> ShownBody:
    """Return the body; JSON and XML are indented, and bytes in UTF-8 are shown as text.

    :param as_hex: show strings and bytes as a hex dump

    :raises CorruptMessage: it cannot be decoded
    """
    kind = _KINDS[message.body_type]
    try:
        body = message.body
    except BodyInPieces as error:
        return ShownBody(kind=kind, note=f"{error.size:,} bytes, stored in pieces, which are not shown")
    match message.body_type, body:
        case BodyType.BLOB, _:
            return ShownBody(
                kind=kind, note="The body is stored at this URL.", text=message.remote_blob_url or ""
            )
        case _, None:
            note = "" if message.body_type is BodyType.MESSAGE else "The body is null."
            return ShownBody(kind=kind, note=note)
        case _, str() if as_hex:
            return _dumped(kind, body.encode("utf-8", "surrogatepass"), "; in UTF-8")
        case _, str():
            cut = f"The first {MOST_TEXT:,} of " if len(body) > MOST_TEXT else ""
            text = indented(body[:MOST_TEXT])
            return ShownBody(kind=kind, note=f"{cut}{len(body):,} characters", text=text, has_dump=True)
        case BodyType.OBJECT, bytes():
            return _dumped(kind, body, ", a serialised Java object, which is never deserialised here")
        case _, bytes():
            plain = None if as_hex else text_of_bytes(body, MOST_TEXT)
            if plain is None:
                return _dumped(kind, body)
            cut = f"The first {MOST_TEXT:,} of " if len(body) > MOST_TEXT else ""
            note = f"{cut}{len(body):,} bytes, text in UTF-8"
            return ShownBody(kind=kind, note=note, text=indented(plain), has_dump=True)
        case _, Mapping():
            return ShownBody(kind=kind, note=_rows(len(body)), rows=rows_of(body.items()))
        case _:
            items = [(str(at), value) for at, value in enumerate(body, 1)]
            return ShownBody(kind=kind, note=_rows(len(items)), rows=rows_of(items))


def _dumped(kind: str, data: bytes, more: str = "") -> ShownBody:
    cut = f"The first {MOST_BYTES:,} of " if len(data) > MOST_BYTES else ""
    return ShownBody(kind=kind, note=f"{cut}{len(data):,} bytes{more}", dump=dump(data[:MOST_BYTES]))


def _rows(count: int) -> str:
    cut = f"The first {_MOST_ROWS:,} of " if count > _MOST_ROWS else ""
    return f"{cut}{count:,} {'value' if count == 1 else 'values'}"


def rows_of(values: Iterable[tuple[str, object]]) -> list[Row]:
    """Return names and values, such as properties, with the type of each."""
    return [
        (name, type_of(value), text_of(value))
        for (name, value), _ in zip(values, range(_MOST_ROWS), strict=False)
    ]


def type_of(value: object) -> str:
    """Return the Java type of a value."""
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "null")


def text_of(value: object) -> str:
    """Return a value as text."""
    if isinstance(value, str):
        return str.__str__(value)[:MOST_TEXT]
    if isinstance(value, bytes):
        return value[:MOST_BYTES].hex(" ") + (" …" if len(value) > MOST_BYTES else "")
    return json.dumps(plain(value), ensure_ascii=False)[:MOST_TEXT]


def dump(data: bytes) -> str:
    """Return bytes as lines of sixteen: their position, hexadecimal, and as ASCII."""
    lines = []
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        ascii_part = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:06x}  {part[:8].hex(' '):23}  {part[8:].hex(' '):23}  {ascii_part}")
    return "\n".join(lines)


def properties_of(message: Message) -> list[Row]:
    """Return the properties, including the headers that JMS stores as properties.

    :raises CorruptMessage: they cannot be decoded
    """
    values: dict[str, object] = dict(message.properties)
    for name in ("JMSXGroupID", "JMSXGroupSeq", "JMSXUserID"):
        value = facts_of(message)["properties"].get(name) if name not in values else None
        if value is not None:
            values[name] = value
    return sorted(rows_of(values.items()))


def preview(message: Message) -> str:
    """Return the beginning of a body on one line."""
    try:
        body = message.body
    except BodyInPieces as error:
        return f"{error.size:,} bytes in pieces"
    except CorruptMessage:
        return "cannot be decoded"
    if isinstance(body, bytes) and message.body_type is not BodyType.OBJECT:
        text = text_of_bytes(body, 4 * _PREVIEW)
        body = body if text is None else text
    if isinstance(body, str):
        return " ".join(body[: 4 * _PREVIEW].split())[:_PREVIEW]
    if isinstance(body, bytes):
        return body[:24].hex(" ")
    if body is None:
        return ""
    items = (
        [f"{name}={value}" for name, _, value in rows_of([*body.items()][:8])]
        if isinstance(body, Mapping)
        else [text_of(element) for element in body[:8]]
    )
    return ", ".join(items)[:_PREVIEW]
