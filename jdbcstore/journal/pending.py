"""The entries that wait to be written, and whose turn it is to write."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from jdbcstore.errors import StoreClosed
from jdbcstore.journal.api import Entry

_MOST = 16_384
_MOST_BYTES = 64 << 20
_TURN = 0.005
_TURN_ENTRIES = 256


class Pending:
    """A bounded queue. One at a time writes: its one taker, or a caller that found the taker waiting.

    What is taken is in hand until it is completed, by the one who took it or by a close that waited too long.

    A signal handler may raise in the main thread behind any call. What a caller does here that does not write
    is right after each of them: the taker is woken first, and may find nothing.
    """

    def __init__(self, batch_bytes: int, gather: float, check: Callable[[], None]) -> None:
        self._batch_bytes = batch_bytes
        self._gather_for = gather
        self._check = check
        """Raises when nothing can be taken any more."""
        self._queue: deque[Entry] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._in_hand: list[Entry] = []
        self._closed = False
        self._given_up = False
        self._idle = False
        self._wake = threading.Lock()
        self._wake.acquire()

    def put(self, entry: Entry, *, waits: bool) -> bool:
        """Queue an entry, waiting for room; or have it in hand, and true: the caller is to write it now, and
        then to :meth:`pass_on`.

        :raises StoreClosed: it is closed
        """
        size = entry.size
        with self._lock:
            while not self._closed and self._is_full():
                self._check()
                self._changed.wait()
            self._check()
            if self._closed:
                raise StoreClosed("the journal is closed; open it again")
            idle, self._idle = self._idle, False
            if idle and waits and not self._gather_for:
                entry.taken = True
                self._in_hand = [entry]
                return True
            if idle:
                self._wake.release()
            self._bytes += size
            entry.taken = True
            self._queue.append(entry)
            if self._gather_for and self._bytes >= self._batch_bytes:
                self._changed.notify_all()
            if not idle and len(self._queue) % _TURN_ENTRIES == 0:
                # A caller that goes on computing keeps the interpreter's lock for its 5 ms, and the
                # writer, back from the disk, waits for it that long.
                self._changed.wait(_TURN)
        return False

    def pass_on(self) -> None:
        """This caller has written; whatever came meanwhile is for the taker."""
        with self._lock:
            self._in_hand = []
            wake = bool(self._queue) or self._closed
            self._idle = not wake
        if wake:
            self._wake.release()

    def withdraw(self, entry: Entry) -> bool:
        with self._lock:
            for index, queued in enumerate(self._queue):
                if queued is entry:
                    del self._queue[index]
                    self._bytes -= entry.size
                    self._changed.notify_all()
                    return True
        return False

    def take(self) -> list[Entry]:
        """The next batch, waiting for it; nothing when closed and all is taken."""
        while True:
            with self._lock:
                if self._queue:
                    return self._take()
                if self._closed:
                    return []
                self._idle = True
            self._wake.acquire()
            if self._gather_for:
                self._gather()

    def finish(self, count: int) -> bool:
        """So many of those in hand are written, or failed; whether it is for the caller to tell."""
        with self._lock:
            del self._in_hand[:count]
            return not self._given_up

    def close(self) -> None:
        """Nothing is put any more; what is queued can still be taken."""
        with self._lock:
            self._closed = True
            if self._idle:
                self._idle = False
                self._wake.release()
            self._changed.notify_all()

    def wake_all(self) -> None:
        """Those who wait for room are to look whether there ever will be any."""
        with self._lock:
            self._changed.notify_all()

    def give_up(self) -> tuple[list[Entry], list[Entry]]:
        """What is in hand, and what is queued: both are for the caller to complete, and nobody else."""
        with self._lock:
            self._closed = self._given_up = True
            in_hand, self._in_hand = self._in_hand, []
            queued = list(self._queue)
            self._queue.clear()
            self._bytes = 0
            self._changed.notify_all()
        return in_hand, queued

    def _is_full(self) -> bool:
        return bool(self._queue) and (len(self._queue) >= _MOST or self._bytes >= _MOST_BYTES)

    def _gather(self) -> None:
        """Wait for more to write at once, but not behind a full batch."""
        with self._lock:
            self._changed.wait_for(lambda: self._closed or self._bytes >= self._batch_bytes, self._gather_for)

    def _take(self) -> list[Entry]:
        if self._bytes <= self._batch_bytes:
            taken, size = list(self._queue), self._bytes
            self._queue.clear()
        else:
            taken, size = [], 0
            while self._queue and (not taken or size + self._queue[0].size <= self._batch_bytes):
                entry = self._queue.popleft()
                size += entry.size
                taken.append(entry)
        self._bytes -= size
        self._in_hand = list(taken)
        self._changed.notify_all()
        return taken
