"""Cursors of psycopg with deadlines, as on their own they would wait for an answer for ever."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_BOTH = select.POLLIN | select.POLLOUT
_IDLE = 5.0
"""Seconds after which an idle watching thread ends."""


@functools.cache
def timed_cursor() -> type[Any]:
    """Return a class of cursors whose statements are answered in time, or else the connection is lost."""
    from psycopg import Cursor

    class TimedCursor(Cursor[Any]):
        def execute(self, *query: Any, **options: Any) -> Any:
            with answering(self.connection):
                return super().execute(*query, **options)

        def executemany(self, *query: Any, **options: Any) -> None:
            with answering(self.connection):
                super().executemany(*query, **options)

    return TimedCursor


@functools.cache
def numbering_cursor() -> type[Any]:
    """Return a class of such cursors for texts that come again and again, which are not read each time.

    psycopg reads the placeholders of a statement of more than 4,096 characters at each execution.
    """
    from psycopg import RawCursor
    from psycopg.pq import Format

    class NumberingCursor(RawCursor[Any]):
        def __init__(self, connection: Any) -> None:
            super().__init__(connection)
            self.format = Format.BINARY

        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            with answering(self.connection):
                return super().execute(_as_taken(query, params), params, **options)

        def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
            with answering(self.connection):
                super().executemany(numbered(query), params_seq, **options)

        def execute_untimed(self, query: str, values: Any = None) -> Any:
            """Execute a statement within a block of :func:`answering`."""
            return super().execute(_as_taken(query, values), values)

    return NumberingCursor


def _as_taken(query: str, values: Any) -> str:
    return query if values is None else numbered(query)


@functools.lru_cache(maxsize=512)
def numbered(text: str, first: int = 1) -> str:
    """Return a statement with psycopg's placeholders, as one with numbered parameters."""
    numbers = itertools.count(first)
    return re.sub("%s|%%", lambda found: f"${next(numbers)}" if found[0] == "%s" else "%", text)


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


@functools.cache
def _statuses() -> tuple[int, int]:
    """Of a statement that has succeeded, without and with rows."""
    from psycopg import pq

    return pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK


def rows_of(line: Any, result: Any) -> int:
    """Return the number of rows that a statement has returned or changed; its error is raised."""
    if result is not None and result.status in _statuses():
        return result.command_tuples or 0
    from psycopg import OperationalError, pq
    from psycopg.errors import error_from_result

    if result is None or line.status != pq.ConnStatus.OK:
        raise OperationalError(f"the connection was lost: {line.get_error_message()}")
    raise error_from_result(result)


class SentStatement:
    """A prepared statement that was sent, and whose answer is awaited.

    Of any thread, one at a time. The answer is complete when the server is ready for the next statement: it
    announces the result of this one before it commits. ``conclude`` gets the number of rows, which is one
    if a ``guarded`` statement has had its effect.
    """

    def __init__(
        self,
        connection: Any,
        name: bytes,
        parameters: Sequence[bytes | None],
        conclude: Callable[[int], None],
        *,
        guarded: bool,
    ) -> None:
        self._connection = connection
        self.line = line = connection.pgconn
        self._conclude = conclude
        self._guarded = guarded
        self._result: Any = None
        self._failure: Exception | None = None
        self._is_answered = False
        self._timeout: float | None = getattr(connection, "answer_timeout", None)
        if self._timeout is not None:
            WATCH.begin(connection, self._timeout, lambda: abort(connection))
        try:
            self.socket: int = line.socket
            line.nonblocking = 1
            line.send_query_prepared(name, parameters, [1] * len(parameters))
            self._is_flushed = not line.flush()
        except Exception as error:  # what has been sent is not known
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._is_answered = self._is_flushed = True

    def flush(self) -> bool:
        if not self._is_flushed:
            try:
                self._is_flushed = not self.line.flush()
            except Exception as error:
                self._fail(error)
        return self._is_flushed

    def is_answered(self) -> bool:
        if self._is_answered:
            return True
        line = self.line
        try:
            line.consume_input()
            while not line.is_busy():
                result = line.get_result()
                if result is None:
                    self._is_answered = True
                    break
                self._result = result  # the last one counts: the commit may fail after the statement
        except Exception as error:
            self._fail(error)
        return self._is_answered

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    @property
    def is_done(self) -> bool:
        result = self._result
        if self._failure is not None or result is None or not self._is_answered:
            return False
        return result.status in _statuses() and (not self._guarded or result.command_tuples == 1)

    def finish(self) -> None:
        try:
            if not self._is_answered:
                self._wait()
        finally:
            if self._timeout is not None:
                WATCH.end(self._connection)
        if self._failure is not None:
            raise self._failure
        if not self.is_done:
            self._conclude(rows_of(self.line, self._result))

    def _wait(self) -> None:
        waiting = select.poll()
        while not (self.flush() & self.is_answered()):
            waiting.register(self.socket, select.POLLIN if self._is_flushed else _BOTH)
            waiting.poll()


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
        """Note that the answer has arrived; wait for a running call of ``abort``."""
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
