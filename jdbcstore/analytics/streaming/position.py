"""The position of a stream: up to which ID the table is settled, with no lower ID still to be committed.

IDs are assigned before they are committed. One jdbcstore writer commits them in order; the connections of an
ActiveMQ do not, and a reader that remembers only the highest ID it saw skips rows that commit late. So an ID
is read when

1. every ID between it and the last one read is there, or 2. it was first seen ``settleSeconds`` ago (the
moment between assigning an ID and beginning the transaction that stores it shows in no database), and every
transaction that had begun by then has ended. PostgreSQL's snapshots report that. MySQL and MariaDB show
uncommitted rows on request, and none may be below it. SQLite has one writer at a time, so there is nothing to
check."""

from __future__ import annotations

import time
from collections import deque

from jdbcstore.analytics.streaming.reading import Sight, StreamDatabase
from jdbcstore.errors import StoreError


class Horizon:
    """The settled ID, derived from successive observations."""

    def __init__(self, settle: float) -> None:
        self.settled = 0
        self._settle = settle
        self._waiting: deque[tuple[float, Sight]] = deque()
        """Observations with the time when their highest ID was first seen, ascending in both."""

    def see(self, sight: Sight, now: float) -> None:
        """Record an observation made at this monotonic time, in seconds."""
        newest = self._waiting[-1][1].highest if self._waiting else self.settled
        if sight.highest > newest:
            self._waiting.append((now, sight))
        while self._waiting:
            seen, first = self._waiting[0]
            if now - seen < self._settle or sight.unfinished < first.begun:
                return
            self.settled = first.highest
            self._waiting.popleft()


NOWHERE = -1
"""The offset of a stream that starts after everything present when its first batch is planned."""


class Position:
    """Finds the end of the next batch for the planner of one stream."""

    def __init__(self, database: StreamDatabase, settle: float) -> None:
        self._database = database
        self._horizon = Horizon(settle)
        self._read: tuple[int, int] | None = None
        """The last offset, and the highest ID up to it at that time."""
        self._empty = 0
        """There is nothing to read up to here."""
        self._until: int | None = None

    def stop_at_present(self) -> None:
        """End the stream at the messages that are present now."""
        sight = self._database.sight()
        self._horizon.see(sight, time.monotonic())
        self._until = sight.highest

    def is_waiting(self, start: int) -> bool:
        """Whether the messages on which the stream ends are not all settled yet."""
        return self._until is not None and max(start, self._empty) < self._until

    def after(self, start: int, rows: int) -> int:
        """The last ID of a batch after ``start``; ``start`` if nothing settled can be read.

        :raises StoreError: a message appeared below the stream's offset
        """
        sight = self._database.sight()
        if start == NOWHERE:
            return sight.highest
        self._look_back(start)
        self._horizon.see(sight, time.monotonic())
        passed = max(start, self._empty)
        until = max(sight.highest, self._horizon.settled) if self._until is None else self._until
        settled = max(passed, min(self._horizon.settled, until))
        end = self._database.end_of_run(settled, until, rows)
        return start if end == passed else self._committed(start, passed, end, rows)

    def _committed(self, start: int, passed: int, end: int, rows: int) -> int:
        cut = self._database.cut(passed, end, rows)
        last = end if cut is None else cut
        uncommitted = self._database.first_uncommitted(passed, last)
        if uncommitted is not None:
            last = uncommitted - 1
        if cut is None or last <= passed:
            # Nothing for this stream: its offset does not move, and no batch is made.
            self._empty = last
            return start
        return last

    def _look_back(self, start: int) -> None:
        """Below the offset messages may only disappear: a new one would never be read."""
        highest = self._database.highest_below(start)
        before, self._read = self._read, (start, highest)
        if before is not None and before[0] == start and highest > before[1]:
            raise StoreError(
                f"the message with ID {highest} appeared when the stream was at offset {start} already, and"
                " is missing from it: it was stored more than settleSeconds after its ID was assigned, or a"
                " broker that was restarted on empty tables assigns the same IDs again. Read it with"
                " startingOffsets and a new checkpoint, or restart the stream to continue without it"
            )
