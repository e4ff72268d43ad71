"""The writer's queue: units that wait for a batch, and callers that wait for room."""

from __future__ import annotations

import threading
import time
from collections import deque
from math import inf
from typing import Any

from jdbcstore.stores.jdbc.writer.units import Call, WriteUnit
from jdbcstore.util.futures import Waiter

_BATCH_UNITS = 256
"""Few enough that a caller with a thousand pending futures fills one batch while another commits."""
_BATCH_BYTES = 8 * 1024 * 1024
_YIELDS = 4
"""Times that other threads may run before a commit."""


class Follower(Waiter[Any]):
    """A caller that waits until its unit is written, or until it is to write itself."""

    __slots__ = ("leads", "thread")

    def __init__(self, thread: int) -> None:
        super().__init__()
        self.thread = thread
        self.leads = False
        """It is to write the queue; its unit is the first, or is written before its turn comes."""

    def lead(self) -> None:
        """Have it write; its unit is in the queue, and the writer's lock is held."""
        self.leads = True
        self._lock.release()

    def set_result(self, result: Any, /) -> None:
        self._result = result
        if not self.leads:
            self._lock.release()

    def set_exception(self, exception: BaseException, /) -> None:
        self._exception = exception
        if not self.leads:
            self._lock.release()

    def wait(self) -> None:
        """Wait for either."""
        self._lock.acquire()

    def outcome(self) -> Any:
        """Return the result, or raise the error, once there is one."""
        if self._exception is not None:
            raise self._exception
        return self._result


class WriteQueue:
    """Units in the order in which they are to be written. To be used under the writer's lock.

    A signal may interrupt a caller between any two steps; each leaves it consistent.
    """

    def __init__(self, *, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._bytes = 0
        self.rows = 0
        """The messages that they add or remove, roughly: cancelled ones count."""
        self._waiting: list[threading.Lock] = []
        """Locks that callers wait for while it is full."""
        self.units: deque[WriteUnit | Call] = deque()
        """The units, the next first."""

    def put(self, unit: WriteUnit | Call, size: int) -> bool:
        """Append a unit, if there is room; return whether there was."""
        units = self.units
        if units and (len(units) >= self._max_count or self._bytes >= self._max_bytes):
            return False
        self._bytes += size
        self.rows += unit.rows
        units.append(unit)
        return True

    def wait_for_room(self) -> threading.Lock:
        """Return a lock that can be acquired when there may be room again."""
        room = threading.Lock()
        room.acquire()
        self._waiting.append(room)
        return room

    def gather(self, count: int) -> int:
        """Let the callers go on that have just got their answers, so that they share this commit.

        Otherwise the caller that has committed for them commits alone next, and they take turns forever. Call
        it without the lock. Return how many units are queued.

        :param count: stop when there are so many
        """
        for _ in range(_YIELDS):
            if len(self.units) >= count:
                break
            time.sleep(0)
        return len(self.units)

    def make_room(self) -> None:
        """Let the callers that wait for room try again."""
        waiting, self._waiting = self._waiting, []
        for room in waiting:
            room.release()

    def take_batch(
        self, completed: type[Waiter[Any]] | None = None, *, most: float = inf
    ) -> list[WriteUnit | Call]:
        """Remove and return the next batch, or one call; empty if everything was cancelled.

        :param completed: only units with such a completion
        :param most: the messages of a full batch
        """
        units, size, rows = self.units, 0, 0
        batch: list[WriteUnit | Call] = []
        while units and len(batch) < _BATCH_UNITS and size < _BATCH_BYTES and rows < most:
            alone = isinstance(units[0], Call)
            if (alone and batch) or (completed and not isinstance(units[0].completion, completed)):
                break
            unit = units.popleft()
            size += unit.size
            rows += unit.rows
            if unit.take():
                batch.append(unit)
            if alone:
                break
        # An interrupted caller may have counted bytes and rows that it never queued.
        self._bytes, self.rows = (self._bytes - size, self.rows - rows) if units else (0, 0)
        if self._waiting:
            self.make_room()
        return batch

    def clear(self) -> list[WriteUnit | Call]:
        """Remove all units; return those not cancelled."""
        abandoned = [unit for unit in self.units if unit.take()]
        self.units.clear()
        self._bytes = self.rows = 0
        self.make_room()
        return abandoned
