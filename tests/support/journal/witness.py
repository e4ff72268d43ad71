"""What a journal promised, over any number of crashes, and whether it is kept."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreError
from jdbcstore.journal.layout import JournalEntry, Record, WrittenEntry
from jdbcstore.journal.log import Journal
from jdbcstore.testing.clock import FakeClock
from tests.support.journal.crashing import CrashingFiles, State
from tests.support.journal.entries import Item, configured

JOURNAL = "journal"


class Witness:
    """Appends, and remembers; :meth:`check` looks at what is there after a crash."""

    def __init__(self) -> None:
        self._told = threading.Condition()
        self._failed = False
        self.committed: dict[int, tuple[int, bytes]] = {}
        """By number: sequence and body."""
        self.last_sequences: dict[int, int] = {}
        self.waiting: list[bytes] = []
        """What was appended and not answered, in order."""
        self.durable = 0
        """The last number that must be there."""
        self.released = 0
        self.journal: int | None = None
        self.lazy = False
        """Whether writes are not synced one by one: what was committed is then only promised by a sync."""

    def tell_committed(self, batch: Sequence[WrittenEntry]) -> None:
        with self._told:
            self._tell_committed(batch)
            self._told.notify_all()

    def _tell_committed(self, batch: Sequence[WrittenEntry]) -> None:
        for written in batch:
            body = b"".join(written.entry.chunks)
            assert self.waiting.pop(0) == body
            assert written.number not in self.committed
            self.committed[written.number] = written.sequence, body
            self.last_sequences[written.number] = written.sequence + written.entry.sequences - 1
            if not self.lazy:
                self.durable = written.number

    def tell_failed(self, _entries: Sequence[JournalEntry], _error: StoreError) -> None:
        """The machine is down; what was appended may be there or not."""
        with self._told:
            self._failed = True
            self._told.notify_all()

    def open(self, config: JournalConfig, files: CrashingFiles) -> Journal:
        self.lazy = config.journal_disk_sync_strategy != "always"
        journal = Journal(
            config,
            committed=self.tell_committed,
            failed=self.tell_failed,
            accept=lambda found: (found.store, 1000),
            files=files,
            clock=FakeClock(),
        )
        self.journal = self.journal or journal.log.journal
        return journal

    def append(self, journal: Journal, item: Item, *, waits: bool = True) -> None:
        """Which is not taken by two threads at once: what is told is told in the order of the calls."""
        self.waiting.append(item.body)
        journal.append(item, waits=waits)
        if waits:
            with self._told:
                assert self._told.wait_for(lambda: not self.waiting or self._failed, 180)

    def release(self, journal: Journal, up_to: int) -> None:
        self.released = max(self.released, up_to)
        journal.log.release(up_to)

    def sync(self, journal: Journal) -> None:
        last = journal.log.last_number
        journal.sync()
        self.durable = max(self.durable, last)

    def check(self, state: State, directory: Path) -> list[Record]:
        """Recover a disk, and compare; what is there."""
        told: list[WrittenEntry] = []
        files = CrashingFiles(directory, state)
        journal = Journal(
            configured(directory / JOURNAL), committed=told.extend, failed=self.tell_failed, files=files
        )
        try:
            found = list(journal.log.records(journal.log.first_number - 1))
            self.compare(journal, found)
        finally:
            journal.close()
        return found

    def compare(self, journal: Journal, found: list[Record]) -> None:
        if self.durable > self.released:
            assert journal.log.journal == self.journal
        assert journal.log.first_number <= self.released + 1
        assert journal.log.last_number >= self.durable
        by_number = {record.number: record for record in found}
        assert [*by_number] == sorted(by_number)
        for number, (sequence, body) in self.committed.items():
            if journal.log.first_number <= number <= journal.log.last_number:
                record = by_number.pop(number)
                assert (record.sequence, record.body) == (sequence, body)
                assert journal.log.last_sequence >= self.last_sequences.get(number, 0)
        behind = [record.body for record in by_number.values()]
        assert behind == self.waiting[: len(behind)]
        assert all(number > max(self.committed, default=0) for number in by_number)

    def go_on_with(self, journal: Journal, found: list[Record]) -> None:
        """What a journal found when it was opened again is what there is: nothing else comes back."""
        self.compare(journal, found)
        self.committed = {record.number: (record.sequence, record.body) for record in found}
        # A number that was told and lost is another record's later on.
        kept = [number for number in self.last_sequences if number <= journal.log.last_number]
        self.last_sequences = {number: self.last_sequences[number] for number in kept}
        self.waiting.clear()
        self._failed = False
        self.durable = journal.log.last_number
        self.journal = journal.log.journal


def closed(journal: Journal) -> None:
    """End its threads; its machine is down."""
    with contextlib.suppress(StoreError):
        journal.close(60)
