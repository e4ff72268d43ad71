"""The base class of lockers: the states of a locker, its start, wait and stop."""

from __future__ import annotations

import enum
import logging
import threading
from pathlib import Path
from typing import ClassVar

from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import NotMaster, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.lock_wait import LockWait

log = logging.getLogger(__name__)

_LONGEST_ATTEMPT = 1.0


class LockState(enum.Enum):
    """The states of a locker; ``STOPPED`` too before it is started, and after a start that failed."""

    STOPPED = "stopped"
    SLAVE = "waiting for the lock"
    MASTER = "holding the lock"


class AbstractLocker:
    """Base class of lockers. Of all lockers of one lock, at most one at a time is the master.

    A locker of your own overrides :meth:`do_start`, :meth:`do_stop` and :meth:`keep_alive`, and if it
    needs them :meth:`pre_start` and :meth:`post_stop`. All are called from one thread at a time.
    Durations are seconds.

    ``lock_acquire_sleep_interval`` is the time between attempts to acquire the lock, and of a lease its
    duration; ``lock_keep_alive_period`` that between checks by the master. ``clock`` replaces the machine's.
    """

    type: ClassVar[str] = "custom"
    """The name of this kind of locker in a configuration."""
    lost = "the lock is no longer held"
    """The reason, once :meth:`keep_alive` has returned false."""

    def __init__(
        self,
        *,
        name: str = "localhost",
        lock_acquire_sleep_interval: float = 10.0,
        lock_keep_alive_period: float = 5.0,
        fail_if_locked: bool = False,
        stop_on_error: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        """The broker's name, or another name for the holder."""
        self.lock_acquire_sleep_interval = lock_acquire_sleep_interval
        self.lock_keep_alive_period = lock_keep_alive_period
        self.fail_if_locked = fail_if_locked
        """Whether to fail when another holds the lock, instead of waiting."""
        self.stop_on_error = stop_on_error
        """Whether an error of a check releases the lock at once."""
        self.clock = clock or SystemClock()
        self._state = LockState.STOPPED
        self._failure: StoreError | None = None
        self._stopping = threading.Event()
        self._decided = threading.Event()
        self._lock = threading.Lock()
        self._waiter: threading.Thread | None = None

    def configure(self, session: DatabaseSession) -> None:
        """Prepare the locker: called once, before the start, with the database that the lock guards."""

    def pre_start(self) -> None:
        """Prepare the start: called before the first attempt."""

    def do_start(self, max_wait: float) -> bool:
        """Attempt to acquire the lock, waiting at most ``max_wait`` seconds; return whether it is held now.

        :raises StoreError: the attempt failed; it is made again, unless :meth:`is_final`
        """
        raise NotImplementedError

    def do_stop(self) -> None:
        """Release the lock, which may be lost already. Called after every attempt, even a failed one."""
        raise NotImplementedError

    def post_stop(self) -> None:
        """Clean up: called after the lock was released."""

    def keep_alive(self) -> bool:
        """Renew the lock; whether it is still held.

        :raises StoreError: that cannot be determined now
        """
        raise NotImplementedError

    def is_final(self, error: StoreError) -> bool:
        """Return whether no further attempt is made after this error."""
        return not isinstance(error, StoreUnavailable)

    def abort(self) -> None:
        """Interrupt a call of another thread that hangs, where supported."""

    @property
    def held_until(self) -> float:
        """The monotonic time until which no other process can hold the lock."""
        return float("inf")

    def look(self) -> str | None:
        """Return the holder without asking for the lock; None if it is free, or the database records it.

        To be called of a locker that is not started.

        :raises StoreUnavailable: the servers of the lock do not answer
        """
        return None

    @property
    def holder(self) -> str | None:
        """The holder as the lock itself records it; None if it records none."""
        return None

    @property
    def holder_in_row(self) -> str | None:
        """BROKER_NAME in the row of ACTIVEMQ_LOCK while the lock is held, if the lock is that name."""
        return None

    @property
    def is_in_row(self) -> bool:
        """Whether the lock is the row of ACTIVEMQ_LOCK in the messages' database, locked or leased."""
        return False

    @property
    def file(self) -> Path | None:
        """The file that is locked, if the lock is a file."""
        return None

    @property
    def state(self) -> LockState:
        """State of the locker: stopped, waiting for the lock or holding it."""
        return self._state

    def start(
        self,
        timeout: float | None = None,
        *,
        blocking: bool = True,
        cancel: threading.Event | None = None,
    ) -> bool:
        """Acquire the lock; whether it is held.

        Waits at most ``timeout`` seconds, 0 for one attempt, and until ``cancel`` is set. Not ``blocking``,
        a thread waits in the background, and :meth:`wait` returns or raises the outcome.

        :raises NotMaster: another holds the lock, and ``fail_if_locked`` is set or the timeout is over
        :raises StoreClosed: the wait was cancelled
        :raises StoreError: the lock cannot be acquired, or the locker was started before and not stopped
        """
        with self._lock:
            if self._state is not LockState.STOPPED:
                raise StoreError("this locker has been started; stop it first")
            self._state = LockState.SLAVE
            self._stopping.clear()
            self._decided.clear()
            self._failure = None
        stopping = cancel or self._stopping
        if blocking:
            self._acquire(timeout, stopping)
            return self.wait(0)
        self._waiter = threading.Thread(
            target=self._acquire, args=(timeout, stopping), name="jdbcstore-locker", daemon=True
        )
        self._waiter.start()
        return False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the start has ended, at most ``timeout`` seconds; whether the lock is held.

        :raises StoreError: the reason why it was not acquired
        """
        self._decided.wait(timeout)
        if self._failure is not None:
            raise self._failure
        return self._state is LockState.MASTER

    def stop(self) -> None:
        """Release the lock, or stop waiting for it. Does nothing if stopped."""
        self._stopping.set()
        waiter, self._waiter = self._waiter, None
        if waiter is not None and waiter is not threading.current_thread():
            waiter.join()
        with self._lock:
            started, self._state = self._state, LockState.STOPPED
        if started is not LockState.STOPPED:
            self._release()
            self._decided.set()

    def _acquire(self, timeout: float | None, stopping: threading.Event) -> None:
        try:
            self.pre_start()
            self._attempt_until(timeout, stopping)
            self._state = LockState.MASTER
        except BaseException as error:
            self._state = LockState.STOPPED
            self._release()
            if not isinstance(error, StoreError):
                raise
            self._failure = error
        finally:
            self._decided.set()

    def _attempt_until(self, timeout: float | None, stopping: threading.Event) -> None:
        deadline = float("inf") if timeout is None else self.clock.monotonic() + timeout
        logged = False
        while True:
            max_wait = self._max_wait(deadline)
            began = self.clock.monotonic()
            try:
                if self.do_start(max_wait):
                    return
                holder = self.holder
                text = f"{holder or 'another broker or store'} holds the lock"
                failure: StoreError = NotMaster(text, holder=holder)
            except StoreError as error:
                if self.is_final(error):
                    raise
                failure = error
            if self.fail_if_locked or self.clock.monotonic() >= deadline:
                raise failure
            if not logged:
                log.info("waiting to be the master: %s", failure)
                logged = True
            # The time that the attempt itself has waited counts.
            now = self.clock.monotonic()
            pause = max(0.0, min(self._pause_after(failure) - (now - began), deadline - now))
            if isinstance(stopping, LockWait):
                stopping.on_failure(failure, pause)
            if stopping.wait(pause):
                raise StoreClosed("the locker was stopped before it acquired the lock")

    def _max_wait(self, deadline: float) -> float:
        """Return the seconds that one attempt may wait; a stop has to wait for it."""
        left = 0.0 if self.fail_if_locked else deadline - self.clock.monotonic()
        return max(0.0, min(self.lock_acquire_sleep_interval, left, _LONGEST_ATTEMPT))

    def _pause_after(self, failure: StoreError) -> float:  # noqa: ARG002
        """Return the pause after an attempt that failed with this error."""
        return self.lock_acquire_sleep_interval

    def _release(self) -> None:
        try:
            self.do_stop()
        except StoreError as error:
            log.info("the lock was not released, and will expire: %s", error)
        finally:
            self.post_stop()

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self.name!r} {self._state.value}>"
