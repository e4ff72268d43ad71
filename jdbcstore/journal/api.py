"""What a journal takes, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from jdbcstore.errors import StoreError


class Record(NamedTuple):
    """One record of a journal, as it is read back."""

    number: int
    """From 1, rising: the log sequence number. It leaves out those of records of the journal's own, and those
    that were lost when a damaged journal was repaired."""
    kind: int
    """What the writer says it is, 1 to 253."""
    sequence: int
    """The first of the store's sequences that were given to it; the next one to be given, if it has none."""
    body: bytes
    segment: int
    offset: int


class Entry(Protocol):
    """Something to be written as one record: all of it is there after a crash, or nothing."""

    taken: bool
    """Set by the journal once it has it: a callback tells of it, unless it is withdrawn, also when ``append``
    was left by what a signal handler raised."""

    @property
    def kind(self) -> int:
        """1 to 253."""
        ...

    @property
    def sequences(self) -> int:
        """How many of the store's sequences it takes."""
        ...

    @property
    def size(self) -> int:
        """Bytes of all chunks."""
        ...

    @property
    def chunks(self) -> Sequence[bytes]:
        """Its body, in pieces that are written one behind the other."""
        ...


class Written(NamedTuple):
    """An entry that is durable."""

    entry: Entry
    number: int
    sequence: int
    """The first of its sequences."""
    segment: int
    offset: int
    """Where its body begins in the segment's file."""


class Span(NamedTuple):
    """What is in a segment that is still there."""

    segment: int
    first_sequence: int
    """No sequence of an earlier segment is as high; 0 if it is not known, after a repair."""
    last_number: int


Committed = Callable[[Sequence[Written]], None]
"""Called with what one sync made durable, in the order of the journal, before anything later is; by the
thread that wrote it, under no lock."""

Review = Callable[[Sequence[Entry]], Sequence[Entry]]
"""Called with the entries that are written next, once everything before them is durable or has failed, by the
thread that writes them; returns the entry to write in place of each."""

Failed = Callable[[Sequence[Entry], StoreError], None]
"""Called with entries that were not written, or of which nobody knows (:class:`OutcomeUnknown`)."""


class Appender(Protocol):
    """A journal that is open for writing. For any number of threads."""

    @property
    def journal(self) -> int:
        """Its own number: positive, 63 bits, made once by chance."""
        ...

    @property
    def first_number(self) -> int:
        """The first record that is still there; behind the last if none is."""
        ...

    @property
    def last_number(self) -> int:
        """The last record that is written, and durable as the configuration says; 0 if none ever was."""
        ...

    @property
    def last_sequence(self) -> int:
        """The last of the store's sequences that it gave."""
        ...

    @property
    def unreleased_bytes(self) -> int:
        """What has been written and not released."""
        ...

    def append(self, entry: Entry, *, waits: bool = False) -> None:
        """Have an entry written; ``committed`` or ``failed`` says when. Waits only while the queue is full.

        ``waits``: the caller is going to wait for it. If nobody is writing it then does the write itself, and
        is told before this returns: not for the main thread, where a signal handler can raise in the middle.

        :raises StoreClosed: the journal is closed
        :raises JournalFailed: the journal cannot be written any more
        :raises MessageTooLarge: no record can be as large as that
        """
        ...

    def withdraw(self, entry: Entry) -> bool:
        """Take an entry back; whether its writing had not begun. Neither callback is called then."""
        ...

    def records(self, after: int) -> Iterator[Record]:
        """The records behind a number, up to the last that was durable when this was called.

        :raises CorruptJournal: one of them is damaged or gone
        """
        ...

    def check(self) -> None:
        """Make sure that what was told of is all that is in the files.

        :raises JournalFailed: the journal cannot be written any more; what was last in doubt may be there
        """
        ...

    def segments(self) -> list[Span]:
        """Those that are not released, the oldest first; the last is being written."""
        ...

    def read(self, segment: int, offset: int, size: int) -> bytes:
        """Bytes of a segment's file, whatever they are by now; fewer if it ends before.

        :raises CorruptJournal: it is not there
        :raises StoreUnavailable: it cannot be read now
        """
        ...

    def sync(self) -> None:
        """Make durable what is written, where the configuration does not have every write so: before anything
        else that is durable speaks of it.

        :raises JournalFailed: nobody knows whether it is
        """
        ...

    def release(self, up_to: int) -> None:
        """Records up to this number are needed no more: their files may be used again or removed."""
        ...

    def close(self, timeout: float | None = None) -> None:
        """Write what waits, and mark the end as clean.

        :raises StoreClosed: not done after ``timeout`` seconds; ``unwritten`` entries have failed
        """
        ...
