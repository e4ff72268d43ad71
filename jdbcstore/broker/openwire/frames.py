"""Frames of OpenWire in a stream of bytes, and the negotiation of the wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, TypeVar

from jdbcstore.broker.openwire.commands import FIRST_MESSAGE, LAST_MESSAGE, NEWEST, OLDEST, Type, framed
from jdbcstore.broker.transport.buffer import FrameBuffer
from jdbcstore.errors import ProtocolError
from jdbcstore.message.openwire.content import decode_map
from jdbcstore.message.openwire.decoder import find_content
from jdbcstore.message.openwire.encoder import encode_map, encode_utf
from jdbcstore.message.openwire.wire_format import Malformed
from jdbcstore.message.values import Long

T = TypeVar("T")

_MAGIC = b"ActiveMQ"
_BEGINNING = bytes([Type.WIRE_FORMAT_INFO]) + _MAGIC
_i32 = Struct(">i")
_LAYOUT = Struct(">B8si?i")
_LAYOUT_EMPTY = Struct(">B8si?")
_MOST_PROPERTIES = 64
_MOST_PROPERTY_BYTES = 512
"""The most bytes of a property's name or value. Both limits are ActiveMQ 6.3's, which does not nest values
either."""
_FIRST_DELAY_MS = 10_000
_MOST_AROUND = 1024 * 1024
"""The most bytes in front of and behind content that is read part by part."""


class LargeHead(bytes):
    """The frame of a large message up to its content, which follows part by part."""


class ContentPart(bytes):
    """The next bytes of that content."""


class MessageTail(bytes):
    """The end of that message, behind its content."""


class OpenWireFrameReader(FrameBuffer):
    """An incremental parser of frames: four bytes of size, then the content.

    :param limit: the most bytes of a frame
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self._wanted = 4
        """The minimum bytes of ``_partial`` for a frame."""
        self._large = self._codec = 0
        self._left: int | None = None
        """The outstanding bytes of content that is read part by part."""
        self._tail = 0
        """The bytes of the message after that."""

    def allow(self, limit: int, large: int = 0, codec: int = 0) -> None:
        """Change the limit, between two frames.

        :param large: content of this size or more is read part by part, unless it has already arrived; 0
            means never
        :param codec: the version of messages
        """
        self.limit, self._large, self._codec = limit, large, codec

    def read(self) -> bytes | None:
        """Return the next complete frame, with its size; None if there is none yet.

        For a large message it returns a :class:`LargeHead`, parts of its content, and its tail.

        :raises ProtocolError: the size is invalid, or over the limit
        """
        if self._partial:
            if len(self._partial) < self._wanted:
                return None
            self._resume_partial()
        if self._left is not None:
            return self._read_part(self._left)
        data, at = self._data, self._at
        available = len(data) - at
        if not available:
            self._data, self._at = b"", 0  # do not keep read bytes for a client that sends nothing more
            return None
        if available < 4:
            self._wanted = 4
            self._set_aside()
            return None
        (size,) = _i32.unpack_from(data, at)
        if not 1 <= size <= self.limit:
            raise ProtocolError(
                f"Frame size of {size} bytes is not between 1 and {self.limit}, the limit of this "
                "connection; send smaller messages, or ask the administrator to raise max_frame_size",
                fatal=True,
            )
        size += 4
        if available < size:
            if 0 < self._large < size:
                return self._read_large(size)
            self._wanted = size
            self._set_aside()
            return None
        self._at = at + size
        return data[at : at + size]

    def _read_large(self, size: int) -> LargeHead | None:
        """Return the head of a large message; None if this is another frame, or its head is incomplete."""
        data = self._data[self._at :]
        is_message = len(data) < 5 or FIRST_MESSAGE <= data[4] <= LAST_MESSAGE
        content = find_content(data, self._codec) if is_message else None
        if content is None:
            self._wanted = len(data) + 1 if is_message and len(data) < _MOST_AROUND else size
            self._set_aside()
            return None
        start, length = content
        tail = size - start - 5 - length
        if length < self._large or not 0 <= tail <= _MOST_AROUND:
            self._wanted = size
            self._set_aside()
            return None
        if len(data) < start + 5:
            self._wanted = start + 5
            self._set_aside()
            return None
        self._at += start + 5
        self._left, self._tail = length, tail
        return LargeHead(data[:start])

    def _read_part(self, left: int) -> bytes | None:
        data, at = self._data, self._at
        available = len(data) - at
        if left and available:
            part = ContentPart(data[at : at + left])
            self._at, self._left = at + len(part), left - len(part)
            return part
        if left:
            self._data, self._at = b"", 0
            return None
        if available < self._tail:
            self._wanted = self._tail
            self._set_aside()
            return None
        self._at, self._left = at + self._tail, None
        return MessageTail(data[at : at + self._tail])

    def read_many(self, read: Callable[[bytes, int], tuple[T, int]]) -> T:
        """Read several frames together.

        :param read: gets the available bytes and the offset of the next frame; returns its result and the end
            offset
        """
        frames, self._at = read(self._data, self._at)
        return frames


@dataclass(frozen=True, slots=True)
class WireFormat:
    """The negotiated wire format of broker and client.

    Encoding is loose, nothing is cached, and exceptions have no stack traces, because the broker offers no
    more, and clients use only common features.
    """

    version: int
    inactivity_ms: int
    """Milliseconds without a byte after which either side closes the connection; 0 is unlimited."""
    first_delay_ms: int
    """Milliseconds before either side sends its first keep-alive."""
    max_frame_size: int
    """The most bytes of a frame for the client."""
    provider: str
    """The name and version of the client, for the log."""


def wire_format_info(max_frame_size: int, inactivity_ms: int, provider_version: str) -> bytes:
    """Return the broker's offer, which is the first frame of a connection."""
    properties: dict[str, Any] = {
        "TightEncodingEnabled": False,
        "CacheEnabled": False,
        "CacheSize": 1024,
        "StackTraceEnabled": False,
        "SizePrefixDisabled": False,
        "TcpNoDelayEnabled": True,
        "MaxInactivityDuration": Long(inactivity_ms),
        "MaxInactivityDurationInitalDelay": Long(_FIRST_DELAY_MS),
        "MaxFrameSize": Long(max_frame_size),
        "MaxFrameSizeEnabled": True,
        "ProviderName": "ActiveMQ",
        "ProviderVersion": provider_version,
        "PlatformDetails": "Python",
    }
    marshalled = encode_map(properties)
    head = _LAYOUT.pack(Type.WIRE_FORMAT_INFO, _MAGIC, NEWEST, True, len(marshalled))
    return framed(head + marshalled)


def begins_openwire(data: bytes) -> bool | None:
    """Return whether the first bytes of a client are OpenWire; None if there are too few."""
    if not data:
        return None
    if data[0]:  # the size of WIRE_FORMAT_INFO is far below 16 MB
        return False
    begun = data[4 : 4 + len(_BEGINNING)]
    if not _BEGINNING.startswith(begun):
        return False
    return True if begun == _BEGINNING else None


def agree(frame: bytes, max_frame_size: int, inactivity_ms: int) -> WireFormat:
    """Return the wire format negotiated with a client's first frame.

    :raises ProtocolError: it is not the offer of an OpenWire client, or the client is too old
    """
    if frame[4] != Type.WIRE_FORMAT_INFO:
        raise ProtocolError(f"the first command must be WIRE_FORMAT_INFO, not {frame[4]}", fatal=True)
    version, properties = _read_offer(frame)
    if version < OLDEST:
        raise ProtocolError(
            f"Remote wire format ({version}) is lower the minimum version required ({OLDEST});"
            " use a client of ActiveMQ 5.6 or later",
            fatal=True,
        )
    theirs = _number(properties, "MaxInactivityDuration")
    delay = _number(properties, "MaxInactivityDurationInitalDelay")
    frame_size = _number(properties, "MaxFrameSize") or max_frame_size
    name, number = (str(properties.get(f"Provider{part}") or "?") for part in ("Name", "Version"))
    return WireFormat(
        min(version, NEWEST),
        min(theirs, inactivity_ms) if theirs > 0 else 0,
        min(max(delay, 0), _FIRST_DELAY_MS),
        min(frame_size, max_frame_size),
        f"{name} {number}",
    )


def _read_offer(frame: bytes) -> tuple[int, Mapping[str, Any]]:
    try:
        size = len(frame) - 4
        if size < _LAYOUT_EMPTY.size:
            raise Malformed("it ends too early")
        _, magic, version, has_properties = _LAYOUT_EMPTY.unpack_from(frame, 4)
        if magic != _MAGIC:
            raise Malformed("its magic is not ActiveMQ's")
        if not has_properties:
            return version, {}
        start = 4 + _LAYOUT.size
        if len(frame) < start or _i32.unpack_from(frame, start - 4)[0] != len(frame) - start:
            raise Malformed("its properties do not fit")
        marshalled = frame[start:]
        if len(marshalled) >= 4 and (count := _i32.unpack_from(marshalled)[0]) > _MOST_PROPERTIES:
            raise Malformed(f"it has {count} properties")
        properties = decode_map(marshalled)
        for name, value in properties.items():
            _check_property(name, value)
    except Malformed as error:
        raise ProtocolError(f"WIRE_FORMAT_INFO is damaged: {error}", fatal=True) from None
    return version, properties


def _check_property(name: str, value: Any) -> None:
    if isinstance(value, dict | list):
        raise Malformed("a property is a map or a list")
    for part in (name, value):
        size = len(encode_utf(part)) if isinstance(part, str) else len(part) if isinstance(part, bytes) else 0
        if size > _MOST_PROPERTY_BYTES:
            raise Malformed(f"a property has {size} bytes")


def _number(properties: Mapping[str, Any], name: str) -> int:
    value = properties.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
