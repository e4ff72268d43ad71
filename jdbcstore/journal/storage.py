"""The files of an open journal: the segment that is written, those before it, preallocated and retained ones.

One segment is written at a time. Those before it stay until they are released; then they are kept for what
was in them, if the configuration retains or archives them, or become preallocated files again.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import CorruptJournal, JournalFailed, OutcomeUnknown, StoreError, StoreUnavailable
from jdbcstore.journal import directory as names
from jdbcstore.journal._records_cy import frame
from jdbcstore.journal.abc import Span, WriteBatch
from jdbcstore.journal.layout import (
    BLOCK,
    CLEAN_END,
    JournalEntry,
    Record,
    SegmentHeader,
    Stamp,
    space,
)
from jdbcstore.journal.recovery import Recovered, Segment, read, recover
from jdbcstore.util.clock import Clock
from jdbcstore.util.files import UNFINISHED, Files, copy_file, creating, make_directory, write_all

log = logging.getLogger(__name__)

_PIECE = 1 << 20
_ZEROS = bytes(_PIECE)
_BEGUN = 8
"""The next file is prepared once this part of a file is written: a journal of little use never needs it."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(slots=True)
class _CleanEnd:
    taken: bool = True
    kind: int = CLEAN_END
    sequences: int = 0
    size: int = 0
    chunks: Sequence[bytes] = ()


class Segments:
    """The segments of one journal in a directory, as :class:`jdbcstore.journal.abc.Log` says.

    The directory is locked from the beginning to :meth:`close`.

    :raises JournalInUse: the directory is in use by another journal, of this process or another
    :raises StoreUnavailable: the directory cannot be created or locked
    """

    def __init__(self, config: JournalConfig, files: Files, clock: Clock) -> None:
        self.journal = self.last_number = self.last_sequence = 0
        self._directory = Path(config.directory)
        self._config = config
        strategy, interval = config.journal_disk_sync_strategy, config.journal_disk_sync_interval
        self._syncs_always = strategy == "always" or (strategy == "periodic" and not interval)
        self._files = files
        self._clock = clock
        self._found = Recovered()
        self._store = 0
        self._preallocated = _Preallocated(self._directory, config, files)
        self._retention = _Retention(self._directory, config, files, clock, self._preallocated)
        self._live: list[Segment] = []
        self._live_lock = threading.Lock()
        self._releasing = threading.Lock()
        self._io = threading.Lock()
        self._file = -1
        self._stamp = Stamp(0, 0)
        self._durable = 0
        """The last record that is known to be durable."""
        self._changed = False
        try:
            make_directory(self._directory, files=files)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot create the directory {self._directory} for the journal: {error.strerror}"
            ) from error
        self._lock = names.DirectoryLock(self._directory)

    @property
    def writer(self) -> int:
        return 0

    def recover(self) -> Recovered:
        self._found = recover(self._directory, ignore_missing=self._config.ignore_missing_journalfiles)
        return self._found

    @property
    def first_number(self) -> int:
        return self.live[0].header.first_number

    @property
    def live(self) -> list[Segment]:
        """The segments that are not released, oldest first; the last is being written."""
        with self._live_lock:
            return list(self._live)

    def spans(self) -> list[Span]:
        return [
            Span(segment.header.number, segment.header.first_sequence, segment.last_number)
            for segment in self.live
        ]

    def records(self, after: int, *, applied: int = 0) -> Iterator[Record]:  # noqa: ARG002 - only this process releases
        missing = self._config.ignore_missing_journalfiles
        return read(self.live, after, self.last_number, ignore_missing=missing)

    def read(self, segment: int, offset: int, size: int) -> bytes:
        try:
            file = os.open(names.segment_path(self._directory, segment), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(file, size, offset)
            finally:
                os.close(file)
        except FileNotFoundError:
            raise CorruptJournal("its file is missing", segment=segment, offset=offset) from None
        except OSError as error:
            raise StoreUnavailable(
                f"segment {segment} of the journal in {self._directory} cannot be read: {error.strerror}"
            ) from error

    def open(self, *, first_sequence: int, store: int) -> None:
        recovered, self._store = self._found, store
        self.journal = recovered.journal or secrets.randbits(63) or 1
        self.last_number = recovered.last_number
        self.last_sequence = max(recovered.last_sequence, first_sequence - 1)
        self._changed = not recovered.clean
        try:
            self._begin_or_resume(recovered)
        except OSError as error:
            raise StoreUnavailable(
                f"the journal in {self._directory} cannot be opened: {error.strerror}; check the disk"
            ) from error

    def _begin_or_resume(self, recovered: Recovered) -> None:
        self._preallocated.start()
        self._retention.start()
        if recovered.segments:
            self._resume(recovered)
        else:
            self._begin(0)
        self._durable = self.last_number
        if self._live[-1].header.store != self._store:
            # From now on the headers name the store.
            self._begin_next(0)

    def _resume(self, recovered: Recovered) -> None:
        # The machine did not go down with the process: what that did not sync is relied on from now on.
        self._files.sync_directory(self._directory)
        self._live = recovered.segments
        current = self._live[-1]
        current.size = max(current.size, self._config.journal_log_file_size)
        self._file = self._files.open(current.path)
        self._stamp = Stamp.of(current.header)
        if recovered.torn is not None:
            # Durable before anything is written: a record of the same number must not precede old ones.
            self._files.truncate(self._file, recovered.torn.offset)
            self._files.sync(self._file)
            self._preallocated.fill(self._file, recovered.torn.offset, current.size)
        if not recovered.clean:
            # After a failed sync the kernel holds pages that the disk does not have, and takes them for
            # clean: only rewritten pages are synced.
            offset = BLOCK
            while data := os.pread(self._file, min(_PIECE, current.end - offset), offset):
                offset = write_all(self._file, data, offset, self._files)
        # Also if it was clean: an earlier process may have truncated it, and ended before that was durable;
        # the old bytes must not complete a record that is written in their place.
        self._files.sync(self._file)

    def skip(self, last_sequence: int) -> None:
        self.last_sequence = max(self.last_sequence, last_sequence)

    def frame(self, entries: Sequence[JournalEntry]) -> WriteBatch:
        current = self._live[-1]
        if space(entries[0].size) > current.size - current.end:
            self._begin_next(space(entries[0].size))
            current = self._live[-1]
        first = self.last_number + 1, self.last_sequence + 1
        place, room = (current.header.number, current.end), current.size - current.end
        return frame(entries, self._stamp, *first, self._durable, room, place)

    def write(self, batch: WriteBatch) -> None:
        current, last = self._live[-1], batch.written[-1].number
        with self._io:
            try:
                self._lock.check()
            except OSError as error:
                raise self._failed(error) from error
            try:
                write_all(self._file, batch.data, current.end, self._files)
            except OSError as error:
                raise self._undo(error, current) from error
            if self._syncs_always:
                try:
                    self._files.sync(self._file)
                except OSError as error:
                    # Not tried again: the kernel may take the pages for clean now, and report success.
                    raise _in_doubt(self._failed(error)) from error
                self._durable = last
            self._changed = True
            with self._live_lock:
                current.end += len(batch.data)
                current.last_number = last
            self.last_number, self.last_sequence = last, batch.last_sequence
        if current.end >= current.size // _BEGUN:
            self._preallocated.prepare()

    def _undo(self, error: OSError, current: Segment) -> StoreError:
        """Remove the data written after the end, durably; return the error of the write."""
        try:
            self._files.truncate(self._file, current.end)
            self._files.sync(self._file)
        except OSError as second:
            return _in_doubt(self._failed(second))
        return self._failed(error, "room there")

    def reach(self) -> None:
        try:
            self._lock.check()
        except OSError as error:
            raise self._failed(error) from error

    def health(self) -> None:
        """Return nothing: it is in files."""

    def is_at_risk(self, applied: int) -> bool:  # noqa: ARG002
        """Return false: nothing else writes the files."""
        return False

    def sync(self) -> None:
        with self._io:
            self._sync_written()

    def _sync_written(self) -> None:
        try:
            self._lock.check()
            if self._durable < self.last_number:
                self._files.sync(self._file)
                self._durable = self.last_number
        except OSError as error:
            raise self._failed(error) from error

    def _begin_next(self, need: int) -> None:
        with self._io:
            # In every mode a segment is durable as a whole before the next one begins.
            self._sync_written()
            self._begin(need)

    def _begin(self, need: int) -> None:
        """Begin a segment with room for ``need`` bytes; the one before is durable.

        :raises StoreUnavailable: the disk is full; nothing has changed
        :raises JournalFailed: the segment may have been created, or not
        """
        number = self._live[-1].header.number + 1 if self._live else 1
        first = self.last_number + 1, self.last_sequence + 1
        header = SegmentHeader(self.journal, number, *first, self._clock.now_ms(), self._store)
        path = names.segment_path(self._directory, number)
        try:
            preallocated = self._preallocated.take(BLOCK + need)
            file = self._write_header(preallocated, header)
            self._files.rename(preallocated, path)
        except OSError as error:
            raise self._failed(error, "room for its next file") from error
        try:
            self._files.sync_directory(self._directory)
        except OSError as error:
            self._files.close(file)
            raise self._failed(error) from error
        if self._file >= 0:
            self._files.close(self._file)
        self._file, self._stamp = file, Stamp.of(header)
        size = max(path.stat().st_size, BLOCK + need, self._config.journal_log_file_size)
        with self._live_lock:
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

    def release(self, up_to: int) -> None:
        with self._releasing:
            # Files that were retained long enough may take the room that newer ones need.
            prune = self._retention.prune
            for work in (prune, partial(self._release_each, up_to), prune):
                try:
                    work()
                except OSError as error:
                    log.warning("an obsolete file of the journal is left for now: %s", error)

    def _release_each(self, up_to: int) -> None:
        while True:
            with self._live_lock:
                if len(self._live) < 2 or self._live[0].last_number > up_to:
                    return
                segment, following = self._live[:2]
            # Durably, one after the other: after a crash no later one is gone before an earlier one.
            last_time = max(following.header.created, segment.header.created)
            try:
                self._retention.release(segment, last_time)
            finally:
                if not segment.path.exists():
                    with self._live_lock:
                        del self._live[0]

    def aside(self, folder: str) -> names.AsideFolder:
        return names.AsideFolder(self._directory / folder)

    def end(self, *, clean: bool) -> None:
        try:
            if clean and self._changed:
                self.sync()  # so that the clean end says of everything before that it is durable
                self.write(self.frame([_CleanEnd()]))
                self.sync()
        except StoreError as error:
            log.warning("the journal could not be marked as closed cleanly: %s", error)
        finally:
            self.close()

    def close(self) -> None:
        try:
            self._preallocated.close()
            file, self._file = self._file, -1
            if file >= 0:
                self._files.close(file)
        finally:
            self._lock.release()

    def _failed(self, error: OSError, need: str | None = None) -> StoreError:
        """Return the error of a failed write; with ``need``, a write that changed nothing, so that a full
        disk does not end the journal."""
        if need is not None and error.errno in _NO_ROOM:
            return StoreUnavailable(f"the disk of {self._directory} is full: the journal needs {need}")
        return JournalFailed(
            f"the journal in {self._directory} cannot be written: {error.strerror}; check the disk, then open"
            " the store again"
        )


def _in_doubt(error: StoreError) -> OutcomeUnknown:
    return OutcomeUnknown(f"{error}; whether this was written is not known: look for it before repeating it")


class _Preallocated:
    """Files ready to become segments: created ahead by another thread, or reused. Thread-safe."""

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
        self._is_taken = True
        """A file was taken since the missing ones were last created, or none were."""
        self._thread: threading.Thread | None = None
        """Creates files, and ends when there are enough."""

    def start(self) -> None:
        """Take over the files that an earlier process left."""
        for path in names.unfinished(self._directory):
            self._files.remove(path)
        for number, path in names.preallocated(self._directory).items():
            self._last = max(self._last, number)
            if path.stat().st_size == self._size and len(self._ready) < max(self._count, 1):
                self._ready.append(path)
            else:
                self._files.remove(path)

    def prepare(self) -> None:
        """Begin to create the missing files, if that has not begun; one is needed soon."""
        if not self._is_taken or self._closed or (self._thread is not None and self._thread.is_alive()):
            return
        self._is_taken = False
        if self._ahead and len(self._ready) < self._count:
            thread = threading.Thread(target=self._run, name="jdbcstore-journal-files", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # there can be no more threads; the records are written
                log.warning("no file could be preallocated for the journal: %s", error)
            else:
                self._thread = thread

    def take(self, size: int) -> Path:
        """Take a file of at least this size, durable except for its name; create it now if none is ready.

        :raises OSError: such as a full disk
        """
        self._is_taken = True
        if size <= self._size:
            with self._lock:
                ready = self._ready.pop() if self._ready else None
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
            self._files.rename(path, target)
        else:
            self._files.remove(path)
        # Before it can be written: after a crash it would else be a segment again, with another's content.
        self._files.sync_directory(self._directory)
        if reused:
            with self._lock:
                self._ready.insert(0, target)

    def close(self) -> None:
        self._closed = True
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

    def _next(self) -> Path:
        """Return a new name; the lock is held."""
        self._last += 1
        return names.preallocated_path(self._directory, self._last)

    def _create(self, size: int) -> Path:
        with self._lock:
            path = self._next()
        with creating(path, self._files) as file:
            self.fill(file, 0, size)
        return path

    def _run(self) -> None:
        while not self._closed and len(self._ready) < self._count:
            try:
                path = self._create(self._size)
            except OSError as error:
                log.warning("no file could be preallocated for the journal: %s", error)
                return
            with self._lock:
                self._ready.append(path)


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
        """Create the folder, remove unfinished files, and release expired ones.

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
        """Release segments retained long enough, or beyond the size: the oldest first.

        :raises OSError:
        """
        if not (self._seconds or self._bytes):
            return
        kept = [(segment, segment.size) for segment in names.kept_segments(self._place)]
        size = sum(each for _, each in kept)
        oldest = self._clock.now_ms() - self._seconds * 1000
        for segment, each in kept:
            if (self._seconds and segment.last_time < oldest) or (self._bytes and size > self._bytes):
                size -= each
                if self._place == self._directory:
                    self._preallocated.give(segment.path, each)
                else:
                    self._files.remove(segment.path)
