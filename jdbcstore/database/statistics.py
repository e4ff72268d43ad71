"""Planner statistics that keep up with a table that fills and drains in seconds.

A database's own upkeep looks in once a minute. Until then it takes a table of a million messages
for the empty one it knows, and plans each page accordingly.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

_FIRST = 2_000
_MOST = 100_000


class StatisticsRefresher:
    """Counts changed rows, and refreshes on a thread of its own after 2,000, 4,000, ... 100,000."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh
        self._changed = 0
        self._threshold = _FIRST
        self._thread: threading.Thread | None = None

    def count(self, rows: int) -> None:
        """So many rows were added or removed; called by one thread."""
        self._changed += rows
        if self._changed < self._threshold or (self._thread is not None and self._thread.is_alive()):
            return
        self._changed = 0
        self._threshold = min(self._threshold * 2, _MOST)
        self._thread = threading.Thread(target=self._refresh, name="jdbcstore-statistics", daemon=True)
        with contextlib.suppress(RuntimeError):  # the program ends, and takes no thread any more
            self._thread.start()

    def stop(self) -> None:
        """Wait for a refresh that is under way."""
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
