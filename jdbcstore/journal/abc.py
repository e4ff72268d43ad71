"""The contract between a journal and the log that keeps its records durable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from jdbcstore.journal.layout import JournalEntry, Record, WrittenEntry
from jdbcstore.util.stream_health import StreamHealth


class Span(NamedTuple):
    """The contents of a segment that is not released."""

    segment: int
    first_sequence: int
    """Higher than every sequence in earlier segments; 0 if unknown, after a repair."""
    last_number: int
    size: int = 0
    """Bytes, in a stream; 0 in files."""


class WriteBatch(NamedTuple):
    """Records that are written and made durable at once."""

    data: bytes
    written: list[WrittenEntry]
    last_sequence: int


class Torn(NamedTuple):
    """The end of a journal that was being written at an unclean shutdown; nothing of it was acknowledged."""

    segment: int
    offset: int
    number: int
    """The first record that is incomplete."""


class Aside(Protocol):
    """A few files beside a log, each written as a whole, and as durable as the log. Thread-safe.

    Each method raises :class:`OSError` or :class:`StoreUnavailable` if it cannot be done now.
    """

    @property
    def place(self) -> str:
        """Their location, for messages to people."""

    def names(self) -> list[str]:
        """Return the names of the files that are there."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it is not there."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file durably, or write it again."""

    def remove(self, name: str) -> None:
        """Remove a file durably, if it is there."""


class Numbered(Protocol):
    """The numbers of a log, or of its contents."""

    @property
    def journal(self) -> int:
        """The number that identifies the journal: positive, 63 bits, random; 0 if there is none yet."""

    @property
    def first_number(self) -> int:
        """The number of the first record that is not released; after the last one if there is none."""

    @property
    def last_number(self) -> int:
        """The number of the last record; 0 if there was never one."""

    @property
    def last_sequence(self) -> int:
        """The last of the store's sequences that was given out."""


class Contents(Numbered, Protocol):
    """Contents of a log, as they were when it was recovered or looked at."""

    @property
    def store(self) -> int:
        """The identity of the backing store; 0 if it was never set."""

    @property
    def clean(self) -> bool:
        """Whether the journal was shut down cleanly."""

    @property
    def torn(self) -> Torn | None:
        """The incomplete end; None if it is complete."""

    @property
    def end(self) -> tuple[int, int]:
        """Segment and offset at which the records end."""

    def claim(self, store: int) -> None:
        """Have no other process append from now on, where making the log has not seen to that already.

        :raises JournalInUse: one has appended since the log was recovered
        :raises StoreUnavailable: it cannot be written now
        """

    def is_current(self) -> bool:
        """Return whether nothing was appended since the log was recovered or looked at.

        :raises StoreUnavailable: that cannot be found out now
        """

    def records(self, after: int, *, ignore_missing: bool = False) -> Iterator[Record]:
        """Yield the records after a number, without those for internal use.

        :raises CorruptJournal: one of them is damaged or missing
        """


class RecordLog(Numbered, Protocol):
    """A log whose records a backing store takes. The log of another process is only read."""

    def records(self, after: int, *, applied: int = 0) -> Iterator[Record]:
        """Yield the records after a number, up to the last that was written when this was called.

        Of those up to ``applied``, the first ones may be missing in a stream: a process that wrote it before
        may release them still.

        :raises CorruptJournal: one of them is damaged or missing
        """

    def aside(self, folder: str) -> Aside:
        """Return the files beside the log in a folder."""

    def skip(self, last_sequence: int) -> None:
        """Give out no sequence up to this one; to be called before anything is framed."""

    def release(self, up_to: int) -> None:
        """Declare the records up to a number obsolete: their segments may be reused, archived or removed.

        What cannot be released now is tried again next time.
        """


class LogMoved(Exception):
    """Another program has added something to the end of the log, so the records are framed again."""


class Log(RecordLog, Protocol):
    """A log that one process at a time may append to. Records are durable when ``append`` returns.

    Making one claims it, or :meth:`Contents.claim` does, or at the latest opening it: from then on no other
    process appends. It is recovered, opened and written by one thread at a time. Syncing, reading and
    releasing are thread-safe. A position is a segment and an offset in it; the last segment is being written.
    """

    @property
    def writer(self) -> int:
        """The random number by which a stream names this process; 0 of files."""

    def recover(self) -> Contents:
        """Read what an earlier process left, and change nothing.

        :raises CorruptJournal: an acknowledged record is damaged or missing
        :raises StoreUnavailable: it cannot be read now
        """

    def open(self, *, first_sequence: int, store: int) -> None:
        """Continue after the recovered records, or begin; a torn record is discarded.

        ``store`` identifies the backing store, and no sequence below ``first_sequence`` is given out.

        :raises StoreUnavailable: it cannot be written now
        """

    def frame(self, entries: Sequence[JournalEntry]) -> WriteBatch:
        """Frame the records of as many entries as can be written at once, which is one at least.

        :raises StoreUnavailable: there is no room for them; nothing has changed
        :raises JournalFailed: nothing can be written any more
        """

    def write(self, batch: WriteBatch) -> None:
        """Append a batch: durably, unless the configuration has that wait for :meth:`sync`.

        :raises StoreUnavailable: there is no room for it; nothing has changed
        :raises JournalFailed: it was not written, and nothing can be any more
        :raises LockLost: another process appends; it was not written, unless it is ``in_doubt``
        :raises OutcomeUnknown: it may have been written, and nothing can be any more
        :raises LogMoved: it was not written; frame it again
        """

    def reach(self) -> None:
        """Check that it can be written, as far as that shows without writing.

        :raises JournalFailed: it cannot, and will not be
        :raises StoreUnavailable: it cannot now
        """

    def health(self) -> StreamHealth | None:
        """Return the current health of a stream by its servers; None for files.

        It waits some seconds for servers that do not answer.

        :raises StoreClosed: the log is closed
        """

    def is_at_risk(self, applied: int) -> bool:
        """Return whether it may have lost acknowledged records, which the backing store should have soon.

        Those up to ``applied`` are there already.
        """

    def sync(self) -> None:
        """Make written records durable.

        :raises JournalFailed: it may not be durable
        """

    def spans(self) -> list[Span]:
        """Return the segments that are not released, oldest first; the last is being written."""

    def read(self, segment: int, offset: int, size: int) -> bytes:
        """Return bytes at a position, unverified; fewer at the end of a segment.

        :raises CorruptJournal: the segment does not exist
        :raises StoreUnavailable: it cannot be read now
        """

    def end(self, *, clean: bool) -> None:
        """Close the log, after a mark of a clean shutdown if it is one."""

    def close(self) -> None:
        """Close the log as it is, so that another process can claim it."""
