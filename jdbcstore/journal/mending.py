"""Making a damaged journal one that can be opened, with what can still be read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jdbcstore.errors import StoreUnavailable
from jdbcstore.journal.api import Record
from jdbcstore.journal.directory import live_segments
from jdbcstore.journal.inspection import Damage, Known, journal_of, records, segments
from jdbcstore.journal.layout import BLOCK, RECORD, SegmentHeader, Stamp, gap
from jdbcstore.journal.lock import DirectoryLock
from jdbcstore.journal.reader import SegmentReader
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.files import OS_FILES, Files, copy_file, replace_file, write_all


@dataclass(slots=True)
class Repaired:
    """What a repair found, and did."""

    damages: list[Damage] = field(default_factory=list)
    """In order; those of which it could be told only when others were mended, too."""
    copies: Path | None = None
    """Where the files are as they were; None if nothing was changed."""
    records: int = 0
    """How many there are now."""


def repair(
    directory: Path,
    *,
    cut: bool = False,
    known: Known | None = None,
    files: Files | None = None,
    clock: Clock | None = None,
) -> Repaired:
    """Mend a journal that nobody has open: leave out what is damaged and keep what is behind it, or ``cut``
    the journal off at the first damage. Every file that is changed is copied before.

    With what is ``known`` by the store behind, the journal begins and ends where that store needs it to: what
    is written later is numbered behind all that the store has.

    It can be stopped anywhere and done again. Records that are lost stay lost: messages that were only in
    them, and that messages were consumed.

    :raises JournalInUse: somebody has it open
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
    def __init__(self, directory: Path, known: Known | None, files: Files, clock: Clock) -> None:
        self._directory = directory
        self._known = known
        self._files = files
        self._clock = clock
        self._copies = directory / f"damaged-{clock.now_ms()}"
        self._done = Repaired()

    def run(self, *, cut: bool) -> Repaired:
        # What is mended can show more: a header, and then its records. What is cut may be too short then.
        before: list[Damage] = []
        while found := self._look():
            if self._journal() is None and not cut:
                raise ValueError(
                    "the header of each file is damaged, and only the database knows which journal it is; run"
                    " jdbcstore journal repair with the configuration that names both, or with --cut"
                )
            self._done.damages += [damage for damage in found if damage not in self._done.damages]
            if found == before:
                raise ValueError(f"segment {found[0].segment} at {found[0].offset}: {found[0].reason}")
            before = [] if cut else found
            if cut or not sum(self._mend(damage) for damage in found):
                self._cut(found[0])
            cut = False
        self._done.copies = self._copies if self._copies.exists() else None
        return self._done

    def _look(self) -> list[Damage]:
        self._done.records = 0
        damages = []
        for found in records(self._directory, self._known):
            if isinstance(found, Record):
                self._done.records += 1
            else:
                damages.append(found)
        return damages

    def _mend(self, damage: Damage) -> bool:
        """Put something right in its place, if enough is known."""
        if damage.torn:
            self._truncate(damage.path, damage.offset)
        elif not damage.offset and damage.end == BLOCK:
            return self._mend_header(damage)
        elif not damage.path.exists() and damage.number:
            self._make_missing(damage)
        elif damage.next_number is None or not damage.number:
            return False
        elif damage.offset:
            if damage.end is None and damage.segment == max(live_segments(self._directory)):
                self._truncate(damage.path, damage.offset)
            self._write_gap(damage, damage.next_number - 1)
        else:
            return False
        return True

    def _mend_header(self, damage: Damage) -> bool:
        """Put one in its place."""
        number = damage.number or self._first_number(damage)
        if not number:
            return False
        header = self._header(damage.segment, number)
        with self._changed(damage.path) as file:
            write_all(file, header.pack(), files=self._files)
        return True

    def _first_number(self, damage: Damage) -> int:
        """Of the first file, which does not say it; 0 if it cannot be found out."""
        with SegmentReader(damage.path, self._header(damage.segment, 0)) as reader:
            offset, head = next(reader.later(), (0, None))
        if head is not None:
            # A gap comes next if that is not where records begin.
            found = head.number if offset == BLOCK else max(head.number - 1, 1)
        else:
            following = [file for file in segments(self._directory) if file.number == damage.segment + 1]
            found = following[0].header.first_number if following and following[0].header else 0
        if damage.segment == 1 and head is not None and self._known is None:
            return 1
        return min(found, self._known.applied + 1) if self._known else found

    def _make_missing(self, damage: Damage) -> None:
        """A file with a gap, or with nothing where no record is known to be lost."""
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
        """Nothing is left from there on. The last file goes first: the journal is whole after each."""
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
        """In place of one that is lost: what it said is known from those around it, but for its time."""
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
        """As it was before the first change."""
        target = self._copies / path.name
        if target.exists():
            return
        self._copies.mkdir(exist_ok=True)
        # Past self._files: copies are none of the steps that a test of crashes counts.
        copy_file(path, target)
        self._files.sync_directory(self._directory)
