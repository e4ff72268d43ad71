"""The keeper: renews the lock, and ends the mastership before anybody else's can begin."""

from __future__ import annotations

import logging
import threading

from jdbcstore.errors import StoreError
from jdbcstore.lockers.base import AbstractLocker
from jdbcstore.lockers.fence import Fence
from jdbcstore.util.backoff import Backoff
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_PATIENCE = 5.0


class Keeper:
    """Two threads that keep no process alive: one renews, the other watches the time while that one waits.

    A check that fails by an error is made again while the lock is believed to be ours, so that a database
    may restart meanwhile.
    """

    def __init__(self, locker: AbstractLocker, fence: Fence, clock: Clock) -> None:
        self._locker = locker
        self._fence = fence
        self._clock = clock
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"jdbcstore-{name}", daemon=True)
            for name, target in (("keeper", self._keep), ("lock-watch", self._watch))
        ]
        fence.on_lost(lambda _: self._stop.set())
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both, and give the lock back."""
        self._stop.set()
        renewing, _ = self._threads
        renewing.join(_PATIENCE)
        if renewing.is_alive():
            self._locker.abort()
            renewing.join(_PATIENCE)

    def _keep(self) -> None:
        wait = period = self._locker.lock_keep_alive_period
        backoff = Backoff(min(_LONGEST_PAUSE, period), first=_FIRST_PAUSE)
        while not self._stop.wait(wait):
            try:
                held = self._locker.keep_alive()
            except StoreError as error:
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
            if not held:
                self._lose("the lock is not ours any more")
                break
            backoff.reset()
            wait = period
        self._locker.stop()

    def _watch(self) -> None:
        while not self._stop.is_set():
            left = self._locker.held_until - self._clock.monotonic()
            if left <= 0:
                self._lose("the lock could not be renewed before it may go to another")
                self._locker.abort()
                return
            self._stop.wait(min(left, threading.TIMEOUT_MAX))

    def _lose(self, reason: str) -> None:
        self._fence.lose(reason)
        self._fence.cut()
