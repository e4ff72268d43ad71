"""The stored bytes of a decoded message: its body and properties, decoded when they are first asked for."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from types import MappingProxyType
from typing import Any

from jdbcstore.errors import CorruptMessage
from jdbcstore.message.message import EMPTY_BODIES, NO_PROPERTIES, Body, BodyType, Message
from jdbcstore.message.openwire import wire_format as wire
from jdbcstore.message.openwire.wire_format import Malformed
from jdbcstore.message.values import MAX_NESTING, Byte, Char, Float, Long, Short, Value

NOWHERE = -1

_MAP, _STREAM = BodyType.MAP, BodyType.STREAM
_i32 = Struct(">i").unpack_from


@dataclass(slots=True, eq=False)
class StoredBytes:
    """A blob with the places of a message's content and properties in it.

    ``version`` is that of the blob while the message is unchanged, then 0. A size of -1: there is no content
    (or there are no properties); a place of -1: the message has new ones.
    """

    blob: bytes
    version: int
    sequence_offset: int
    content_at: int
    content_size: int
    properties_at: int
    properties_size: int
    container: str | None

    @property
    def has_properties(self) -> bool:
        """Whether the properties are those of the blob, and not new ones."""
        return self.properties_at != NOWHERE and self.properties_size >= 0

    @property
    def body_size(self) -> int:
        return max(self.content_size, 0)

    @property
    def content(self) -> bytes | None:
        return self._slice(self.content_at, self.content_size)

    @property
    def marshalled_properties(self) -> bytes | None:
        return self._slice(self.properties_at, self.properties_size)

    def _slice(self, at: int, size: int) -> bytes | None:
        return None if size < 0 else self.blob[at : at + size]

    def read_body(self, message: Message) -> Body:
        try:
            return decode_body(self.content, message.body_type, message.compressed)
        except Malformed as error:
            raise self._corrupt(error, message) from error

    def read_properties(self, message: Message) -> Mapping[str, Value]:
        marshalled = self.marshalled_properties
        if marshalled is None:
            return NO_PROPERTIES
        try:
            return MappingProxyType(decode_map(marshalled))
        except Malformed as error:
            raise self._corrupt(error, message) from error

    def _corrupt(self, error: Malformed, message: Message) -> CorruptMessage:
        destination = message.destination
        container = self.container or (destination.qualified_name if destination else None)
        return CorruptMessage(str(error), blob=self.blob, sequence=message.sequence, container=container)

    def part(self, *, body: bool, properties: bool) -> StoredBytes | None:
        """Return the source of a changed message that keeps the body, the properties, or neither (None)."""
        if not body and not properties:
            return None
        return StoredBytes(
            self.blob, 0, NOWHERE, self.content_at if body else NOWHERE, self.content_size,
            self.properties_at if properties else NOWHERE, self.properties_size, self.container,
        )  # fmt: skip


def decode_body(content: bytes | None, kind: BodyType, compressed: bool) -> Body:
    """Return the body of this content field.

    :raises Malformed: it is damaged, or inflates to more than a limit
    """
    if content is None or kind in (BodyType.MESSAGE, BodyType.BLOB):
        return EMPTY_BODIES.get(kind)
    if compressed and kind is BodyType.BYTES:
        return _inflate_bytes(content)
    if compressed:
        limit = wire.MAX_INFLATED_VALUES if kind in (_MAP, _STREAM) else wire.MAX_INFLATED
        content = _inflate(content, limit)
    if kind is BodyType.TEXT:
        return _decode_text(content)
    if kind is _MAP:
        return MappingProxyType(decode_map(content))
    if kind is _STREAM:
        return decode_values(content)
    return content


def check_inflated(message: Message, limit: int) -> None:
    """Raise if the compressed body of a message has more bytes than a limit.

    :raises CorruptMessage: it has, or is damaged
    """
    source = message._source
    content = None if source is None or not message.compressed else source.content
    if content is None:
        return
    try:
        _inflate(content[4:] if message.body_type is BodyType.BYTES else content, limit)
    except Malformed as error:
        raise CorruptMessage(f"message {message.message_id}: {error}") from error


def _decode_text(content: bytes) -> str | None:
    size = _size(content, "the text ends within its length")
    if size == -1 and len(content) == 4:
        return None
    if size != len(content) - 4:
        raise Malformed(f"the text should have {size} bytes and has {len(content) - 4}")
    return decode_utf(content[4:])


def _size(content: bytes, otherwise: str) -> int:
    if len(content) < 4:
        raise Malformed(otherwise)
    return _i32(content)[0]  # type: ignore[no-any-return]


def _inflate_bytes(content: bytes) -> bytes:
    """Inflate a body of bytes: four bytes of length, then the deflated bytes.

    ActiveMQ deflates the whole of its write buffer, so more may come out than the length says.
    """
    size = _size(content, "the compressed bytes end within their length")
    inflated = _inflate(content[4:], wire.MAX_INFLATED)
    if not 0 <= size <= len(inflated):
        raise Malformed(f"the body should have {size} bytes and inflates to {len(inflated)}")
    return inflated[:size]


def _inflate(data: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise Malformed(f"the compressed body is damaged ({error})") from None
    if len(inflated) > limit:
        raise Malformed(f"the compressed body inflates to more than {limit} bytes")
    if not inflater.eof or inflater.unused_data:
        raise Malformed("the compressed body ends too early, or has bytes after its end")
    return inflated


def decode_map(data: bytes) -> dict[str, Value]:
    """Return the primitive map that ``data`` is; :class:`Malformed` if it is not one."""
    try:
        values, at = _read_map(data, 0, MAX_NESTING)
    except (StructError, IndexError):
        raise Malformed("a map ends too early") from None
    if at != len(data):
        raise Malformed(f"a map is followed by {len(data) - at} more bytes")
    return {} if values is None else values


def decode_values(data: bytes) -> tuple[Value, ...]:
    """Return the values that ``data`` consists of; :class:`Malformed` if it does not."""
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
            raise Malformed("a name goes beyond the end of its map")
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
    (count,) = _i32(data, at)
    if count > len(data) - at - 4:
        raise Malformed(f"a map or list of {count} elements does not fit into its {len(data)} bytes")
    if nesting == 0:
        raise Malformed(f"maps and lists are nested more than {MAX_NESTING} deep")
    return count  # type: ignore[no-any-return]


def _read(data: bytes, at: int, nesting: int) -> tuple[Value, int]:
    """Return the tagged value at ``at``, and the place of the next one."""
    tag = data[at]
    at += 1
    if tag == wire.STRING:
        return _read_text(data, at + 2, data[at] << 8 | data[at + 1])
    fixed = _FIXED.get(tag)
    if fixed is not None:
        unpack, size, make = fixed
        (value,) = unpack(data, at)
        return value if make is None else make(value), at + size
    if tag == wire.NULL:
        return None, at
    if tag == wire.MAP:
        return _read_map(data, at, nesting - 1)
    if tag == wire.LIST:
        return _read_list(data, at, nesting - 1)
    if tag == wire.BIG_STRING:
        return _read_text(data, at + 4, _i32(data, at)[0])
    if tag == wire.BYTES:
        return _take(data, at + 4, _i32(data, at)[0])
    raise Malformed(f"{tag} is not the tag of a value")


def _read_text(data: bytes, start: int, size: int) -> tuple[str, int]:
    raw, at = _take(data, start, size)
    return decode_utf(raw), at


def _take(data: bytes, start: int, size: int) -> tuple[bytes, int]:
    end = start + size
    if size < 0 or end > len(data):
        raise Malformed(f"a value of {size} bytes does not fit into the {len(data)} it is in")
    return data[start:end], end


_FIXED: dict[int, tuple[Callable[[bytes, int], tuple[Any, ...]], int, Callable[[Any], Value] | None]] = {
    wire.BOOLEAN: (Struct(">?").unpack_from, 1, None),
    wire.BYTE: (Struct(">b").unpack_from, 1, Byte),
    wire.CHAR: (Struct(">H").unpack_from, 2, lambda code: Char(chr(code))),
    wire.SHORT: (Struct(">h").unpack_from, 2, Short),
    wire.INT: (_i32, 4, None),
    wire.LONG: (Struct(">q").unpack_from, 8, Long),
    wire.DOUBLE: (Struct(">d").unpack_from, 8, None),
    wire.FLOAT: (Struct(">I").unpack_from, 4, Float.from_bits),
}

_SURROGATE_PAIR = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]")


def decode_utf(raw: bytes) -> str:
    """Return the string of these bytes of modified UTF-8; unpaired surrogates are kept."""
    try:
        return raw.decode()  # right for all but NUL and surrogates, which plain UTF-8 refuses
    except UnicodeDecodeError:
        pass
    raw = _SURROGATE_PAIR.sub(lambda match: _four_bytes(match[0]), raw.replace(b"\xc0\x80", b"\0"))
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Malformed(f"a string is not modified UTF-8 ({error.reason})") from None


@lru_cache(maxsize=4096)
def _four_bytes(surrogate_pair: bytes) -> bytes:
    units = surrogate_pair.decode("utf-8", "surrogatepass").encode("utf-16-be", "surrogatepass")
    return units.decode("utf-16-be").encode()
