"""A clock that moves only when a test advances it."""

from __future__ import annotations


class FakeClock:
    """A clock as :class:`jdbcstore.util.clock.Clock` promises; wall and monotonic time advance together."""

    def __init__(self, now_ms: int = 1_750_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 1000.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move the clock forward by this many seconds."""
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds
