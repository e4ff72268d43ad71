"""The segments of a journal that is open for writing: one is written, those before it wait to be released."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
from functools import partial
from pathlib import Path

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import CorruptJournal, JournalFailed, StoreUnavailable
from jdbcstore.journal import directory as names
from jdbcstore.journal.api import Span
from jdbcstore.journal.keeping import Keeping
from jdbcstore.journal.layout import BLOCK, SegmentHeader, Stamp
from jdbcstore.journal.recovery import Recovered, Segment, Torn
from jdbcstore.journal.spares import Spares
from jdbcstore.util.clock import Clock
from jdbcstore.util.files import Files, write_all

log = logging.getLogger(__name__)

_PIECE = 1 << 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Segments:
    """The files. Writing is for one thread at a time, :meth:`release` for any one beside it."""

    def __init__(
        self,
        directory: Path,
        config: JournalConfig,
        files: Files,
        clock: Clock,
        journal: int,
        store: int = 0,
    ) -> None:
        self.directory = directory
        self._config = config
        self._files = files
        self._clock = clock
        self.journal = journal
        self.store = store
        """The identity of the store that it is in front of."""
        self._lock = threading.Lock()
        self._live: list[Segment] = []
        self.spares = Spares(directory, config, files)
        self._keeping = Keeping(directory, config, files, clock, self.spares)
        self._releasing = threading.Lock()
        self._file = -1
        self.stamp = Stamp(0, 0)

    @property
    def live(self) -> list[Segment]:
        with self._lock:
            return list(self._live)

    def spans(self) -> list[Span]:
        """What is in each."""
        return [Span(one.header.number, one.header.first_sequence, one.last_number) for one in self.live]

    def read(self, segment: int, offset: int, size: int) -> bytes:
        """Bytes of a file, fewer if it ends before.

        :raises CorruptJournal: it is not there
        :raises StoreUnavailable: it cannot be read now
        """
        try:
            file = os.open(names.segment_path(self.directory, segment), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(file, size, offset)
            finally:
                os.close(file)
        except FileNotFoundError:
            raise CorruptJournal("its file is missing", segment=segment, offset=offset) from None
        except OSError as error:
            raise StoreUnavailable(
                f"segment {segment} of the journal in {self.directory} cannot be read: {error.strerror}"
            ) from error

    @property
    def current(self) -> Segment:
        return self._live[-1]

    @property
    def room(self) -> int:
        """Bytes that the current segment still takes."""
        return self.current.size - self.current.end

    def resume(self, found: Recovered) -> None:
        """Go on where an earlier process ended; what it left torn is cut.

        :raises OSError:
        """
        self.spares.start()
        self._keeping.start()
        if not found.segments:
            return
        # The machine did not go down with the process: what that had not synced is to be relied on now.
        self._files.sync_directory(self.directory)
        self._live = found.segments
        current = self.current
        current.size = max(current.size, self._config.journal_log_file_size)
        self._file = self._files.open(current.path)
        self.stamp = Stamp.of(current.header)
        if found.torn is not None:
            self._cut(found.torn, current)
        if not found.clean:
            self._write_again(current)
        else:
            # An earlier process may have cut it, and ended before that was durable: what is written in its
            # place must not become whole by what was there.
            self._files.sync(self._file)

    def _cut(self, torn: Torn, current: Segment) -> None:
        # Durable before anything is written: a record of the same number must not be followed by old ones.
        self._files.truncate(self._file, torn.offset)
        self._files.sync(self._file)
        self.spares.fill(self._file, torn.offset, current.size)

    def _write_again(self, current: Segment) -> None:
        # After a failed sync the kernel has in memory what the disk has not, and takes it for written: only
        # what is written once more is synced.
        offset = BLOCK
        while data := os.pread(self._file, min(_PIECE, current.end - offset), offset):
            write_all(self._file, data, offset, self._files)
            offset += len(data)
        self._files.sync(self._file)

    def begin(self, first_number: int, first_sequence: int, need: int) -> None:
        """Begin a segment with room for ``need`` bytes, behind one that is durable.

        :raises StoreUnavailable: there is no room for it; nothing has changed
        :raises JournalFailed: nobody knows
        """
        number = self.current.header.number + 1 if self._live else 1
        created = self._clock.now_ms()
        header = SegmentHeader(self.journal, number, first_number, first_sequence, created, self.store)
        path = names.segment_path(self.directory, number)
        try:
            spare = self.spares.take(BLOCK + need)
            file = self._prepare(spare, header)
            self._files.rename(spare, path)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise StoreUnavailable(
                    f"there is no room in {self.directory} for the journal's next file; make some"
                ) from error
            raise failed(self.directory, error) from error
        try:
            self._files.sync_directory(self.directory)
        except OSError as error:
            self._files.close(file)
            raise failed(self.directory, error) from error
        if self._file >= 0:
            self._files.close(self._file)
        self._file, self.stamp = file, Stamp.of(header)
        size = max(path.stat().st_size, BLOCK + need, self._config.journal_log_file_size)
        with self._lock:
            self._live.append(Segment(path, header, size))

    def _prepare(self, spare: Path, header: SegmentHeader) -> int:
        """Write its header, durably, before it has the name of a segment."""
        file = self._files.open(spare)
        try:
            write_all(file, header.pack(), files=self._files)
            self._files.sync(file)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.close(file)
                self._files.remove(spare)
            raise
        return file

    def write(self, data: bytes) -> None:
        """Behind what is there; it counts only when :meth:`advance` says so.

        :raises OSError:
        """
        write_all(self._file, data, self.current.end, self._files)

    def take_back(self) -> None:
        """What was written and does not count must not be there after a crash.

        :raises OSError: it may be
        """
        self._files.truncate(self._file, self.current.end)
        self._files.sync(self._file)

    def sync(self) -> None:
        """
        :raises OSError:
        """
        self._files.sync(self._file)

    def advance(self, size: int, last_number: int) -> None:
        with self._lock:
            self.current.end += size
            self.current.last_number = last_number

    def release(self, up_to: int) -> None:
        """Let go of segments, all of whose records are up to a number; never of the current one.

        What cannot be let go of now, because an archive is full or a disk fails, is with the next ones.
        """
        with self._releasing:
            # What was kept long enough may be in the way of what is to be kept now.
            for work in (self._keeping.prune, partial(self._let_go_each, up_to), self._keeping.prune):
                try:
                    work()
                except OSError as error:
                    log.warning("a file of the journal that is needed no more is left for now: %s", error)

    def _let_go_each(self, up_to: int) -> None:
        while self._let_go(up_to):
            pass

    def _let_go(self, up_to: int) -> bool:
        with self._lock:
            if len(self._live) < 2 or self._live[0].last_number > up_to:
                return False
            segment, following = self._live[:2]
        # Durably, one after the other: no later one has gone first after a crash.
        last_time = max(following.header.created, segment.header.created)
        try:
            self._keeping.let_go(segment, last_time)
        finally:
            if not segment.path.exists():
                with self._lock:
                    del self._live[0]
        return True

    def close(self) -> None:
        self.spares.close()
        file, self._file = self._file, -1
        if file >= 0:
            self._files.close(file)


def failed(directory: Path, error: OSError) -> JournalFailed:
    return JournalFailed(
        f"the journal in {directory} cannot be written: {error.strerror}; see to the disk, then open the"
        " store anew"
    )


def is_full(error: OSError) -> bool:
    """Whether there would be nothing wrong if there were more room."""
    return error.errno in _NO_ROOM
