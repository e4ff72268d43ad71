"""How long to wait before something is tried again, and whether it is."""

from __future__ import annotations

import random
import time

_FIRST = 0.01


class Backoff:
    """Pauses that double up to the longest, each shortened at random so that not all come back at once.

    ``patience`` is for how many seconds it is tried again, counted from the first failure: what a network
    that swallows everything has taken before does not count.
    """

    def __init__(self, longest: float, *, first: float = _FIRST, patience: float = float("inf")) -> None:
        self._longest = longest
        self._first = first
        self._patience = patience
        self.reset()

    def reset(self) -> None:
        """It has worked: begin anew."""
        self._next = min(self._first, self._longest)
        self._deadline: float | None = None

    def is_over(self) -> bool:
        """Whether it has been tried for long enough; asked after each failure."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._patience
        return time.monotonic() >= self._deadline

    def pause(self) -> float:
        """Seconds to wait before the next attempt."""
        pause, self._next = self._next, min(self._next * 2, self._longest)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311
