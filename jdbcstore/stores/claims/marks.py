"""Low-water marks: where a process begins to look for messages, in each priority of a queue.

Rows that were removed while an old snapshot is open stay in the table's indexes, and a look from the start
reads them all. A mark avoids that. It is a hint: a message may be returned before it, become due, or be
committed late by a producer that took its ID early. So a mark trails by a moment, and a look every few
seconds ignores it.
"""

from __future__ import annotations

from collections.abc import Iterable

from jdbcstore.database.statements.claims import LANES
from jdbcstore.util.clock import Clock

LOOK_AGAIN = 2.0
"""Seconds between two looks from the start."""
_TRAIL = 0.2
"""Seconds by which a mark trails: producers at the same time commit in another order than their IDs'."""


class Marks:
    """The marks of one queue in one process. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._used = dict.fromkeys(LANES, 0)
        self._next = dict.fromkeys(LANES, 0)
        self._advance_at = float("-inf")
        self._look_at = float("-inf")

    def begin(self) -> tuple[list[int], bool]:
        """Return where to begin, in the order of :data:`LANES`; and whether that is the start."""
        now = self._clock.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_AGAIN
            return [0] * len(LANES), True
        if now >= self._advance_at:
            self._used, self._advance_at = {**self._next}, now + _TRAIL
        return [self._used[lane] for lane in LANES], False

    def found(self, keys: Iterable[tuple[int, int]], *, from_start: bool) -> None:
        """Note the priorities and IDs of what was claimed, in order."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for lane, id_ in keys:
            first.setdefault(lane, id_)
            last[lane] = id_ + 1
        for lane, after in last.items():
            if from_start:
                # What was found early may be the first of many.
                self._used[lane], self._next[lane] = min(self._used[lane], first[lane]), after
            else:
                self._next[lane] = max(self._next[lane], after)

    def look_again(self, after: float = 0.0) -> None:
        """Begin from the start after so many seconds, at the latest."""
        self._look_at = min(self._look_at, self._clock.monotonic() + after)

    @property
    def looks_in(self) -> float:
        """Seconds until the next look from the start."""
        return max(0.0, self._look_at - self._clock.monotonic())
