"""Opening: what the journal has and the store behind has not is laid over it again."""

from __future__ import annotations

import logging
from dataclasses import replace

from jdbcstore.abc import Progress
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import CorruptJournal
from jdbcstore.journal import Record
from jdbcstore.journal.layout import RECORD
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.audit import JournalAudit
from jdbcstore.stores.journaled.belonging import Belonging
from jdbcstore.stores.journaled.bodies import Bodies
from jdbcstore.stores.journaled.checkpointer import Checkpointer
from jdbcstore.stores.journaled.operations import COMMIT, ROLLBACK, WRITE, Writes, blobs_at, decode_record
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.stores.journaled.writing import JournalWriter
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore, JournalMark

log = logging.getLogger(__name__)

_REPORTED = 1_000
"""Records between two calls of the progress."""


class Recovery:
    """Replays a journal. It may end anywhere, and be done again: it comes to the same."""

    def __init__(
        self,
        store: CheckpointedStore,
        overlay: Overlay,
        writer: JournalWriter,
        audit: JournalAudit | None,
        checkpointer: Checkpointer,
        bodies: Bodies,
        config: JournalConfig,
        belonging: Belonging,
    ) -> None:
        self._belonging = belonging
        self._store = store
        self._overlay = overlay
        self._writer = writer
        self._journal = writer.journal
        self._checkpointer = checkpointer
        self._bodies = bodies
        self._config = config
        self._audit = audit

    def run(self, progress: Progress | None) -> None:
        """Replay, in bounded memory, and make the journal the one of this store.

        :raises CorruptJournal: a record is damaged, or gone
        """
        mark, after = self._belonging.mark, self._belonging.after
        self._overlay.found = self._belonging.last_sequence
        self._checkpointer.mark = JournalMark(self._journal.journal, after, mark.written, store=mark.store)
        referred = mark.journal == self._journal.journal and mark.referred
        if referred or self._bodies.are_used:
            self._store.find_bodies(self._bodies.find)
        if referred:
            self._refer(mark)
        self._overlay.written = self._checkpointer.mark.written
        self._checkpointer.find_refused()
        self._replay(after, progress, self._with_prepared(mark, after))
        overlay, journal = self._overlay, self._journal
        with overlay.lock:
            overlay.last_number = max(journal.last_number, after)
            overlay.last_sequence = max(
                overlay.last_sequence, journal.last_sequence, self._store.last_sequence()
            )
        if mark.journal != journal.journal:
            # From now on the tables say that they are not all there is.
            self._checkpointer.apply(Changes(self._checkpointer.mark))
            with overlay.lock:
                # Only now nobody else adds to them.
                overlay.last_sequence = max(overlay.last_sequence, self._store.last_sequence())

    def _refer(self, mark: JournalMark) -> None:
        """The store behind may refer to messages in the journal, be it to get more such references or not."""
        self._checkpointer.mark = replace(self._checkpointer.mark, referred=mark.referred)
        try:
            self._bodies.check(mark)
        except CorruptJournal as error:
            if not self._config.ignore_missing_journalfiles:
                raise
            log.error("messages of the store are lost: %s", error)

    def _with_prepared(self, mark: JournalMark, after: int) -> int:
        """The record behind which there may be transactions that were undecided at the last checkpoint."""
        if mark.journal != self._journal.journal:
            return after  # a journal is left with none
        return min(after, self._journal.first_number - 1)

    def _replay(self, after: int, progress: Progress | None, start: int) -> None:
        """Take the records behind ``after``, and from ``start`` what was prepared and not decided."""
        overlay, count = self._overlay, 0
        for record in self._journal.records(start):
            if record.number <= after and record.kind == WRITE:
                continue
            xid, writes = decode_record(record)
            if record.number <= after:
                self._take_prepared(record, xid, writes)
                continue
            self._note(record.kind, xid, writes)
            with overlay.lock:
                overlay.last_number = record.number
                overlay.journaled += len(record.body)
                overlay.take(record.kind, xid, writes, record.sequence, record.number)
                if self._bodies.are_used and record.kind in (WRITE, COMMIT):
                    start = record.offset + RECORD
                    places = [(record.segment, start + at) for at in blobs_at(writes.adds, xid)]
                    overlay.locate(record.sequence, places)
            if self._writer.is_pressed:
                self._name_prioritized()
                self._checkpointer.checkpoint()
            count += 1
            if progress is not None and count % _REPORTED == 0:
                progress(_REPORTED)
        self._name_prioritized()
        if progress is not None and count % _REPORTED:
            progress(count % _REPORTED)

    def _take_prepared(self, record: Record, xid: XATransactionId | None, writes: Writes) -> None:
        """Of a record that the store behind has what is to be decided yet."""
        if record.kind != COMMIT:
            self._note(record.kind, xid, writes)
        with self._overlay.lock:
            self._overlay.journaled += len(record.body)
            if record.kind in (COMMIT, ROLLBACK):
                if xid is not None:
                    self._overlay.let_go(xid)
                return
            self._overlay.take(record.kind, xid, writes, record.sequence, record.number)

    def _note(self, kind: int, xid: XATransactionId | None, writes: Writes) -> None:
        """For the audit, and before the overlay takes it: the record of a rollback has no messages."""
        if self._audit is not None:
            held = self._overlay.prepared.get(xid) if xid is not None and kind == ROLLBACK else None
            self._audit.written(kind, (held.writes if held else writes).adds)

    def _name_prioritized(self) -> None:
        """Say so of destinations of which nothing was stored before."""
        for container, place in self._overlay.active.places.items():
            if any(priority > 0 for priority in place.lanes):
                destination = Destination.parse(container)
                make = self._store.topic if destination.is_topic else self._store.queue
                make(destination, prioritized=True)
