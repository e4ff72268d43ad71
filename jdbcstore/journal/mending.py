"""Making a damaged journal one that can be opened, with what can still be read."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jdbcstore.clock import Clock, SystemClock
from jdbcstore.errors import StoreUnavailable
from jdbcstore.journal.api import Record
from jdbcstore.journal.directory import UNFINISHED, live_segments
from jdbcstore.journal.files import Files, OsFiles
from jdbcstore.journal.inspection import Damage, records, segments
from jdbcstore.journal.layout import BLOCK, RECORD, SegmentHeader, Stamp, gap
from jdbcstore.journal.lock import DirectoryLock
from jdbcstore.journal.reader import SegmentReader


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
    directory: Path, *, cut: bool = False, files: Files | None = None, clock: Clock | None = None
) -> Repaired:
    """Mend a journal that nobody has open: leave out what is damaged and keep what is behind it, or ``cut``
    the journal off at the first damage. Every file that is changed is copied before.

    It can be stopped anywhere and done again. Records that are lost stay lost: messages that were only in
    them, and that messages were consumed.

    :raises JournalInUse: somebody has it open
    :raises StoreUnavailable: the files cannot be read or written
    """
    try:
        lock = DirectoryLock(directory)
        try:
            return _Repair(directory, files or OsFiles(), clock or SystemClock()).run(cut=cut)
        finally:
            lock.release()
    except (OSError, ValueError) as error:
        raise StoreUnavailable(f"the journal in {directory} cannot be repaired: {error}") from error


class _Repair:
    def __init__(self, directory: Path, files: Files, clock: Clock) -> None:
        self._directory = directory
        self._files = files
        self._clock = clock
        self._copies = directory / f"damaged-{clock.now_ms()}"
        self._done = Repaired()

    def run(self, *, cut: bool) -> Repaired:
        # What is mended can show more: a header, and then its records.
        while found := self._look():
            self._done.damages += [damage for damage in found if damage not in self._done.damages]
            mended = 0 if cut else sum(self._mend(damage) for damage in found)
            if not mended:
                self._cut(found[0])
        self._done.copies = self._copies if self._copies.exists() else None
        return self._done

    def _look(self) -> list[Damage]:
        self._done.records = 0
        damages = []
        for found in records(self._directory):
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
        elif damage.next_number is None or not damage.number:
            return False
        elif not damage.path.exists():
            self._make_missing(damage, damage.next_number - 1)
        elif damage.offset:
            self._write_gap(damage, damage.next_number - 1)
        else:
            return False
        return True

    def _mend_header(self, damage: Damage) -> bool:
        """What is in it is known from the segments around, but for its time."""
        number = damage.number
        if not number:
            assumed = SegmentHeader(self._journal(), damage.segment, 0, 0, 0)
            with SegmentReader(damage.path, assumed) as reader:
                offset, head = next(reader.later(), (0, None))
            if head is None:
                return False
            # A gap comes next if that is not where records begin.
            number = head.number if offset == BLOCK else max(head.number - 1, 1)
        header = SegmentHeader(self._journal(), damage.segment, number, 0, self._clock.now_ms())
        with self._changed(damage.path) as file:
            self._write(file, header.pack(), 0)
        return True

    def _make_missing(self, damage: Damage, last_lost: int) -> None:
        header = SegmentHeader(self._journal(), damage.segment, damage.number, 0, self._clock.now_ms())
        making = damage.path.with_suffix(UNFINISHED)
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(making)
        file = self._files.create(making)
        try:
            self._write(file, header.pack() + gap(Stamp.of(header), last_lost, b""), 0)
            self._files.sync(file)
        finally:
            self._files.close(file)
        self._files.rename(making, damage.path)
        self._files.sync_directory(self._directory)

    def _write_gap(self, damage: Damage, last_lost: int) -> None:
        start = damage.offset + RECORD
        with damage.path.open("rb") as old:
            header = SegmentHeader.unpack(old.read(BLOCK))
            old.seek(start)
            body = old.read(damage.end - start) if damage.end else b""
        with self._changed(damage.path) as file:
            self._write(file, gap(Stamp.of(header), last_lost, body), damage.offset)

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

    def _journal(self) -> int:
        return next(
            file.header.journal for file in segments(self._directory) if file.header and not file.kept
        )

    @contextlib.contextmanager
    def _changed(self, path: Path) -> Iterator[int]:
        self._copy(path)
        file = self._files.open(path)
        try:
            yield file
            self._files.sync(file)
        finally:
            self._files.close(file)

    def _write(self, file: int, data: bytes, offset: int) -> None:
        while data:
            written = self._files.write(file, data, offset)
            data, offset = data[written:], offset + written

    def _copy(self, path: Path) -> None:
        """As it was before the first change."""
        target = self._copies / path.name
        if target.exists():
            return
        self._copies.mkdir(exist_ok=True)
        copying = target.with_suffix(UNFINISHED)
        shutil.copy2(path, copying)
        with copying.open("rb") as copied:
            os.fsync(copied.fileno())
        copying.replace(target)
        self._files.sync_directory(self._copies)
        self._files.sync_directory(self._directory)
