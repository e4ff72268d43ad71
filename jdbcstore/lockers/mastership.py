"""Mastership: the lock, an epoch of one's own, the fence around its writes, and the keeper of the lock."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from jdbcstore.database.adapters.base import Failure
from jdbcstore.database.adapters.sql import EpochGuard
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import EPOCH_ROW
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.lock import LockStatements
from jdbcstore.errors import LockLost, NotMaster, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.lockers.inspection import OtherLocks, last_epoch
from jdbcstore.util.backoff import Backoff
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)

_LOCK_WAIT = 1.0
_LONGEST_PAUSE = 0.5
_FIRST_RENEWAL_PAUSE = 0.05
_LONGEST_RENEWAL_PAUSE = 1.0
_JOIN_TIMEOUT = 5.0
_SILENCE = 1.0
"""Seconds without an answer to a renewal, after which the database is taken to be unreachable."""
_EXPIRED = "the lock could not be renewed before another may acquire it"


class Fence:
    """The fence of one epoch as master: once the epoch has ended, every write is refused.

    The ``guard`` is checked by the database in each transaction that writes. ``held_until`` is checked here,
    so that a master without a connection is fenced too.
    """

    def __init__(
        self, guard: EpochGuard, epoch: int, held_until: Callable[[], float], clock: Clock, *, silence: float
    ) -> None:
        self.guard = guard
        self.epoch = epoch
        """The number of this epoch, one more than the previous master's."""
        self.silence = silence
        """Seconds of silence after which the server may close a connection that is writing."""
        self._held_until = held_until
        self._clock = clock
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._cause: StoreError | None = None
        self._lost = threading.Event()
        self.outage: Callable[[], StoreError | None] = lambda: None
        """Returns the reason why the lock cannot be renewed now; None if it can."""
        self.cuts: list[Callable[[], None]] = []
        """Functions that interrupt calls to a database that does not answer."""
        self._listeners: list[Callable[[LockLost], None]] = []

    @property
    def lost(self) -> LockLost | None:
        """The error that ended the epoch; None while it is running.

        Its cause is a StoreUnavailable if the lock could not be renewed.
        """
        return None if self._reason is None else self._error(self._reason)

    def check(self) -> None:
        """Make sure that the lock is believed to be held.

        :raises LockLost: the epoch has ended
        """
        if self._reason is None and self._clock.monotonic() >= self._held_until():
            self.lose(_EXPIRED, self.outage())
        if self._reason is not None:
            raise self._error(self._reason)

    def lose(self, reason: str, cause: StoreError | None = None) -> None:
        """End the epoch and notify the listeners. Only the first call has an effect."""
        with self._lock:
            if self._reason is not None:
                return
            self._cause = cause
            self._reason = f"{reason}; this store can no longer write: open it again to wait for the lock"
            listeners = [*self._listeners]
        log.error("no longer the master: %s", self._reason)
        self._lost.set()
        for listener in listeners:
            try:
                listener(self._error(self._reason))
            except BaseException:
                log.exception("a listener for the loss of the lock failed")

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Wait for the end of the epoch, at most ``timeout`` seconds; whether it has ended."""
        return self._lost.wait(timeout)

    def on_lost(self, listener: Callable[[LockLost], None]) -> None:
        """Call the listener when the epoch ends, from the thread that notices; at once if it has ended."""
        with self._lock:
            if self._reason is None:
                self._listeners.append(listener)
                return
            reason = self._reason
        listener(self._error(reason))

    def _error(self, reason: str) -> LockLost:
        error = LockLost(reason)
        error.__cause__ = self._cause
        return error

    def cut(self) -> None:
        """Interrupt all calls to the database that may hang."""
        for cut in self.cuts:
            try:
                cut()
            except BaseException:
                log.exception("a call to the database could not be interrupted")


class Keeper:
    """The keeper of the lock: renews it, and ends the epoch before another master's can begin.

    Two daemon threads: one renews the lock, the other watches the time while that one waits. A renewal that
    fails by an error is tried again while the lock is believed to be held, so that a database may restart.
    """

    def __init__(self, locker: AbstractLocker, fence: Fence, clock: Clock) -> None:
        self._locker = locker
        self._fence = fence
        self._clock = clock
        self._stop = threading.Event()
        self._renewing_since: float | None = None
        self._failure: StoreError | None = None
        """The error of the last renewal."""
        fence.outage = self._outage
        self._threads = [
            threading.Thread(target=target, name=f"jdbcstore-{name}", daemon=True)
            for name, target in (("keeper", self._keep), ("lock-watch", self._watch))
        ]
        fence.on_lost(lambda _: self._stop.set())
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop both threads and release the lock."""
        self._stop.set()
        renewing, _ = self._threads
        renewing.join(_JOIN_TIMEOUT)
        if renewing.is_alive():
            self._locker.abort()
            renewing.join(_JOIN_TIMEOUT)

    def _keep(self) -> None:
        wait = period = self._locker.lock_keep_alive_period
        backoff = Backoff(min(_LONGEST_RENEWAL_PAUSE, period), first=_FIRST_RENEWAL_PAUSE)
        while not self._stop.wait(wait):
            self._renewing_since = self._clock.monotonic()
            try:
                held = self._locker.keep_alive()
            except StoreError as error:
                self._failure = error
                if self._locker.stop_on_error:
                    self._lose(f"the lock could not be checked: {error}")
                    break
                log.warning("the lock could not be renewed and will be tried again: %s", error)
                wait = backoff.pause()
                continue
            except Exception as error:
                log.exception("the locker failed")
                self._lose(f"the locker failed: {error}")
                break
            finally:
                self._renewing_since = None
            if not held:
                self._lose(self._locker.lost)
                break
            self._failure = None
            backoff.reset()
            wait = period
        self._locker.stop()

    def _watch(self) -> None:
        while not self._stop.is_set():
            left = self._locker.held_until - self._clock.monotonic()
            if left <= 0:
                self._lose(_EXPIRED)
                self._locker.abort()
                return
            self._stop.wait(min(left, threading.TIMEOUT_MAX))

    def _outage(self) -> StoreError | None:
        began = self._renewing_since
        if began is not None and self._clock.monotonic() - began >= _SILENCE:
            return StoreUnavailable("the database of the lock does not answer")
        return self._failure

    def _lose(self, reason: str) -> None:
        self._fence.lose(reason, self._outage())
        self._fence.cut()


class Mastership:
    """One store's lock, and its terms as the master."""

    def __init__(self, session: DatabaseSession, locker: AbstractLocker, clock: Clock) -> None:
        self._session = session
        self.locker = locker
        """The locker of the store."""
        self._clock = clock
        self._sql = session.of(LockStatements)
        self._others = OtherLocks(session, clock)
        self._other: str | None = None
        """The holder of a lock of another kind."""
        self._keeper: Keeper | None = None
        locker.configure(session)

    def acquire(self, timeout: float | None = None, cancel: threading.Event | None = None) -> Fence:
        """Wait until this store is the master; the fence that its writes must pass from now on.

        :raises NotMaster: another is, after ``timeout`` seconds or if the locker does not wait
        :raises StoreClosed: ``cancel`` was set while another was the master
        :raises StoreError: the lock cannot be acquired
        """
        deadline = float("inf") if timeout is None else self._clock.monotonic() + timeout
        backoff = Backoff(_LONGEST_PAUSE)
        while True:
            left = None if timeout is None else max(0.0, deadline - self._clock.monotonic())
            self.locker.start(left, cancel=cancel)
            try:
                epoch = self._begin_epoch()
            except BaseException:
                self.locker.stop()
                raise
            if epoch is not None:
                break
            # Another was faster or holds a lock of another kind, or the connection was lost in between.
            self.locker.stop()
            if self._clock.monotonic() >= deadline or (self._other and self.locker.fail_if_locked):
                raise self._not_master()
            # A lock that is not in the database is acquired at once, however long that is down.
            pause = backoff.pause()
            if cancel is None:
                time.sleep(pause)
            elif cancel.wait(pause):
                raise StoreClosed("waiting for the lock was cancelled")
        log.info("now the master: %s of %s, epoch %d", self.locker.type, self._session.place, epoch)
        return self._keep(epoch)

    def _not_master(self) -> NotMaster:
        if self._other is None:
            return NotMaster("the lock was lost while it was being acquired; try again")
        return NotMaster(f"{self._other} holds the lock", holder=self._other)

    def _keep(self, epoch: int) -> Fence:
        fence = Fence(
            self._sql.guard(epoch, self.locker.holder_in_row),
            epoch,
            lambda: self.locker.held_until,
            self._clock,
            silence=self.locker.lock_acquire_sleep_interval,
        )
        self._keeper = Keeper(self.locker, fence, self._clock)
        return fence

    def _begin_epoch(self) -> int | None:
        """Begin a new epoch, which ends all others; return its number, None if others hold the lock too."""
        self._other = None
        try:
            connection = self._session.connect()
            with contextlib.closing(connection), self._session.translated():
                connection.control.limit_lock_wait(_LOCK_WAIT)
                self._other = self._others.holder(connection, self.locker)
                if self._other is not None:
                    return None
                last = last_epoch(self._session, connection)
                # The lock is still held, after the epoch was read: if another master has begun one since,
                # or begins one first, the number has changed since it was read.
                while self.locker.keep_alive():
                    changed = self._end_epoch(connection, last)
                    if changed is None:
                        continue
                    if changed:
                        self._others.record_file(connection, self.locker)
                    return last + 1 if changed else None
        except StoreUnavailable as error:
            log.warning("the database did not answer while the lock was being acquired: %s", error)
        return None

    def _end_epoch(self, connection: Connection, last: int) -> bool | None:
        """Begin the epoch after this one; false if it has ended already, None if a write still holds it."""
        values = {"epoch_row": EPOCH_ROW, "old": last, "new": last + 1}
        try:
            return connection.change(self._sql.begin_epoch, **values) != 0
        except self._session.failures as error:
            if self._session.classify(error) is not Failure.TRANSIENT:
                raise
            connection.rollback()
            return None

    def release(self) -> None:
        """Release the lock, so that slaves do not have to wait for it to expire."""
        if self._keeper is not None:
            self._keeper.stop()
        self.locker.stop()
