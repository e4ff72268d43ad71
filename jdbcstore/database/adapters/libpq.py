"""Deadlines for psycopg connections, which on their own would wait for an answer for ever."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

_IDLE = 5.0
"""Seconds after which an idle watching thread ends."""


@functools.cache
def timed_cursor() -> type[Any]:
    """A class of cursors whose statements are answered in time, or else the connection is lost."""
    from psycopg import Cursor

    class TimedCursor(Cursor[Any]):
        def execute(self, *query: Any, **options: Any) -> Any:
            with answering(self.connection):
                return super().execute(*query, **options)

        def executemany(self, *query: Any, **options: Any) -> None:
            with answering(self.connection):
                super().executemany(*query, **options)

    return TimedCursor


@contextlib.contextmanager
def answering(connection: Any) -> Iterator[None]:
    """Watch the deadline of a request to the server inside the block."""
    seconds = getattr(connection, "answer_timeout", None)
    if seconds is None:
        yield
        return
    try:
        WATCH.begin(connection, seconds, lambda: abort(connection))
        yield
    finally:
        WATCH.end(connection)


def abort(connection: Any) -> None:
    """Shut down the socket of a connection, under a thread that waits for its answer."""
    from psycopg import Error

    with contextlib.suppress(OSError, Error):
        number = connection.pgconn.socket
        with socket.socket(fileno=os.dup(number)) as line:
            # Closed by its own thread in between, the number may already be another's; then this raises.
            if connection.pgconn.socket == number:
                line.shutdown(socket.SHUT_RDWR)


class Watch:
    """Deadlines of all connections, watched by one thread while requests are pending.

    A deadline is usually set and removed without waking the thread: that happens for every statement.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._deadlines: dict[int, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        self._wakes = float("inf")

    def begin(self, connection: Any, seconds: float, abort: Callable[[], None]) -> None:
        """Call ``abort`` unless :meth:`end` is called for this connection within this time."""
        deadline = time.monotonic() + seconds
        # The lock itself, here and in `end`: a signal could interrupt the steps of a Condition's own.
        with self._lock:
            self._deadlines[id(connection)] = deadline, abort
            # A forked child does not have the thread of its parent.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="jdbcstore-watch", daemon=True)
                self._thread.start()
            elif deadline < self._wakes:
                self._changed.notify()

    def end(self, connection: Any) -> None:
        """The answer has arrived; wait for a running call of ``abort``."""
        with self._lock:
            self._deadlines.pop(id(connection), None)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for key, (deadline, abort) in [*self._deadlines.items()]:
                    if deadline <= now:
                        del self._deadlines[key]
                        # Under the lock: after `end` the socket may be closed and its descriptor reused.
                        abort()
                idle = not self._deadlines
                self._wakes = min((one for one, _ in self._deadlines.values()), default=now + _IDLE)
                self._changed.wait(self._wakes - now)
                if idle and not self._deadlines:
                    self._thread = None
                    return


WATCH = Watch()
