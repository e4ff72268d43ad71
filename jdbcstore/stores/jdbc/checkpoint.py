"""A journal in front of the tables: its mark, its checkpoints, and references to bodies that it keeps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.sql import EpochGuard, Row
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import BEGUN_ROW, JOURNAL_LEFT, JOURNAL_ROWS
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.lock import LockStatements
from jdbcstore.errors import (
    CorruptMessage,
    JournalPending,
    LockLost,
    StoreError,
    StoreUnavailable,
    SubscriptionNotFound,
)
from jdbcstore.lockers.inspection import number_in
from jdbcstore.message.openwire.reference import REFERENCE_SIZE, is_reference, read_reference
from jdbcstore.stores.jdbc.acknowledgements import Acknowledgement, AcknowledgementPlan
from jdbcstore.stores.jdbc.sequence import refuse_claims, retire_blocks
from jdbcstore.stores.jdbc.writer.units import update_of
from jdbcstore.stores.shared.checkpoint import Changes, FindBody, JournalMark, Referring
from jdbcstore.stores.shared.paging import Complete, RowChanged

_LEAST_PATIENCE = 1.0
"""Seconds that a transaction of another process is waited for at least."""


def find_mark(session: DatabaseSession) -> JournalMark | None:
    """Return the mark in the tables; None if there never was a journal."""
    if not session.has_own_tables:
        return None
    return _mark_of(session.fetch(session.statements.find_journal))


def refuse_pending(session: DatabaseSession) -> None:
    """Check that no journal has records that the tables lack; :class:`JournalPending` if one has."""
    mark = find_mark(session)
    if mark is not None and mark.journal:
        raise JournalPending(mark.journal, session.place)


def _taken() -> StoreError:
    return LockLost(
        "the journal of these tables was opened again elsewhere, or processes have begun to claim messages in"
        " them: this store can no longer write; close it",
        refused=True,
    )


def begin_journal(session: DatabaseSession) -> EpochGuard:
    """Return the guard of a journal's transactions without a locker; it ends that of the one before.

    Commits of another process that are under way are waited for; later ones are refused.

    :raises StoreUnavailable: a transaction of another process has not ended within ``reconnect_timeout``
    :raises NotMaster: messages are being claimed in the tables
    """
    sql, patience = session.of(LockStatements), max(session.config.reconnect_timeout, _LEAST_PATIENCE)
    with contextlib.closing(session.connect()) as connection, session.translated():
        connection.control.limit_lock_wait(patience)
        number_in(BEGUN_ROW, session, connection)  # there is such a row
        try:
            with connection.transaction():
                connection.execute(sql.count_epoch, epoch_row=BEGUN_ROW)
                begun = number_in(BEGUN_ROW, session, connection)
        except session.failures as error:
            if session.classify(error) is not Failure.TRANSIENT:
                raise
            raise StoreUnavailable(
                f"a process that wrote to {session.place} before still has a transaction open there after"
                f" {patience:g} seconds, and the journal is not opened before that has ended: try again; if"
                " the host of that process has vanished, end its session in the database"
            ) from error
        # Afterwards: a process that begins to claim adds its session first, and then changes the number.
        refuse_claims(session, connection)
    return sql.held(BEGUN_ROW, begun, _taken)


def _mark_of(rows: Sequence[Row]) -> JournalMark | None:
    if not rows:
        return None
    numbers: dict[str, int] = dict(rows)
    return JournalMark(*[int(numbers.get(name) or 0) for name in JOURNAL_ROWS])


class Application:
    """One transaction of a checkpoint.

    It may run again after a lost connection, whether its commit took effect or not: the mark shows which
    messages were stored, and everything else is idempotent.
    """

    def __init__(
        self,
        session: DatabaseSession,
        changes: Changes,
        acknowledged: Sequence[Acknowledgement],
        forget: Callable[[], None],
        operates: Callable[[Connection], None] | None = None,
    ) -> None:
        self._sql = session.statements
        self._place = session.place
        self._changes = changes
        self._acknowledged = acknowledged
        self._forget = forget
        """Discards the cached acknowledgements of all topics."""
        self._operates = operates
        """Does the operation after all the writes."""

    @property
    def rows(self) -> int:
        """Return how many rows it adds and removes."""
        return len(self._changes.adds) + self.removes

    @property
    def removes(self) -> int:
        """Return how many of them it removes."""
        return len(self._changes.removes)

    def run(self, connection: Connection) -> None:
        """Run on the writer's thread, in a transaction."""
        rows = connection.fetch(self._sql.find_journal)
        stored = _mark_of(rows) or JournalMark(0, 0, 0)
        changes = self._changes
        if stored.journal and changes.mark.journal not in (0, stored.journal):
            raise JournalPending(stored.journal, self._place)
        begins = changes.mark.journal and changes.mark.journal != stored.journal
        if begins and not changes.mark.written:
            # A writer without the journal now finds its sequences taken, and then the mark. Where the
            # journal has written before, reserving a block for it had the same effect.
            retire_blocks(connection, self._sql)
        fresh = [add.row(sequence) for sequence, add in changes.adds if sequence > stored.written]
        connection.add_messages(fresh)
        self._update(connection)
        connection.remove_messages(changes.removes, adds=fresh)
        if changes.removes:
            self._forget()
        self._acknowledge(connection)
        if self._operates is not None and changes.mark.applied > stored.applied:
            self._operates(connection)
        self._move(connection, dict(rows), max(changes.mark.written, stored.written))
        if stored.journal and not changes.mark.journal:
            self._detach(connection, stored.journal)

    def _update(self, connection: Connection) -> None:
        contents = [(sequence, message.blob_for(sequence)) for sequence, message in self._changes.updates]
        plan = AcknowledgementPlan()
        for sequence, blob in (*contents, *self._changes.bodies):
            plan.add(*update_of(connection, self._sql, sequence, blob))
        plan.run(connection)

    def _acknowledge(self, connection: Connection) -> None:
        plan = AcknowledgementPlan()
        for tracker, messages in self._acknowledged:
            # Its cache may stem from an attempt that was rolled back, as this one may be.
            tracker.reset()
            try:
                with contextlib.suppress(SubscriptionNotFound):
                    tracker.plan(connection, messages, plan)
            finally:
                tracker.reset()
        plan.run(connection)

    def _move(self, connection: Connection, stored: dict[str, int], written: int) -> None:
        mark = self._changes.mark
        *names, referred, identity, writer = JOURNAL_ROWS
        numbers = dict(zip(names, (mark.journal, mark.applied, written), strict=True))
        if mark.referred or referred in stored:  # only a journal that uses references has this row
            numbers[referred] = mark.referred
        if mark.store:  # else the identity is kept
            numbers[identity] = mark.store
        if mark.writer:
            numbers[writer] = mark.writer
        self._put(connection, stored, numbers)

    def _put(self, connection: Connection, stored: dict[str, int], numbers: dict[str, int]) -> None:
        add, update = self._sql.add_number, self._sql.update_position
        changed = {name: number for name, number in numbers.items() if stored.get(name) != number}
        plan = AcknowledgementPlan()
        for name, number in changed.items():
            if name in stored:
                plan.add(update, update.row(name_=name, new=number))
            else:
                plan.add(add, add.row(name=name, number=number))
        plan.run(connection)

    def _detach(self, connection: Connection, journal: int) -> None:
        """Store how far the detached journal was applied: its directory may be used again."""
        name = JOURNAL_LEFT.format(journal)
        stored = [(name, number) for (number,) in connection.fetch(self._sql.find_number, name_=name)]
        self._put(connection, dict(stored), {name: self._changes.mark.applied})


def find_referring(session: DatabaseSession, after: int, up_to: int, limit: int) -> list[Referring]:
    """Return the next messages after a sequence, up to another, of which the tables have only a reference."""
    find = session.statements.find_messages_of_size
    while True:
        rows = session.fetch(find, after=after, up_to=up_to, size=REFERENCE_SIZE, limit=limit)
        references = [Referring(id_, name, bytes(blob)) for id_, name, blob in rows if is_reference(blob)]
        if references or len(rows) < limit:
            return references
        after = rows[-1][0]


class ReferencedBodies:
    """Reads the message bodies to which rows have only references."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self._find: FindBody | None = None
        """Reads a body from the journal; None if no row has a reference."""

    def resolve_with(self, find: FindBody) -> None:
        """Resolve the references in rows with ``find`` from now on."""
        self._find = find

    def complete(self, container: str) -> Complete | None:
        """Return what replaces references in the rows of a destination; None if there are none."""
        return None if self._find is None else partial(self._completed, self._find, container)

    def _completed(self, find: FindBody, container: str, id_: int, blob: bytes) -> bytes:
        try:
            return find(bytes(blob), id_, container)
        except CorruptMessage:
            read_reference(blob, id_, container)  # raises if the row itself is damaged
            # The journal may have released the file after the row was read.
            if find_referring(self._session, id_ - 1, id_, 1):
                raise
            raise RowChanged from None
