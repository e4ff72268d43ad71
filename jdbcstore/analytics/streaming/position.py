"""The position of a stream: its upper bound, and the gaps of IDs in which a message may still appear.

IDs are assigned before they are committed. One jdbcstore writer commits them in order; the connections of an
ActiveMQ do not, and a reader that remembers only the highest ID it saw skips rows that commit late. Nothing
in a database tells such an ID from that of a message that was consumed. So a stream does not wait for a
missing ID: it reads the present messages, and its offset has the gaps that it has passed. A message that
appears in one is read with the next batch. A gap is forgotten when no message can appear in it:

1. its neighbour was first seen ``settleSeconds`` ago (the moment between assigning an ID and beginning the
transaction that stores it shows in no database), and 2. every transaction that had begun by then has ended.
PostgreSQL's snapshots report that. MySQL and MariaDB show uncommitted rows on request, and none may be in it.
SQLite has one writer at a time, so there is nothing to check."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from jdbcstore.analytics.streaming.offsets import Gaps, Offset, gaps_between
from jdbcstore.analytics.streaming.reading import Sight, StreamDatabase
from jdbcstore.errors import StoreError


@dataclass(slots=True)
class _Seen:
    """A highest ID, when it was first seen, and the transactions that had begun ``settleSeconds`` later."""

    highest: int
    at: float
    begun: int | None = None


class Horizon:
    """The settled ID, up to which no message can appear any more, derived from successive observations."""

    def __init__(self, settle: float) -> None:
        self.settled = 0
        self._settle = settle
        self._waiting: deque[_Seen] = deque()
        """Ascending in all of their fields."""

    def see(self, sight: Sight, now: float) -> None:
        """Record an observation made at this monotonic time, in seconds."""
        newest = self._waiting[-1].highest if self._waiting else self.settled
        if sight.highest > newest:
            self._waiting.append(_Seen(sight.highest, now))
        for seen in self._waiting:
            if now - seen.at < self._settle:
                break
            if seen.begun is None:
                seen.begun = sight.begun
        while self._waiting:
            begun = self._waiting[0].begun
            if begun is None or sight.unfinished < begun:
                return
            self.settled = self._waiting.popleft().highest


NOWHERE = -1
"""The ID of the offset of a stream that starts after everything present when its first batch is planned."""
_MOST_GAPS = 10_000
"""Gaps of an offset: where there are more, the stream waits until the first of them are settled."""


class Position:
    """Finds the end of the next batch for the planner of one stream."""

    def __init__(self, database: StreamDatabase, settle: float) -> None:
        self._database = database
        self._horizon = Horizon(settle)
        self._start: Offset | None = None
        """The last offset; the next three describe the table beyond it."""
        self._passed = 0
        """The stream has nothing up to here."""
        self._gaps = Gaps()
        """The gaps up to there."""
        self._below: int | None = None
        """The highest ID up to the offset at that time."""
        self._until: int | None = None

    def stop_at_present(self) -> None:
        """End the stream at the messages that are present now."""
        sight = self._database.sight()
        self._horizon.see(sight, time.monotonic())
        self._until = sight.highest

    def is_waiting(self, start: Offset) -> bool:
        """Return whether the stream has not yet passed all messages at which it ends."""
        return self._until is not None and max(start.id, self._passed) < self._until

    def after(self, start: Offset, rows: int) -> Offset:
        """Return the end of a batch of at most ``rows`` new messages after ``start``; ``start`` without any.

        :raises StoreError: a message appeared below the stream's offset
        """
        # First: the horizon of transactions holds for later reads.
        sight = self._database.sight()
        if start.id == NOWHERE:
            return Offset(sight.highest)
        self._horizon.see(sight, time.monotonic())
        if self._start != start:
            self._start, self._passed, self._gaps, self._below = start, start.id, start.gaps, None
        self._look_back(start)
        stored = self._database.stored_among(self._gaps)
        until = max(sight.highest, self._horizon.settled) if self._until is None else self._until
        passed, new = self._scan(until, rows)
        cut = self._database.cut(self._passed, passed, rows)
        if cut is not None:
            passed, new = cut, new.up_to(cut)
        gaps = self._unsettled(self._gaps.without(stored) + new)
        ours = self._database.ours(stored)
        if cut is not None or ours:
            return Offset(passed, gaps, tuple(id_ for id_ in ours if id_ <= start.id))
        # Nothing for this stream: its offset does not move, and no batch is made.
        self._passed, self._gaps = passed, gaps
        return start

    def _scan(self, until: int, rows: int) -> tuple[int, Gaps]:
        """Scan for about ``rows`` messages of all destinations; return the last ID, and the gaps."""
        passed, new, seen = self._passed, Gaps(), 0
        while passed < until and seen < rows:
            ids, end = self._database.run(passed, until)
            new += gaps_between(passed, ids, end)
            passed, seen = end, seen + len(ids)
        unsettled = new.after(self._horizon.settled).ranges
        room = max(0, _MOST_GAPS - len(self._gaps))
        if len(unsettled) > room:
            passed = unsettled[room][0] - 1
        return passed, new.up_to(passed)

    def _unsettled(self, gaps: Gaps) -> Gaps:
        """Return the gaps in which a message may appear."""
        settled = self._horizon.settled
        uncommitted = self._database.uncommitted_among(gaps.up_to(settled))
        return Gaps((id_, id_) for id_ in uncommitted) + gaps.after(settled)

    def _look_back(self, start: Offset) -> None:
        """Check that no message has appeared below the offset outside its gaps: it would not be read."""
        highest = self._database.highest_below(start.id)
        before, self._below = self._below, highest
        if before is not None and highest > before and highest not in self._gaps:
            raise StoreError(
                f"the message with ID {highest} appeared when the stream was at offset {start.id} already,"
                " and is missing from it: it was stored more than settleSeconds after its ID was assigned,"
                " or a broker that was restarted on empty tables assigns the same IDs again. Read it with"
                " startingOffsets and a new checkpoint, or restart the stream to continue without it"
            )
