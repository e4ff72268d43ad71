"""Writing: entries become records, get their numbers, and are made durable."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import OutcomeUnknown, StoreError, StoreUnavailable
from jdbcstore.journal.api import Entry, Record, Written
from jdbcstore.journal.layout import BLOCK, CLEAN_END, frame, space
from jdbcstore.journal.live import Segments, failed, is_full
from jdbcstore.journal.recovery import Recovered, read

log = logging.getLogger(__name__)


class Piece(NamedTuple):
    """Records of one segment, that are written and synced at once."""

    data: bytes
    written: list[Written]
    last_sequence: int


@dataclass(slots=True)
class _CleanEnd:
    taken: bool = True
    kind: int = CLEAN_END
    sequences: int = 0
    size: int = 0
    chunks: Sequence[bytes] = ()


class Output:
    """The end of the journal. For one writer at a time; :meth:`sync` and :meth:`release` are for any."""

    def __init__(
        self,
        segments: Segments,
        config: JournalConfig,
        found: Recovered,
        first_sequence: int,
        check: Callable[[], None],
    ) -> None:
        self.segments = segments
        self._check = check
        """Raises :class:`OSError` when the files are not ours alone any more."""
        self._config = config
        strategy, interval = config.journal_disk_sync_strategy, config.journal_disk_sync_interval
        self._always = strategy == "always" or (strategy == "periodic" and not interval)
        self._found = found
        self.last_number = found.segments[-1].last_number if found.segments else 0
        self.last_sequence = max(found.last_sequence, first_sequence - 1)
        self._durable = 0
        """The last record that is known to be durable."""
        self._changed = not found.clean
        self._io = threading.Lock()
        self._marks: deque[tuple[int, int]] = deque()
        """Numbers of records, and the bytes written up to each."""
        self._mark_bytes = config.journal_log_file_size // 64
        self._written_bytes = 0
        self._released_bytes = 0
        self._marks_lock = threading.Lock()

    def start(self) -> None:
        """Have a segment to write to.

        :raises StoreUnavailable: there is no room for one
        """
        for segment in self._found.segments:
            self._count(segment.last_number, segment.end - BLOCK, always=True)
        if not self._found.segments:
            self.segments.begin(1, self.last_sequence + 1, 0)
        self._durable = self.last_number
        if self.segments.current.header.store != self.segments.store:
            # From now on its files say whose it is.
            self._begin_segment(0)

    @property
    def unreleased_bytes(self) -> int:
        return self._written_bytes - self._released_bytes

    def frame(self, entries: Sequence[Entry]) -> Piece:
        """As many of them as the current segment takes, or a new one if it takes none.

        :raises StoreUnavailable: there is no room for a new one; nothing has changed
        :raises JournalFailed: nothing can be written any more
        """
        if space(entries[0].size) > self.segments.room:
            self._begin_segment(space(entries[0].size))
        segments, current = self.segments, self.segments.current
        first = self.last_number + 1, self.last_sequence + 1
        place = current.header.number, current.end
        parts, written, size = frame(entries, segments.stamp, *first, self._durable, segments.room, place)
        data = b"".join(parts)
        if len(data) != size:
            raise ValueError("an entry's size is not that of its chunks")
        last = written[-1]
        return Piece(data, written, last.sequence + last.entry.sequences - 1)

    def _begin_segment(self, need: int) -> None:
        with self._io:
            try:
                self._check()
                # All of a segment is durable before the next is begun, in every mode.
                self._sync_written()
            except OSError as error:
                raise failed(self.segments.directory, error) from error
            self.segments.begin(self.last_number + 1, self.last_sequence + 1, need)

    def write(self, piece: Piece) -> None:
        """Write it, and sync it where every write is.

        :raises StoreUnavailable: there was no room; nothing has changed
        :raises JournalFailed: it was not written, and nothing can be any more
        :raises OutcomeUnknown: it may have been written, and nothing can be any more
        """
        with self._io:
            try:
                self._check()
            except OSError as error:
                raise failed(self.segments.directory, error) from error
            try:
                self.segments.write(piece.data)
            except OSError as error:
                raise self._take_back(error) from error
            last = piece.written[-1].number
            if self._always:
                try:
                    self.segments.sync()
                except OSError as error:
                    # Never again: the kernel may take the pages for clean now, and say that all is well.
                    raise _doubt(failed(self.segments.directory, error)) from error
                self._durable = last
            self._changed = True
            self.segments.advance(len(piece.data), last)
            self.last_number, self.last_sequence = last, piece.last_sequence
        self._count(last, len(piece.data))

    def _take_back(self, error: OSError) -> StoreError:
        failure = failed(self.segments.directory, error)
        try:
            self.segments.take_back()
        except OSError as second:
            return _doubt(failed(self.segments.directory, second))
        if is_full(error):
            return StoreUnavailable(
                f"there is no room in {self.segments.directory} for the journal; make some"
            )
        return failure

    def sync(self) -> None:
        """
        :raises JournalFailed: nobody knows what is durable
        """
        with self._io:
            try:
                self._check()
                self._sync_written()
            except OSError as error:
                raise failed(self.segments.directory, error) from error

    def _sync_written(self) -> None:
        if self._durable < self.last_number:
            last = self.last_number
            self.segments.sync()
            self._durable = last

    def release(self, up_to: int) -> None:
        with self._marks_lock:
            while self._marks and self._marks[0][0] <= up_to:
                self._released_bytes = self._marks.popleft()[1]
            if up_to >= self.last_number and not self._marks:
                self._released_bytes = self._written_bytes
        self.segments.release(up_to)

    def _count(self, last_number: int, size: int, *, always: bool = False) -> None:
        with self._marks_lock:
            self._written_bytes += size
            behind = self._marks[-1][1] if self._marks else self._released_bytes
            if always or self._written_bytes - behind >= self._mark_bytes:
                self._marks.append((last_number, self._written_bytes))

    def records(self, after: int) -> Iterator[Record]:
        missing = self._config.ignore_missing_journalfiles
        return read(self.segments.live, after, self.last_number, ignore_missing=missing)

    def end(self, *, clean: bool) -> None:
        """Write that it ended so, if it did; nothing is written behind it."""
        try:
            if clean and self._changed:
                self.sync()  # so that the clean end says of all that it is durable
                self.write(self.frame([_CleanEnd()]))
                self.sync()
        except StoreError as error:
            log.warning("the journal could not be closed as it should be: %s", error)
        finally:
            self.segments.close()


def _doubt(error: StoreError) -> OutcomeUnknown:
    return OutcomeUnknown(f"{error}; nobody knows what it holds: look for this before it is done again")
