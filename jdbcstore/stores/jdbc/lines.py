"""The lines on which wake-ups go from process to process: a connection of the server's, or a file.

SQLite has no server. There a sender touches an empty file beside the database, and waiting processes read
its time many times a second, which costs less than one query.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from jdbcstore.database.session import DatabaseSession

ANY = ""
"""The notification for an unknown queue."""
_LOOK = 0.02


class WakeupLine(Protocol):
    """A line to all processes that listen: it sends and receives."""

    def listen(self, channel: str) -> None:
        """Receive messages to a channel from now on."""

    def received(self, channel: str, seconds: float) -> list[str]:
        """Return received names; wait for the first at most so many seconds."""

    def send(self, channel: str, payload: str) -> None:
        """Send to all who listen to the channel."""


class FileLine:
    """The time of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0

    def listen(self, channel: str) -> None:  # noqa: ARG002 (one file has one channel)
        """Receive names from now on."""
        self._seen = self._touched()

    def _touched(self) -> int:
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return 0

    def received(self, channel: str, seconds: float) -> list[str]:  # noqa: ARG002
        """Return names that others sent; wait for the first at most so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            touched = self._touched()
            if touched != self._seen:
                self._seen = touched
                return [ANY]
            if time.monotonic() >= deadline:
                return []
            time.sleep(_LOOK)

    def send(self, channel: str, payload: str) -> None:  # noqa: ARG002
        """Touch the file; where that is not allowed, others find the message a second later."""
        with contextlib.suppress(OSError):
            self._path.touch()
            os.utime(self._path, ns=(now := time.time_ns(), now))


@contextlib.contextmanager
def open_line(session: DatabaseSession) -> Iterator[WakeupLine]:
    """Open a line of its own for one thread.

    :raises StoreUnavailable: the database does not answer
    """
    path = session.adapter.wakeup_file(session.engine.url)
    if path is not None:
        yield FileLine(Path(path))
        return
    with contextlib.closing(session.connect()) as connection, session.translated():
        yield connection.notifier
