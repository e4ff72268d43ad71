"""The writer's queue: units that wait for a batch, and callers that wait for room."""

from __future__ import annotations

import threading
from collections import deque

from jdbcstore.stores.jdbc.writer.units import Call, WriteUnit

_BATCH_UNITS = 256
"""Few enough that a caller with a thousand pending futures fills one batch while another commits."""
_BATCH_BYTES = 8 * 1024 * 1024


class WriteQueue:
    """Units in the order in which they are to be written. To be used under the writer's lock.

    A signal may interrupt a caller between any two steps; each leaves it consistent.
    """

    def __init__(self, *, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._bytes = 0
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
        units.append(unit)
        return True

    def wait_for_room(self) -> threading.Lock:
        """Return a lock that can be acquired when there may be room again."""
        room = threading.Lock()
        room.acquire()
        self._waiting.append(room)
        return room

    def make_room(self) -> None:
        """Let the callers that wait for room try again."""
        waiting, self._waiting = self._waiting, []
        for room in waiting:
            room.release()

    def take_batch(self) -> list[WriteUnit | Call]:
        """Remove and return the next batch, or one call; empty if everything was cancelled."""
        units, size = self.units, 0
        batch: list[WriteUnit | Call] = []
        while units and len(batch) < _BATCH_UNITS and size < _BATCH_BYTES:
            alone = isinstance(units[0], Call)
            if alone and batch:
                break
            unit = units.popleft()
            size += unit.size
            if unit.take():
                batch.append(unit)
            if alone:
                break
        # An interrupted caller may have counted bytes that it never queued.
        self._bytes = self._bytes - size if units else 0
        if self._waiting:
            self.make_room()
        return batch

    def clear(self) -> list[WriteUnit | Call]:
        """Remove all units, and return those that were not cancelled."""
        abandoned = [unit for unit in self.units if unit.take()]
        self.units.clear()
        self._bytes = 0
        self.make_room()
        return abandoned

    def rows(self, most: int) -> int:
        """Return how many messages the queued batches add or remove, as far as that is below ``most``."""
        rows = 0
        for unit in self.units:
            rows += unit.rows
            if rows >= most:
                break
        return rows
