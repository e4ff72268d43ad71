"""Entries in delivery order, in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import merge
from operator import attrgetter

from jdbcstore.broker.entry import Entry

_sequence = attrgetter("sequence")


class Lanes:
    """One lane, or ten, one for each priority; in a lane by sequence."""

    __slots__ = ("_lanes", "count", "size")

    def __init__(self, lanes: int = 1) -> None:
        self._lanes: list[deque[Entry]] = [deque() for _ in range(lanes)]
        self.count = 0
        self.size = 0

    def lane_of(self, entry: Entry) -> int:
        return entry.message.priority if len(self._lanes) > 1 else 0

    def is_before(self, one: Entry, other: Entry) -> bool:
        """Whether it is delivered first."""
        lane, other_lane = self.lane_of(one), self.lane_of(other)
        return lane > other_lane if lane != other_lane else one.sequence < other.sequence

    def append(self, entry: Entry) -> None:
        """Add one behind all of its priority."""
        self._lanes[self.lane_of(entry)].append(entry)
        self.count += 1
        self.size += entry.size

    def insert(self, entries: Sequence[Entry]) -> None:
        """Add some in their places, which are likely to be near the front."""
        ordered = sorted(entries, key=_sequence)
        for number, lane in enumerate(self._lanes):
            mine = [entry for entry in ordered if self.lane_of(entry) == number]
            if not mine:
                continue
            before: list[Entry] = []
            while lane and lane[0].sequence < mine[-1].sequence:
                before.append(lane.popleft())
            lane.extendleft(reversed(list(merge(before, mine, key=_sequence))))
        self.count += len(ordered)
        self.size += sum(entry.size for entry in ordered)

    def head(self) -> Entry | None:
        if self.count:
            for lane in reversed(self._lanes):
                if lane:
                    return lane[0]
        return None

    def pop(self) -> Entry:
        """Take the head.

        :raises IndexError: there is none
        """
        for lane in reversed(self._lanes):
            if lane:
                entry = lane.popleft()
                self.count -= 1
                self.size -= entry.size
                return entry
        raise IndexError("nothing waits here")

    def take_expired(self, now_ms: int) -> list[Entry]:
        """Take out those whose expiration has passed."""
        expired = [entry for entry in self if 0 < entry.message.expiration_ms < now_ms]
        if expired:
            gone = set(expired)
            self._lanes = [deque(entry for entry in lane if entry not in gone) for lane in self._lanes]
            self.count -= len(expired)
            self.size -= sum(entry.size for entry in expired)
        return expired

    def clear(self) -> None:
        for lane in self._lanes:
            lane.clear()
        self.count = self.size = 0

    def __iter__(self) -> Iterator[Entry]:
        for lane in reversed(self._lanes):
            yield from lane
