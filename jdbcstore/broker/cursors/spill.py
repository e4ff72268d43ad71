"""Records in order, appended behind and read from the front, in temporary files."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections import deque
from pathlib import Path
from struct import Struct
from typing import IO

from jdbcstore.errors import SpillFailed

SEGMENT_BYTES = 32 << 20
"""Of one file; it is given back when all of it has been read."""
BUFFER_BYTES = 32 << 10
"""Kept in memory before it is written."""

_head = Struct(">II")  # size and checksum


class _Segment:
    """One file without a name, so that it ends with its process."""

    __slots__ = ("file", "read", "written")

    def __init__(self, folder: Path | None) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self.read = 0
        self.written = 0

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:  # behind what counts as written: after an error it is written over
            done = os.pwrite(self.file.fileno(), view, self.written + len(data) - len(view))
            view = view[done:]
        self.written += len(data)


class Spill:
    """A queue of byte strings that is as long as the disk.

    Used by one thread. What was appended is kept until it is read: in memory, while it cannot be written.

    :param folder: where the files are; None is the system's folder for temporary files
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._buffer_bytes = buffer_bytes
        self._segments: deque[_Segment] = deque()
        self._buffer: deque[bytes] = deque()
        self._buffered = 0
        self._count = 0
        self.size = 0
        """Bytes of all records."""

    def __len__(self) -> int:
        return self._count

    def append(self, record: bytes) -> None:
        """Keep a record behind all others.

        :raises SpillFailed: the disk is full, or does not work; the record is kept in memory
        """
        self._buffer.append(record)
        self._buffered += len(record)
        self.size += len(record)
        self._count += 1
        self.flush()

    def flush(self) -> None:
        """Write what waits for that, but for less than a buffer.

        :raises SpillFailed: as :meth:`append`
        """
        while self.is_stuck:
            self._write()

    def read(self, size: int) -> list[bytes]:
        """Take the first records, up to about ``size`` bytes, but one at least if there is one.

        :raises SpillFailed: they cannot be read, or are not what was written; what is left is lost
        """
        records = self._read_segment(self._segments[0], size) if self._segments else self._read_buffer(size)
        self._count -= len(records)
        self.size -= sum(map(len, records))
        return records

    def close(self) -> None:
        """Drop what is left, and give the disk back."""
        for segment in self._segments:
            segment.file.close()
        self._segments.clear()
        self._buffer.clear()
        self._buffered = self._count = self.size = 0

    def _read_buffer(self, size: int) -> list[bytes]:
        records: list[bytes] = []
        while self._buffer and (not records or len(self._buffer[0]) <= size):
            record = self._buffer.popleft()
            records.append(record)
            size -= len(record)
            self._buffered -= len(record)
        return records

    def _write(self) -> None:
        """Write one buffer."""
        records: list[bytes] = []
        size = 0
        for record in self._buffer:
            records += (_head.pack(len(record), zlib.crc32(record)), record)
            size += len(record)
            if size >= self._buffer_bytes:
                break
        try:
            self._segment().write(b"".join(records))
        except OSError as error:
            if self._segments and not self._segments[-1].written:
                self._segments.pop().file.close()
            raise self._failed(f"cannot be written: {error.strerror}") from error
        self._buffered -= size
        for _ in range(len(records) // 2):
            self._buffer.popleft()

    def _segment(self) -> _Segment:
        """The one to write to."""
        if not self._segments or self._segments[-1].written >= self._segment_bytes:
            self._segments.append(_Segment(self._folder))
        return self._segments[-1]

    @property
    def is_stuck(self) -> bool:
        """Whether more is in memory than should be, because it cannot be written."""
        return self._buffered >= self._buffer_bytes

    @property
    def file_bytes(self) -> int:
        """What the files take."""
        return sum(segment.written for segment in self._segments)

    def _read_segment(self, segment: _Segment, size: int) -> list[bytes]:
        data = self._bytes(segment, size + _head.size)
        records: list[bytes] = []
        at = 0
        while at + _head.size <= len(data):
            length, checksum = _head.unpack_from(data, at)
            end = at + _head.size + length
            if end > len(data):
                if records:
                    break
                data = self._bytes(segment, end)
                if end > len(data):
                    raise self._failed("is damaged")
            record = data[at + _head.size : end]
            if zlib.crc32(record) != checksum:
                raise self._failed("is damaged")
            records.append(record)
            at = end
        if not records:
            raise self._failed("is damaged")
        segment.read += at
        if segment.read == segment.written:
            segment.file.close()
            self._segments.popleft()
        return records

    def _bytes(self, segment: _Segment, size: int) -> bytes:
        size = min(size, segment.written - segment.read)
        try:
            return os.pread(segment.file.fileno(), size, segment.read)
        except OSError as error:
            raise self._failed(f"cannot be read: {error.strerror}") from error

    def _failed(self, what: str) -> SpillFailed:
        return SpillFailed(str(self._folder or tempfile.gettempdir()), what)
