"""Clocks that can be injected: tests pass a controlled clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for stored timestamps, monotonic time for waiting."""

    def now_ms(self) -> int:
        """Return wall-clock time in epoch milliseconds."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
