"""Becoming the master: the lock, then an epoch of one's own, then a keeper for both."""

from __future__ import annotations

import contextlib
import logging
import threading
import time

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.connection import Connection
from jdbcstore.database.session import Session
from jdbcstore.database.statements.lock import EPOCH_ROW
from jdbcstore.errors import NotMaster, StoreClosed, StoreUnavailable
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.lockers.fence import Fence
from jdbcstore.lockers.keeper import Keeper
from jdbcstore.lockers.others import OtherLocks
from jdbcstore.util.backoff import Backoff
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)

_LOCK_WAIT = 1.0
_LONGEST_PAUSE = 0.5


class Mastership:
    """One store's lock, and what it has of it."""

    def __init__(self, session: Session, locker: AbstractLocker, clock: Clock) -> None:
        self._session = session
        self._locker = locker
        self._clock = clock
        self._sql = session.lock_statements
        self._others = OtherLocks(session, self._sql, clock)
        self._other: str | None = None
        """Who holds a lock of another kind."""
        self._keeper: Keeper | None = None
        locker.configure(session)

    @property
    def locker(self) -> AbstractLocker:
        return self._locker

    def acquire(self, timeout: float | None = None, give_up: threading.Event | None = None) -> Fence:
        """Wait until this store is the master; what its writes must pass from now on.

        :raises NotMaster: another is, after ``timeout`` seconds or where the locker says not to wait
        :raises StoreClosed: another was when ``give_up`` was set
        :raises StoreError: the lock cannot be taken
        """
        deadline = float("inf") if timeout is None else self._clock.monotonic() + timeout
        backoff = Backoff(_LONGEST_PAUSE)
        while True:
            left = None if timeout is None else max(0.0, deadline - self._clock.monotonic())
            self._locker.start(left, give_up=give_up)
            try:
                epoch = self._begin_epoch()
            except BaseException:
                self._locker.stop()
                raise
            if epoch is not None:
                break
            # Another was faster or holds a lock of another kind, or the database went away in between.
            self._locker.stop()
            if self._clock.monotonic() >= deadline or (self._other and self._locker.fail_if_locked):
                raise self._not_master()
            # A lock that is not in the database is there at once, however long the database is away.
            pause = backoff.pause()
            if give_up is None:
                time.sleep(pause)
            elif give_up.wait(pause):
                raise StoreClosed("the lock was waited for no longer")
        log.info("the master from now on: %s of %s, epoch %d", self._locker.type, self._session.place, epoch)
        return self._keep(epoch)

    def _not_master(self) -> NotMaster:
        if self._other is None:
            return NotMaster("the lock was lost while it was being taken; try again")
        return NotMaster(f"{self._other} holds the lock", holder=self._other)

    def _keep(self, epoch: int) -> Fence:
        fence = Fence(
            self._sql.guard(epoch, self._locker.holder_in_row),
            epoch,
            lambda: self._locker.held_until,
            self._clock,
            silence=self._locker.lock_acquire_sleep_interval,
        )
        self._keeper = Keeper(self._locker, fence, self._clock)
        return fence

    def _begin_epoch(self) -> int | None:
        """The number of a new epoch, which ends every other; None if the lock is not ours alone."""
        self._other = None
        try:
            connection = self._session.connect()
            with contextlib.closing(connection), self._session.translated():
                connection.limit_lock_wait(_LOCK_WAIT)
                self._other = self._others.holder(connection, self._locker)
                if self._other is not None:
                    return None
                last = self._last_epoch(connection)
                # The lock is still ours, after the epoch was read: if another has begun one since,
                # or begins one before us, its number is not that one any more.
                while self._locker.keep_alive():
                    changed = self._end_epoch(connection, last)
                    if changed is None:
                        continue
                    if changed:
                        self._others.leave(connection, self._locker)
                    return last + 1 if changed else None
        except StoreUnavailable as error:
            log.warning("the database went away while the lock was being taken: %s", error)
        return None

    def _last_epoch(self, connection: Connection) -> int:
        while not (found := connection.fetch(self._sql.find_epoch, epoch_row=EPOCH_ROW)):
            try:
                connection.execute(self._sql.add_epoch, epoch_row=EPOCH_ROW)
            except self._session.failures as error:
                if self._session.classify(error) is not Failure.DUPLICATE:
                    raise
                connection.rollback()
        return int(found[0][0])

    def _end_epoch(self, connection: Connection, last: int) -> bool | None:
        """Begin the epoch after this one; false if it has ended before, None if a write holds it yet."""
        values = {"epoch_row": EPOCH_ROW, "old": last, "new": last + 1}
        try:
            return connection.change(self._sql.begin_epoch, **values) == 1
        except self._session.failures as error:
            if self._session.classify(error) is not Failure.TRANSIENT:
                raise
            connection.rollback()
            return None

    def release(self) -> None:
        """Give the lock back, so that whoever waits need not wait for it to expire."""
        if self._keeper is not None:
            self._keeper.stop()
        self._locker.stop()
