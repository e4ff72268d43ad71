"""Tagged Java values: the elements of properties, map bodies and stream bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import Any

from jdbcstore.message.openwire.types import Malformed
from jdbcstore.message.openwire.utf import decode_utf, encode_utf, java_length, short_utf
from jdbcstore.message.values import MAX_NESTING, Byte, Char, Float, Long, Short, Value

NULL, BOOLEAN, BYTE, CHAR, SHORT, INT, LONG, DOUBLE, FLOAT, STRING, BYTES, MAP, LIST, BIG_STRING = range(14)

BIG_STRING_CHARS = 8191
"""From this many Java chars on, ActiveMQ writes a string with a length of four bytes."""

_u16, _i32, _u32 = Struct(">H"), Struct(">i"), Struct(">I")
_tagged = {tag: Struct(">B" + code) for tag, code in ((BOOLEAN, "?"), (BYTE, "b"), (CHAR, "H"), (SHORT, "h"),
           (INT, "i"), (LONG, "q"), (DOUBLE, "d"), (FLOAT, "I"), (BYTES, "i"), (MAP, "i"), (LIST, "i"),
           (BIG_STRING, "i"))}  # fmt: skip
_pack_int = _tagged[INT].pack


def encode_map(values: Mapping[str, Value]) -> bytes:
    """The primitive map of these values, which :func:`jdbcstore.message.values.checked_map` has seen."""
    out: list[bytes] = []
    _write_map(out, values)
    return b"".join(out)


def encode_values(values: tuple[Value, ...]) -> bytes:
    """The values one after the other, as in a stream body."""
    out: list[bytes] = []
    for value in values:
        _write(out, value)
    return b"".join(out)


def _write_map(out: list[bytes], values: Mapping[str, Value]) -> None:
    out.append(_i32.pack(len(values)))
    for name, value in values.items():
        out.append(_encode_name(name))
        _write(out, value)


@lru_cache(maxsize=512)
def _encode_name(name: str) -> bytes:
    """Names come again and again."""
    return short_utf(name, "a name")


def _write(out: list[bytes], value: Value) -> None:
    kind = type(value)
    if kind is str:
        out.append(_string(value))  # type: ignore[arg-type]
    elif kind is int:
        out.append(_pack_int(INT, value))
    elif kind is dict:
        out.append(b"\x0b")
        _write_map(out, value)  # type: ignore[arg-type]
    elif kind is list:
        out.append(_tagged[LIST].pack(LIST, len(value)))  # type: ignore[arg-type]
        for item in value:  # type: ignore[union-attr]
            _write(out, item)
    else:
        out.append(_WRITERS[kind](value))


def _string(text: str) -> bytes:
    if len(text) * 2 >= BIG_STRING_CHARS and java_length(text) >= BIG_STRING_CHARS:
        raw = encode_utf(text)
        return _tagged[BIG_STRING].pack(BIG_STRING, len(raw)) + raw
    raw = encode_utf(text)
    return b"\x09" + len(raw).to_bytes(2, "big") + raw


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"\0",
    bool: lambda value: b"\1\1" if value else b"\1\0",
    float: lambda value: _tagged[DOUBLE].pack(DOUBLE, value),
    bytes: lambda value: _tagged[BYTES].pack(BYTES, len(value)) + value,
    Byte: lambda value: _tagged[BYTE].pack(BYTE, value),
    Short: lambda value: _tagged[SHORT].pack(SHORT, value),
    Long: lambda value: _tagged[LONG].pack(LONG, value),
    Float: lambda value: _tagged[FLOAT].pack(FLOAT, value.bits),
    Char: lambda value: _tagged[CHAR].pack(CHAR, ord(value)),
}


def decode_map(data: bytes) -> dict[str, Value]:
    """The primitive map that fills ``data``; :class:`Malformed` if it does not, or is none."""
    try:
        values, at = _read_map(data, 0, MAX_NESTING)
    except (StructError, IndexError):
        raise Malformed("a map ends too early") from None
    if at != len(data):
        raise Malformed(f"{len(data) - at} bytes are left over behind a map")
    return {} if values is None else values


def decode_values(data: bytes) -> tuple[Value, ...]:
    """The values that fill ``data``; :class:`Malformed` if they do not."""
    values: list[Value] = []
    at, size = 0, len(data)
    try:
        while at < size:
            value, at = _read(data, at, MAX_NESTING)
            values.append(value)
    except (StructError, IndexError):
        raise Malformed("a stream ends too early") from None
    return tuple(values)


def _read_map(data: bytes, at: int, nesting: int) -> tuple[dict[str, Value] | None, int]:
    count = _count(data, at, nesting)
    at += 4
    if count < 0:
        return None, at
    values: dict[str, Value] = {}
    for _ in range(count):
        start = at + 2
        at = start + (data[at] << 8 | data[at + 1])
        if at > len(data):
            raise Malformed("a name ends behind its map")
        name = decode_utf(data[start:at])
        values[name], at = _read(data, at, nesting)
    return values, at


def _read_list(data: bytes, at: int, nesting: int) -> tuple[list[Value], int]:
    count = _count(data, at, nesting)
    at += 4
    if count < 0:
        raise Malformed(f"a list has {count} elements")
    values: list[Value] = []
    for _ in range(count):
        value, at = _read(data, at, nesting)
        values.append(value)
    return values, at


def _count(data: bytes, at: int, nesting: int) -> int:
    (count,) = _i32.unpack_from(data, at)
    if count > len(data) - at - 4:
        raise Malformed(f"a map or list of {count} elements does not fit into its {len(data)} bytes")
    if nesting == 0:
        raise Malformed(f"maps and lists are nested more than {MAX_NESTING} deep")
    return count  # type: ignore[no-any-return]


def _read(data: bytes, at: int, nesting: int) -> tuple[Value, int]:
    """The tagged value at ``at``, and where the next one starts."""
    tag = data[at]
    at += 1
    if tag == STRING:
        return _read_text(data, at + 2, data[at] << 8 | data[at + 1])
    fixed = _FIXED.get(tag)
    if fixed is not None:
        unpack, size, make = fixed
        (value,) = unpack(data, at)
        return value if make is None else make(value), at + size
    if tag == NULL:
        return None, at
    if tag == MAP:
        return _read_map(data, at, nesting - 1)
    if tag == LIST:
        return _read_list(data, at, nesting - 1)
    if tag == BIG_STRING:
        return _read_text(data, at + 4, _i32.unpack_from(data, at)[0])
    if tag == BYTES:
        raw, at = _take(data, at + 4, _i32.unpack_from(data, at)[0])
        return raw, at
    raise Malformed(f"{tag} is no tag of a value")


def _read_text(data: bytes, start: int, size: int) -> tuple[str, int]:
    raw, at = _take(data, start, size)
    return decode_utf(raw), at


def _take(data: bytes, start: int, size: int) -> tuple[bytes, int]:
    end = start + size
    if size < 0 or end > len(data):
        raise Malformed(f"a value of {size} bytes does not fit into the {len(data)} it is in")
    return data[start:end], end


_FIXED: dict[int, tuple[Callable[[bytes, int], tuple[Any, ...]], int, Callable[[Any], Value] | None]] = {
    BOOLEAN: (Struct(">?").unpack_from, 1, None),
    BYTE: (Struct(">b").unpack_from, 1, Byte),
    CHAR: (_u16.unpack_from, 2, lambda code: Char(chr(code))),
    SHORT: (Struct(">h").unpack_from, 2, Short),
    INT: (_i32.unpack_from, 4, None),
    LONG: (Struct(">q").unpack_from, 8, Long),
    DOUBLE: (Struct(">d").unpack_from, 8, None),
    FLOAT: (_u32.unpack_from, 4, Float.from_bits),
}
