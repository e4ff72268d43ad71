"""The output of one connection: frames collected over an iteration of the event loop, and written
together."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future, Task, Transport
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from jdbcstore.broker.turns import at_end_of

log = logging.getLogger(__name__)

HIGH_WATER = 256 * 1024
"""Unread bytes of output beyond which no messages are delivered to the client."""
_MAX_OUTPUT = 4 * 1024 * 1024
"""Unread bytes of output beyond which nothing is read from the client either, because commands cause
replies."""


class Packing(Protocol):
    """The packing of frames into messages of another protocol."""

    def whole(self, frames: list[bytes]) -> bytes:
        """Return the bytes to write for frames."""

    def part(self, data: bytes, *, is_text: bool, is_last: bool) -> bytes:
        """Return the bytes to write for the next part of a frame, and begin the frame if it is not begun."""


class ClientOutput:
    """The output to a client. Used on the broker's loop only.

    :param packing: turns frames into the bytes to write; None just joins them
    :param on_stream: called at the beginning and the end of writing a frame part by part
    """

    def __init__(
        self,
        packing: Packing | None = None,
        on_stream: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.paused = False
        """Whether the client does not read its socket."""
        self.closed = False
        """Whether writing has ended."""
        self._loop = asyncio.get_running_loop()
        self._at_end = at_end_of(self._loop)
        self.written_at = self._loop.time()
        """The loop time of the last write."""
        self._transport: Transport = None  # type: ignore[assignment]  # from open on
        self._packing = packing
        self._on_stream = on_stream
        self._frames: list[bytes] = []
        self._size = 0
        """Bytes of all waiting frames, including frames behind a stream."""
        self._flushing = False
        """Whether a flush is scheduled."""
        self.after_flush: list[Callable[[], None]] = []
        """Functions to call once, after the next flush of the current output."""
        self.is_streaming = False
        """Whether a frame is being written part by part."""
        self._streaming: Task[None] | None = None
        """The writing of a frame part by part, during which all other output waits."""
        self._behind: deque[tuple[AsyncIterator[bytes], bool, list[bytes]]] = deque()
        """The next such frames, each with whether it is text, and the output before it."""
        self._read: Future[None] | None = None
        """Completes when the client reads its socket again, while a stream waits for that."""

    def open(self, transport: Transport) -> None:
        """Write to this transport from now on."""
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)

    def pause(self) -> None:
        """Record that the client does not read its socket."""
        self.paused = True

    def resume(self) -> None:
        """Record that the client reads its socket again."""
        self.paused = False
        if self._read is not None:
            self._read.set_result(None)
            self._read = None

    def write(self, data: bytes) -> None:
        """Append a frame to the output, which is flushed at the end of the iteration."""
        if self.closed:
            return
        self._frames.append(data)
        self._size += len(data)
        if self._size > HIGH_WATER:
            self._pass()  # the transport then pauses writing if the client does not read
        if not self._flushing:
            self._flushing = True
            self._at_end(self._flush_soon)

    def write_now(self, data: bytes) -> None:
        """Write a frame immediately if there is no other output, for a reply that the client waits for."""
        if self._flushing:
            self.write(data)
        elif not self.closed:
            self.written_at = self._loop.time()
            self._transport.write(data if self._packing is None else self._packing.whole([data]))

    @property
    def progress(self) -> tuple[float, int]:
        """A value that changes with each write and each read by the client."""
        return self.written_at, self._transport.get_write_buffer_size()

    @property
    def is_packed(self) -> bool:
        """Whether frames are packed into others."""
        return self._packing is not None

    def stream(self, frame: AsyncIterator[bytes], *, is_text: bool = False) -> None:
        """Append a frame that is written part by part, as fast as the client reads it.

        Frames appended meanwhile wait. An exception of the iterator ends the connection immediately.

        :param is_text: whether the frame is UTF-8
        """
        if self.closed:
            return
        if self._streaming is not None:
            frames, self._frames = self._frames, []
            self._behind.append((frame, is_text, frames))
            return
        self.flush()
        self._flushing = True  # nothing else is flushed until it is written
        self._streaming = self._loop.create_task(self._stream(frame, is_text))
        self.is_streaming = True
        self._on_stream(True)

    async def _stream(self, frame: AsyncIterator[bytes] | None, is_text: bool) -> None:
        try:
            while frame is not None:
                async for part in frame:
                    if self.closed:
                        return
                    self._write_part(part, is_text)
                    if self.paused:
                        self._read = self._loop.create_future()
                        await self._read
                if self.closed:
                    return
                frame = None
                self._write_end(is_text)
                if self._behind:
                    frame, is_text, before = self._behind.popleft()
                    self._write_before(before)
        except Exception as error:
            self.closed = True
            self._transport.abort()
            log.warning("a connection ends in the middle of a message: %s", error)
        finally:
            self._streaming, self._flushing, self.is_streaming = None, False, False
            self._behind.clear()
        if not self.closed:
            self.flush()
            self._on_stream(False)

    def _write_part(self, part: bytes, is_text: bool) -> None:
        self.written_at = self._loop.time()
        if self._packing is not None:
            part = self._packing.part(part, is_text=is_text, is_last=False)
        self._transport.write(part)

    def _write_end(self, is_text: bool) -> None:
        if self._packing is not None:
            self._transport.write(self._packing.part(b"", is_text=is_text, is_last=True))

    def _write_before(self, frames: list[bytes]) -> None:
        """Write the output between two frames that are written part by part."""
        if frames:
            self._size -= sum(map(len, frames))
            packing = self._packing
            self._transport.write(b"".join(frames) if packing is None else packing.whole(frames))

    def flush(self) -> None:
        """Pass the output to the transport, unless a frame is being written part by part."""
        if self._streaming is not None:
            return
        self._pass()
        if self.after_flush:
            callbacks, self.after_flush = self.after_flush, []
            for callback in callbacks:
                callback()

    def close(self) -> None:
        """Pass the output to the transport, and accept no more."""
        self._pass()
        self.closed = True

    def discard(self) -> None:
        """Drop the output, and accept no more."""
        self.closed = True
        self._frames.clear()
        if self._streaming is not None:
            self._streaming.cancel()

    @property
    def is_choked(self) -> bool:
        """Whether too many replies wait for the client, or behind a stream, to accept more commands."""
        if not (self.paused or self.is_streaming):
            return False
        return self._transport.get_write_buffer_size() + self._size > _MAX_OUTPUT

    def _flush_soon(self) -> None:
        if self._streaming is None:  # otherwise it is flushed at the end of that frame
            self._flushing = False
            self.flush()

    def _pass(self) -> None:
        if not self._frames or self._streaming is not None:
            return
        frames, self._frames, self._size = self._frames, [], 0
        if self._packing is not None:
            data = self._packing.whole(frames)
        else:
            data = frames[0] if len(frames) == 1 else b"".join(frames)
        if not self.closed:
            self.written_at = self._loop.time()
            self._transport.write(data)
