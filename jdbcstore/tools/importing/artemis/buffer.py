"""A reader of the primitive values that Artemis writes: big-endian numbers, strings, typed properties."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from jdbcstore.errors import CorruptMessage, InvalidMessage
from jdbcstore.message.values import Byte, Char, Float, Long, Short, Value

_i16, _u16, _i32, _i64 = Struct(">h"), Struct(">H"), Struct(">i"), Struct(">q")
_u32, _double = Struct(">I"), Struct(">d")
_SHORT, _UTF = 9, 0xFFF
"""From how many characters on a string is encoded in another way."""


class Buffer:
    """Bytes that are read from the front to the back.

    :raises CorruptMessage: the value is missing or malformed
    """

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """The bytes that are left."""
        return self.end - self.at

    def skip(self, size: int) -> int:
        """Pass bytes, and return where they begin."""
        at = self.at
        if not 0 <= size <= self.end - at:
            raise CorruptMessage(f"it ends where {size} bytes should follow")
        self.at = at + size
        return at

    def take(self, size: int) -> bytes:
        at = self.skip(size)
        return self.data[at : at + size]

    def byte(self) -> int:
        """Return a byte without a sign."""
        return self.data[self.skip(1)]

    def boolean(self) -> bool:
        return self.byte() != 0

    def short(self) -> int:
        return int(_i16.unpack_from(self.data, self.skip(2))[0])

    def integer(self) -> int:
        return int(_i32.unpack_from(self.data, self.skip(4))[0])

    def long(self) -> int:
        return int(_i64.unpack_from(self.data, self.skip(8))[0])

    def sized(self) -> bytes:
        """Return bytes whose number comes before them."""
        return self.take(self.integer())

    def simple_string(self) -> str:
        """Return a string that is stored in UTF-16, with the least significant byte first."""
        raw = self.sized()
        if len(raw) % 2:
            raise CorruptMessage("a string has half a character")
        return raw.decode("utf-16-le", "surrogatepass")

    def nullable_simple_string(self) -> str | None:
        return self.simple_string() if self.boolean() else None

    def nullable_string(self) -> str | None:
        """Return a string as Java's clients write it into a stream: its form depends on its length."""
        if not self.boolean():
            return None
        length = self.integer()
        if length < 0:
            raise CorruptMessage(f"a string says that it has {length} characters")
        if length < _SHORT:
            text = self.take(2 * length).decode("utf-16-be", "surrogatepass")
        elif length < _UTF:
            text = _modified_utf8(self.take(_u16.unpack_from(self.data, self.skip(2))[0]))
        else:
            text = self.simple_string()
        if len(text.encode("utf-16-le", "surrogatepass")) != 2 * length:
            raise CorruptMessage(f"a string of {length} characters has another number of them")
        return text

    def properties(self) -> dict[str, Value]:
        """Return typed properties: those of a message, or the body of a map message."""
        if not self.boolean():
            return {}
        count = self.integer()
        if not 0 <= count <= self.left:
            raise CorruptMessage(f"it says that it has {count} properties")
        properties: dict[str, Value] = {}
        for _ in range(count):
            name = self.simple_string()
            properties[name] = self.value(Buffer.simple_string)
        return properties

    def value(self, string: Callable[[Buffer], str | None]) -> Value:
        """Return a value, whose type comes before it.

        :param string: reads one of type string
        """
        kind = self.byte()
        if kind == _STRING:
            return string(self)
        read = _TYPES.get(kind)
        if read is None:
            raise CorruptMessage(f"{kind} is not a type of a value")
        try:
            result: Value = read(self)
        except InvalidMessage as error:
            raise CorruptMessage(str(error)) from error
        return result


_STRING = 10
_TYPES: dict[int, Callable[[Buffer], Any]] = {
    0: lambda _: None,
    2: Buffer.boolean,
    3: lambda buffer: Byte(buffer.byte() - (256 if buffer.data[buffer.at - 1] > 127 else 0)),
    4: Buffer.sized,
    5: lambda buffer: Short(buffer.short()),
    6: Buffer.integer,
    7: lambda buffer: Long(buffer.long()),
    8: lambda buffer: Float.from_bits(_u32.unpack_from(buffer.data, buffer.skip(4))[0]),
    9: lambda buffer: _double.unpack_from(buffer.data, buffer.skip(8))[0],
    11: lambda buffer: Char(buffer.take(2).decode("utf-16-be", "surrogatepass")),
}


def _modified_utf8(raw: bytes) -> str:
    """Return a string in which each half of a pair has three bytes, and NUL has one or two."""
    try:
        text = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptMessage(f"a string is not UTF-8: {error.reason}") from error
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
