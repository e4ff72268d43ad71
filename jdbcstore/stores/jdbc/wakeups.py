"""Wake-ups of processes that wait for messages: events in this process, and notifications between processes.

PostgreSQL takes a lock of the whole server in a commit that sends one, and MariaDB a look at all connections.
So it is sent after the commit, on a connection of its own, and at most twenty times a second for each queue.
It may be lost: waiting processes ask the database at intervals anyway.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from jdbcstore.database.session import DatabaseSession
from jdbcstore.errors import StoreError
from jdbcstore.stores.jdbc.lines import ANY, WakeupLine, open_line
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

INTERVAL = 0.05
"""Seconds between two notifications about one queue."""
_BEARABLE = 0.5
"""Seconds that closing waits for the listener before it wakes it."""
_IDLE = 5.0
"""Seconds without a notification after which its connection is closed."""
_RETURNED, _ADDED = "<", "+"
_LONGEST = 7000
"""Bytes of a payload; PostgreSQL takes 8000."""


class WakeupPipe:
    """A file descriptor that an event loop can read when there was a wake-up; of :meth:`Wakeups.watch`."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names
        self._lock = threading.Lock()
        self._number = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.is_closed = False
        """Whether it cannot be signalled any more."""

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._number

    def wakes_for(self, name: str) -> bool:
        """Return whether a caller waits for this name."""
        return name in self._names()

    def signal(self) -> None:
        """Make the file descriptor readable; any thread may do so."""
        with self._lock:
            if not self.is_closed:
                os.eventfd_write(self._number, 1)

    def clear(self) -> None:
        """Make it unreadable until the next signal."""
        with contextlib.suppress(BlockingIOError), self._lock:
            if not self.is_closed:
                os.eventfd_read(self._number)

    def close(self) -> None:
        """Close the file descriptor."""
        with self._lock:
            if not self.is_closed:
                self.is_closed = True
                os.close(self._number)


class Wakeups:
    """The wake-ups of one process, with threads that start when they are first needed."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        messages = session.tables.messages.name
        digest = hashlib.sha256(f"{session.engine.url.database}/{messages}".encode())
        self._channel = f"jdbcstore_{digest.hexdigest()[:16]}"
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._unsent = threading.Condition(self._lock)
        """Apart, as each acknowledgement of a limited queue is a wake-up, and few of them are sent."""
        self._counts: Counter[str] = Counter()
        self._of_any = 0
        self._returns: Counter[str] = Counter()
        self._pending: dict[str, None] = {}
        self._pipes: tuple[WakeupPipe, ...] = ()
        self._threads: dict[str, threading.Thread] = {}
        self._closed = False

    def count(self, container: str) -> tuple[int, int]:
        """Return the numbers of this queue's wake-ups, and of those because of something returned."""
        with self._changed:
            return self._count(container), self._returns[container]

    def _count(self, container: str) -> int:
        return self._counts[container] + self._of_any

    def wait(self, container: str, count: int, seconds: float) -> None:
        """Wait until there is more to wake for than ``count``, at most so long."""
        self._start("listen")
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._count(container) != count, seconds)

    def wait_any(self, counts: Mapping[str, int], seconds: float) -> bool:
        """As :meth:`wait` for several queues; whether there is more to wake for in one of them."""
        self._start("listen")
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closed or any(self._count(name) != count for name, count in counts.items()),
                seconds,
            )

    def watch(self, names: Callable[[], Iterable[str]]) -> WakeupPipe:
        """Signal a pipe at each wake-up for one of these names; any thread may call ``names``."""
        self._start("listen")
        pipe = WakeupPipe(names)
        with self._changed:
            self._pipes += (pipe,)
        return pipe

    def unwatch(self, pipe: WakeupPipe) -> None:
        """Undo :meth:`watch`, and close the pipe."""
        with self._changed:
            self._pipes = tuple(other for other in self._pipes if other is not pipe)
        pipe.close()

    def notify(self, name: str) -> None:
        """Wake those of this process that wait for this name, of a queue or not."""
        self._wake(name, False)

    def wake(self, container: str, *, returned: bool = False) -> None:
        """Wake callers that wait for messages of this queue: one was added, or ``returned`` to its place."""
        self._wake(container, returned)
        if not self._session.adapter.notifies:
            return
        payload = (_RETURNED if returned else _ADDED) + container
        if len(payload.encode()) > _LONGEST:
            return
        with self._changed:
            if payload not in self._pending:
                self._pending[payload] = None
                self._unsent.notify_all()
        self._start("notify")

    def close(self) -> None:
        """Send pending wake-ups and stop the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._unsent.notify_all()
        if "listen" in self._threads and self._session.adapter.listens_for > _BEARABLE:
            with contextlib.suppress(StoreError), open_line(self._session) as line:
                line.send(self._channel, ANY)
        for thread in self._threads.values():
            thread.join()

    def _wake(self, container: str, returned: bool) -> None:
        with self._changed:
            self._counts[container] += 1
            self._returns[container] += returned
            self._changed.notify_all()
            pipes = self._pipes
        for pipe in pipes:
            if pipe.wakes_for(container):
                pipe.signal()

    def _wake_all(self) -> None:
        with self._changed:
            self._of_any += 1
            self._changed.notify_all()
            pipes = self._pipes
        for pipe in pipes:
            pipe.signal()

    def _start(self, what: str) -> None:
        if what in self._threads or not self._session.adapter.notifies:
            return
        with self._changed:
            if what in self._threads or self._closed:
                return
            work = {"listen": self._listen, "notify": self._notify}[what]
            thread = threading.Thread(target=self._run, args=(work,), name=f"jdbcstore-{what}", daemon=True)
            self._threads[what] = thread
            thread.start()

    def _run(self, work: Callable[[WakeupLine], None]) -> None:
        backoff = Backoff(5.0)
        listens = work == self._listen
        while True:
            with self._changed:
                # Only the listener needs its connection while there is nothing to do.
                self._unsent.wait_for(lambda: listens or self._closed or self._pending)
                if self._closed and (listens or not self._pending):
                    return
            try:
                with open_line(self._session) as line:
                    work(line)
            except StoreError as error:
                log.info("no wake-ups until the database answers again: %s", error)
                with self._changed:
                    if self._unsent.wait_for(lambda: self._closed, backoff.pause()):
                        return

    def _listen(self, line: WakeupLine) -> None:
        line.listen(self._channel)
        silence = self._session.config.network_timeout or float("inf")
        seconds = min(self._session.adapter.listens_for, silence / 2)
        while not self._closed:
            for payload in line.received(self._channel, seconds):
                if payload == ANY:
                    self._wake_all()
                else:
                    self._wake(payload[1:], payload.startswith(_RETURNED))

    def _notify(self, line: WakeupLine) -> None:
        sent: dict[str, float] = {}
        while True:
            with self._changed:
                if not self._unsent.wait_for(lambda: self._closed or self._pending, _IDLE):
                    return  # without a connection, until there is something again
                if self._closed and not self._pending:
                    return
                now = time.monotonic()
                due = [
                    name for name in self._pending if self._closed or sent.get(name, 0.0) + INTERVAL <= now
                ]
                if not due:
                    self._unsent.wait_for(lambda: self._closed, INTERVAL)
                    continue
            for payload in due:
                line.send(self._channel, payload)
                sent[payload] = time.monotonic()
                with self._changed:
                    self._pending.pop(payload, None)
