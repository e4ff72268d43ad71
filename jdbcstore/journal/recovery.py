"""What an opened journal finds: its segments, its end, and whether that is torn or damaged.

Writes that were not synced reach the disk in any order, or not at all: whole records behind a bad one prove
nothing by that. But each says up to which number all was durable when it was written. And a segment is begun
only when all of the one before is durable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from jdbcstore.errors import CorruptJournal
from jdbcstore.journal.directory import live_segments
from jdbcstore.journal.layout import BLOCK, CLEAN_END, SegmentHeader
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
