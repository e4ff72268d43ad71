"""Timings: how often something was done, with how many items, and how long it took, in buckets."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the buckets, in seconds; one more bucket has what took longer."""


class Timings:
    """Counters of one kind of work, for one thread that adds to them, and any that read them."""

    __slots__ = ("buckets", "count", "items", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.items = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(BOUNDS) + 1)
        """Number of times in each bucket; a bucket does not include the shorter ones."""

    def add(self, seconds: float, items: int) -> None:
        """Record one more operation."""
        self.count += 1
        self.items += items
        self.seconds += seconds
        self.buckets[bisect_left(BOUNDS, seconds)] += 1

    def quantile(self, fraction: float) -> float | None:
        """Return the upper bound of the bucket that has this quantile; None if nothing was done, or it took
        longer than all bounds."""
        wanted, seen = fraction * self.count, 0
        for bound, count in zip(BOUNDS, self.buckets, strict=False):
            seen += count
            if seen >= wanted and seen:
                return bound
        return None
