"""The locks over a store's tables, seen from outside: their holders, and freeing a lease.

A lease is in the row of ACTIVEMQ_LOCK; a locked row is found by trying to lock it. The paths of locked files
are in JDBCSTORE_STATE, except that of the file beside an SQLite database, which is known.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, replace
from pathlib import Path

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import CLAIMS_ROW, CLOCK_ROW, EPOCH_ROW
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.claims import ClaimStatements
from jdbcstore.database.statements.lock import FILE_ROW, LockStatements, epoch_ms
from jdbcstore.errors import NotMaster, StoreError
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.lockers.shared_file import LOCK_FILE
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.file_lock import holder_of

log = logging.getLogger(__name__)

NAMELESS = "a broker that leaves no name"
_LONGEST = 250
_LOCK_WAIT = 1.0
_COMMIT_WAIT = 10.0
"""Seconds to wait for transactions that add messages beside claims."""
_TOLERANCE_MS = 5000
"""The most by which a clock may be set back unnoticed: a statement may be late for its own time, too."""


class OtherLocks:
    """Locks of other kinds over one session's tables: the lock may be taken only while all others are free.

    The connection should limit its waits for row locks.
    """

    def __init__(self, session: DatabaseSession, clock: Clock) -> None:
        self._session = session
        self._sql = session.of(LockStatements)
        self._clock = clock

    def holder(self, connection: Connection, own: AbstractLocker | None = None) -> str | None:
        """Return the holder of a lock of another kind than ``own``; None if there is none.

        Processes that claim messages hold one together. Driver errors are not translated.
        """
        return claimed_by(self._session, connection) or self.exclusive(connection, own)

    def exclusive(self, connection: Connection, own: AbstractLocker | None = None) -> str | None:
        """Return the holder as :meth:`holder` does, without processes that claim messages."""
        if own is None or own.holder_in_row is None:
            leased = self._leased(connection)
            if leased is not None:
                return leased
        if (own is None or not own.is_in_row) and self._is_row_locked(connection):
            return NAMELESS
        files = self._files(connection)
        if own is not None and own.file is not None:
            files.discard(own.file.resolve())
        return next((holder for holder in map(holder_of, sorted(files)) if holder is not None), None)

    def _leased(self, connection: Connection) -> str | None:
        name, expires = _owner(self._sql, connection)
        if name is None or expires is None:
            return None
        now_ms = _now_ms(self._sql, connection)
        return name if expires >= (self._clock.now_ms() if now_ms is None else now_ms) else None

    def _is_row_locked(self, connection: Connection) -> bool:
        session = self._session
        if not session.adapter.locks_rows:
            return False
        try:
            connection.begin()
            if session.adapter.touches_to_lock:
                connection.execute(self._sql.lock_touch)
            # Shared: others that look are not taken for a holder, however long that takes one of them.
            connection.fetch(self._sql.lock_probe)
        except session.failures as error:
            # A user with read-only rights may not be allowed to lock; a read-only server locks no row.
            if session.classify(error) is Failure.DISCONNECTED:
                raise
            return session.classify(error) is Failure.TRANSIENT
        finally:
            connection.rollback()
        return False

    def _files(self, connection: Connection) -> set[Path]:
        files = {path for _, path in self._recorded(connection)}
        if self._session.lock_directory is not None:
            files.add(Path(self._session.lock_directory, LOCK_FILE).resolve())
        return files

    def _recorded(self, connection: Connection) -> list[tuple[str, Path]]:
        if not self._session.has_own_tables:
            return []
        rows = connection.fetch(self._sql.find_lock_files, pattern=f"{FILE_ROW}%")
        return [(name, Path(name.removeprefix(FILE_ROW))) for (name,) in rows]

    def record_file(self, connection: Connection, own: AbstractLocker) -> None:
        """Record the path of the file that the master locks, for other processes."""
        if own.file is None:
            return
        file = own.file.resolve()
        recorded = self._recorded(connection)
        name = f"{FILE_ROW}{file}"
        if file in self._files(connection) or len(name) > _LONGEST:
            return
        with connection.transaction():
            for old, _ in recorded:
                connection.execute(self._sql.remove_name, name_=old)
            connection.execute(self._sql.add_lock_file, name_=name)


def refuse_locked(session: DatabaseSession, connection: Connection, clock: Clock) -> None:
    """Check that no process holds the lock, for a store without a locker.

    :raises NotMaster: one does
    """
    connection.control.limit_lock_wait(_LOCK_WAIT)
    holder = OtherLocks(session, clock).exclusive(connection)
    if holder is not None:
        raise NotMaster(
            f"{holder} holds the lock and delivers the messages of these tables: connect to it as a client,"
            " open the store with read_only, or, to write beside it, with locker=None",
            holder=holder,
        )


def last_epoch(session: DatabaseSession, connection: Connection) -> int:
    """Return the number of the last epoch that a master has begun; 0 if none has. Its row is there then."""
    return number_in(EPOCH_ROW, session, connection)


def number_in(row: str, session: DatabaseSession, connection: Connection) -> int:
    """Return the number in a row of JDBCSTORE_STATE, outside a transaction; a missing row is added with 0."""
    sql = session.of(LockStatements)
    while not (rows := connection.fetch(sql.find_epoch, epoch_row=row)):
        try:
            connection.execute(sql.add_epoch, epoch_row=row)
        except session.failures as error:
            if session.classify(error) is not Failure.DUPLICATE:
                raise
            connection.rollback()
    return int(rows[0][0])


def follow_clock(session: DatabaseSession, connection: Connection) -> None:
    """Note the database's time; if it is before the last noted time, set leases and delays back by as much.

    They end at the latest after the time for which they were given, and that since the last note. Only where
    messages are claimed; outside a transaction. Driver errors are not translated.
    """
    sql = session.of(ClaimStatements)
    for _ in range(2):
        while not (rows := connection.fetch(sql.find_clock)):
            number_in(CLOCK_ROW, session, connection)
        [(noted, now)] = rows
        back = int(noted) - int(now)
        if back < _TOLERANCE_MS:
            if -back >= _TOLERANCE_MS:
                connection.change(sql.note_clock, noted=noted, now=now)
            return
    with connection.transaction():
        if connection.change(sql.note_clock, noted=noted, now=now) != 1:
            return  # another process does it
        connection.execute(sql.set_leases_back, now=now, back=back)
        connection.execute(sql.set_delays_back, now=now, back=back)
    log.warning(
        "the database's clock was set back by %.0f seconds; leases and delays end as much earlier",
        back / 1000,
    )


def end_epoch_of_claims(session: DatabaseSession, connection: Connection, epoch: int) -> bool:
    """Have processes that claimed messages add none any more in this epoch.

    A process whose lease has ended, or an application that commits after its claims are closed, may have
    taken the ID of a message before. A store without a locker may have passed this ID at the commit. The
    process adds the message in the next epoch, with a later ID. If a process holds the lock, it ends the
    epoch of claims itself, and nothing is done here.

    :returns: false if another process has begun an epoch since this one was read
    """
    if OtherLocks(session, SystemClock()).exclusive(connection) is not None:
        return True
    connection.control.limit_lock_wait(_COMMIT_WAIT)
    values = {"epoch_row": EPOCH_ROW, "old": epoch, "new": epoch + 1}
    return connection.change(session.of(LockStatements).begin_epoch, **values) != 0


def claimed_by(session: DatabaseSession, connection: Connection) -> str | None:
    """Describe one of the processes that claim messages now; None if there is none."""
    find = session.statements.find_number
    if not session.has_own_tables or not connection.fetch(find, name_=CLAIMS_ROW):
        return None
    if not session.read_only:
        follow_clock(session, connection)
    rows = connection.fetch(session.of(ClaimStatements).find_sessions)
    if not rows:
        return None
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"{rows[0][1]}{more} (claims)"


@dataclass(frozen=True, slots=True)
class LockView:
    """The state of the lock; times are epoch milliseconds."""

    holder: str | None = None
    """BROKER_NAME, or the holder of a lock on a file or the row; None if the lock is free."""
    expires_ms: int | None = None
    """TIME, the end of a lease by the database's clock; None for a locked file or row."""
    now_ms: int | None = None
    """The database's clock; None if it cannot be read."""
    skew_ms: int | None = None
    """Milliseconds by which the local clock is ahead of it."""
    epoch: int | None = None
    """Number of times that a jdbcstore has become the master; None if none has."""

    @property
    def is_leased(self) -> bool:
        """Whether a lease is running, or a file or the row is locked."""
        if self.expires_ms is None or self.now_ms is None:
            return bool(self.holder)
        return bool(self.holder) and self.expires_ms >= self.now_ms


def look(session: DatabaseSession, clock: Clock) -> LockView:
    """Read the current state of the lock.

    :raises StoreUnavailable: the database does not answer
    """
    with contextlib.closing(session.connect()) as connection, session.translated():
        connection.control.limit_lock_wait(_LOCK_WAIT)
        view = _look(session, connection, clock)
        if view.is_leased:
            return view
        other = OtherLocks(session, clock).holder(connection)
        return view if other is None else replace(view, holder=other, expires_ms=None)


def _look(session: DatabaseSession, connection: Connection, clock: Clock) -> LockView:
    sql = session.of(LockStatements)
    (holder, expires), now_ms = _owner(sql, connection), _now_ms(sql, connection)
    skew = None if now_ms is None else clock.now_ms() - now_ms
    epochs = connection.fetch(sql.find_epoch, epoch_row=EPOCH_ROW) if session.has_own_tables else []
    return LockView(holder, expires, now_ms, skew, int(epochs[0][0]) if epochs else None)


def _owner(sql: LockStatements, connection: Connection) -> tuple[str | None, int | None]:
    """Return BROKER_NAME and TIME in the row of ACTIVEMQ_LOCK."""
    owner = connection.fetch(sql.lease_owner)
    holder, expires = owner[0] if owner else (None, None)
    return holder, None if expires is None else int(expires)


def _now_ms(sql: LockStatements, connection: Connection) -> int | None:
    """Return the database's clock if it can be read."""
    now = connection.fetch(sql.now_ms) if sql.now_ms is not None else []
    return epoch_ms(now[0][0]) if now else None


def release(session: DatabaseSession, clock: Clock, *, force: bool = False) -> LockView:
    """Free an expired lease and end its holder's epoch; return the state of the lock before.

    ``force`` frees a lease that has not expired too, and so deposes a holder that may be alive.

    :raises NotMaster: the lease has not expired
    :raises StoreError: another broker took it in the meantime
    """
    sql = session.of(LockStatements)
    with contextlib.closing(session.connect()) as connection, session.translated():
        was = _look(session, connection, clock)
        if was.holder is None:
            return was
        if was.is_leased and not force:
            raise NotMaster(
                f"{was.holder} holds the lock, and its lease is running; if it is gone, wait for the lease to"
                " expire; to depose it anyway use --force",
                holder=was.holder,
            )
        values = {"broker_name": None, "time": 0, "holder": was.holder}
        if connection.change(sql.lease_update, **values) != 1:
            raise StoreError(f"{was.holder} no longer holds the lock; look again")
        if was.epoch is not None:
            connection.change(sql.begin_epoch, epoch_row=EPOCH_ROW, old=was.epoch, new=was.epoch + 1)
    return was
