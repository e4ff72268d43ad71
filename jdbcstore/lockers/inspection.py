"""Looking at a lock from outside, and freeing one whose holder is gone."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from jdbcstore.database.connection import Connection
from jdbcstore.database.session import Session
from jdbcstore.database.statements.lock import EPOCH_ROW, LockStatements, epoch_ms
from jdbcstore.errors import NotMaster, StoreError
from jdbcstore.lockers.others import OtherLocks
from jdbcstore.util.clock import Clock

_LOCK_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class LockView:
    """What the lock's row says; times are epoch milliseconds."""

    holder: str | None
    """BROKER_NAME, or who has locked a file or the row; None where the lock is free."""
    expires_ms: int | None
    """TIME, by the database's clock the end of a lease; None of a file or a row."""
    now_ms: int | None
    """The database's clock; None where it cannot be read."""
    skew_ms: int | None
    """How far our clock is ahead of it."""
    epoch: int | None
    """How often a jdbcstore has become the master; None where none has."""

    @property
    def is_leased(self) -> bool:
        """Whether a lease is running, or a file or the row is locked."""
        if self.expires_ms is None or self.now_ms is None:
            return bool(self.holder)
        return bool(self.holder) and self.expires_ms >= self.now_ms


def look(session: Session, clock: Clock) -> LockView:
    """What the lock is now.

    :raises StoreUnavailable: the database does not answer
    """
    sql = session.lock_statements
    with contextlib.closing(session.connect()) as connection, session.translated():
        connection.limit_lock_wait(_LOCK_WAIT)
        view = _look(sql, connection, clock, with_epoch=session.has_own_tables)
        if view.is_leased:
            return view
        other = OtherLocks(session, sql, clock).holder(connection)
        return view if other is None else replace(view, holder=other, expires_ms=None)


def _look(sql: LockStatements, connection: Connection, clock: Clock, *, with_epoch: bool) -> LockView:
    owner = connection.fetch(sql.lease_owner)
    holder, expires = owner[0] if owner else (None, None)
    now = connection.fetch(sql.now_ms) if sql.now_ms is not None else []
    now_ms = epoch_ms(now[0][0]) if now else None
    found = connection.fetch(sql.find_epoch, epoch_row=EPOCH_ROW) if with_epoch else []
    return LockView(
        holder,
        None if expires is None else int(expires),
        now_ms,
        None if now_ms is None else clock.now_ms() - now_ms,
        int(found[0][0]) if found else None,
    )


def release(session: Session, clock: Clock, *, force: bool = False) -> LockView:
    """Free a lease, and end its holder's epoch; what the lock was.

    Only one that has expired, unless ``force``: a holder that lives is deposed by it.

    :raises NotMaster: a lease is running
    :raises StoreError: another took it meanwhile
    """
    sql = session.lock_statements
    with contextlib.closing(session.connect()) as connection, session.translated():
        was = _look(sql, connection, clock, with_epoch=session.has_own_tables)
        if was.holder is None:
            return was
        if was.is_leased and not force:
            raise NotMaster(
                f"{was.holder} holds the lock, and its lease is running; if it is gone, wait for the end, and"
                " to depose it anyway say --force",
                holder=was.holder,
            )
        values = {"broker_name": None, "time": 0, "holder": was.holder}
        if connection.change(sql.lease_update, **values) != 1:
            raise StoreError(f"{was.holder} does not hold the lock any more; look again")
        if was.epoch is not None:
            connection.change(sql.begin_epoch, epoch_row=EPOCH_ROW, old=was.epoch, new=was.epoch + 1)
    return was
