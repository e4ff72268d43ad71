"""Transfer of large bodies, piece by piece: from a connection into the store, and from there to a client."""

from __future__ import annotations

import asyncio
import codecs
import logging
import zlib
from asyncio import Future, Task
from collections.abc import AsyncIterator, Iterator
from functools import partial
from struct import Struct

from jdbcstore.abc import LargeBodies
from jdbcstore.broker.loop import BrokerLoop, unheard
from jdbcstore.errors import CorruptMessage, InvalidMessage, StoreUnavailable
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.content import decode_utf
from jdbcstore.message.openwire.encoder import encode_utf
from jdbcstore.message.openwire.pieces import PIECE_SIZE, LargeBody
from jdbcstore.message.openwire.wire_format import MAX_INFLATED, Malformed
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

_i32 = Struct(">i")
_SIZE = _i32.size
LARGEST = (1 << 31) - 1
"""Bytes of the length in front of a string's content."""
_INFLATED_AT_ONCE = 256 * 1024
_LONGEST_PAUSE = 5.0
"""Seconds between two attempts to read from a database that does not answer."""


class LargeTransfers:
    """The large bodies of a broker's store. Used on the broker's loop only."""

    def __init__(self, loop: BrokerLoop, bodies: LargeBodies) -> None:
        self._loop = loop
        self._bodies = bodies

    def receive(self, *, has_length: bool = False) -> BodyUpload:
        """Start receiving a body.

        :param has_length: whether the length is written in front, as in a string
        """
        return BodyUpload(self._loop, self._bodies, has_length=has_length)

    async def content(self, body: LargeBody) -> AsyncIterator[bytes]:
        """Yield the pieces of a body, reading one piece ahead.

        While the database does not answer, this waits for it.

        :raises StoreError: it cannot be read
        """
        read = self._bodies.read
        following: Future[bytes] | None = self._loop.transfer(partial(read, body, 0)) if body.pieces else None
        number = 1
        try:
            while following is not None:
                try:
                    data = await following
                except StoreUnavailable as error:
                    data = await self._read_again(body, number - 1, error)
                following = self._loop.transfer(partial(read, body, number)) if number < body.pieces else None
                number += 1
                yield data
        finally:
            if following is not None:
                following.add_done_callback(unheard)

    async def _read_again(self, body: LargeBody, piece: int, error: StoreUnavailable) -> bytes:
        """Read a piece, retrying until the database answers."""
        backoff = Backoff(_LONGEST_PAUSE)
        while True:
            pause = backoff.pause()
            log.warning("cannot read a large body, trying again in %.1f s: %s", pause, error)
            await asyncio.sleep(pause)
            try:
                return await self._loop.transfer(partial(self._bodies.read, body, piece))
            except StoreUnavailable as failure:
                error = failure

    async def for_client(self, message: Message, body: LargeBody, limit: int | None) -> AsyncIterator[bytes]:
        """Yield a body for a STOMP client: bytes, or text in UTF-8; nothing for other types.

        :param limit: the most bytes of a decompressed body; None means the limit of the codec
        :raises StoreError: it cannot be read, is damaged, or inflates beyond the limit
        """
        if message.body_type not in (BodyType.BYTES, BodyType.TEXT):
            return
        steps = _ToClient(message, MAX_INFLATED if limit is None else limit)
        try:
            async for data in self.content(body):
                for part in steps.feed(data):
                    if part:
                        yield part
                    if message.compressed:  # a piece may inflate to hundreds of pieces
                        await asyncio.sleep(0)
            if part := steps.end():
                yield part
        except Malformed as error:
            raise CorruptMessage(f"message {message.message_id}: {error}") from error

    async def size_for_client(self, message: Message, body: LargeBody, limit: int | None) -> int | None:
        """Return the number of these bytes, or None.

        A client needs it for a string too, because other clients may have put a NUL into it.

        :raises StoreError: like :meth:`for_client`
        """
        if message.body_type not in (BodyType.BYTES, BodyType.TEXT):
            return None
        if message.compressed:
            size = 0
            async for part in self.for_client(message, body, limit):
                size += len(part)
            return size
        if message.body_type is BodyType.BYTES:
            return body.size
        if body.text_size < 0:
            raise CorruptMessage(f"message {message.message_id}: its string is not modified UTF-8")
        return body.text_size


class BodyUpload:
    """One body that is being received."""

    def __init__(self, loop: BrokerLoop, bodies: LargeBodies, *, has_length: bool) -> None:
        self._loop = loop
        self._bodies = bodies
        self._begun = loop.transfer(bodies.begin)
        self._begun.add_done_callback(unheard)
        self.writing: Future[None] = loop.create_future()
        """The writing of the pieces; cancelled once the sender has ended, so that the store removes them."""
        self.writing.set_result(None)
        self._has_length = has_length
        self._first = b""
        """The first piece, if the length is written into it."""
        self._buffer = bytearray(_SIZE if has_length else 0)
        self._number = 0
        self.size = len(self._buffer)
        """The bytes so far."""

    def append(self, data: bytes) -> Future[None] | None:
        """Add bytes; return a future to wait for before adding more, or None."""
        self._buffer += data
        self.size += len(data)
        before = None
        while len(self._buffer) >= PIECE_SIZE:
            before = self.writing
            piece = bytes(memoryview(self._buffer)[:PIECE_SIZE])
            del self._buffer[:PIECE_SIZE]
            self._write(piece)
        return before

    def finish(self, text_size: int = -1) -> Task[LargeBody]:
        """Write the rest; completes with the body when all of it is durable."""
        if self._buffer:
            self._write(bytes(self._buffer))
        if self._has_length:
            self._has_length, self._number = False, 0
            self._write(_i32.pack(self.size - _SIZE) + self._first[_SIZE:])
        return self._loop.create_task(self._finish(text_size))

    def _write(self, piece: bytes) -> None:
        if self._has_length and not self._number:
            self._first = piece
            self._number = 1
            return
        self.writing = self._loop.create_task(self._add(self.writing, self._number, piece))
        self.writing.add_done_callback(unheard)
        self._number += 1

    async def _add(self, before: Future[None], number: int, piece: bytes) -> None:
        await before
        body = await self._begun
        await self._loop.transfer(partial(self._bodies.add, body, number, piece))

    async def _finish(self, text_size: int) -> LargeBody:
        await self.writing
        body = await self._begun
        body.end(self.size, text_size)
        return body


# Conversions of the parts of a body.


class FromText:
    """Conversion of UTF-8 to a message's modified UTF-8.

    :raises InvalidMessage: it is not UTF-8
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        try:
            return encode_utf(self._decoder.decode(data, final))
        except UnicodeDecodeError as error:
            raise InvalidMessage("the body is not UTF-8; send it as bytes") from error


class ToText:
    """Conversion of modified UTF-8 to UTF-8. ``size`` counts the returned bytes."""

    def __init__(self) -> None:
        self._left = b""
        self.size = 0

    def feed(self, data: bytes) -> bytes:
        data = self._left + data
        end = _whole_characters(data)
        data, self._left = data[:end], data[end:]
        text = data if data.isascii() and b"\0" not in data else _plain(data)
        self.size += len(text)
        return text

    def end(self) -> bytes:
        """Return the half of a surrogate pair at the end."""
        text = _plain(self._left)
        self.size += len(text)
        return text


def _plain(data: bytes) -> bytes:
    return decode_utf(data).encode(errors="replace")


def _whole_characters(data: bytes) -> int:
    """Return the end of the last complete character that is not the first half of a surrogate pair."""
    end = len(data)
    for at in range(end - 1, max(end - 4, -1), -1):
        byte = data[at]
        if byte & 0xC0 == 0x80:
            continue
        width = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        if at + width > end:
            end = at
        break
    if end >= 3 and data[end - 3] == 0xED and 0xA0 <= data[end - 2] <= 0xAF:
        end -= 3
    return end


class WithoutLength:
    """Conversion that removes the length in front."""

    def __init__(self) -> None:
        self._length = b""
        self._size = 0

    def feed(self, data: bytes) -> bytes:
        missing = _SIZE - len(self._length)
        if missing:
            self._length += data[:missing]
            data = data[missing:]
        self._size += len(data)
        return data

    def end(self) -> None:
        """Check the length.

        :raises Malformed: it differs from the content's
        """
        if len(self._length) < _SIZE or int.from_bytes(self._length, "big") != self._size:
            raise Malformed(f"the length in front of the text is not {self._size}, its number of bytes")


class _Inflated:
    """Inflation of a compressed body, up to a limit; for bytes, to the length in front."""

    def __init__(self, *, has_length: bool, limit: int) -> None:
        self._inflater = zlib.decompressobj()
        self._head = b"" if has_length else None
        self._limit = limit
        self._left: int | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield inflated bytes, a little at a time; a part may be empty.

        :raises Malformed: the bytes are damaged
        """
        if self._head is not None and self._left is None:
            self._head += data
            if len(self._head) < _SIZE:
                return
            (size,) = _i32.unpack_from(self._head)
            if size < 0:
                raise Malformed(f"the compressed body should have {size} bytes")
            self._left, data = size, self._head[_SIZE:]
        inflater = self._inflater
        while data:
            if inflater.eof:
                raise Malformed("the compressed body has bytes after its end")
            try:
                part = inflater.decompress(data, _INFLATED_AT_ONCE)
            except zlib.error as error:
                raise Malformed(f"the compressed body is damaged ({error})") from None
            data = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            self._limit -= len(part)
            if self._limit < 0:
                raise Malformed("the compressed body exceeds its limit when inflated")
            if self._left is not None:
                part = part[: self._left]  # ActiveMQ deflates its whole write buffer
                self._left -= len(part)
            yield part

    def end(self) -> None:
        """Check that the body is complete.

        :raises Malformed: it ends too early
        """
        if not self._inflater.eof or self._left:
            raise Malformed("the compressed body ends too early")


class _ToClient:
    """The conversion of a body's content for a STOMP client."""

    def __init__(self, message: Message, limit: int) -> None:
        is_text = message.body_type is BodyType.TEXT
        self._inflated = _Inflated(has_length=not is_text, limit=limit) if message.compressed else None
        self._text = (WithoutLength(), ToText()) if is_text else None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield converted bytes; a part may be empty.

        :raises Malformed: the bytes are damaged
        """
        for part in (data,) if self._inflated is None else self._inflated.feed(data):
            if self._text is None:
                yield part
            else:
                length, text = self._text
                yield text.feed(length.feed(part))

    def end(self) -> bytes:
        """Return the rest.

        :raises Malformed: the content is incomplete
        """
        if self._inflated is not None:
            self._inflated.end()
        if self._text is None:
            return b""
        length, text = self._text
        length.end()
        return text.end()
