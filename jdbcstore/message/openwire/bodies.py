"""What is in a message's content: its body, deflated or not."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from types import MappingProxyType

from jdbcstore.message.body import NO_PROPERTIES, Body, BodyType
from jdbcstore.message.openwire.primitives import decode_map, decode_values, encode_map, encode_values
from jdbcstore.message.openwire.types import MAX_INFLATED, MAX_INFLATED_VALUES, Malformed
from jdbcstore.message.openwire.utf import decode_utf, encode_utf
from jdbcstore.message.values import Value

_TEXT, _BYTES, _MAP = BodyType.TEXT, BodyType.BYTES, BodyType.MAP
_STREAM, _OBJECT = BodyType.STREAM, BodyType.OBJECT
_i32 = Struct(">i")


def encode_body(body: Body, kind: BodyType, compressed: bool) -> bytes | None:
    """The content that holds this body, which :func:`jdbcstore.message.body.checked_body` has seen.

    As ActiveMQ's clients do, an empty bytes, map or stream body is no content at all.
    """
    if body is None or (not body and kind in (_BYTES, _MAP, _STREAM)):
        return None
    if kind is _BYTES:
        return _i32.pack(len(body)) + zlib.compress(body) if compressed else body  # type: ignore
    content = _plain(body)
    return zlib.compress(content) if compressed else content


def _plain(body: str | bytes | tuple[Value, ...] | Mapping[str, Value]) -> bytes:
    if isinstance(body, str):
        raw = encode_utf(body)
        return _i32.pack(len(raw)) + raw
    if isinstance(body, tuple):
        return encode_values(body)
    return body if isinstance(body, bytes) else encode_map(body)


def decode_body(content: bytes | None, kind: BodyType, compressed: bool) -> Body:
    """The body in this content.

    :raises Malformed: it is damaged, or inflates to more than anyone would send
    """
    if content is None or kind in (BodyType.MESSAGE, BodyType.BLOB):
        return _EMPTY.get(kind)
    if compressed and kind is _BYTES:
        return _inflate_bytes(content)
    if compressed:
        content = _inflate(content, MAX_INFLATED_VALUES if kind in (_MAP, _STREAM) else MAX_INFLATED)
    if kind is _TEXT:
        return _decode_text(content)
    if kind is _MAP:
        return MappingProxyType(decode_map(content))
    if kind is _STREAM:
        return decode_values(content)
    return content


_EMPTY: dict[BodyType, Body] = {_BYTES: b"", _MAP: NO_PROPERTIES, _STREAM: ()}


def _decode_text(content: bytes) -> str | None:
    try:
        (size,) = _i32.unpack_from(content)
    except StructError:
        raise Malformed("the text ends within its length") from None
    if size == -1 and len(content) == 4:
        return None
    if size != len(content) - 4:
        raise Malformed(f"the text should have {size} bytes and has {len(content) - 4}")
    return decode_utf(content[4:])


def _inflate_bytes(content: bytes) -> bytes:
    """Four bytes of length, then the deflated bytes.

    ActiveMQ deflates the whole of its write buffer, so more may come out than the length says.
    """
    try:
        (size,) = _i32.unpack_from(content)
    except StructError:
        raise Malformed("the compressed bytes end within their length") from None
    inflated = _inflate(content[4:], MAX_INFLATED)
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
        raise Malformed("the compressed body ends too early or goes on behind its end")
    return inflated
