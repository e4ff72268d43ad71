"""The segment files of an open journal: the current one, those before it, preallocated and retained ones.

One segment is written at a time. Those before it stay until they are released; then they are kept for what
was in them, if the configuration retains or archives them, or become preallocated files again.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import CorruptJournal, JournalFailed, StoreUnavailable
from jdbcstore.journal import directory as names
from jdbcstore.journal.layout import BLOCK, SegmentHeader, Stamp
from jdbcstore.journal.recovery import Recovered, Segment, Torn
from jdbcstore.util.clock import Clock
from jdbcstore.util.files import UNFINISHED, Files, copy_file, make_directory, write_all

log = logging.getLogger(__name__)

_PIECE = 1 << 20
_ZEROS = bytes(_PIECE)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Span(NamedTuple):
    """The contents of a segment that is not released."""

    segment: int
    first_sequence: int
    """Higher than every sequence in earlier segments; 0 if unknown, after a repair."""
    last_number: int


class Segments:
    """The segments of one journal. One thread at a time writes; releasing and reading are thread-safe."""

    def __init__(
        self,
        directory: Path,
        config: JournalConfig,
        files: Files,
        clock: Clock,
        journal: int,
        store: int = 0,
    ) -> None:
        """``store`` is the identity of the backing store."""
        self.directory = directory
        self._config = config
        self._files = files
        self._clock = clock
        self.journal = journal
        self.store = store
        self._lock = threading.Lock()
        self._live: list[Segment] = []
        self._preallocated = _Preallocated(directory, config, files)
        self._retention = _Retention(directory, config, files, clock, self._preallocated)
        self._releasing = threading.Lock()
        self._file = -1
        self.stamp = Stamp(0, 0)

    @property
    def live(self) -> list[Segment]:
        """The segments that are not released, oldest first."""
        with self._lock:
            return list(self._live)

    def spans(self) -> list[Span]:
        return [Span(one.header.number, one.header.first_sequence, one.last_number) for one in self.live]

    def read(self, segment: int, offset: int, size: int) -> bytes:
        """Bytes of a file, fewer at its end.

        :raises CorruptJournal: the file does not exist
        :raises StoreUnavailable: the file cannot be read now
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
        """The segment that is being written."""
        return self._live[-1]

    @property
    def room(self) -> int:
        """The bytes left in the current segment."""
        return self.current.size - self.current.end

    def resume(self, found: Recovered) -> None:
        """Continue where an earlier process stopped, after truncating a torn end.

        :raises OSError:
        """
        self._preallocated.start()
        self._retention.start()
        if not found.segments:
            return
        # The machine did not go down with the process: what that did not sync is relied on from now on.
        self._files.sync_directory(self.directory)
        self._live = found.segments
        current = self.current
        current.size = max(current.size, self._config.journal_log_file_size)
        self._file = self._files.open(current.path)
        self.stamp = Stamp.of(current.header)
        if found.torn is not None:
            self._cut(found.torn, current)
        if not found.clean:
            self._rewrite(current)
        else:
            # An earlier process may have truncated it, and ended before that was durable: the old bytes must
            # not complete a record that is written in their place.
            self._files.sync(self._file)

    def _cut(self, torn: Torn, current: Segment) -> None:
        # Durable before anything is written: a record of the same number must not be followed by old ones.
        self._files.truncate(self._file, torn.offset)
        self._files.sync(self._file)
        self._preallocated.fill(self._file, torn.offset, current.size)

    def _rewrite(self, current: Segment) -> None:
        # After a failed sync the kernel holds pages that the disk does not have, and takes them for clean:
        # only what is written again is synced.
        offset = BLOCK
        while data := os.pread(self._file, min(_PIECE, current.end - offset), offset):
            offset = write_all(self._file, data, offset, self._files)
        self._files.sync(self._file)

    def begin(self, first_number: int, first_sequence: int, need: int) -> None:
        """Begin a segment with room for ``need`` bytes; the one before is durable.

        :raises StoreUnavailable: the disk is full; nothing has changed
        :raises JournalFailed: the segment may have been created, or not
        """
        number = self.current.header.number + 1 if self._live else 1
        created = self._clock.now_ms()
        header = SegmentHeader(self.journal, number, first_number, first_sequence, created, self.store)
        path = names.segment_path(self.directory, number)
        try:
            preallocated = self._preallocated.take(BLOCK + need)
            file = self._write_header(preallocated, header)
            self._files.rename(preallocated, path)
        except OSError as error:
            if is_full(error):
                raise StoreUnavailable(
                    f"the disk of {self.directory} is full: the journal needs room for its next file"
                ) from error
            raise write_failed(self.directory, error) from error
        try:
            self._files.sync_directory(self.directory)
        except OSError as error:
            self._files.close(file)
            raise write_failed(self.directory, error) from error
        if self._file >= 0:
            self._files.close(self._file)
        self._file, self.stamp = file, Stamp.of(header)
        size = max(path.stat().st_size, BLOCK + need, self._config.journal_log_file_size)
        with self._lock:
            self._live.append(Segment(path, header, size))

    def _write_header(self, path: Path, header: SegmentHeader) -> int:
        """Write the header durably, before the file gets the name of a segment; returns its descriptor."""
        file = self._files.open(path)
        try:
            write_all(file, header.pack(), files=self._files)
            self._files.sync(file)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.close(file)
                self._files.remove(path)
            raise
        return file

    def write(self, data: bytes) -> None:
        """Write at the end of the current segment, which :meth:`advance` moves.

        :raises OSError:
        """
        write_all(self._file, data, self.current.end, self._files)

    def truncate(self) -> None:
        """Remove what was written after the end, durably.

        :raises OSError: it may still be there
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
        """Release the segments whose records are all up to a number, except the current one.

        One that cannot be released now, because an archive is full or a disk fails, is tried again next time.
        """
        with self._releasing:
            # What was retained long enough may take the room that what is retained now needs.
            prune = self._retention.prune
            for work in (prune, partial(self._release_each, up_to), prune):
                try:
                    work()
                except OSError as error:
                    log.warning("an obsolete file of the journal is left for now: %s", error)

    def _release_each(self, up_to: int) -> None:
        while self._release_one(up_to):
            pass

    def _release_one(self, up_to: int) -> bool:
        with self._lock:
            if len(self._live) < 2 or self._live[0].last_number > up_to:
                return False
            segment, following = self._live[:2]
        # Durably, one after the other: after a crash no later one is gone before an earlier one.
        last_time = max(following.header.created, segment.header.created)
        try:
            self._retention.release(segment, last_time)
        finally:
            if not segment.path.exists():
                with self._lock:
                    del self._live[0]
        return True

    def close(self) -> None:
        self._preallocated.close()
        file, self._file = self._file, -1
        if file >= 0:
            self._files.close(file)


def write_failed(directory: Path, error: OSError) -> JournalFailed:
    return JournalFailed(
        f"the journal in {directory} cannot be written: {error.strerror}; check the disk, then open the store"
        " again"
    )


def is_full(error: OSError) -> bool:
    """Whether only room on the disk is missing."""
    return error.errno in _NO_ROOM


class _Preallocated:
    """Files ready to become segments: created ahead by a thread of their own, or reused. Thread-safe."""

    def __init__(self, directory: Path, config: JournalConfig, files: Files) -> None:
        self._directory = directory
        self._size = config.journal_log_file_size
        self._count = config.journal_log_files - 1
        if config.use_quick_journal:
            # The database refers to messages in the others.
            self._count = min(self._count, 1)
        self._ahead = config.preallocation_scope == "entire_journal"
        self._sparse = config.preallocation_strategy == "sparse_file"
        self._files = files
        self._lock = threading.Lock()
        self._ready: list[Path] = []
        self._last = 0
        self._closed = False
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Take over the files that an earlier process left, and begin to create the missing ones."""
        for path in names.unfinished(self._directory):
            self._files.remove(path)
        for number, path in names.preallocated(self._directory).items():
            self._last = max(self._last, number)
            if path.stat().st_size == self._size and len(self._ready) < max(self._count, 1):
                self._ready.append(path)
            else:
                self._files.remove(path)
        if self._ahead and self._count:
            self._thread = threading.Thread(target=self._run, name="jdbcstore-journal-files", daemon=True)
            self._wanted.set()
            self._thread.start()

    def take(self, size: int) -> Path:
        """A file of at least this size, durable except for its name; created now if none is ready.

        :raises OSError: such as a full disk
        """
        if size <= self._size:
            with self._lock:
                ready = self._ready.pop() if self._ready else None
            self._wanted.set()
            if ready is not None:
                return ready
        return self._create(max(size, self._size))

    def give(self, path: Path, size: int) -> None:
        """Reuse or remove an obsolete segment, durably.

        :raises OSError:
        """
        with self._lock:
            reused = size == self._size and len(self._ready) < max(self._count, 1)
            target = self._next()
        if reused:
            self._files.rename(path, names.preallocated_path(self._directory, target))
        else:
            self._files.remove(path)
        # Before it can be written: after a crash it would else be a segment again, with another's content.
        self._files.sync_directory(self._directory)
        if reused:
            with self._lock:
                self._ready.insert(0, names.preallocated_path(self._directory, target))

    def close(self) -> None:
        self._closed = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def fill(self, file: int, start: int, size: int) -> None:
        """Allocate a file from ``start`` to its size as the configuration says, and sync it.

        :raises OSError:
        """
        if self._ahead and self._sparse:
            self._files.truncate(file, size)
        elif self._ahead:
            while start < size and not self._closed:
                start += self._files.write(file, memoryview(_ZEROS)[: size - start], start)
        self._files.sync(file)

    def _next(self) -> int:
        self._last += 1
        return self._last

    def _create(self, size: int) -> Path:
        with self._lock:
            path = names.preallocated_path(self._directory, self._next())
        making = path.with_suffix(UNFINISHED)
        file = self._files.create(making)
        try:
            try:
                self.fill(file, 0, size)
            finally:
                self._files.close(file)
            self._files.rename(making, path)
        except OSError:
            with contextlib.suppress(OSError):
                self._files.remove(making)
            raise
        return path

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            while not self._closed and len(self._ready) < self._count:
                try:
                    path = self._create(self._size)
                except OSError as error:
                    log.warning("no file could be preallocated for the journal: %s", error)
                    break
                with self._lock:
                    self._ready.append(path)
            if self._closed:
                return


class _Retention:
    """Released segments: kept for a time, up to a size, or in an archive; else reused. Not thread-safe."""

    def __init__(
        self, directory: Path, config: JournalConfig, files: Files, clock: Clock, preallocated: _Preallocated
    ) -> None:
        archive = config.journal_archive_directory
        self._directory = directory
        self._place = Path(archive) if archive else directory
        self._seconds = config.journal_retention
        self._bytes = config.journal_retention_size
        self._retains = bool(archive or self._seconds or self._bytes)
        self._files = files
        self._clock = clock
        self._preallocated = preallocated

    def start(self) -> None:
        """
        :raises OSError:
        """
        make_directory(self._place, files=self._files)
        for path in self._place.glob(f"kept-*{UNFINISHED}"):
            self._files.remove(path)
        self.prune()

    def release(self, segment: Segment, last_time: int) -> None:
        """Retain or reuse a segment, durably.

        :raises OSError:
        """
        if not self._retains:
            self._preallocated.give(segment.path, segment.path.stat().st_size)
            return
        target = names.kept_path(
            self._place, segment.header, last_number=segment.last_number, last_time=last_time
        )
        try:
            self._files.rename(segment.path, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            copy_file(segment.path, target, files=self._files)
            self._files.remove(segment.path)
        self._files.sync_directory(self._place)
        if self._place != self._directory:
            self._files.sync_directory(self._directory)

    def prune(self) -> None:
        """Release what was retained long enough, or exceeds the size: the oldest first.

        :raises OSError:
        """
        if not (self._seconds or self._bytes):
            return
        kept = [(one, one.size) for one in names.kept_segments(self._place)]
        size = sum(each for _, each in kept)
        oldest = self._clock.now_ms() - self._seconds * 1000
        for one, each in kept:
            if (self._seconds and one.last_time < oldest) or (self._bytes and size > self._bytes):
                size -= each
                if self._place == self._directory:
                    self._preallocated.give(one.path, each)
                else:
                    self._files.remove(one.path)
