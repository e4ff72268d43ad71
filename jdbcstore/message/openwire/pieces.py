"""Messages whose bodies are kept in pieces, outside of the MSG column.

The column has a head with the body's name, and the message without its body. No OpenWire message begins as
that head does: the size in front would be negative. So no program takes such a message for one with an empty
body: an ActiveMQ stops there with an error, and an older jdbcstore calls it damaged.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from jdbcstore.errors import BodyInPieces, CorruptMessage
from jdbcstore.message.message import HEADERS, UNREAD, BodyType, Message, MessageFields, seal
from jdbcstore.message.openwire.content import NOWHERE, StoredBytes
from jdbcstore.message.openwire.wire_format import BODY_ELSEWHERE, Malformed
from jdbcstore.message.values import Value

PIECES_START = BODY_ELSEWHERE + b"BIG"
_FORMAT = 1
_LAYOUT = Struct(">12sIqqq")
_CHECK = Struct(">I")
HEAD_SIZE = _LAYOUT.size + _CHECK.size
"""The bytes of the head, which the message without its body follows."""
PIECE_SIZE = 512 * 1024
"""The bytes of each piece but the last."""

_alive: WeakValueDictionary[int, LargeBody] = WeakValueDictionary()
_making = threading.Lock()


class LargeBody:
    """The name of a body that is kept in pieces. While a process has this, its store keeps the pieces.

    There is one for each body in a process; :meth:`of` returns it.
    """

    __slots__ = ("__weakref__", "number", "size", "text_size")

    def __init__(self, number: int, size: int, text_size: int) -> None:
        self.number = number
        """The name, random: no other body has it, in any store."""
        self.size = size
        """The bytes of the content field of OpenWire, of which the pieces consist."""
        self.text_size = text_size
        """The bytes of its string in UTF-8; -1 if it is not a string."""

    @classmethod
    def of(cls, number: int, size: int, text_size: int = -1) -> LargeBody:
        """Return the body of this name."""
        with _making:
            body = _alive.get(number)
            if body is None:
                body = _alive[number] = cls(number, size, text_size)
            return body

    def end(self, size: int, text_size: int = -1) -> None:
        """Note how large it is, once all of it is written."""
        self.size, self.text_size = size, text_size

    @property
    def pieces(self) -> int:
        """The number of its pieces."""
        return -(-self.size // PIECE_SIZE)

    def __repr__(self) -> str:
        return f"<LargeBody {self.number:x} of {self.size}>"


def is_alive(number: int) -> bool:
    """Return whether this process has a body of this name."""
    return number in _alive


@dataclass(slots=True, eq=False)
class StoredPieces(StoredBytes):
    """The source of a message whose body is kept in pieces: ``blob`` has the message without it."""

    large: LargeBody

    @property
    def body_size(self) -> int:
        return self.large.size

    def read_body(self, message: Message) -> NoReturn:
        destination = message.destination
        container = self.container or (destination.qualified_name if destination else None)
        raise BodyInPieces(self.large.size, sequence=message.sequence, container=container)

    def part(self, *, body: bool, properties: bool) -> StoredBytes | None:
        if body:
            return StoredPieces(
                self.blob, 0, NOWHERE, 0, -1, self.properties_at if properties else NOWHERE,
                self.properties_size, self.container, self.large,
            )  # fmt: skip
        return StoredBytes.part(self, body=False, properties=properties)


def body_in_pieces(message: Message) -> LargeBody | None:
    """Return the body of a message that is kept in pieces; None of any other message."""
    source = message._source
    return source.large if isinstance(source, StoredPieces) else None


def with_body_in_pieces(message: Message, body_type: BodyType, body: LargeBody) -> Message:
    """Return the message with a body that is kept in pieces."""
    headers: list[Any] = [body_type if name == "body_type" else getattr(message, name) for name in HEADERS]
    source: StoredBytes | None = message._source
    properties: Mapping[str, Value] = message._properties
    pieces = StoredPieces(b"", 0, NOWHERE, 0, -1, NOWHERE, -1, None, body)
    if source is not None:
        at, size = source.properties_at, source.properties_size
        pieces = StoredPieces(source.blob, 0, NOWHERE, 0, -1, at, size, source.container, body)
    return seal(MessageFields(*[*headers, UNREAD, properties, pieces]))


def without_body(message: Message) -> Message:
    """Return the message with no content in place of a body that is kept in pieces."""
    source: Any = message._source
    plain = StoredBytes(
        source.blob, 0, NOWHERE, 0, -1, source.properties_at, source.properties_size, source.container
    )
    headers: list[Any] = [getattr(message, name) for name in HEADERS]
    return seal(MessageFields(*[*headers, UNREAD, message._properties, plain]))


def head_of(body: LargeBody) -> bytes:
    """Return what precedes the message without its body."""
    data = _LAYOUT.pack(PIECES_START, _FORMAT, body.number, body.size, body.text_size)
    return data + _CHECK.pack(zlib.crc32(data))


def has_body_in_pieces(blob: bytes) -> bool:
    """Return whether a stored message is one whose body is kept in pieces; its head may be damaged."""
    return blob.startswith(PIECES_START)


def large_body_of(blob: bytes, sequence: int) -> LargeBody:
    """Return the body of a stored message, which is in pieces.

    :raises CorruptMessage: its name is damaged
    """
    try:
        return read_head(blob)
    except Malformed as error:
        raise CorruptMessage(str(error), blob=blob, sequence=sequence) from None


def read_head(blob: bytes) -> LargeBody:
    """Return the body that the head of a stored message names.

    :raises Malformed: it is damaged
    """
    if len(blob) < HEAD_SIZE:
        raise Malformed("the name of its body ends too early")
    _, version, number, size, text_size = _LAYOUT.unpack_from(blob)
    if _CHECK.unpack_from(blob, _LAYOUT.size)[0] != zlib.crc32(blob[: _LAYOUT.size]):
        raise Malformed("the name of its body does not match its checksum")
    if version != _FORMAT:
        raise Malformed(f"the name of its body is of version {version}, and this release reads {_FORMAT}")
    return LargeBody.of(number, size, text_size)
