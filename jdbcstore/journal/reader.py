"""Reading one segment's file, whoever may be writing it, and whatever it holds.

Memory is bounded by what is in the file and fits to its checksum: a length that a header claims is believed
only then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from crc32c import crc32c

from jdbcstore.journal.api import Record
from jdbcstore.journal.layout import BLOCK, GAP, HEAD, MARKER_AT, RECORD, Head, SegmentHeader, Stamp

_WINDOW = 1 << 20


class SegmentReader:
    """Reads the records of a file one behind the other, until one is wrong.

    ``offset``, ``number`` and ``sequence`` are where the next record is expected, its number, and the first
    sequence that it can have.

    ``assumed`` is taken for the header when that is damaged; its first number may be 0: that of the record
    that is there.

    :raises OSError: the file cannot be read
    :raises ValueError: it has no right header
    """

    def __init__(self, path: Path, assumed: SegmentHeader | None = None) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.size = os.fstat(self._file).st_size
            self.header = assumed or SegmentHeader.unpack(os.pread(self._file, BLOCK, 0))
        except BaseException:
            os.close(self._file)
            raise
        self.stamp = Stamp.of(self.header)
        self.offset = BLOCK
        self.number = self.header.first_number
        self.sequence = self.header.first_sequence
        self.last_kind = 0

    def __enter__(self) -> SegmentReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def move(self, offset: int, number: int) -> None:
        """Go on at one of :meth:`later`."""
        self.offset, self.number = offset, number

    def records(self, up_to: int | None = None, *, bodies: bool = True) -> Iterator[Record]:
        """The records up to a number, or to the first that is wrong. Without bodies they are read, too, and
        their checksums compared, but given back empty."""
        while up_to is None or self.number <= up_to:
            number = self.number
            yield from self._in_window(up_to, bodies)
            if self.number == number:
                record = self._alone(bodies)
                if record is None:
                    return
                yield record

    def _in_window(self, up_to: int | None, bodies: bool) -> Iterator[Record]:
        """Those that are whole in what is read at once."""
        start = self.offset
        window = memoryview(self._read(start))
        size, at = len(window), 0
        seed, marker, segment = self.stamp.seed, self.stamp.marker, self.header.number
        while at + RECORD <= size and (up_to is None or self.number <= up_to):
            head = HEAD.unpack_from(window, at)
            crc, length, found, _, sequences, kind, flags, spare, number, sequence = head
            end = at + RECORD + length
            if found != marker or number != self.number or not kind or flags or spare or end > size:
                return  # or it is for _alone
            if crc32c(window[at + 4 : end], seed) != crc:
                return
            body = bytes(window[at + RECORD : end]) if bodies else b""
            record = Record(number, kind, sequence, body, segment, start + at)
            at = end + (-length & 7)
            self._advance(start + at, number, kind, sequence + sequences)
            yield record

    def _alone(self, bodies: bool) -> Record | None:
        """A record that may be larger than what is read at once."""
        head, offset = self._head(self.offset), self.offset
        if head is None or not self._is_next(head) or not self._is_whole(offset, head):
            return None
        body = os.pread(self._file, head.length, offset + RECORD) if bodies else b""
        self._advance(offset + head.space, head.number, head.kind, head.sequence + head.sequences)
        return Record(head.number, head.kind, head.sequence, body, self.header.number, offset)

    def _is_next(self, head: Head) -> bool:
        return head.number == self.number or (head.kind == GAP and head.number > self.number)

    def _advance(self, offset: int, number: int, kind: int, sequence: int) -> None:
        self.offset, self.number, self.last_kind = offset, number + 1, kind
        if sequence > self.sequence:  # a gap has none
            self.sequence = sequence

    def later(self) -> Iterator[tuple[int, Head]]:
        """Whole records of higher numbers than the expected one, behind where it should be."""
        for offset in self.markers():
            head = self._head(offset)
            if head is not None and head.number > self.number and self._is_whole(offset, head):
                yield offset, head

    def markers(self) -> Iterator[int]:
        """Where records of this segment seem to begin, from where the next one is expected: whole or not, and
        also where the file ends within the header."""
        wanted = self.stamp.found_as
        start = self.offset
        while start < self.size:
            window = self._read(start)
            at = window.find(wanted)
            while at >= 0:
                if at >= MARKER_AT and (start + at - MARKER_AT) % 8 == 0:
                    yield start + at - MARKER_AT
                at = window.find(wanted, at + 1)
            if len(window) < _WINDOW:
                return
            start += _WINDOW - MARKER_AT - len(wanted)

    def _read(self, start: int) -> bytes:
        # The last record's padding may lie behind the end of the file.
        return os.pread(self._file, max(min(_WINDOW, self.size - start), 0), start)

    def _head(self, offset: int) -> Head | None:
        data = os.pread(self._file, RECORD, offset)
        if len(data) < RECORD:
            return None
        head = Head(*HEAD.unpack(data))
        return head if head.is_plausible(self.stamp) else None

    def _is_whole(self, offset: int, head: Head) -> bool:
        end = offset + RECORD + head.length
        if end > self.size:
            return False
        crc, at = self.stamp.seed, offset + 4
        while at < end:
            data = os.pread(self._file, min(_WINDOW, end - at), at)
            if not data:
                return False
            crc = crc32c(data, crc)
            at += len(data)
        return crc == head.crc
