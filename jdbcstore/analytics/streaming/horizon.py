"""Up to which ID a table is settled: that no message with a lower one can still come.

IDs are given before they are committed. One writer of jdbcstore commits them in order; the connections
of an ActiveMQ do not, and a reader that only remembers the highest ID it saw passes by what commits
late. So an ID is read when

1. every ID between it and what was read before is there, or
2. it was first seen so many seconds ago (from the giving of an ID to the beginning of the transaction
   that stores it goes a moment, which no database shows), and every transaction that had begun by then
   is over. PostgreSQL's snapshots say so. MySQL and MariaDB show rows that are not committed to who asks
   for them, and none of those may be below it. SQLite has one writer at a time, and nothing to ask.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class Sight(NamedTuple):
    """What one look at the table showed."""

    highest: int
    """The highest ID; 0 where there is none."""
    begun: int
    """Every transaction that had begun has a lower number than this."""
    unfinished: int
    """Every transaction with a lower number is over."""


class Horizon:
    """The settled ID, learned from one sight after another."""

    def __init__(self, settle: float) -> None:
        self.settled = 0
        self._settle = settle
        self._waiting: deque[tuple[float, Sight]] = deque()
        """When an ID was first seen, in ascending order of both."""

    def see(self, sight: Sight, now: float) -> None:
        """Take note of a sight. ``now`` is a monotonic clock's."""
        newest = self._waiting[-1][1].highest if self._waiting else self.settled
        if sight.highest > newest:
            self._waiting.append((now, sight))
        while self._waiting:
            seen, first = self._waiting[0]
            if now - seen < self._settle or sight.unfinished < first.begun:
                return
            self.settled = first.highest
            self._waiting.popleft()


def end_of_run(start: int, ids: Iterable[int]) -> int:
    """The last of these ascending IDs that follows on ``start`` without a gap."""
    for id_ in ids:
        if id_ != start + 1:
            break
        start = id_
    return start
