"""DatabaseLocker: the row of ACTIVEMQ_LOCK, locked in a transaction that stays open."""

from __future__ import annotations

import contextlib
from typing import ClassVar

from jdbcstore.database.connection import Connection
from jdbcstore.database.session import Session
from jdbcstore.database.statements.lock import NO_ROW
from jdbcstore.errors import ConfigurationError, NotMaster, StoreError
from jdbcstore.lockers.line import JdbcLocker, Locked

SILENT_PERIODS = 3
"""Checks that a holder may miss before the server takes its lock away."""
_MARGIN = 0.8
_TURN = 0.05


class DatabaseLocker(JdbcLocker):
    """As ActiveMQ's, and against one: the lock is gone with the connection, and so at once with the process.

    Where the server can be told, it ends a connection that is silent for three keep-alive periods, so that
    a master that is paused, or whose host has vanished, is deposed then. Until four fifths of that time
    the lock is believed to be held without a new check.

    :raises ConfigurationError: the database has no row locks
    """

    type: ClassVar[str] = "database-locker"

    def configure(self, session: Session) -> None:
        beside = session
        session = self.locking_session(session)
        self._is_elsewhere = session is not beside
        if not session.adapter.locks_rows:
            raise ConfigurationError(
                f"{session.adapter.name} locks no single rows, and the database-locker would keep its own"
                " store from writing; use the lease-database-locker or the shared-file-locker"
            )
        self._sql = session.lock_statements
        self._check_given(session, "lockCreateStatement", "lockUpdateStatement")
        self._touches = session.adapter.touches_to_lock
        self._silence = SILENT_PERIODS * self.lock_keep_alive_period
        self._open_line(session, self._silence)
        self._confirmed = float("-inf")

    def do_start(self, patience: float) -> bool:
        self._line.close()
        with contextlib.suppress(Locked):
            # When the attempt began nobody had taken the lock from us.
            self._line.run(self._take, lock_wait=patience)
            self._confirmed = self.clock.monotonic()
        return self._line.is_open

    def _take(self, connection: Connection) -> None:
        connection.begin()
        if self._touches:
            connection.execute(self._sql.lock_touch)
        connection.execute(self._sql.lock_create)
        # A user's own may lock the table instead, which returns nothing.
        if connection.cursor.description is not None and not connection.cursor.fetchall():
            raise StoreError(NO_ROW)

    def keep_alive(self) -> bool:
        """One statement in the lock's own transaction. Any error ends that, and the lock with it."""
        if not self._line.is_open:
            return False
        asked = self.clock.monotonic()
        if not self._line.run(self._touch):
            self._line.close()
            return False
        self._confirmed = asked
        return True

    def _touch(self, connection: Connection) -> bool:
        if connection.change(self._sql.lock_update, time=self.clock.now_ms()) != 0:
            return True
        # Some drivers count only the rows that have changed.
        return bool(connection.fetch(self._sql.lease_owner))

    @property
    def is_in_row(self) -> bool:
        return not self._is_elsewhere

    @property
    def held_until(self) -> float:
        return self._confirmed + _MARGIN * self._silence

    def _pause_after(self, failure: StoreError) -> float:
        # It was waited for in the database, where the next attempt waits as well.
        return _TURN if isinstance(failure, NotMaster) else min(self.lock_acquire_sleep_interval, 1.0)

    def do_stop(self) -> None:
        self._line.rollback()
        self._line.close()
