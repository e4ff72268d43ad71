"""LeaseDatabaseLocker: a name and a time of expiry in ACTIVEMQ_LOCK, which the holder renews."""

from __future__ import annotations

import contextlib
import logging
import secrets
from typing import Any, ClassVar

from jdbcstore.database.connection import Connection
from jdbcstore.database.session import Session
from jdbcstore.database.statements.lock import NO_ROW, epoch_ms
from jdbcstore.errors import NotMaster, StoreError
from jdbcstore.lockers.line import JdbcLocker, Locked

log = logging.getLogger(__name__)

_MARGIN = 0.9
"""The part of a lease for which we believe that we hold it."""
_LONGEST_NAME = 200
_TURN = 0.01
_FEW = 4
"""Attempts to take the lock in the time of a lease."""


class LeaseDatabaseLocker(JdbcLocker):
    """As ActiveMQ's, and against one. ``lock_acquire_sleep_interval`` is how long a lease lasts.

    Expiry is judged by the database's clock, or by ours where that is within
    ``max_allowable_diff_from_db_time`` of it. How long to believe in a lease is judged by the monotonic
    clock, from before the request to nine tenths of the lease. Each tenure has a name of its own in
    BROKER_NAME, so that of two brokers of one name, too, only one holds the lock.
    """

    type: ClassVar[str] = "lease-database-locker"

    def __init__(
        self,
        *,
        lease_holder_id: str | None = None,
        max_allowable_diff_from_db_time: float = 0.0,
        handle_start_exception: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._holder_name = (lease_holder_id or self.name)[:_LONGEST_NAME]
        self._allowed_ms = max_allowable_diff_from_db_time * 1000
        self._handle_start_exception = handle_start_exception
        self._ours: str | None = None
        self._owner: str | None = None
        self._expires_in = float("inf")
        """How long the other's lease ran from our last attempt, if it is not renewed."""
        self._believed_until = float("-inf")
        self.skew_ms: int | None = None
        """How far our clock is ahead of the database's, when last seen."""

    def configure(self, session: Session) -> None:
        own = self.locking_session(session)
        self._is_elsewhere = own is not session
        self._sql = own.lock_statements
        names = ("leaseObtainStatement", "leaseUpdateStatement", "leaseOwnerStatement")
        self._check_given(own, *names, "currentDateTimeStatement")
        self._open_line(own)

    def do_start(self, patience: float) -> bool:  # noqa: ARG002
        self._expires_in = float("inf")
        with contextlib.suppress(Locked):
            return self._line.run(self._obtain)
        return False

    def _obtain(self, connection: Connection) -> bool:
        name = f"{self._holder_name}#{secrets.token_hex(4)}"
        asked = self.clock.monotonic()
        # Set first: an obtain whose answer is lost may have taken the lock, and do_stop gives it back.
        self._give_back(connection)
        self._ours = name
        now = self._now_ms(connection)
        values = {"broker_name": name, "time": now + self._lease_ms, "now": now}
        if connection.change(self._sql.lease_obtain, **values) == 1:
            self._believed_until = asked + _MARGIN * self.lock_acquire_sleep_interval
            return True
        self._ours = None
        owner = connection.fetch(self._sql.lease_owner)
        if not owner:
            raise StoreError(NO_ROW)
        [(self._owner, expiry)] = owner
        self._expires_in = max(0, (expiry or 0) + 1 - now) / 1000
        return False

    def keep_alive(self) -> bool:
        """Renew the lease, while it has not expired."""
        if self._ours is None or self.clock.monotonic() >= self._believed_until:
            return False
        return self._line.run(self._renew)

    def _renew(self, connection: Connection) -> bool:
        asked = self.clock.monotonic()
        expiry = self._now_ms(connection) + self._lease_ms
        values = {"broker_name": self._ours, "holder": self._ours, "time": expiry}
        # Some drivers count only the rows that have changed, and not one with the same time as before.
        if connection.change(self._sql.lease_update, **values) != 1:
            rows = connection.fetch(self._sql.lease_owner)
            if [tuple(row) for row in rows] != [(self._ours, expiry)]:
                return False
        self._believed_until = asked + _MARGIN * self.lock_acquire_sleep_interval
        return True

    @property
    def held_until(self) -> float:
        return self._believed_until

    @property
    def holder(self) -> str | None:
        return self._owner

    @property
    def is_in_row(self) -> bool:
        return not self._is_elsewhere

    @property
    def holder_in_row(self) -> str | None:
        return None if self._is_elsewhere else self._ours

    def is_final(self, error: StoreError) -> bool:
        return self._handle_start_exception or super().is_final(error)

    def do_stop(self) -> None:
        """Free the row for whoever waits, if it is ours."""
        self._believed_until = float("-inf")
        try:
            if self._ours is not None:
                self._line.run(self._give_back)
        finally:
            self._ours = None
            self._line.close()

    def _give_back(self, connection: Connection) -> None:
        if self._ours is None:
            return
        values = {"broker_name": None, "time": 0, "holder": self._ours}
        connection.change(self._sql.lease_update, **values)

    def _pause_after(self, failure: StoreError) -> float:
        # A master that has given its lease back is followed within a quarter of one, at most a second;
        # one that is gone, when its lease ends.
        longest = min(self.lock_acquire_sleep_interval / _FEW, 1.0)
        return max(_TURN, min(longest, self._expires_in)) if isinstance(failure, NotMaster) else longest

    @property
    def _lease_ms(self) -> int:
        return round(self.lock_acquire_sleep_interval * 1000)

    def _now_ms(self, connection: Connection) -> int:
        """The database's clock; or ours, where it is allowed to differ so far, or there is no other."""
        ours = self.clock.now_ms()
        if self._sql.now_ms is None:
            return ours
        found = connection.fetch(self._sql.now_ms)
        if not found:
            raise StoreError(NO_ROW)
        theirs = epoch_ms(found[0][0])
        self.skew_ms = ours - theirs
        return ours if abs(self.skew_ms) <= self._allowed_ms else theirs
