"""What a journal in front of the tables does to them: its mark, and the transactions of its checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from jdbcstore.database.adapters.sql import Row
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import JOURNAL_LEFT, JOURNAL_ROWS
from jdbcstore.database.session import Session
from jdbcstore.errors import JournalPending, SubscriptionNotFound
from jdbcstore.stores.jdbc.acknowledgements import AcknowledgementTracker, Plan
from jdbcstore.stores.jdbc.queue import update_of
from jdbcstore.stores.jdbc.sequence import retire_blocks
from jdbcstore.stores.shared.checkpoint import Changes, JournalMark

Acknowledged = Sequence[tuple[AcknowledgementTracker, Sequence[tuple[int, int]]]]
"""(sequence, priority) of what each subscription has consumed."""


def find_mark(session: Session) -> JournalMark | None:
    """The mark in the tables, if there ever was a journal."""
    if not session.has_own_tables:
        return None
    return _mark_of(session.fetch(session.statements.find_journal))


def find_left(session: Session, journal: int) -> int | None:
    """The mark of a journal when it was left."""
    if not session.has_own_tables:
        return None
    rows = session.fetch(session.statements.find_number, name_=JOURNAL_LEFT.format(journal))
    return int(rows[0][0]) if rows else None


def refuse_pending(session: Session) -> None:
    """Make sure that the tables have all there is.

    :raises JournalPending: a journal has more
    """
    mark = find_mark(session)
    if mark is not None and mark.journal:
        raise JournalPending(mark.journal, session.place)


def _mark_of(rows: Sequence[Row]) -> JournalMark | None:
    if not rows:
        return None
    numbers: dict[str, int] = dict(rows)
    return JournalMark(*(int(numbers.get(name) or 0) for name in JOURNAL_ROWS))


class Application:
    """One transaction of a checkpoint.

    It may run again after a lost connection, its commit done or not: what was stored is not stored a second
    time, because the mark says so, and all else comes to the same.
    """

    def __init__(
        self, session: Session, changes: Changes, acknowledged: Acknowledged, forget: Callable[[], None]
    ) -> None:
        self._sql = session.statements
        self._place = session.place
        self._changes = changes
        self._acknowledged = acknowledged
        self._forget = forget
        """Drops what is remembered of the acknowledgements of all topics."""

    @property
    def rows(self) -> int:
        """How many it adds and removes."""
        return len(self._changes.adds) + len(self._changes.removes)

    def run(self, connection: Connection) -> None:
        """On the writer's thread, in a transaction."""
        found = connection.fetch(self._sql.find_journal)
        stored = _mark_of(found) or JournalMark(0, 0, 0)
        changes = self._changes
        if stored.journal and changes.mark.journal not in (0, stored.journal):
            raise JournalPending(stored.journal, self._place)
        begins = changes.mark.journal and changes.mark.journal != stored.journal
        if begins and not changes.mark.written:
            # Whoever wrote without the journal finds its sequences taken, and then the mark. Where the
            # journal has written before, a block behind that has been reserved for this, and did the same.
            retire_blocks(connection, self._sql)
        fresh = [add.row(sequence) for sequence, add in changes.adds if sequence > stored.written]
        connection.add_messages(fresh)
        self._update(connection)
        connection.remove_messages(changes.removes)
        if changes.removes:
            self._forget()
        self._acknowledge(connection)
        self._move(connection, dict(found), max(changes.mark.written, stored.written))
        if stored.journal and not changes.mark.journal:
            self._leave(connection, stored.journal)

    def _update(self, connection: Connection) -> None:
        contents = [(sequence, message.blob_for(sequence)) for sequence, message in self._changes.updates]
        own = self._sql.update_message
        rows = []
        for sequence, blob in (*contents, *self._changes.bodies):
            sql, row = update_of(connection, self._sql, sequence, blob)
            if sql is own:
                rows.append(row)
            else:
                connection.execute_many(sql, [row])
        connection.execute_many(own, rows)

    def _acknowledge(self, connection: Connection) -> None:
        plan = Plan()
        for tracker, messages in self._acknowledged:
            # What it knew may be of a try that was rolled back, and what it learns now may become that.
            tracker.reset()
            try:
                with contextlib.suppress(SubscriptionNotFound):
                    tracker.plan(connection, messages, plan)
            finally:
                tracker.reset()
        for statement, rows in plan.statements:
            connection.execute_many(statement, rows)

    def _move(self, connection: Connection, stored: dict[str, int], written: int) -> None:
        mark = self._changes.mark
        add, update = [], []
        numbers = (mark.journal, mark.applied, written, mark.referred, mark.store)
        for name, number in zip(JOURNAL_ROWS, numbers, strict=True):
            if name == JOURNAL_ROWS[-1] and not number:
                continue  # an identity stays
            if name not in stored:
                if name == JOURNAL_ROWS[-2] and not number:
                    continue  # only who uses references has its row
                add.append(self._sql.add_number.row(name=name, number=number))
            elif stored[name] != number:
                update.append(self._sql.update_number.row(name_=name, new=number))
        connection.execute_many(self._sql.add_number, add)
        connection.execute_many(self._sql.update_number, update)

    def _leave(self, connection: Connection, journal: int) -> None:
        """Remember where the journal was left: its folder may be used again."""
        name, applied = JOURNAL_LEFT.format(journal), self._changes.mark.applied
        if connection.fetch(self._sql.find_number, name_=name):
            connection.execute(self._sql.update_number, name_=name, new=applied)
        else:
            connection.execute_many(
                self._sql.add_number, [self._sql.add_number.row(name=name, number=applied)]
            )
