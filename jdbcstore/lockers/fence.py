"""The fence: what keeps a master that was deposed from writing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jdbcstore.database.adapters.sql import EpochGuard
from jdbcstore.errors import LockLost
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)


class Fence:
    """One tenure as master: it ends once, and for good.

    The ``guard`` is checked by the database in each transaction that writes. ``held_until`` is checked
    here, so that a master knows of its end without the database.
    """

    def __init__(
        self, guard: EpochGuard, epoch: int, held_until: Callable[[], float], clock: Clock, *, silence: float
    ) -> None:
        self.guard = guard
        self.epoch = epoch
        self.silence = silence
        """Seconds after which the server may end a writing transaction of which it hears nothing."""
        self._held_until = held_until
        self._clock = clock
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._lost = threading.Event()
        self._cuts: list[Callable[[], None]] = []
        self._listeners: list[Callable[[LockLost], None]] = []

    @property
    def lost(self) -> LockLost | None:
        """Why this tenure has ended; None while it has not."""
        return None if self._reason is None else LockLost(self._reason)

    def check(self) -> None:
        """Make sure that it is believed to hold.

        :raises LockLost: it has ended
        """
        if self._reason is None and self._clock.monotonic() >= self._held_until():
            self.lose("the lock could not be renewed before it may go to another")
        if self._reason is not None:
            raise LockLost(self._reason)

    def lose(self, reason: str) -> None:
        """End the tenure, and tell whoever listens. Only the first call does."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = f"{reason}; this store writes no more: open it again to wait for the lock"
            listeners = [*self._listeners]
        log.error("no longer the master: %s", self._reason)
        self._lost.set()
        for listener in listeners:
            try:
                listener(LockLost(self._reason))
            except BaseException:
                log.exception("a listener for the loss of the lock failed")

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Wait for the end; whether it has come."""
        return self._lost.wait(timeout)

    def on_lost(self, listener: Callable[[LockLost], None]) -> None:
        """Have the listener called once the tenure ends, by whatever thread finds out; now if it has."""
        with self._lock:
            if self._reason is None:
                self._listeners.append(listener)
                return
            reason = self._reason
        listener(LockLost(reason))

    def on_cut(self, cut: Callable[[], None]) -> None:
        """Have ``cut`` called to end what may hang on a database that does not answer."""
        self._cuts.append(cut)

    def cut(self) -> None:
        """End what hangs."""
        for cut in self._cuts:
            try:
                cut()
            except BaseException:
                log.exception("what may hang on the database could not be ended")
