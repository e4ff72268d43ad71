"""An append-only log with group commit: everything that waits is written and synced at once.

:class:`Journal` is what users open. Its queue holds the entries that are waiting and decides which thread
writes them to the files of :mod:`jdbcstore.journal.storage`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import (
    JournalFailed,
    LockLost,
    MessageTooLarge,
    OutcomeUnknown,
    StoreClosed,
    StoreError,
)
from jdbcstore.journal.abc import Contents, Log, LogMoved
from jdbcstore.journal.layout import LARGEST, JournalEntry, WrittenEntry
from jdbcstore.journal.logs import claim
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.files import OS_FILES, Files
from jdbcstore.util.stream_health import StreamHealth
from jdbcstore.util.timings import Timings

log = logging.getLogger(__name__)

MAX_QUEUED = 16_384
MAX_QUEUED_BYTES = 64 << 20
_YIELD = 0.005
_YIELD_ENTRIES = 256

Committed = Callable[[Sequence[WrittenEntry]], None]
"""Called with what one sync made durable, in the order of the journal and before anything later is written,
by the thread that wrote it, under no lock."""
Failed = Callable[[Sequence[JournalEntry], StoreError], None]
"""Called with entries that were not written, or may have been (:class:`OutcomeUnknown`)."""
Review = Callable[[Sequence[JournalEntry]], Sequence[JournalEntry]]
"""Called with the entries that are written next, once everything before them is durable or has failed, by the
thread that writes them; returns the entry to write in place of each."""
Accept = Callable[[Contents], tuple[int, int]]
"""Check of the recovered log, before anything is changed: returns the identity of the store that the
journal belongs to and the lowest sequence to give out, or raises."""


class Journal:
    """A journal open for writing, in files or in a stream. Thread-safe.

    Opening reads the log, and discards a record that was being written at an unclean shutdown;
    ``recovered`` holds the contents of the log. ``accept`` may refuse the journal first. The journal
    continues after its own last sequence, if that is higher than ``accept`` requires.

    Each appended entry ends in exactly one callback, ``committed`` or ``failed``, unless it is withdrawn.
    With the sync strategy "always", and with "periodic" without an interval, committed means synced;
    otherwise :meth:`sync`, a new segment or the interval makes it durable. Callbacks run in the order of the
    journal, in its own thread or in an appending caller's.

    After a failed write or sync nothing more is written (:class:`JournalFailed`): the kernel may hold pages
    that the disk does not have.

    :raises CorruptJournal: an acknowledged record is damaged, or a file is missing
    :raises JournalInUse: the directory is in use by another journal, of this process or another
    :raises StoreUnavailable: the directory cannot be used, or its disk is full
    """

    def __init__(
        self,
        config: JournalConfig,
        *,
        committed: Committed,
        failed: Failed,
        review: Review | None = None,
        accept: Accept | None = None,
        files: Files | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._place = config.place
        self._config = config
        self._committed = committed
        self._failed = failed
        self._review = review
        self._error: StoreError | None = None
        self.timings = Timings()
        """The writes to the journal, and their records."""
        self._queue = _Queue(config.journal_max_write_batch_size, config.journal_buffer_timeout, self.check)
        self.log: Log = claim(config, files or OS_FILES, clock or SystemClock())
        """The log of the records, to be read and released there; it is written and synced here."""
        try:
            self.recovered = self.log.recover()
            store, first = (self.recovered.store, 1) if accept is None else accept(self.recovered)
            self._open(first, store)
        except BaseException:
            self.log.close()
            raise
        self._thread = threading.Thread(target=self._run, name="jdbcstore-journal", daemon=True)
        self._ended = threading.Event()
        self._thread.start()
        if config.journal_disk_sync_strategy == "periodic" and config.journal_disk_sync_interval:
            threading.Thread(
                target=self._sync_periodically, name="jdbcstore-journal-sync", daemon=True
            ).start()

    def _open(self, first_sequence: int, store: int) -> None:
        torn = self.recovered.torn
        if torn is not None:
            log.warning(
                "unclean shutdown of the journal in %s: record %d, which was being written in segment %d at"
                " %d, is discarded; it was never acknowledged",
                self._place,
                torn.number,
                torn.segment,
                torn.offset,
            )
        self.log.open(first_sequence=first_sequence, store=store)

    def append(self, entry: JournalEntry, *, waits: bool = False) -> None:
        """Queue an entry to be written. Blocks only while the queue is full.

        ``waits`` says that the caller is about to wait for the entry: if no other thread is writing, it
        writes the entry itself, and the callback runs before this returns. Not to be used by the main thread,
        where a signal handler can raise in the middle of a write.

        :raises StoreClosed: the journal is closed
        :raises JournalFailed: the journal cannot be written any more
        :raises MessageTooLarge: the entry exceeds the largest possible record
        """
        size = entry.size
        if size > LARGEST:
            raise MessageTooLarge(size, LARGEST, "send it in parts")
        if not self._queue.put(entry, waits=waits):
            return
        try:
            self._write([entry])
        except BaseException as error:
            self._stop(error)
            raise
        finally:
            self._queue.hand_over()

    def withdraw(self, entry: JournalEntry) -> bool:
        """Cancel an entry; false if its writing has begun. A cancelled entry has no callback."""
        return self._queue.withdraw(entry)

    def check(self) -> None:
        """Check that nothing is in doubt: everything in the files was passed to ``committed``.

        :raises JournalFailed: the journal cannot be written any more; entries in doubt may be in the files
        """
        if self._error is not None:
            raise self._failure()

    def reach(self) -> None:
        """Check that it can be written, as far as that shows without writing.

        :raises JournalFailed: it cannot be written any more
        :raises LockLost: another process writes it now
        :raises StoreUnavailable: it cannot be written now
        """
        self.check()
        self.log.reach()

    def health(self) -> StreamHealth | None:
        """Return the state of the stream now; None if it is in files. It waits some seconds for the servers.

        :raises StoreClosed: the journal is closed
        """
        health = self.log.health()
        if health is None or self._error is None:
            return health
        return replace(health, problem=str(self._failure()))

    def sync(self) -> None:
        """Make everything written durable; needed before other durable data refers to it where the sync
        strategy does not sync every write.

        :raises JournalFailed: it may not be durable
        """
        try:
            self.log.sync()
        except StoreError as error:
            self._fail(error)
            raise

    def close(self, timeout: float | None = None) -> None:
        """Write everything that is queued, and mark the end as a clean shutdown.

        :raises StoreClosed: not done after ``timeout`` seconds; ``unwritten`` entries have failed
        """
        self._queue.close()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            return
        doubtful, queued = self._abandon(
            OutcomeUnknown("the journal was closed while this was being written: look for it"),
            StoreClosed("the journal was closed before this was written"),
        )
        if doubtful or queued:
            raise StoreClosed(
                f"the journal was closed after {timeout} seconds with {doubtful} entries in doubt and"
                f" {queued} unwritten; their callers were notified",
                unwritten=doubtful + queued,
            )

    def _run(self) -> None:
        try:
            while taken := self._queue.take():
                self._write(taken)
            self._ended.set()
            self.log.end(clean=self._error is None)
        except BaseException as error:
            log.exception("the journal's thread stopped on an unexpected error; the journal is closed")
            self._stop(error)
            self.log.end(clean=False)
        finally:
            self._ended.set()

    def _sync_periodically(self) -> None:
        while not self._ended.wait(self._config.journal_disk_sync_interval):
            try:
                self.sync()
            except StoreError:
                return

    def _write(self, entries: Sequence[JournalEntry]) -> None:
        """Write all entries, in as many batches as they span segments, and complete each batch.

        After one has failed, all later ones fail: the review's decisions by earlier entries stay true.
        """
        if self._review is not None:
            entries = self._review(entries)
        position = 0
        while position < len(entries):
            rest = entries[position:] if position else entries
            try:
                self.check()
                batch = self.log.frame(rest)
            except StoreError as error:
                self._complete_failed(rest, error)
                return
            began = time.perf_counter()
            try:
                self.log.write(batch)
            except LogMoved:
                continue
            except StoreError as error:
                if not _is_doubtful(error):
                    self._complete_failed(rest, error)
                    return
                doubtful = len(batch.written)
                failure = self._fail(error)
                self._complete_failed(rest[:doubtful], error)
                self._complete_failed(rest[doubtful:], failure)
                return
            self.timings.add(time.perf_counter() - began, len(batch.written))
            position += len(batch.written)
            if self._queue.finish(len(batch.written)):
                self._committed(batch.written)

    def _complete_failed(self, entries: Sequence[JournalEntry], error: StoreError) -> None:
        if isinstance(error, JournalFailed | LockLost):
            self._fail(error)
        if entries and self._queue.finish(len(entries)):
            self._failed(entries, error)

    def _fail(self, error: StoreError) -> StoreError:
        """Write nothing from now on, and wake the callers that are waiting for room in the queue."""
        if self._error is None:
            log.error("the journal cannot be written any more: %s", error)
            self._error = error
        self._queue.wake_all()
        return self._failure()

    def _failure(self) -> StoreError:
        if isinstance(self._error, LockLost):
            return LockLost(f"another process has opened the journal in {self._place}, and appends to it now")
        failure = JournalFailed(
            f"the journal in {self._place} cannot be written any more; open the store again"
        )
        failure.__cause__ = self._error
        return failure

    def _stop(self, error: BaseException) -> None:
        doubt = OutcomeUnknown("the journal stopped while this was being written: look for it")
        doubt.__cause__ = error
        self._abandon(doubt, self._fail(doubt))

    def _abandon(self, doubt: StoreError, failure: StoreError) -> tuple[int, int]:
        """Fail every entry in flight and queued, and accept no more; how many they were."""
        in_flight, queued = self._queue.abandon()
        for entries, error in ((in_flight, doubt), (queued, failure)):
            if entries:
                self._failed(entries, error)
        return len(in_flight), len(queued)


def _is_doubtful(error: StoreError) -> bool:
    return error.in_doubt if isinstance(error, LockLost) else isinstance(error, OutcomeUnknown)


class _Queue:
    """The bounded queue before the files, which one thread at a time empties.

    That is the journal's own thread, or a caller that found it idle. Entries taken are in flight until they
    are finished by the thread that took them, or abandoned by a close that waited too long.

    A signal handler may raise in the main thread after any call. Each step of a caller that does not write
    is consistent: the journal's thread is woken first, and may find nothing.
    """

    def __init__(self, batch_bytes: int, gather: float, check: Callable[[], None]) -> None:
        """Initialise the queue: ``check`` raises once nothing can be written; ``gather`` is in seconds."""
        self._batch_bytes = batch_bytes
        self._gather_for = gather
        self._check = check
        self._queue: deque[JournalEntry] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._in_flight: list[JournalEntry] = []
        self._closed = False
        self._abandoned = False
        self._idle = False
        self._wake = threading.Lock()
        self._wake.acquire()

    def put(self, entry: JournalEntry, *, waits: bool) -> bool:
        """Queue an entry, waiting for room; or return true: then the caller writes it, and calls
        :meth:`hand_over` after that.

        :raises StoreClosed: the queue is closed
        """
        size = entry.size
        with self._lock:
            while not self._closed and self._is_full():
                self._check()
                self._changed.wait()
            self._check()
            if self._closed:
                raise StoreClosed("the journal is closed; open it again")
            idle, self._idle = self._idle, False
            if idle and waits and not self._gather_for:
                entry.taken = True
                self._in_flight = [entry]
                return True
            if idle:
                self._wake.release()
            self._bytes += size
            entry.taken = True
            self._queue.append(entry)
            if self._gather_for and self._bytes >= self._batch_bytes:
                self._changed.notify_all()
            if not idle and len(self._queue) % _YIELD_ENTRIES == 0:
                # A caller that continues to compute keeps the interpreter's lock for its 5 ms, and the thread
                # that writes, back from the disk, waits for it that long.
                self._changed.wait(_YIELD)
        return False

    def hand_over(self) -> None:
        """Leave the writing to the journal's own thread again, after a caller has written."""
        with self._lock:
            self._in_flight = []
            wake = bool(self._queue) or self._closed
            self._idle = not wake
        if wake:
            self._wake.release()

    def withdraw(self, entry: JournalEntry) -> bool:
        with self._lock:
            for index, queued in enumerate(self._queue):
                if queued is entry:
                    del self._queue[index]
                    self._bytes -= entry.size
                    self._changed.notify_all()
                    return True
        return False

    def take(self) -> list[JournalEntry]:
        """Take the next batch, waiting for it; empty once the queue is closed and drained."""
        while True:
            with self._lock:
                if self._queue:
                    return self._take()
                if self._closed:
                    return []
                self._idle = True
            self._wake.acquire()
            if self._gather_for:
                with self._lock:  # for more entries to write at once, unless a batch is full
                    self._changed.wait_for(self._is_batch, self._gather_for)

    def finish(self, count: int) -> bool:
        """Count entries in flight as ended; false if an :meth:`abandon` has completed them already."""
        with self._lock:
            del self._in_flight[:count]
            return not self._abandoned

    def close(self) -> None:
        """Accept no more entries; queued ones can still be taken."""
        with self._lock:
            self._closed = True
            if self._idle:
                self._idle = False
                self._wake.release()
            self._changed.notify_all()

    def wake_all(self) -> None:
        """Wake the callers that wait for room, to check whether there will ever be any."""
        with self._lock:
            self._changed.notify_all()

    def abandon(self) -> tuple[list[JournalEntry], list[JournalEntry]]:
        """Close, and return the entries in flight and queued, for the caller alone to complete."""
        with self._lock:
            self._closed = self._abandoned = True
            in_flight, self._in_flight = self._in_flight, []
            queued = list(self._queue)
            self._queue.clear()
            self._bytes = 0
            self._changed.notify_all()
        return in_flight, queued

    def _is_full(self) -> bool:
        return bool(self._queue) and (len(self._queue) >= MAX_QUEUED or self._bytes >= MAX_QUEUED_BYTES)

    def _is_batch(self) -> bool:
        return self._closed or self._bytes >= self._batch_bytes

    def _take(self) -> list[JournalEntry]:
        if self._bytes <= self._batch_bytes:
            taken, size = list(self._queue), self._bytes
            self._queue.clear()
        else:
            taken, size = [], 0
            while self._queue and (not taken or size + self._queue[0].size <= self._batch_bytes):
                entry = self._queue.popleft()
                size += entry.size
                taken.append(entry)
        self._bytes -= size
        self._in_flight = list(taken)
        self._changed.notify_all()
        return taken
