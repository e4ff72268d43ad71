"""Reading a journal's files without opening it: what is there, and what is damaged, as values.

It changes nothing and takes no lock. While another process writes, the end may look torn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jdbcstore.journal.api import Record
from jdbcstore.journal.directory import Kept, kept_segments, live_segments, segment_path
from jdbcstore.journal.layout import BLOCK, OWN, Head, SegmentHeader
from jdbcstore.journal.reader import SegmentReader


class Damage(NamedTuple):
    """Bytes of a segment in which there should be records."""

    path: Path
    segment: int
    offset: int
    end: int | None
    """Where there are records again; None if there are none in the file."""
    number: int
    """The first that is lost; 0 if nobody knows."""
    next_number: int | None
    """The first behind them that is there; None if nobody knows."""
    torn: bool
    """It is the end of the journal, and was being written: nothing that was acknowledged is lost."""
    reason: str

    @property
    def lost(self) -> int | None:
        """How many records; None if nobody knows."""
        if self.torn:
            return 0
        return None if self.next_number is None or not self.number else self.next_number - self.number


class Known(NamedTuple):
    """What the store behind has of a journal: where it has to begin and to end."""

    journal: int
    applied: int
    """The store has all records up to this one, and none behind."""
    store: int = 0
    """The store's identity."""
    first_segment: int = 0
    """The oldest file that the store refers to; 0 if to none."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file of records. What it holds is believed as its header, or its name, says."""

    path: Path
    number: int
    size: int
    header: SegmentHeader | None
    """None if it is damaged."""
    problem: str = ""
    kept: Kept | None = None
    """What its name says, if the journal needs it no more."""


def segments(directory: Path) -> list[SegmentFile]:
    """The journal's own files in order, then those that are kept, the oldest first.

    :raises OSError: the directory cannot be read
    """
    live = [_look_at(path, number) for number, path in live_segments(directory).items()]
    return live + kept(directory)


def kept(directory: Path) -> list[SegmentFile]:
    """Files that were kept in a directory: of a journal, or its archive.

    :raises OSError: the directory cannot be read
    """
    return [_look_at(kept.path, kept.number, kept) for kept in kept_segments(directory)]


def _look_at(path: Path, number: int, kept: Kept | None = None) -> SegmentFile:
    size = 0
    try:
        size = path.stat().st_size
        with SegmentReader(path) as reader:
            header = reader.header
    except OSError as error:
        return SegmentFile(path, number, size, None, f"it cannot be read: {error.strerror}", kept)
    except ValueError as error:
        return SegmentFile(path, number, size, None, str(error), kept)
    if header.number != number:
        return SegmentFile(path, number, size, None, f"it holds segment {header.number}", kept)
    return SegmentFile(path, number, size, header, kept=kept)


def journal_of(files: list[SegmentFile], known: Known | None = None) -> int | None:
    """Whose the files are, one of which may be another's: what most of them say; None if none says it."""
    said = Counter(file.header.journal for file in files if file.header and not file.kept)
    if known is not None and (known.journal in said or not said):
        return known.journal
    return max(said, key=lambda journal: said[journal], default=None)


def records(directory: Path, known: Known | None = None) -> Iterator[Record | Damage]:
    """All records that the journal still needs, or may need, in order, and what is damaged between them.

    Where it has to begin and to end is only found out with what is ``known`` by the store behind.

    :raises OSError: the directory cannot be read
    """
    live = [_look_at(path, number) for number, path in live_segments(directory).items()]
    journal = journal_of(live, known)
    if known is not None and known.journal != journal:
        known = None
    if known is not None and not live:
        reason = f"no file of the journal number {journal} is there"
        yield Damage(segment_path(directory, 1), 1, 0, None, known.applied + 1, None, False, reason)
    elif known is not None:
        yield from _before(directory, live[0], known)
    expected = 0
    for index, file in enumerate(live):
        if index and file.number != live[index - 1].number + 1:
            yield _missing(directory, live[index - 1].number + 1, expected, file)
            expected = file.header.first_number if file.header else 0
        following = live[index + 1] if index + 1 < len(live) else None
        walk = _Walk(file, following, expected, journal, known)
        yield from walk.found()
        expected = walk.next_number


def records_of(file: SegmentFile) -> Iterator[Record | Damage]:
    """The records of one file that is kept, in order, and what is damaged between them."""
    journal = file.kept.journal if file.kept else None
    first = file.kept.first_number if file.kept else 0
    return _Walk(file, None, first, journal).found()


def _before(directory: Path, first: SegmentFile, known: Known) -> Iterator[Damage]:
    """Files that are missing before the first one that is there."""
    if first.header is None or first.header.journal != known.journal:
        return
    number, begin = first.number - 1, first.header.first_number
    needed = min(known.applied + 1, begin)
    if needed < begin or 0 < known.first_segment <= number:
        reason = "its file is missing" + ("" if needed < begin else ", and the database refers to it")
        yield Damage(segment_path(directory, number), number, 0, None, needed, begin, False, reason)


def _missing(directory: Path, number: int, expected: int, behind: SegmentFile) -> Damage:
    first = behind.header.first_number if behind.header else None
    path = segment_path(directory, number)
    return Damage(path, number, 0, None, expected, first, False, "its file is missing")


def _proves(number: int, behind: tuple[int, Head] | None, later: Iterator[tuple[int, Head]]) -> bool:
    """Whether a later record was written when this number had become durable."""
    return behind is not None and (
        behind[1].durable >= number or any(head.durable >= number for _, head in later)
    )


class _Walk:
    """Through one file, with what is known of those around it."""

    def __init__(
        self,
        file: SegmentFile,
        following: SegmentFile | None,
        expected: int,
        journal: int | None,
        known: Known | None = None,
    ) -> None:
        self._file = file
        self._following = following
        self._applied = known.applied if known else 0
        self._expected = expected
        self._journal = journal
        self._is_last = following is None and file.kept is None
        self._up_to: int | None = file.kept.last_number if file.kept else None
        if following is not None and following.number == file.number + 1 and following.header:
            self._up_to = following.header.first_number - 1
        self.next_number = 0 if self._up_to is None else self._up_to + 1

    def found(self) -> Iterator[Record | Damage]:
        header = self._file.header
        if header is None or (self._journal is not None and header.journal != self._journal):
            problem = self._file.problem or "it is of another journal"
            header = None
            if self._journal is not None:
                header = SegmentHeader(self._journal, self._file.number, self._expected, 0, 0)
            end = BLOCK if header else None
            following = self._expected if header else (self.next_number or None)
            yield self._damage(0, end, self._expected, following, problem)
        if header is not None:
            try:
                with SegmentReader(self._file.path, header) as reader:
                    yield from self._through(reader)
            except OSError as error:
                problem = f"it cannot be read: {error.strerror}"
                yield self._damage(0, None, 0, self.next_number or None, problem)

    def _through(self, reader: SegmentReader) -> Iterator[Record | Damage]:
        while True:
            for record in reader.records(self._up_to):
                if record.kind not in OWN:
                    yield record
            number, offset = reader.number, reader.offset
            if self._up_to is not None and number > self._up_to:
                if self._following and next(reader.records(number, bodies=False), None) is not None:
                    yield self._twice(self._following, self._up_to + 1)
                return
            later = reader.later()
            behind = next(later, None)
            was_durable = number <= self._applied or _proves(number, behind, later)
            if self._is_last and not was_durable:
                self.next_number = number
                if next(reader.markers(), None) is not None:
                    yield self._damage(
                        offset, None, number, None, "it was being written at the end", torn=True
                    )
                return
            if behind is None:
                yield from self._at_the_end(reader)
                return
            yield self._damage(offset, behind[0], number, behind[1].number, f"record {number} is damaged")
            reader.move(behind[0], behind[1].number)

    def _at_the_end(self, reader: SegmentReader) -> Iterator[Damage]:
        """Nothing that is whole comes any more."""
        number, following = reader.number, None if self._up_to is None else self._up_to + 1
        if self._is_last and number <= self._applied:
            following = self._applied + 1
        if following is None and next(reader.markers(), None) is None:
            self.next_number = number
        else:
            yield self._damage(reader.offset, None, number, following, self._reason(reader, number))

    def _reason(self, reader: SegmentReader, number: int) -> str:
        if number > self._applied or next(reader.markers(), None) is not None:
            return f"record {number} is damaged"
        return f"it ends before record {number}, and the database has what it held up to {self._applied}"

    @staticmethod
    def _twice(file: SegmentFile, number: int) -> Damage:
        reason = f"it begins with record {number}, and the file before has that, too: one is an older copy"
        return Damage(file.path, file.number, 0, None, number, None, False, reason)

    def _damage(
        self,
        offset: int,
        end: int | None,
        number: int,
        next_number: int | None,
        reason: str,
        *,
        torn: bool = False,
    ) -> Damage:
        file = self._file
        return Damage(file.path, file.number, offset, end, number, next_number, torn, reason)
