"""Low-water marks: where a process begins to look for messages, in each priority of a queue.

Rows that were removed while an old snapshot is open stay in the table's indexes, and a look from the start
reads them all. A mark avoids that. It is a hint: a message may be returned before it, become due, or be
committed late by a producer that took its ID early. So a mark trails by a moment, and a look every few
seconds ignores it.

Between the mark and the first free message are other processes' claims; with many processes these are
many. So where these were far from each other the last time, a claim begins behind the last claim
that is within twice that distance.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jdbcstore.database.statements.claims import LANES
from jdbcstore.util.clock import Clock

LOOK_AGAIN = 2.0
"""Seconds between two looks from the start, if one takes little time, and few processes look."""
FEW = 16
"""Processes up to which each looks so often: what one finds, the others need not."""
_LONGEST = 10.0
_PATIENCE = 20
"""The time until the next look from the start, as a multiple of the last one's duration."""
_FAR = 64
"""IDs between a mark and a free message from which on it is a leap."""
_TRAIL = 0.2
"""Seconds by which a mark trails: producers at the same time commit in another order than their IDs'."""


class Begin(NamedTuple):
    """The places from where messages are looked for, in the order of :data:`LANES`."""

    marks: list[int]
    leaps: list[int] = [0] * len(LANES)
    """The first free message may be as far as this from its mark; 0 where it is near."""

    def near(self) -> Begin:
        """Return the same without leaps."""
        return Begin(self.marks)

    def after(self, last: dict[int, int]) -> Begin:
        """Begin after these IDs of some lanes."""
        marks = [max(last.get(lane, -1) + 1, mark) for lane, mark in zip(LANES, self.marks, strict=True)]
        return Begin(marks)


START = Begin([0] * len(LANES))


class Marks:
    """The marks of one queue in one process. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._used = dict.fromkeys(LANES, 0)
        self._next = dict.fromkeys(LANES, 0)
        self._advance_at = float("-inf")
        self._look_at = self._usual = float("-inf")
        self._leaps: dict[int, int] = {}
        self._begin: Begin | None = None
        self._period = LOOK_AGAIN

    def begin(self) -> tuple[Begin, bool]:
        """Return where to begin, and whether that is the start."""
        now = self._clock.monotonic()
        if now >= self._look_at:
            self._look_at = self._usual = now + self._period
            return START, True
        if now >= self._advance_at:
            self._used, self._advance_at = {**self._next}, now + _TRAIL
            self._begin = None
        if self._begin is None:
            leaps = [self._leaps.get(lane, 0) for lane in LANES]
            self._begin = Begin([self._used[lane] for lane in LANES], leaps)
        return self._begin, False

    def found(self, keys: Iterable[tuple[int, int]], *, from_start: bool) -> None:
        """Note the priorities and IDs of claimed messages, in order."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for lane, id_ in keys:
            first.setdefault(lane, id_)
            last[lane] = id_ + 1
        for lane, after in last.items():
            if (gap := first[lane] - self._used[lane]) >= _FAR or self._leaps:
                self._leaps.pop(lane, None)
                if gap >= _FAR:
                    self._leaps[lane] = 2 * gap
                self._begin = None
            if from_start:
                # An early message may be the first of many.
                self._used[lane], self._next[lane] = min(self._used[lane], first[lane]), after
                self._begin = None
            else:
                self._next[lane] = max(self._next[lane], after)

    def looked(self, seconds: float) -> None:
        """Note how long a look from the start took: where many claims are held, that is long."""
        if self._look_at == self._usual:  # no caller asked for an earlier one
            self._look_at = max(self._usual, self._clock.monotonic() + min(_LONGEST, seconds * _PATIENCE))

    def shared_by(self, processes: int) -> None:
        """Note how many processes look from the start."""
        self._period = min(_LONGEST, LOOK_AGAIN * max(1.0, processes / FEW))

    def look_again(self, after: float = 0.0) -> None:
        """Begin from the start after so many seconds, at the latest."""
        self._look_at = min(self._look_at, self._clock.monotonic() + after)

    @property
    def looks_in(self) -> float:
        """Seconds until the next look from the start."""
        return max(0.0, self._look_at - self._clock.monotonic())
