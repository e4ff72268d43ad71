"""psycopg's connections, bounded: how long they wait for an answer, and how to end one that waits."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import socket
from collections.abc import Iterator
from typing import Any

from jdbcstore.database.adapters.watch import WATCH

_SHORTEST_CONNECT = 2
"""libpq takes no less."""


def network_arguments(seconds: float) -> dict[str, Any]:
    """Arguments of ``connect`` with which the kernel notices a host that has vanished."""
    return {
        "connect_timeout": min(10, max(_SHORTEST_CONNECT, math.ceil(seconds))),
        "tcp_user_timeout": max(1, round(seconds * 1000)),
        "keepalives_idle": max(1, round(seconds / 3)),
        "keepalives_interval": max(1, round(seconds / 3)),
        "keepalives_count": 2,
    }


def limit_answers(connection: Any, seconds: float) -> None:
    """Have each statement end as a lost connection when it is not answered for so long."""
    connection.cursor_factory = _timed_cursor()
    connection.answer_timeout = seconds


@functools.cache
def _timed_cursor() -> type[Any]:
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
    """While the server is asked for something."""
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
    """End a connection under whoever waits for its answer."""
    from psycopg import Error

    with contextlib.suppress(OSError, Error):
        descriptor = os.dup(connection.pgconn.socket)
        with socket.socket(fileno=descriptor) as line:
            line.shutdown(socket.SHUT_RDWR)
