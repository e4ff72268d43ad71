"""Exponential backoff: the pauses between retries, and the end of retrying."""

from __future__ import annotations

import random
import time


class Backoff:
    """Pauses that double up to ``longest`` seconds, with jitter, so that clients do not retry all at once.

    Retrying ends ``timeout`` seconds after the first failure; the time that a network without answers took
    before that failure does not count.
    """

    def __init__(self, longest: float, *, first: float = 0.01, timeout: float = float("inf")) -> None:
        self._longest = longest
        self._first = first
        self._timeout = timeout
        self.reset()

    def reset(self) -> None:
        """Start again with the first pause, after a success."""
        self._next = min(self._first, self._longest)
        self._deadline: float | None = None

    def is_over(self) -> bool:
        """Return whether the timeout has passed; to be called after each failure, which starts it at
        first."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._timeout
        return time.monotonic() >= self._deadline

    def pause(self) -> float:
        """Return the seconds to wait before the next attempt."""
        pause, self._next = self._next, min(self._next * 2, self._longest)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311
