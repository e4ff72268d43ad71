"""The front of a backing store: the journal's content that the store lacks until a checkpoint."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from jdbcstore.abc import Progress
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import CorruptJournal
from jdbcstore.journal.layout import RECORD, Record
from jdbcstore.journal.log import Journal
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.bodies import Bodies
from jdbcstore.stores.journaled.cache import SubscriptionCache
from jdbcstore.stores.journaled.checkpointer import Checkpointer, ReplicatedCheckpointer
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.stores.journaled.records import (
    COMMIT,
    OPERATE,
    ROLLBACK,
    WRITE,
    RecordedWrites,
    blobs_at,
    decode_record,
)
from jdbcstore.stores.journaled.recovery import JournalBinding
from jdbcstore.stores.journaled.writer import JournalAudit, JournalWriter
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore, JournalMark
from jdbcstore.util.clock import Clock
from jdbcstore.util.files import Files

log = logging.getLogger(__name__)

_REPORTED = 1_000
"""Records between two calls of the progress."""


class JournalFront:
    """The collaborators of a store with a journal, and of a follower of one: assembled here only.

    It replays the journal when the store is opened. Interrupted anywhere, that can be repeated.
    """

    def __init__(
        self,
        store: CheckpointedStore,
        config: JournalConfig,
        clock: Clock,
        releasable: Callable[[int], int] = int,
    ) -> None:
        self.store = store
        self.config = config
        self.clock = clock
        self.overlay = overlay = Overlay()
        due = threading.Event()
        self.audit = None if store.audit is None else JournalAudit(store.audit, overlay)
        timeout = store.config.reconnect_timeout
        self.writer = JournalWriter(overlay, config, self.audit, due.set, clock, timeout)
        self.subscriptions = SubscriptionCache(store)
        self.bodies = Bodies(store, self.writer, config)
        self.checkpointer = (ReplicatedCheckpointer if config.replicated else Checkpointer)(
            store,
            self.writer,
            subscriptions=self.subscriptions,
            bodies=self.bodies,
            config=config,
            clock=clock,
            due=due,
            releasable=releasable,
        )
        self.binding = JournalBinding(store, config)
        self.prepared_before: set[XATransactionId] = set()
        """XA transactions prepared in the backing store before it had a journal."""

    def open(self, files: Files | None) -> Journal:
        """Open the journal, to be written."""
        writer = self.writer
        journal = writer.journal = Journal(
            self.config,
            committed=writer.committed,
            failed=writer.failed,
            review=None if self.audit is None else self.audit.review,
            accept=self.binding.accept,
            files=files,
            clock=self.clock,
        )
        writer.log = journal.log
        return journal

    def recover(self, progress: Progress | None) -> None:
        """Replay in bounded memory, and bind the journal to the store.

        :raises CorruptJournal: a record is damaged or missing
        """
        mark, after = self.binding.mark, self.binding.after
        self.overlay.found = self.binding.last_sequence
        self.checkpointer.mark = JournalMark(self.writer.log.journal, after, mark.written, store=mark.store)
        referred = mark.journal == self.writer.log.journal and mark.referred
        if referred or self.bodies.are_used:
            self.store.find_bodies(self.bodies.find)
        if referred:
            self._refer(mark)
        self.overlay.written = self.checkpointer.mark.written
        self.checkpointer.find_refused()
        self._replay(after, progress, self._with_prepared(mark, after))
        overlay, journal = self.overlay, self.writer.log
        journal.skip(self.store.last_sequence())
        with overlay.lock:
            overlay.last_number = max(journal.last_number, after)
            overlay.last_sequence = max(overlay.last_sequence, journal.last_sequence)
        if mark.journal != journal.journal:
            # From now on the tables say that a journal has more.
            self.checkpointer.apply(Changes(self.checkpointer.mark))
            # Only now no other process adds to them. No record gets a sequence that a checkpoint takes for
            # written.
            journal.skip(self.store.last_sequence())
            with overlay.lock:
                overlay.last_sequence = max(overlay.last_sequence, journal.last_sequence)

    def _refer(self, mark: JournalMark) -> None:
        """Check the references in the backing store to messages in the journal, which also old files hold."""
        self.checkpointer.mark = replace(self.checkpointer.mark, referred=mark.referred)
        try:
            self.bodies.check(mark)
        except CorruptJournal as error:
            if not self.config.ignore_missing_journalfiles:
                raise
            log.error("messages of the store are lost with a missing file: %s", error)

    def _with_prepared(self, mark: JournalMark, after: int) -> int:
        """Return the record after which transactions may be undecided since the last checkpoint."""
        if mark.journal != self.writer.log.journal:
            return after  # a detached journal has none
        return min(after, self.writer.log.first_number - 1)

    def _replay(self, after: int, progress: Progress | None, start: int) -> None:
        """Apply the records after ``after``, and of those after ``start`` the undecided transactions."""
        overlay, count = self.overlay, 0
        for record in self.writer.log.records(start, applied=after):
            if record.number <= after and record.kind == WRITE:
                continue
            xid, writes = decode_record(record)
            if record.number <= after:
                self._apply_prepared(record, xid, writes)
                continue
            if record.kind == OPERATE:
                self.checkpoint()  # of all before it
            self._note(record.kind, xid, writes)
            with overlay.lock:
                overlay.last_number = record.number
                overlay.journaled += len(record.body)
                overlay.apply(record.kind, xid, writes, record.sequence, record.number)
                if self.bodies.are_used and record.kind in (WRITE, COMMIT):
                    start = record.offset + RECORD
                    places = [(record.segment, start + at) for at in blobs_at(writes.adds, xid)]
                    overlay.locate(record.sequence, places)
            if record.kind == OPERATE or self.writer.is_pressed:
                self.checkpoint()
            count += 1
            if progress is not None and count % _REPORTED == 0:
                progress(_REPORTED)
        self._open_prioritized()
        if progress is not None and count % _REPORTED:
            progress(count % _REPORTED)

    def follow(self) -> None:
        """Replay records that another process has appended since the last replay."""
        self._replay(self.overlay.last_number, None, self.overlay.last_number)

    def checkpoint(self) -> None:
        """Write the replayed records to the backing store."""
        self._open_prioritized()
        self.checkpointer.checkpoint(is_replay=True)

    def _apply_prepared(self, record: Record, xid: XATransactionId | None, writes: RecordedWrites) -> None:
        """Apply the prepares and outcomes of a record that the backing store has."""
        if record.kind != COMMIT:
            self._note(record.kind, xid, writes)
        with self.overlay.lock:
            self.overlay.journaled += len(record.body)
            if writes.operation is not None:
                self.overlay.note(writes.operation)
                return
            if record.kind in (COMMIT, ROLLBACK):
                if xid is not None:
                    self.overlay.end_prepared(xid)
                return
            self.overlay.apply(record.kind, xid, writes, record.sequence, record.number)

    def _note(self, kind: int, xid: XATransactionId | None, writes: RecordedWrites) -> None:
        """Notify the audit, before the overlay applies the record: that of a rollback has no messages."""
        if self.audit is not None:
            held = self.overlay.prepared.get(xid) if xid is not None and kind == ROLLBACK else None
            self.audit.written(kind, (held.writes if held else writes).adds)

    def _open_prioritized(self) -> None:
        """Open destinations with priorities as such, if nothing was stored in them before."""
        for container, layered in self.overlay.active.destinations.items():
            if any(priority > 0 for priority in layered.lanes):
                destination = Destination.parse(container)
                make = self.store.topic if destination.is_topic else self.store.queue
                make(destination, prioritized=True)
