"""Locks of other kinds over the same tables: whoever takes one makes sure that nobody holds another.

A lease stands in the row of ACTIVEMQ_LOCK, and a locked row is found by trying. Of a locked file the masters
leave the path in JDBCSTORE_STATE, where it is not the one beside an SQLite file, which everybody knows.
"""

from __future__ import annotations

from pathlib import Path

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import Session
from jdbcstore.database.statements.lock import FILE_ROW, LockStatements, epoch_ms
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.lockers.shared_file import LOCK_FILE
from jdbcstore.util.clock import Clock
from jdbcstore.util.file_lock import holder_of

NAMELESS = "a broker that leaves no name"
_LONGEST = 250


class OtherLocks:
    """What can be seen of the locks over one session's tables, on a connection that waits not for long."""

    def __init__(self, session: Session, sql: LockStatements, clock: Clock) -> None:
        self._session = session
        self._sql = sql
        self._clock = clock

    def holder(self, connection: Connection, own: AbstractLocker | None = None) -> str | None:
        """Who holds a lock that is not of the kind of one's ``own``; None if nobody does.

        The driver's errors pass.
        """
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
        found = connection.fetch(self._sql.lease_owner)
        name, expires = found[0] if found else (None, None)
        if name is None or expires is None:
            return None
        now = connection.fetch(self._sql.now_ms) if self._sql.now_ms is not None else []
        now_ms = epoch_ms(now[0][0]) if now else self._clock.now_ms()
        return str(name) if int(expires) >= now_ms else None

    def _is_row_locked(self, connection: Connection) -> bool:
        session = self._session
        if not session.adapter.locks_rows:
            return False
        try:
            connection.begin()
            if session.adapter.touches_to_lock:
                connection.execute(self._sql.lock_touch)
            connection.fetch(self._sql.own_lock_create)
        except session.failures as error:
            # Who may only read may have no right to lock.
            if session.classify(error) is Failure.DISCONNECTED:
                raise
            return session.classify(error) is Failure.TRANSIENT
        finally:
            connection.rollback()
        return False

    def _files(self, connection: Connection) -> set[Path]:
        files = {path for _, path in self._left(connection)}
        if self._session.lock_directory is not None:
            files.add(Path(self._session.lock_directory, LOCK_FILE).resolve())
        return files

    def _left(self, connection: Connection) -> list[tuple[str, Path]]:
        if not self._session.has_own_tables:
            return []
        rows = connection.fetch(self._sql.find_lock_files, pattern=f"{FILE_ROW}%")
        return [(name, Path(name.removeprefix(FILE_ROW))) for (name,) in rows]

    def leave(self, connection: Connection, own: AbstractLocker) -> None:
        """Let others know which file the master locks."""
        if own.file is None:
            return
        file = own.file.resolve()
        left = self._left(connection)
        name = f"{FILE_ROW}{file}"
        if file in self._files(connection) or len(name) > _LONGEST:
            return
        with connection.transaction():
            for old, _ in left:
                connection.execute(self._sql.remove_lock_file, name_=old)
            connection.execute(self._sql.add_lock_file, name_=name)
