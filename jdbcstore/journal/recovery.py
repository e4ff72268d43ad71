"""What an opened journal finds: its segments, its end, and whether that is torn or damaged.

Writes that were not synced reach the disk in any order, or not at all: whole records behind a bad one prove
nothing by that. But each says up to which number all was durable when it was written. And a segment is begun
only when all of the one before is durable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from jdbcstore.errors import CorruptJournal
from jdbcstore.journal.api import Record
from jdbcstore.journal.directory import live_segments
from jdbcstore.journal.layout import BLOCK, CLEAN_END, OWN, SegmentHeader
from jdbcstore.journal.reader import SegmentReader


class Torn(NamedTuple):
    """The end of a journal that was being written when the process or the machine went down. Nothing of it
    was acknowledged."""

    segment: int
    offset: int
    number: int
    """Of the first record that is not whole."""


@dataclass(slots=True)
class Segment:
    """A segment that the journal still needs."""

    path: Path
    header: SegmentHeader
    size: int
    """Of its file, or what that may become."""
    end: int = BLOCK
    """Where its next record goes."""
    last_number: int = 0

    def __post_init__(self) -> None:
        self.last_number = max(self.last_number, self.header.first_number - 1)


@dataclass(slots=True)
class Recovered:
    segments: list[Segment] = field(default_factory=list)
    last_sequence: int = 0
    clean: bool = True
    """Whether it was closed."""
    torn: Torn | None = None

    @property
    def journal(self) -> int:
        """Its number; 0 if there is no journal yet."""
        return self.segments[0].header.journal if self.segments else 0

    @property
    def store(self) -> int:
        """The identity of the store that it is in front of; 0 if it was never told."""
        return next((one.header.store for one in reversed(self.segments) if one.header.store), 0)

    @property
    def first_number(self) -> int:
        """The first record that is there; behind the last if none is."""
        return self.segments[0].header.first_number if self.segments else 1

    @property
    def last_number(self) -> int:
        return self.segments[-1].last_number if self.segments else 0

    def records(self, after: int, *, ignore_missing: bool = False) -> Iterator[Record]:
        """As :func:`read`, of what was found."""
        return read(self.segments, after, self.last_number, ignore_missing=ignore_missing)


def read(
    segments: list[Segment], after: int, last_number: int, *, ignore_missing: bool = False
) -> Iterator[Record]:
    """The records behind a number, up to another, without the journal's own.

    :raises CorruptJournal: one of them is damaged or gone
    """
    expected = after + 1
    for segment in segments:
        up_to = min(segment.last_number, last_number)
        header = segment.header
        if up_to < expected:
            continue
        if header.first_number > expected and not ignore_missing:
            raise CorruptJournal(f"there is no record {expected} any more", segment=header.number)
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
    """Read all there is, and change nothing.

    :raises CorruptJournal: a record that was acknowledged is damaged, or a file is missing or cannot be read
    """
    found = Recovered()
    paths = live_segments(directory)
    last = max(paths, default=0)
    for number, path in paths.items():
        try:
            with SegmentReader(path) as reader:
                _check_header(found, reader, number, ignore_missing=ignore_missing)
                _read(found, reader, is_last=number == last)
        except ValueError as error:
            raise CorruptJournal(str(error), segment=number) from error
        except OSError as error:
            raise CorruptJournal(f"it cannot be read: {error.strerror}", segment=number) from error
    return found


def _check_header(found: Recovered, reader: SegmentReader, number: int, *, ignore_missing: bool) -> None:
    header = reader.header
    if header.number != number:
        raise CorruptJournal(f"its file holds segment {header.number}", segment=number)
    if not found.segments:
        return
    before = found.segments[-1]
    if header.journal != before.header.journal:
        raise CorruptJournal("it is of another journal than the one before", segment=number)
    if before.header.number + 1 != number:
        if not ignore_missing:
            raise CorruptJournal("its file is missing", segment=before.header.number + 1)
    elif before.last_number + 1 != header.first_number:
        raise CorruptJournal(
            f"record {before.last_number + 1} is damaged", segment=before.header.number, offset=before.end
        )


def _read(found: Recovered, reader: SegmentReader, *, is_last: bool) -> None:
    for _ in reader.records(bodies=False):
        pass
    number, offset = reader.number, reader.offset
    segment = Segment(reader.path, reader.header, reader.size, offset, number - 1)
    found.last_sequence = max(found.last_sequence, reader.sequence - 1)
    found.clean = reader.last_kind == CLEAN_END or number == 1  # nothing was ever written
    if any(not is_last or head.durable >= number for _, head in reader.later()):
        raise CorruptJournal(f"record {number} is damaged", segment=reader.header.number, offset=offset)
    if is_last and next(reader.markers(), None) is not None:
        found.torn = Torn(reader.header.number, offset, number)
        found.clean = False
    found.segments.append(segment)
