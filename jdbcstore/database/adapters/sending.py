"""Batches that were sent to the database without waiting for the answer, and the deadlines of answers."""

from __future__ import annotations

import os
import select
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

_BOTH = select.POLLIN | select.POLLOUT
_IDLE = 5.0
"""Seconds after which an idle watching thread ends."""


class SentWrite(ABC):
    """A batch that was sent, and whose answer is awaited, by an event loop or by one thread at a time."""

    _warnings: Sequence[object] = ()
    """The warnings because of which the answer does not say yet that all is done."""

    def __init__(
        self,
        line: object,
        begin: Callable[[], int],
        conclude: Callable[[int], None],
        abort: Callable[[], None],
        timeout: float | None,
        *,
        least: int,
    ) -> None:
        """Begin to send.

        :param line: the connection
        :param begin: prepares the request, and returns the descriptor of the line
        :param conclude: gets the number of rows that the statement has returned or changed, if it is not at
            ``least`` this
        :param abort: ends the line, once there was no answer for ``timeout`` seconds
        """
        self.line = line
        """The connection, of which each has its own."""
        self._conclude = conclude
        self._timeout = timeout
        self._abort = abort
        self._least = least
        self._rows: int | None = None
        self._failure: Exception | None = None
        self.is_flushed = False
        """Whether all is sent."""
        self.has_failed = False
        """Whether no answer will come."""
        self.is_done = False
        """Whether it is answered, and committed: :meth:`finish` does not raise."""
        if timeout is not None:
            WATCH.begin(line, timeout, abort)
        try:
            self.socket = begin()
            """The descriptor on which the answer arrives."""
        except Exception as error:  # the state of the connection is unknown
            self._fail(error)
        else:
            if not self.is_flushed:
                self.flush()

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self.is_flushed = self.has_failed = True

    @abstractmethod
    def _send(self) -> bool:
        """Send more without waiting; return whether all is sent."""

    @abstractmethod
    def _receive(self) -> int | None:
        """Read received bytes; return the number of rows, or None if the answer is not complete."""

    def flush(self) -> bool:
        """Send more of the rest, without waiting; return whether all is sent."""
        if not self.is_flushed:
            try:
                self.is_flushed = self._send()
            except Exception as error:
                self._fail(error)
        return self.is_flushed

    def is_answered(self) -> bool:
        """Read received bytes, without waiting; return whether :meth:`finish` will not wait."""
        if self._rows is None and self._failure is None:
            try:
                self._rows = rows = self._receive()
            except Exception as error:
                self._fail(error)
            else:
                self.is_done = rows is not None and rows >= self._least and not self._warnings
        return self._rows is not None or self._failure is not None

    def finish(self) -> None:
        """Wait for the answer; raises as the adapter's ``write`` does."""
        try:
            if self._rows is None:
                self._await()
        finally:
            self._end()
        if self._failure is not None:
            raise self._failure
        if self._rows is not None and self._rows < self._least:
            self._conclude(self._rows)
        if self._warnings:
            self._wait_again()

    def _wait_again(self) -> None:  # noqa: B027 - most have no warnings
        """Wait for the standby that a warning says the server did not wait for."""

    def _await(self) -> None:
        waiting = select.poll()
        while not (self.flush() & self.is_answered()):
            waiting.register(self.socket, select.POLLIN if self.is_flushed else _BOTH)
            waiting.poll()

    def _watch(self) -> None:
        """Begin again to watch the time until the answer."""
        if self._timeout is not None:
            WATCH.begin(self.line, self._timeout, self._abort)

    def _end(self) -> None:
        """Await nothing more."""
        if self._timeout is not None:
            WATCH.end(self.line)


class Watch:
    """Deadlines of all connections, watched by one thread while requests are pending.

    A deadline is usually set and removed without waking the thread: that happens for every statement.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Forget everything: a forked child has neither the thread of its parent nor the holder of the
        lock."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._deadlines: dict[int, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        self._wakes = float("inf")

    def begin(self, line: object, seconds: float, abort: Callable[[], None]) -> None:
        """Call ``abort`` unless :meth:`end` is called for this line within this time."""
        deadline = time.monotonic() + seconds
        # The lock itself, here and in `end`: a signal could interrupt the steps of a Condition's own.
        with self._lock:
            self._deadlines[id(line)] = deadline, abort
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="jdbcstore-watch", daemon=True)
                thread.start()
                self._thread = thread
            elif deadline < self._wakes:
                self._changed.notify()

    def end(self, line: object) -> None:
        """Note that the answer has arrived; wait for a running call of ``abort``."""
        with self._lock:
            self._deadlines.pop(id(line), None)

    def _run(self) -> None:
        with self._changed:
            try:
                self._watch()
            finally:
                self._thread = None

    def _watch(self) -> None:
        """Watch until nothing was pending for a while; the lock is held, but for the waits."""
        while True:
            now = time.monotonic()
            for key, (deadline, abort) in [*self._deadlines.items()]:
                if deadline <= now:
                    del self._deadlines[key]
                    # Under the lock: after `end` the socket may be closed and its descriptor reused.
                    abort()
            idle = not self._deadlines
            self._wakes = min((deadline for deadline, _ in self._deadlines.values()), default=now + _IDLE)
            self._changed.wait(self._wakes - now)
            if idle and not self._deadlines:
                return


WATCH = Watch()
os.register_at_fork(after_in_child=WATCH.renew)
