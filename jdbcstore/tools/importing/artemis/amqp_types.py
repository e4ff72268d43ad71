"""AMQP 1.0's encoding of values, read into those of JMS.

It is some hundred lines; the libraries that have it (Proton, and what wraps it) are clients built around an
engine in C, which this import would need for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple
from uuid import UUID

from jdbcstore.errors import CorruptMessage
from jdbcstore.message.values import MAX_NESTING, Byte, Char, Float, Long, Short
from jdbcstore.tools.importing.artemis.buffer import Buffer

_u32 = Struct(">I")
_i8, _double = Struct(">b"), Struct(">d")
_MOST_LONG = 2**63


class Described(NamedTuple):
    """A value with a descriptor: a section of a message, for example."""

    descriptor: Any
    value: Any


class Symbol(str):
    """A name, as other strings are not."""

    __slots__ = ()


def read_value(buffer: Buffer, depth: int = 0) -> Any:
    """Return the next value.

    Numbers without a sign become those of JMS that can hold them, times milliseconds.

    :raises CorruptMessage: there is none, or it is damaged
    """
    return _read(buffer, buffer.byte(), depth)


def _read(buffer: Buffer, code: int, depth: int) -> Any:
    if depth > MAX_NESTING:
        raise CorruptMessage(f"more than {MAX_NESTING} values are nested in each other")
    if code in _SCALARS or code in _SIZED:
        return _simple(buffer, code)
    match code:
        case 0x00:
            descriptor = read_value(buffer, depth + 1)
            return Described(descriptor, read_value(buffer, depth + 1))
        case 0xC0 | 0xD0:
            return _items(buffer, code == 0xD0, depth)
        case 0xC1 | 0xD1:
            items = _items(buffer, code == 0xD1, depth)
            if len(items) % 2:
                raise CorruptMessage("a map has a key without a value")
            return dict(zip((_key(key) for key in items[::2]), items[1::2], strict=True))
        case 0xE0 | 0xF0:
            return _array(buffer, code == 0xF0, depth)
    raise CorruptMessage(f"{code:#04x} is not a type of AMQP's")


def _simple(buffer: Buffer, code: int) -> Any:
    try:
        if code in _SCALARS:
            return _SCALARS[code](buffer)
        width, make = _SIZED[code]
        return make(buffer.take(_unsigned(buffer, width)))
    except CorruptMessage:
        raise
    except (ValueError, OverflowError) as error:
        raise CorruptMessage(f"a value of the type {code:#04x}: {error}") from error


def _key(key: Any) -> Any:
    if isinstance(key, list | dict | Described):
        raise CorruptMessage("a key of a map is not a simple value")
    return key


def _unsigned(buffer: Buffer, width: int) -> int:
    at = buffer.skip(width)
    return int.from_bytes(buffer.data[at : at + width])


def _part(buffer: Buffer, is_wide: bool) -> tuple[Buffer, int]:
    """Return the bytes of a list, map or array, and the number of its elements."""
    width = 4 if is_wide else 1
    size = _unsigned(buffer, width)
    at = buffer.skip(size)
    part = Buffer(buffer.data, at, at + size)
    return part, _unsigned(part, width)


def _items(buffer: Buffer, is_wide: bool, depth: int) -> list[Any]:
    part, count = _part(buffer, is_wide)
    if count > part.left:
        raise CorruptMessage(f"a list says that it has {count} elements")
    items = [read_value(part, depth + 1) for _ in range(count)]
    if part.left:
        raise CorruptMessage(f"{part.left} bytes are left over in a list")
    return items


def _array(buffer: Buffer, is_wide: bool, depth: int) -> list[Any]:
    part, count = _part(buffer, is_wide)
    code = part.byte()
    if code == 0x00:
        read_value(part, depth + 1)
        code = part.byte()
    if count > max(part.left, 1) * 8 or code in (0x40, 0x41, 0x42, 0x43, 0x44, 0x45):
        raise CorruptMessage(f"an array says that it has {count} elements of the type {code:#04x}")
    return [_read(part, code, depth + 1) for _ in range(count)]


def _ulong(number: int) -> Any:
    if number >= _MOST_LONG:
        raise CorruptMessage(f"{number} is beyond a long of JMS")
    return Long(number)


_SCALARS: dict[int, Callable[[Buffer], Any]] = {
    0x40: lambda _: None,
    0x45: lambda _: [],
    0x41: lambda _: True,
    0x42: lambda _: False,
    0x56: Buffer.boolean,
    0x50: lambda buffer: Short(buffer.byte()),
    0x60: lambda buffer: _unsigned(buffer, 2),
    0x70: lambda buffer: Long(_unsigned(buffer, 4)),
    0x52: lambda buffer: Long(buffer.byte()),
    0x43: lambda _: Long(0),
    0x80: lambda buffer: _ulong(_unsigned(buffer, 8)),
    0x53: lambda buffer: Long(buffer.byte()),
    0x44: lambda _: Long(0),
    0x51: lambda buffer: Byte(_i8.unpack_from(buffer.data, buffer.skip(1))[0]),
    0x61: lambda buffer: Short(buffer.short()),
    0x71: Buffer.integer,
    0x54: lambda buffer: int(_i8.unpack_from(buffer.data, buffer.skip(1))[0]),
    0x81: lambda buffer: Long(buffer.long()),
    0x55: lambda buffer: Long(_i8.unpack_from(buffer.data, buffer.skip(1))[0]),
    0x72: lambda buffer: Float.from_bits(_u32.unpack_from(buffer.data, buffer.skip(4))[0]),
    0x82: lambda buffer: _double.unpack_from(buffer.data, buffer.skip(8))[0],
    0x73: lambda buffer: Char(chr(_unsigned(buffer, 4))),
    0x83: lambda buffer: Long(buffer.long()),
    0x98: lambda buffer: UUID(bytes=buffer.take(16)),
}
_SIZED: dict[int, tuple[int, Callable[[bytes], Any]]] = {
    0xA0: (1, bytes),
    0xB0: (4, bytes),
    0xA1: (1, bytes.decode),
    0xB1: (4, bytes.decode),
    0xA3: (1, lambda raw: Symbol(raw.decode("ascii"))),
    0xB3: (4, lambda raw: Symbol(raw.decode("ascii"))),
}
