"""Cursors of psycopg with deadlines, because on their own they would wait for an answer forever."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import socket
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from jdbcstore.database.adapters.sending import WATCH, SentWrite


@functools.cache
def timed_cursor() -> type[Any]:
    """Return a class of cursors whose statements are answered in time, or else the connection is lost."""
    from psycopg import Cursor

    class TimedCursor(Cursor[Any]):
        def execute(self, *query: Any, **options: Any) -> Any:
            with Answering(self.connection):
                return super().execute(*query, **options)

        def executemany(self, *query: Any, **options: Any) -> None:
            with Answering(self.connection):
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
            with Answering(self.connection):
                return super().execute(_as_taken(query, params), params, **options)

        def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
            with Answering(self.connection):
                super().executemany(numbered(query), params_seq, **options)

        def execute_untimed(self, query: str, values: Any = None) -> Any:
            """Execute a statement within a block of :class:`Answering`."""
            return super().execute(_as_taken(query, values), values)

    return NumberingCursor


@functools.cache
def integer_loaders() -> tuple[type[Any], ...]:
    """Return loaders of NUMERIC for both formats, which give an ``int`` for a whole number.

    Tables that were converted from Oracle have their ids in such columns.
    """
    from psycopg.types.numeric import NumericBinaryLoader, NumericLoader

    class IntegerLoader(NumericLoader):
        def load(self, data: Any) -> Any:
            return _whole(super().load(data))

    class IntegerBinaryLoader(NumericBinaryLoader):
        def load(self, data: Any) -> Any:
            return _whole(super().load(data))

    return IntegerLoader, IntegerBinaryLoader


@functools.cache
def char_loaders() -> tuple[type[Any], ...]:
    """Return loaders of CHAR for both formats, which give a string without the blanks behind it.

    Some tables were made with CHAR for VARCHAR; the other databases' drivers return no blanks.
    """
    from psycopg.types.string import TextBinaryLoader, TextLoader

    class CharLoader(TextLoader):
        def load(self, data: Any) -> Any:
            return str(super().load(data)).rstrip(" ")

    class CharBinaryLoader(TextBinaryLoader):
        def load(self, data: Any) -> Any:
            return str(super().load(data)).rstrip(" ")

    return CharLoader, CharBinaryLoader


def _whole(number: Decimal) -> Decimal | int:
    return int(number) if number.is_finite() and number == number.to_integral_value() else number


def _as_taken(query: str, values: Any) -> str:
    return query if values is None else numbered(query)


@functools.lru_cache(maxsize=512)
def numbered(text: str, first: int = 1) -> str:
    """Return a statement with psycopg's placeholders, as one with numbered parameters."""
    numbers = itertools.count(first)
    return re.sub("%s|%%", lambda match: f"${next(numbers)}" if match[0] == "%s" else "%", text)


_CANCELLED = "jdbcstore_cancelled"
_WAIT = "SyncRepWaitForLSN"
"""The server's function that sends the warning, in any language."""


def note_cancelled_waits(connection: Any) -> None:
    """Note when the wait of a commit for a standby is cancelled: the server only warns that it continues."""
    cancelled: list[object] = []
    vars(connection)[_CANCELLED] = cancelled

    def note(warning: Any) -> None:
        if warning.source_function == _WAIT:
            cancelled.append(warning)

    connection.add_notice_handler(note)


def is_cancelled(connection: Any) -> bool:
    """Return whether the last commit has not waited for its standby."""
    return bool(vars(connection).get(_CANCELLED))


def wait_replicated(connection: Any) -> None:
    """Wait until the standby has all that is committed, however often that is cancelled.

    A commit that writes waits for itself and all before it.
    """
    # The statement below does not itself end in such a wait.
    cancelled = vars(connection).pop(_CANCELLED, [])
    try:
        while True:
            cancelled.clear()
            # Alone it would not tell a standby by the usual error, which the ID of a transaction does.
            connection.execute("SELECT pg_logical_emit_message(true, 'jdbcstore', txid_current()::text)")
            if not cancelled:
                return
    finally:
        vars(connection)[_CANCELLED] = cancelled


class Answering:
    """A block with a request to the server: its deadline is watched, and its commit is replicated.

    Each statement has one.
    """

    __slots__ = ("_connection", "_seconds")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._seconds: float | None = getattr(connection, "answer_timeout", None)

    def __enter__(self) -> None:
        if self._seconds is not None:
            connection = self._connection
            try:
                WATCH.begin(connection, self._seconds, lambda: abort(connection))
            except BaseException:  # a signal's, too
                WATCH.end(connection)
                raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._seconds is not None:
            WATCH.end(self._connection)
        if kind is None and is_cancelled(self._connection):
            wait_replicated(self._connection)


@functools.cache
def _statuses() -> tuple[int, int]:
    """Of a statement that has succeeded, without and with rows."""
    from psycopg import pq

    return pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK


@functools.cache
def _synced() -> tuple[int, int]:
    """Return the status of the end of a statement in a pipeline, and that of a live connection."""
    from psycopg import pq

    return pq.ExecStatus.PIPELINE_SYNC, pq.ConnStatus.OK


@functools.cache
def has_pipelines() -> bool:
    """Return whether the library can send a statement before the last one is answered."""
    from psycopg import Pipeline

    return Pipeline.is_supported()


def rows_of(line: Any, result: Any) -> int:
    """Return the number of rows that a statement has returned or changed; its error is raised."""
    if result is not None and result.status in _statuses():
        return result.command_tuples or 0
    from psycopg import OperationalError, pq
    from psycopg.errors import error_from_result

    if result is None or line.status != pq.ConnStatus.OK:
        raise OperationalError(f"the connection was lost: {line.get_error_message()}")
    raise error_from_result(result)


class SentStatement(SentWrite):
    """A prepared statement that was sent.

    The answer is complete when the server is ready for the next statement: it announces the result before it
    commits. A ``guarded`` statement has one row if it has had its effect.
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
        self._line = line = connection.pgconn
        self._connection = connection
        self._result: Any = None
        self._warnings = vars(connection).get(_CANCELLED, ())
        timeout: float | None = getattr(connection, "answer_timeout", None)
        begin = functools.partial(self._begin, name, parameters)
        super().__init__(line, begin, conclude, lambda: abort(connection), timeout, least=guarded)

    def _begin(self, name: bytes, parameters: Sequence[bytes | None]) -> int:
        line = self._line
        line.nonblocking = 1
        line.send_query_prepared(name, parameters, [1] * len(parameters))
        self.is_flushed = not line.flush()
        return int(line.socket)

    def _wait_again(self) -> None:
        wait_replicated(self._connection)

    def _send(self) -> bool:
        return not self._line.flush()

    def _receive(self) -> int | None:
        line = self._line
        line.consume_input()
        while not line.is_busy():
            result = line.get_result()
            if result is None:
                return self._count()
            self._result = result  # the last: the commit may fail after the statement
        return None

    def _count(self) -> int:
        """Return the rows of the last result."""
        last = self._result
        is_good = last is not None and last.status in _statuses()
        return last.command_tuples or 0 if is_good else rows_of(self._line, last)


class PipedStatement(SentStatement):
    """A statement that may be sent before the answer to the one ``before`` it, and another before its own.

    Each is a transaction. A pipeline begins with the first of them, and ends with the last.
    """

    def __init__(self, *statement: Any, guarded: bool, before: SentWrite | None) -> None:
        self._before = before
        self._next: PipedStatement | None = None
        if isinstance(before, PipedStatement):
            before._next = self
        super().__init__(*statement, guarded=guarded)

    def _begin(self, name: bytes, parameters: Sequence[bytes | None]) -> int:
        line, before = self._line, self._before
        line.nonblocking = 1
        if before is None:
            line.enter_pipeline_mode()
        line.send_query_prepared(name, parameters, [1] * len(parameters))
        line.pipeline_sync()
        self.is_flushed = not line.flush()
        if before is not None:
            before.is_flushed = self.is_flushed
        return int(line.socket)

    def _receive(self) -> int | None:
        line = self._line
        line.consume_input()
        while not line.is_busy():
            result = line.get_result()
            if self._is_synced(result):
                return self._count()
            self._result = result or self._result
        return None

    def _is_synced(self, result: Any) -> bool:
        """Return whether everything of this statement was received before this result."""
        synced, connected = _synced()
        return self._line.status != connected if result is None else bool(result.status == synced)

    def _end(self) -> None:
        """Await nothing more; after a failure, await the next one first, because the line is needed."""
        super()._end()
        following = self._next
        if following is not None:
            following._watch()
            if self.is_done:
                return
            following._await()
            following._end()
        from psycopg import Error

        with contextlib.suppress(Error):  # the connection is lost
            self._line.exit_pipeline_mode()


def abort(connection: Any) -> None:
    """Shut down the socket of a connection, under a thread that waits for its answer."""
    from psycopg import Error

    with contextlib.suppress(OSError, Error):
        number = connection.pgconn.socket
        with socket.socket(fileno=os.dup(number)) as line:
            # Closed by its own thread in between, the number may already be another's; then this raises.
            if connection.pgconn.socket == number:
                line.shutdown(socket.SHUT_RDWR)
