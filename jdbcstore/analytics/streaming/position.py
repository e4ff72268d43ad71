"""Where a stream goes on to from where it is."""

from __future__ import annotations

import time

from jdbcstore.analytics.streaming.horizon import Horizon
from jdbcstore.analytics.streaming.reading import StreamDatabase
from jdbcstore.errors import StoreError

NOWHERE = -1
"""Where a stream stands that starts behind whatever is there when its first batch is planned."""


class Position:
    """Finds the end of the next batch; one planner's, who asks again and again."""

    def __init__(self, database: StreamDatabase, settle: float) -> None:
        self._database = database
        self._horizon = Horizon(settle)
        self._read: tuple[int, int] | None = None
        """Where the stream was, and the highest ID there was up to there."""
        self._empty = 0
        """Up to here there is nothing to read."""
        self._until: int | None = None

    def stop_at_present(self) -> None:
        """Go no further than the messages that are there now."""
        sight = self._database.sight()
        self._horizon.see(sight, time.monotonic())
        self._until = sight.highest

    def is_waiting(self, start: int) -> bool:
        """Whether there are messages on which the stream is to end, and which are not settled yet."""
        return self._until is not None and max(start, self._empty) < self._until

    def after(self, start: int, rows: int) -> int:
        """The last ID of a batch behind ``start``; ``start`` where nothing that is settled can be read.

        :raises StoreError: a message has come behind which the stream already was
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
            # Nothing for this stream: its offset stays, and no batch is made of it.
            self._empty = last
            return start
        return last

    def _look_back(self, start: int) -> None:
        """Messages behind the stream are only removed. A new one would never be read."""
        highest = self._database.highest_below(start)
        before, self._read = self._read, (start, highest)
        if before is not None and before[0] == start and highest > before[1]:
            raise StoreError(
                f"the message with ID {highest} came when the stream was at {start} already, and is not"
                " in it: either it was stored more than settleSeconds after its ID was given, or a broker"
                " that was restarted on empty tables gives IDs anew. Read it with startingOffsets and a"
                " new checkpoint, or start the stream again to go on without it"
            )
