"""Ends connections whose answer is too long in coming, for drivers that would wait for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

_IDLE = 5.0


class Watch:
    """One thread for all connections, there while something is being asked.

    A deadline is usually set and removed without waking it: that happens for every statement.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._deadlines: dict[int, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        self._wakes = float("inf")

    def begin(self, connection: Any, seconds: float, abort: Callable[[], None]) -> None:
        """Call ``abort`` unless :meth:`end` is called for this connection in so many seconds."""
        deadline = time.monotonic() + seconds
        # The lock itself, here and in `end`: a signal could come between the steps of a Condition's own.
        with self._lock:
            self._deadlines[id(connection)] = deadline, abort
            # A forked child has not the thread of its parent.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="jdbcstore-watch", daemon=True)
                self._thread.start()
            elif deadline < self._wakes:
                self._changed.notify()

    def end(self, connection: Any) -> None:
        """The answer is there; a call of ``abort`` under way is waited for."""
        with self._lock:
            self._deadlines.pop(id(connection), None)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for key, (deadline, abort) in [*self._deadlines.items()]:
                    if deadline <= now:
                        del self._deadlines[key]
                        # Under the lock: what has ended may be closed, and its socket be another's.
                        abort()
                idle = not self._deadlines
                self._wakes = min((one for one, _ in self._deadlines.values()), default=now + _IDLE)
                self._changed.wait(self._wakes - now)
                if idle and not self._deadlines:
                    self._thread = None
                    return


WATCH = Watch()
