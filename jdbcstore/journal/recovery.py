"""Reading a journal back: one segment, record by record, and all of them when it is opened.

Writes that were not synced reach the disk in any order, or not at all, so complete records after an invalid
one do not prove that it was durable. But each record says up to which number everything was durable when it
was written, and a segment is begun only when all of the one before is durable.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from crc32c import crc32c

from jdbcstore.errors import CorruptJournal
from jdbcstore.journal._records_cy import records
from jdbcstore.journal.abc import Torn
from jdbcstore.journal.directory import live_segments
from jdbcstore.journal.layout import (
    BLOCK,
    CLEAN_END,
    GAP,
    HEAD,
    MARKER_AT,
    OWN,
    RECORD,
    Head,
    Record,
    SegmentHeader,
    Stamp,
)
from jdbcstore.util.closing import Closing

_WINDOW = 1 << 20
_LAST = (1 << 64) - 1
"""The highest number of a record."""


class SegmentReader(Closing):
    """Reads the records of one file in order, up to the first invalid one.

    Another process may be writing the file. Memory is bounded by the file's contents: a length in a header is
    believed only once the checksum is right. ``offset``, ``number`` and ``sequence`` are where the next
    record is expected, its number, and the lowest sequence it can have. ``assumed`` replaces a damaged
    header; its first number may be 0, for that of the record that is found.

    :raises OSError: the file cannot be read
    :raises ValueError: the header is invalid
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

    def close(self) -> None:
        os.close(self._file)

    def records(self, up_to: int | None = None) -> Iterator[Record]:
        """Yield the records up to a number, or to the first invalid one."""
        last = _LAST if up_to is None else up_to
        while self.number <= last:
            records_of_window = self._in_window(last, is_read=True)
            if records_of_window:
                yield from records_of_window
                continue
            record = self._alone()
            if record is None:
                return
            yield record

    def verify(self) -> None:
        """Go to the first invalid record."""
        number = 0
        while number != self.number:
            number = self.number
            self._in_window(_LAST, is_read=False)
            if number == self.number:
                self._alone()

    def _in_window(self, last: int, *, is_read: bool) -> list[Record]:
        """Go past the records that are complete within one read, and return them if they are to be read."""
        place, stamp = (self.header.number, self.offset), (self.stamp.seed, self.stamp.marker)
        records_of_window, size, number, kind, sequence = records(
            self._read(self.offset), stamp, self.number, last, place, is_read=is_read
        )
        if size:
            self._advance(self.offset + size, number - 1, kind, sequence)
        return records_of_window

    def _alone(self) -> Record | None:
        """Read a record that may be larger than one read."""
        head, offset = self._head(self.offset), self.offset
        if head is None or not self._is_next(head) or not self._is_whole(offset, head):
            return None
        body = os.pread(self._file, head.length, offset + RECORD)
        self._advance(offset + head.space, head.number, head.kind, head.sequence + head.sequences)
        return Record(head.number, head.kind, head.sequence, body, self.header.number, offset)

    def _is_next(self, head: Head) -> bool:
        return head.number == self.number or (head.kind == GAP and head.number > self.number)

    def _advance(self, offset: int, number: int, kind: int, sequence: int) -> None:
        self.offset, self.number, self.last_kind = offset, number + 1, kind
        if sequence > self.sequence:  # a gap has none
            self.sequence = sequence

    def later(self) -> Iterator[tuple[int, Head]]:
        """Complete records with higher numbers than the expected one, after the place where that should
        be."""
        for offset in self.markers():
            head = self._head(offset)
            if head is not None and head.number > self.number and self._is_whole(offset, head):
                yield offset, head

    def markers(self) -> Iterator[int]:
        """Yield offsets at which records of this segment seem to begin, from the next expected one on:
        complete or not, and even where the file ends within the header."""
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
        # The file may end within the last record's padding.
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


@dataclass(slots=True)
class Segment:
    """A segment that is not released."""

    path: Path
    header: SegmentHeader
    size: int
    """The size of the file, or the size it may grow to."""
    end: int = BLOCK
    """Offset of the next record to be written."""
    last_number: int = 0

    def __post_init__(self) -> None:
        self.last_number = max(self.last_number, self.header.first_number - 1)


@dataclass(slots=True)
class Recovered:
    """Contents of a journal's files when it is opened."""

    segments: list[Segment] = field(default_factory=list)
    last_sequence: int = 0
    clean: bool = True
    """Whether it was shut down cleanly."""
    torn: Torn | None = None

    @property
    def journal(self) -> int:
        """The journal's number; 0 if there is no journal yet."""
        return self.segments[0].header.journal if self.segments else 0

    @property
    def store(self) -> int:
        """The identity of the backing store; 0 if it was never set."""
        return next((segment.header.store for segment in reversed(self.segments) if segment.header.store), 0)

    @property
    def first_number(self) -> int:
        """The number of the first record in the files; after the last one if there is none."""
        return self.segments[0].header.first_number if self.segments else 1

    @property
    def last_number(self) -> int:
        return self.segments[-1].last_number if self.segments else 0

    @property
    def end(self) -> tuple[int, int]:
        """The last segment, and the offset at which its records end."""
        return (self.segments[-1].header.number, self.segments[-1].end) if self.segments else (0, 0)

    def claim(self, store: int) -> None:
        """Do nothing: the directory is locked before its files are read."""

    def is_current(self) -> bool:
        """Return true: this process has the lock of the files, or they are only looked at."""
        return True

    def records(self, after: int, *, ignore_missing: bool = False) -> Iterator[Record]:
        """Read as :func:`read`, from these segments."""
        return read(self.segments, after, self.last_number, ignore_missing=ignore_missing)


def read(
    segments: list[Segment], after: int, last_number: int, *, ignore_missing: bool = False
) -> Iterator[Record]:
    """Yield the records after one number, up to another, without those for internal use.

    :raises CorruptJournal: one of them is damaged or missing
    """
    expected = after + 1
    for segment in segments:
        up_to = min(segment.last_number, last_number)
        header = segment.header
        if up_to < expected:
            continue
        if header.first_number > expected and not ignore_missing:
            raise CorruptJournal(f"record {expected} is missing", segment=header.number)
        try:
            with SegmentReader(segment.path) as reader:
                for record in reader.records(up_to):
                    if record.number > after and record.kind not in OWN:
                        yield record
                if reader.number <= up_to:
                    raise CorruptJournal(
                        f"record {reader.number} is damaged", segment=header.number, offset=reader.offset
                    )
        except (OSError, ValueError) as error:
            raise CorruptJournal(f"it cannot be read: {error}", segment=header.number) from error
        expected = up_to + 1


def recover(directory: Path, *, ignore_missing: bool = False) -> Recovered:
    """Read and verify all files of a journal, without changing any.

    :raises CorruptJournal: a record that was acknowledged is damaged, or a file is missing or cannot be read
    """
    recovered = Recovered()
    paths = live_segments(directory)
    last = max(paths, default=0)
    for number, path in paths.items():
        try:
            with SegmentReader(path) as reader:
                _check_header(recovered, reader, number, ignore_missing=ignore_missing)
                _read(recovered, reader, is_last=number == last)
        except ValueError as error:
            raise CorruptJournal(str(error), segment=number) from error
        except OSError as error:
            raise CorruptJournal(f"it cannot be read: {error.strerror}", segment=number) from error
    return recovered


def _check_header(recovered: Recovered, reader: SegmentReader, number: int, *, ignore_missing: bool) -> None:
    header = reader.header
    if header.number != number:
        raise CorruptJournal(f"its file holds segment {header.number}", segment=number)
    if not recovered.segments:
        return
    before = recovered.segments[-1]
    if header.journal != before.header.journal:
        raise CorruptJournal("it belongs to another journal than the segment before", segment=number)
    if before.header.number + 1 != number:
        if not ignore_missing:
            raise CorruptJournal("its file is missing", segment=before.header.number + 1)
    elif before.last_number + 1 != header.first_number:
        raise CorruptJournal(
            f"record {before.last_number + 1} is damaged", segment=before.header.number, offset=before.end
        )


def _read(recovered: Recovered, reader: SegmentReader, *, is_last: bool) -> None:
    reader.verify()
    number, offset = reader.number, reader.offset
    segment = Segment(reader.path, reader.header, reader.size, offset, number - 1)
    recovered.last_sequence = max(recovered.last_sequence, reader.sequence - 1)
    recovered.clean = reader.last_kind == CLEAN_END or number == 1  # nothing was ever written
    if any(not is_last or head.durable >= number for _, head in reader.later()):
        raise CorruptJournal(f"record {number} is damaged", segment=reader.header.number, offset=offset)
    if is_last and next(reader.markers(), None) is not None:
        recovered.torn = Torn(reader.header.number, offset, number)
        recovered.clean = False
    recovered.segments.append(segment)
