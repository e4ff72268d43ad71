"""The cursor in memory up to a limit, and beyond that in temporary files."""

from __future__ import annotations

import logging
import os
import tempfile
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from struct import Struct
from typing import IO

from jdbcstore.broker.entry import Entry, EntrySource, PriorityLanes, Wanted
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.errors import SpillFailed
from jdbcstore.message import openwire
from jdbcstore.message.message import Message
from jdbcstore.message.openwire.pieces import LargeBody, body_in_pieces
from jdbcstore.util.files import write_all

log = logging.getLogger(__name__)

_LARGE = 64 << 20
"""The size of files from which on each doubling is logged."""
_ENDLESS = 1 << 62
_PAGE_BYTES = 64 << 10
"""The most bytes read back in one step."""
_frame = Struct(">II")  # of a record: size and checksum
_prefix = Struct(">qB")  # of an entry: sequence and flags
_STORED, _REDELIVERED, _NUMBERED = 1, 2, 4


class _Segment:
    """An unnamed file, which disappears with its process."""

    def __init__(self, folder: Path | None) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self.read = 0
        self.written = 0

    def write(self, data: bytes) -> None:
        # After an error, the next write begins at the same place.
        self.written = write_all(self.file.fileno(), data, self.written)


@dataclass(eq=False, repr=False)
class Spill:
    """A queue of byte strings in temporary files. Not thread-safe.

    Records that cannot be written stay in memory until they are written or read.
    """

    folder: Path | None = None
    """The folder; None means the system's folder for temporary files."""
    segment_bytes: int = 32 << 20
    """The size of one file, whose disk space is freed when the whole file has been read."""
    buffer_bytes: int = 32 << 10
    """Records kept in memory before they are written."""

    def __post_init__(self) -> None:
        self._segments: deque[_Segment] = deque()
        self._buffer: deque[bytes] = deque()
        self._buffered = 0
        self._count = 0
        self.size = 0
        """Bytes of all records."""

    def __len__(self) -> int:
        return self._count

    def append(self, record: bytes) -> None:
        """Add a record at the end.

        :raises SpillFailed: the disk is full or failing; the record is kept in memory
        """
        self._buffer.append(record)
        self._buffered += len(record)
        self.size += len(record)
        self._count += 1
        self.flush()

    def flush(self) -> None:
        """Write the buffered records, except for less than a full buffer.

        :raises SpillFailed: like :meth:`append`
        """
        while self.is_stuck:
            self._write()

    def read(self, size: int) -> list[bytes]:
        """Remove the first records, up to about ``size`` bytes; at least one, if there is one.

        :raises SpillFailed: they cannot be read or are damaged; all remaining records are lost
        """
        records = self._read_segment(self._segments[0], size) if self._segments else self._read_buffer(size)
        self._count -= len(records)
        self.size -= sum(map(len, records))
        return records

    def close(self) -> None:
        """Drop all records and free the disk space."""
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
        """Write one buffer of records."""
        records: list[bytes] = []
        size = 0
        for record in self._buffer:
            records += (_frame.pack(len(record), zlib.crc32(record)), record)
            size += len(record)
            if size >= self.buffer_bytes:
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
        """Return the segment to write to."""
        if not self._segments or self._segments[-1].written >= self.segment_bytes:
            self._segments.append(_Segment(self.folder))
        return self._segments[-1]

    @property
    def is_stuck(self) -> bool:
        """Whether a full buffer is in memory because it cannot be written."""
        return self._buffered >= self.buffer_bytes

    def _read_segment(self, segment: _Segment, size: int) -> list[bytes]:
        data = self._bytes(segment, size + _frame.size)
        records: list[bytes] = []
        at = 0
        while at + _frame.size <= len(data):
            length, checksum = _frame.unpack_from(data, at)
            end = at + _frame.size + length
            if end > len(data):
                if records:
                    break
                data = self._bytes(segment, end)
                if end > len(data):
                    raise self._failed("is damaged")
            record = data[at + _frame.size : end]
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
        return SpillFailed(str(self.folder or tempfile.gettempdir()), what)


@dataclass(eq=False, repr=False)
class FileCursor:
    """A :class:`jdbcstore.broker.cursors.backlog.MessageCursor` that does not survive its process.

    While the disk is full, entries stay in memory, the error is logged, and the cursor is full. Entries that
    cannot be read back are lost here, which is logged and reported to ``on_lost``; stored messages are still
    in the store.
    """

    name: str
    """The name of the messages in the log."""
    source_of: Callable[[Message], EntrySource]
    """The source of an entry with this message."""
    memory: MemoryUsage
    """Entries stay in memory until this is high; entries read back are added beyond that."""
    _: KW_ONLY
    lanes: int = 1
    folder: Path | None = None
    """The folder of temporary files; None is the system's."""
    files: MemoryUsage = field(default_factory=lambda: MemoryUsage(_ENDLESS))
    """The bytes in the files of all cursors; while that is full, this cursor is full too if it has files."""
    on_lost: Callable[[SpillFailed], None] = lambda _: None
    may_read: Callable[[], bool] = lambda: True
    """Whether more may be read into memory; if not, ``head`` must be called again later."""

    def __post_init__(self) -> None:
        self.in_memory = PriorityLanes(self.lanes)
        """The entries that are not in files."""
        self._spills: dict[int, Spill] = {}
        """By lane: the entries behind those in memory."""
        self._in_files = 0
        self._log_at = _LARGE
        self._failed = False
        self._bodies: dict[int, deque[LargeBody]] = {}
        """By lane, references to the bodies in pieces of messages in files, in order, so that the store keeps
        them."""

    @property
    def count(self) -> int:
        """Entries in memory and in files."""
        return self.in_memory.count + sum(map(len, self._spills.values()))

    def push(self, entry: Entry) -> None:
        """Add an entry, see :class:`jdbcstore.broker.cursors.backlog.MessageCursor`.

        :raises InvalidMessage: the message cannot be encoded
        """
        lane = self.in_memory.lane_of(entry)
        if lane not in self._spills and not self.memory.is_high:
            self._hold(entry)
            return
        record = _record(entry)
        if (body := body_in_pieces(entry.message)) is not None:
            self._bodies.setdefault(lane, deque()).append(body)
        if lane not in self._spills:
            self._spills[lane] = Spill(self.folder)
        self._try(self._spills[lane].append, record)
        self._count_files()

    def head(self) -> Entry | None:
        head = self.in_memory.head()
        if self._spills:
            lane_of_head = -1 if head is None else self.in_memory.lane_of(head)
            for lane in sorted(self._spills, reverse=True):
                if lane <= lane_of_head:
                    return head
                if not self.may_read():
                    return None
                self._read_back(lane)
                candidate = self.in_memory.head()
                if candidate is not head:
                    return candidate
        return head

    def pop(self) -> Entry:
        return self.in_memory.pop()

    def waiting(self) -> list[Entry]:
        return list(self.in_memory)

    def take(self, wanted: Wanted) -> list[Entry]:
        """Remove the wanted entries in memory; files cannot be searched."""
        return self.in_memory.take(wanted)

    @property
    def is_full(self) -> bool:
        """Whether the limit of files is reached, or the disk still fails after another attempt."""
        if self._in_files and self.files.is_full:
            return True
        if self._failed:
            stuck = [spill for spill in self._spills.values() if spill.is_stuck]
            for spill in stuck:
                self._try(spill.flush)
            self._failed = any(spill.is_stuck for spill in stuck)
        return self._failed

    def _try(self, write: Callable[..., None], *records: bytes) -> None:
        try:
            write(*records)
        except SpillFailed as error:
            if not self._failed:
                log.error("%s stay in memory, and producers must wait: %s", self.name, error)
            self._failed = True

    @property
    def is_empty(self) -> bool:
        return not self.in_memory.count and not self._spills

    def close(self) -> None:
        for spill in self._spills.values():
            spill.close()
        self._spills.clear()
        self._bodies.clear()
        self._count_files()
        self.memory.release(self.in_memory)
        self.in_memory.clear()
        self._failed = False

    def _read_back(self, lane: int) -> None:
        spill = self._spills[lane]
        try:
            for record in spill.read(_PAGE_BYTES):
                entry = _entry(record, self.source_of)
                if body_in_pieces(entry.message) is not None:
                    self._bodies[lane].popleft()
                self._hold(entry)
        except SpillFailed as error:
            log.error("%d messages of %s are lost: %s", len(spill), self.name, error)
            spill.close()
            self.on_lost(error)
        if not spill:
            spill.close()
            self._spills.pop(lane, None)
            self._bodies.pop(lane, None)
        self._count_files()

    def _count_files(self) -> None:
        size = sum(spill.size for spill in self._spills.values())
        before, self._in_files = self._in_files, size
        if size > before:
            self.files.increase(size - before)
        else:
            self.files.decrease(before - size)
        if size >= self._log_at:
            self._log_at *= 2
            log.warning(
                "%d MiB of %s wait in files, because they arrive faster than they are consumed",
                *(size >> 20, self.name),
                extra={"limit": self.files.reached, "bytes": size},
            )
        elif not size:
            self._log_at = _LARGE

    def _hold(self, entry: Entry) -> None:
        self.in_memory.append(entry)
        self.memory.hold(entry)


def _record(entry: Entry) -> bytes:
    message = entry.message
    flags = (
        (_STORED if entry.stored else 0)
        | (_REDELIVERED if entry.redelivered else 0)
        | (_NUMBERED if message.sequence is not None else 0)
    )
    return _prefix.pack(entry.sequence, flags) + openwire.encode(message)


def _entry(record: bytes, source_of: Callable[[Message], EntrySource]) -> Entry:
    sequence, flags = _prefix.unpack_from(record)
    message = openwire.decode(record[_prefix.size :], sequence=sequence if flags & _NUMBERED else None)
    return Entry(
        message,
        source_of(message),
        sequence,
        stored=bool(flags & _STORED),
        redelivered=bool(flags & _REDELIVERED),
    )
