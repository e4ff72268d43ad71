"""Inspection and repair of a journal's files without opening it.

Inspection changes nothing and takes no lock: while another process writes, the end may look torn. Repair
locks the directory.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jdbcstore.errors import StoreUnavailable
from jdbcstore.journal.directory import DirectoryLock, Kept, kept_segments, live_segments, segment_path
from jdbcstore.journal.layout import BLOCK, GAP, OWN, RECORD, Head, Record, SegmentHeader, Stamp, gap
from jdbcstore.journal.recovery import SegmentReader
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.files import OS_FILES, Files, copy_file, replace_file, write_all


class Damage(NamedTuple):
    """A range of a segment that should hold records, and does not."""

    path: Path
    segment: int
    offset: int
    end: int | None
    """Start of the next valid records; None if the file has no more."""
    number: int
    """The first lost record; 0 if unknown."""
    next_number: int | None
    """The first record after the lost ones; None if unknown."""
    reason: str
    torn: bool = False
    """Whether it is the end of the journal, torn during a write: nothing acknowledged is lost."""

    @property
    def lost(self) -> int | None:
        """The number of lost records; None if unknown."""
        if self.torn:
            return 0
        return None if self.next_number is None or not self.number else self.next_number - self.number


class BackingState(NamedTuple):
    """State of a journal in its backing store, which says where the journal has to begin and to end."""

    journal: int
    applied: int
    """The store has all records up to this one, and none after it."""
    store: int = 0
    """The identity of the backing store."""
    first_segment: int = 0
    """The oldest file that the store refers to; 0 if to none."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file of records, as its header, or its name, describes it."""

    path: Path
    number: int
    size: int
    header: SegmentHeader | None
    """None if it is damaged."""
    problem: str = ""
    kept: Kept | None = None
    """The facts in its name, if it is a released segment that was retained."""


def segments(directory: Path) -> list[SegmentFile]:
    """Return the live segments in order, then the retained ones, oldest first.

    :raises OSError: the directory cannot be read
    """
    return _live(directory) + kept(directory)


def kept(directory: Path) -> list[SegmentFile]:
    """Return the retained segments in the directory of a journal, or in its archive.

    :raises OSError: the directory cannot be read
    """
    return [_look_at(kept.path, kept.number, kept) for kept in kept_segments(directory)]


def _live(directory: Path) -> list[SegmentFile]:
    return [_look_at(path, number) for number, path in live_segments(directory).items()]


def _look_at(path: Path, number: int, kept: Kept | None = None) -> SegmentFile:
    size = 0
    try:
        size = path.stat().st_size
        with SegmentReader(path) as reader:
            header = reader.header
        if header.number != number:
            raise ValueError(f"it holds segment {header.number}")
    except OSError as error:
        return SegmentFile(path, number, size, None, f"it cannot be read: {error.strerror}", kept)
    except ValueError as error:
        return SegmentFile(path, number, size, None, str(error), kept)
    return SegmentFile(path, number, size, header, kept=kept)


def journal_of(files: list[SegmentFile], known: BackingState | None = None) -> int | None:
    """Return the number of the journal that most of the files belong to; None if no header is readable."""
    said = Counter(file.header.journal for file in files if file.header and not file.kept)
    if known is not None and (known.journal in said or not said):
        return known.journal
    return max(said, key=lambda journal: said[journal], default=None)


def records(directory: Path, known: BackingState | None = None) -> Iterator[Record | Damage]:
    """Return all records that are not released, in order, and the damage between them.

    Records missing at the beginning or the end are found only with the state ``known`` to the backing store.

    :raises OSError: the directory cannot be read
    """
    live = _live(directory)
    journal = journal_of(live, known)
    if known is not None and known.journal != journal:
        known = None
    if known is not None and not live:
        reason = f"there is no file of the journal number {journal}"
        yield Damage(segment_path(directory, 1), 1, 0, None, known.applied + 1, None, reason)
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
    """Return the records of one retained segment, in order, and the damage between them."""
    journal = file.kept.journal if file.kept else None
    first = file.kept.first_number if file.kept else 0
    return _Walk(file, None, first, journal).found()


def _before(directory: Path, first: SegmentFile, known: BackingState) -> Iterator[Damage]:
    """Yield files that are missing before the first file present."""
    if first.header is None or first.header.journal != known.journal:
        return
    number, begin = first.number - 1, first.header.first_number
    needed = min(known.applied + 1, begin)
    if needed < begin or 0 < known.first_segment <= number:
        reason = "its file is missing" + ("" if needed < begin else ", and the database refers to it")
        yield Damage(segment_path(directory, number), number, 0, None, needed, begin, reason)


def _missing(directory: Path, number: int, expected: int, following: SegmentFile) -> Damage:
    first = following.header.first_number if following.header else None
    path = segment_path(directory, number)
    return Damage(path, number, 0, None, expected, first, "its file is missing")


def _proves(number: int, heads: tuple[int, Head] | None, later: Iterator[tuple[int, Head]]) -> bool:
    """Return whether a later record shows that this number had become durable."""
    return heads is not None and (
        heads[1].durable >= number or any(head.durable >= number for _, head in later)
    )


class _Walk:
    """A pass over one file, given the neighbours' numbers."""

    def __init__(
        self,
        file: SegmentFile,
        following: SegmentFile | None,
        expected: int,
        journal: int | None,
        known: BackingState | None = None,
    ) -> None:
        self._file = file
        self._damage = partial(Damage, file.path, file.number)
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
            problem = self._file.problem or "it belongs to another journal"
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
            first, at, following = reader.number, reader.offset, reader.number
            for record in reader.records(self._up_to):
                if record.kind not in OWN:
                    yield record
                first, at, following = following, record.offset, record.number + 1
            number, offset = reader.number, reader.offset
            if self._up_to is not None and number > self._up_to:
                if number > self._up_to + 1:
                    yield self._damage(at, offset, first, self._up_to + 1, self._overlap())
                yield from self._beyond(reader, self._up_to + 1)
                return
            later = reader.later()
            beyond = next(later, None)
            was_durable = number <= self._applied or _proves(number, beyond, later)
            if self._is_last and not was_durable:
                self.next_number = number
                if next(reader.markers(), None) is not None:
                    reason = "it was being written at the end"
                    yield self._damage(offset, None, number, None, reason, torn=True)
                return
            if beyond is None:
                yield from self._at_the_end(reader)
                return
            (end, head), reason = beyond, f"record {number} is damaged"
            following, last = head.number, head.number if self._up_to is None else self._up_to
            if head.kind == GAP if following > last else end < offset + RECORD:
                # Lost ones that reach too far; or one in the place of another, so that a gap has no room.
                end, following = end + head.space, min(following, last) + 1
            yield self._damage(offset, end, number, following, reason)
            reader.offset, reader.number = end, following

    def _overlap(self) -> str:
        return f"what replaces lost records reaches into the next file, which begins with {self.next_number}"

    def _beyond(self, reader: SegmentReader, first: int) -> Iterator[Damage]:
        """Yield the damage of a file with records that belong in the next one, from ``first`` on."""
        if self._following is None:
            return
        begin = reader.offset
        kinds = [record.kind for record in reader.records()] + [head.kind for _, head in reader.later()]
        if kinds and {*kinds} == {GAP}:
            yield self._damage(begin, None, first, first, self._overlap())
        elif kinds:
            reason = f"it begins with record {first}, and the file before has that or later ones"
            reason += ": one is an older copy"
            yield Damage(self._following.path, self._following.number, 0, None, first, None, reason)

    def _at_the_end(self, reader: SegmentReader) -> Iterator[Damage]:
        """Yield the damage at the end, where no complete record follows."""
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
        return f"it ends before record {number}, and the database has its records up to {self._applied}"


@dataclass(slots=True)
class Repaired:
    """The result of a repair."""

    damages: list[Damage] = field(default_factory=list)
    """In order, with damages that became visible by the repair of others."""
    copies: Path | None = None
    """The folder of the original files; None if nothing was changed."""
    records: int = 0
    """Number of records after the repair."""


def repair(
    directory: Path,
    *,
    cut: bool = False,
    known: BackingState | None = None,
    files: Files | None = None,
    clock: Clock | None = None,
) -> Repaired:
    """Repair a journal that is not open: skip damage and keep the records after it, or ``cut`` the journal
    off at the first damage. Every file is copied before it is changed.

    With the state ``known`` to the backing store, the journal begins and ends where that store needs it to:
    records written later get numbers after everything that the store has.

    It can be interrupted anywhere and repeated. Lost records stay lost: messages that were only in them, and
    acknowledgements, whose messages come back.

    :raises JournalInUse: the journal is open
    :raises StoreUnavailable: the files cannot be read or written
    """
    try:
        lock = DirectoryLock(directory)
        try:
            return _Repair(directory, known, files or OS_FILES, clock or SystemClock()).run(cut=cut)
        finally:
            lock.release()
    except (OSError, ValueError) as error:
        raise StoreUnavailable(f"the journal in {directory} cannot be repaired: {error}") from error


class _Repair:
    def __init__(self, directory: Path, known: BackingState | None, files: Files, clock: Clock) -> None:
        self._directory = directory
        self._known = known
        self._files = files
        self._clock = clock
        self._copies = directory / f"damaged-{clock.now_ms()}"
        self._done = Repaired()

    def run(self, *, cut: bool) -> Repaired:
        # A repair can reveal more: after a header, its records. A cut journal may then be too short.
        before: list[Damage] = []
        while damages := self._read_damages():
            if self._journal() is None and not cut:
                raise ValueError(
                    "the header of each file is damaged, and only the database knows which journal it is; run"
                    " jdbcstore journal repair with the configuration that names both, or with --cut"
                )
            self._done.damages += [damage for damage in damages if damage not in self._done.damages]
            if damages == before:
                raise ValueError(f"segment {damages[0].segment} at {damages[0].offset}: {damages[0].reason}")
            before = [] if cut else damages
            if cut or not sum(self._repair(damage) for damage in damages):
                self._cut(damages[0])
            cut = False
        self._done.copies = self._copies if self._copies.exists() else None
        return self._done

    def _read_damages(self) -> list[Damage]:
        self._done.records = 0
        damages = []
        for record in records(self._directory, self._known):
            if isinstance(record, Record):
                self._done.records += 1
            else:
                damages.append(record)
        return damages

    def _repair(self, damage: Damage) -> bool:
        """Replace it by something valid; false if too little is known."""
        if damage.torn or (damage.offset and damage.next_number == damage.number):
            self._truncate(damage.path, damage.offset)
        elif not damage.offset and damage.end == BLOCK:
            return self._repair_header(damage)
        elif not damage.path.exists() and damage.number:
            self._make_missing(damage)
        elif damage.next_number is None or not damage.number:
            return False
        elif damage.offset and (damage.end is None or damage.end >= damage.offset + RECORD):
            if damage.end is None and damage.segment == max(live_segments(self._directory)):
                self._truncate(damage.path, damage.offset)
            self._write_gap(damage, damage.next_number - 1)
        else:
            return False
        return True

    def _repair_header(self, damage: Damage) -> bool:
        number = damage.number or self._first_number(damage)
        if not number:
            return False
        header = self._header(damage.segment, number)
        with self._changed(damage.path) as file:
            write_all(file, header.pack(), files=self._files)
        return True

    def _first_number(self, damage: Damage) -> int:
        """Return the first number of the first file, whose header is lost; 0 if it cannot be determined."""
        with SegmentReader(damage.path, self._header(damage.segment, 0)) as reader:
            offset, head = next(reader.later(), (0, None))
        if head is not None:
            # A gap comes next if that is not where records begin.
            number = head.number if offset == BLOCK else max(head.number - 1, 1)
        else:
            following = [file for file in segments(self._directory) if file.number == damage.segment + 1]
            number = following[0].header.first_number if following and following[0].header else 0
        if damage.segment == 1 and head is not None and self._known is None:
            return 1
        return min(number, self._known.applied + 1) if self._known else number

    def _make_missing(self, damage: Damage) -> None:
        """Create a file with a gap, or without records if none is known to be lost."""
        header = self._header(damage.segment, damage.number)
        content = header.pack()
        if damage.next_number is not None and damage.next_number > damage.number:
            content += gap(Stamp.of(header), damage.next_number - 1, b"")
        replace_file(damage.path, content, files=self._files)

    def _write_gap(self, damage: Damage, last_lost: int) -> None:
        start = damage.offset + RECORD
        with damage.path.open("rb") as old:
            header = SegmentHeader.unpack(old.read(BLOCK))
            old.seek(start)
            body = old.read(damage.end - start) if damage.end else b""
        with self._changed(damage.path) as file:
            write_all(file, gap(Stamp.of(header), last_lost, body), damage.offset, self._files)

    def _truncate(self, path: Path, offset: int) -> None:
        with self._changed(path) as file:
            self._files.truncate(file, offset)

    def _cut(self, damage: Damage) -> None:
        """Remove everything from there on, the last file first: the journal is consistent after each step."""
        for number, path in reversed(live_segments(self._directory).items()):
            if number > damage.segment or (number == damage.segment and damage.offset < BLOCK):
                self._copy(path)
                self._files.remove(path)
                self._files.sync_directory(self._directory)
        if damage.offset >= BLOCK:
            self._truncate(damage.path, damage.offset)

    def _journal(self) -> int | None:
        return journal_of(segments(self._directory), self._known)

    def _header(self, segment: int, first_number: int) -> SegmentHeader:
        """Derive a replacement for a lost header from its neighbours, except for the time."""
        there = [file.header for file in segments(self._directory) if file.header and not file.kept]
        store = max((header.store for header in there), default=self._known.store if self._known else 0)
        return SegmentHeader(self._journal() or 0, segment, first_number, 0, self._clock.now_ms(), store)

    @contextlib.contextmanager
    def _changed(self, path: Path) -> Iterator[int]:
        self._copy(path)
        file = self._files.open(path)
        try:
            yield file
            self._files.sync(file)
        finally:
            self._files.close(file)

    def _copy(self, path: Path) -> None:
        """Keep the file as it was before the first change."""
        target = self._copies / path.name
        if target.exists():
            return
        self._copies.mkdir(exist_ok=True)
        # Not by self._files: tests do not count copies among the steps at which they crash.
        copy_file(path, target)
        self._files.sync_directory(self._directory)
