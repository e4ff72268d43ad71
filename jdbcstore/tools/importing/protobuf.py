"""Messages of Protocol Buffers, which ActiveMQ's stores in files have in their records.

Read by hand: of a dozen messages few fields are needed, a body must not be copied, and one message of KahaDB
has two fields with the same number, which no generator accepts.
"""

from __future__ import annotations

from typing import Any

Span = tuple[int, int]
"""The beginning and the end of bytes in a record, or in a batch of them."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Fields = dict[int, Any]
"""Number and wire type, as in the format's keys -> an unsigned number, or a span."""


class MalformedLog(Exception):
    """The bytes at ``at`` are malformed."""

    def __init__(self, reason: str, at: int) -> None:
        self.at = at
        super().__init__(reason)


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends.

    :raises MalformedLog: it does not end
    """
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            break
    raise MalformedLog("a number does not end", at)


def read_fields(data: bytes, span: Span) -> Fields:
    """Return the fields of a message; of a repeated field the last.

    :raises MalformedLog: it is none
    """
    fields: Fields = {}
    at, end = span
    while at < end:
        begin = at
        key, at = read_varint(data, at, end)
        kind = key & 7
        if kind == VARINT:
            fields[key], at = read_varint(data, at, end)
        elif kind == BYTES:
            length, at = read_varint(data, at, end)
            if length > end - at:
                raise MalformedLog(f"a field of {length} bytes does not fit into {end - at}", begin)
            fields[key] = (at, at + length)
            at += length
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
        else:
            raise MalformedLog(f"there is no field of type {kind}", begin)
    if at != end:
        raise MalformedLog("a field ends too late", at)
    return fields


class FieldReader:
    """The fields of one message."""

    __slots__ = ("_at", "_data", "_fields")

    def __init__(self, data: bytes, span: Span) -> None:
        self._data = data
        self._fields = read_fields(data, span)
        self._at = span[0]

    def only(self, *keys: int) -> None:
        """Check that there are no other fields than these, by number and wire type.

        :raises MalformedLog: there is one
        """
        for key in self._fields:
            if key not in keys:
                raise MalformedLog(f"there is no field {key >> 3} of type {key & 7}", self._at)

    def span(self, number: int) -> Span | None:
        return self._fields.get(number << 3 | BYTES)

    def needed(self, number: int) -> Span:
        span = self.span(number)
        if span is None:
            raise MalformedLog(f"the field {number} is missing", self._at)
        return span

    def binary(self, number: int) -> bytes:
        start, end = self.needed(number)
        return self._data[start:end]

    def string(self, number: int) -> str:
        raw = self.binary(number)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return self._java(raw)

    def _java(self, raw: bytes) -> str:
        # Java code encodes each half of a surrogate pair.
        try:
            halves = raw.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass")
            return halves.decode("utf-16-le")
        except UnicodeError:
            raise MalformedLog("a string is not UTF-8", self._at) from None

    def number(self, number: int, default: int | None = None) -> int:
        """Return a signed number."""
        value: int | None = self._fields.get(number << 3, default)
        if value is None:
            raise MalformedLog(f"the field {number} is missing", self._at)
        value &= 2**64 - 1
        return value - 2**64 if value >= 2**63 else value


def java_int(value: int) -> int:
    """Return the number that Java makes of one when it keeps 32 bits of it."""
    return (value + 2**31) % 2**32 - 2**31
