"""The journal itself: whoever writes joins all that waits into one write and one sync."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import (
    JournalFailed,
    MessageTooLarge,
    OutcomeUnknown,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.journal.api import Committed, Entry, Failed, Record, Review, Span
from jdbcstore.journal.layout import LARGEST
from jdbcstore.journal.live import Segments
from jdbcstore.journal.lock import DirectoryLock
from jdbcstore.journal.output import Output
from jdbcstore.journal.pending import Pending
from jdbcstore.journal.recovery import Recovered, recover
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.files import OS_FILES, Files, make_directory

log = logging.getLogger(__name__)

Accept = Callable[[Recovered], int]


class Journal:
    """A :class:`jdbcstore.journal.api.Appender` on the files of one directory.

    ``first_sequence`` is the lowest that it may give; it goes on behind its own last one if that is higher.
    ``review``, ``committed`` and ``failed`` are called in the order of the journal, by its own thread or one
    that appends. Opening reads all there is, and cuts a torn end off: ``recovered`` says what it found.
    ``accept`` is asked before anything is changed: it raises, or gives the identity of the store that the
    journal is in front of from now on.

    :raises CorruptJournal: a record that was acknowledged is damaged, or a file is missing
    :raises JournalInUse: another journal, of this process or another, has the directory
    :raises StoreUnavailable: the directory cannot be used, or has no room
    """

    def __init__(
        self,
        config: JournalConfig,
        *,
        committed: Committed,
        failed: Failed,
        review: Review | None = None,
        first_sequence: int = 1,
        accept: Accept | None = None,
        files: Files | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._directory = Path(config.directory)
        self._config = config
        self._committed = committed
        self._failed = failed
        self._review = review
        self._error: StoreError | None = None
        self._pending = Pending(
            config.journal_max_write_batch_size, config.journal_buffer_timeout, self.check
        )
        files = files or OS_FILES
        clock = clock or SystemClock()
        try:
            make_directory(self._directory, files=files)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot make the directory {self._directory} for the journal: {error.strerror}"
            ) from error
        self._held = DirectoryLock(self._directory)
        try:
            self.recovered = recover(self._directory, ignore_missing=config.ignore_missing_journalfiles)
            store = self.recovered.store if accept is None else accept(self.recovered)
            self._output = self._open(files, clock, first_sequence, store)
        except BaseException:
            self._held.release()
            raise
        self._thread = threading.Thread(target=self._run, name="jdbcstore-journal", daemon=True)
        self._ended = threading.Event()
        self._thread.start()
        if config.journal_disk_sync_strategy == "periodic" and config.journal_disk_sync_interval:
            threading.Thread(target=self._sync_at_times, name="jdbcstore-journal-sync", daemon=True).start()

    def _open(self, files: Files, clock: Clock, first_sequence: int, store: int) -> Output:
        found: Recovered = self.recovered
        if found.torn is not None:
            log.warning(
                "the journal in %s ends in a record that was being written when it was left: number %d in"
                " segment %d at %d is cut off; nobody was told that it was written",
                self._directory,
                found.torn.number,
                found.torn.segment,
                found.torn.offset,
            )
        journal = found.journal or secrets.randbits(63) or 1
        segments = Segments(self._directory, self._config, files, clock, journal, store)
        try:
            segments.resume(found)
            output = Output(segments, self._config, found, first_sequence, self._held.check)
            output.start()
        except BaseException as error:
            segments.close()
            if isinstance(error, OSError):
                raise StoreUnavailable(
                    f"the journal in {self._directory} cannot be opened: {error.strerror}; see to the disk"
                ) from error
            raise
        return output

    @property
    def journal(self) -> int:
        return self._output.segments.journal

    @property
    def first_number(self) -> int:
        return self._output.segments.live[0].header.first_number

    @property
    def last_number(self) -> int:
        return self._output.last_number

    @property
    def last_sequence(self) -> int:
        return self._output.last_sequence

    @property
    def unreleased_bytes(self) -> int:
        return self._output.unreleased_bytes

    def append(self, entry: Entry, *, waits: bool = False) -> None:
        size = entry.size
        if size > LARGEST:
            raise MessageTooLarge(size, LARGEST, "send it in parts")
        if not self._pending.put(entry, waits=waits):
            return
        try:
            self._write([entry])
        except BaseException as error:
            self._stop(error)
            raise
        finally:
            self._pending.pass_on()

    def withdraw(self, entry: Entry) -> bool:
        return self._pending.withdraw(entry)

    def check(self) -> None:
        if self._error is not None:
            raise JournalFailed(
                f"the journal in {self._directory} cannot be written any more; open the store anew"
            ) from self._error

    def sync(self) -> None:
        try:
            self._output.sync()
        except StoreError as error:
            self._fail(error)
            raise

    def records(self, after: int) -> Iterator[Record]:
        return self._output.records(after)

    def segments(self) -> list[Span]:
        return self._output.segments.spans()

    def read(self, segment: int, offset: int, size: int) -> bytes:
        return self._output.segments.read(segment, offset, size)

    def release(self, up_to: int) -> None:
        self._output.release(up_to)

    def close(self, timeout: float | None = None) -> None:
        self._pending.close()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            return
        doubtful, queued = self._pending.give_up()
        if not (doubtful or queued):
            return
        if doubtful:
            self._failed(
                doubtful, OutcomeUnknown("the journal was closed while this was being written: look for it")
            )
        if queued:
            self._failed(queued, StoreClosed("the journal was closed before this was written"))
        raise StoreClosed(
            f"the journal was closed after {timeout} seconds with {len(doubtful)} entries in doubt and"
            f" {len(queued)} unwritten; their callers were told so",
            unwritten=len(queued) + len(doubtful),
        )

    def _run(self) -> None:
        try:
            while taken := self._pending.take():
                self._write(taken)
            self._ended.set()
            self._output.end(clean=self._error is None)
        except BaseException as error:
            log.exception("the journal's thread stopped; the journal is closed")
            self._stop(error)
            self._output.end(clean=False)
        finally:
            self._ended.set()
            self._held.release()

    def _sync_at_times(self) -> None:
        while not self._ended.wait(self._config.journal_disk_sync_interval):
            try:
                self.sync()
            except StoreError:
                return

    def _write(self, entries: Sequence[Entry]) -> None:
        """Have them all written, in as many pieces as there are segments, and complete each.

        Once one has failed, so do all behind it: whatever the review decided by an earlier entry stays true.
        """
        if self._review is not None:
            entries = self._review(entries)
        position = 0
        while position < len(entries):
            left = entries[position:] if position else entries
            try:
                self.check()
                piece = self._output.frame(left)
            except StoreError as error:
                self._complete_failed(left, error)
                return
            try:
                self._output.write(piece)
            except OutcomeUnknown as error:
                doubtful = len(piece.written)
                failure = self._fail(error)
                self._complete_failed(left[:doubtful], error)
                self._complete_failed(left[doubtful:], failure)
                return
            except StoreError as error:
                self._complete_failed(left, error)
                return
            position += len(piece.written)
            if self._pending.finish(len(piece.written)):
                self._committed(piece.written)

    def _complete_failed(self, entries: Sequence[Entry], error: StoreError) -> None:
        if isinstance(error, JournalFailed):
            self._fail(error)
        if entries and self._pending.finish(len(entries)):
            self._failed(entries, error)

    def _fail(self, error: StoreError) -> JournalFailed:
        """Nothing is written any more, and whoever waits for room is told so."""
        if self._error is None:
            log.error("the journal is not written any more: %s", error)
            self._error = error
        self._pending.wake_all()
        failure = JournalFailed(
            f"the journal in {self._directory} is not written any more; open the store anew"
        )
        failure.__cause__ = self._error
        return failure

    def _stop(self, error: BaseException) -> None:
        """An error that nobody expects: whoever waits is told, and nothing is taken any more."""
        doubtful, queued = self._pending.give_up()
        doubt = OutcomeUnknown("the journal stopped while this was being written: look for it")
        doubt.__cause__ = error
        failure = self._fail(doubt)
        if doubtful:
            self._failed(doubtful, doubt)
        if queued:
            self._failed(queued, failure)
