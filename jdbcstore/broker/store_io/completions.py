"""What is under way to the store, and how its ends come back to the loop.

The store completes futures on a thread of its own; what is waiting for them runs on the loop, in the store's
order.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

from jdbcstore.errors import StoreError
from jdbcstore.util.futures import Arrivals, StoreFuture

Start = Callable[[], StoreFuture[Any]]
End = Callable[[Any, BaseException | None], None]
"""(result, None) or (None, what went wrong), on the loop."""


class StoreLine:
    """Hands work to the store in order, never so much that the store's own queue is full and blocks.

    For the loop alone. What does not fit waits here. ``on_defect`` is called with what an ``end`` raises.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        max_count: int,
        max_bytes: int,
        on_defect: Callable[[Exception], None],
    ) -> None:
        self._arrivals = Arrivals(loop)
        self._on_defect = on_defect
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._count = 0
        self._bytes = 0
        self._deferred: deque[tuple[Start, int, End]] = deque()
        self._idle: Callable[[], None] | None = None

    def submit(self, start: Start, size: int, end: End) -> None:
        """Call ``start`` when there is room, and ``end`` once its future is done."""
        if self._deferred or self._count >= self._max_count or self._bytes >= self._max_bytes:
            self._deferred.append((start, size, end))
        else:
            self._start(start, size, end)

    @property
    def is_idle(self) -> bool:
        return not self._count and not self._deferred

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once, when nothing is under way any more."""
        self._idle = callback
        self._tell_idle()

    def _start(self, start: Start, size: int, end: End) -> None:
        try:
            future = start()
        except StoreError as error:
            end(None, error)
            return
        self._count += 1
        self._bytes += size
        # Without the future itself: a cycle would keep its messages in memory.
        future.add_done_callback(lambda done: self._arrivals.add(partial(self._ended, size, end, done)))

    def _ended(self, size: int, end: End, future: Future[Any]) -> None:
        self._count -= 1
        self._bytes -= size
        error = CancelledError() if future.cancelled() else future.exception()
        try:
            end(None if error else future.result(), error)
        except Exception as defect:
            # Whoever waited for this one is told of no success; the others still have to hear of theirs.
            self._on_defect(defect)
        while self._deferred and self._count < self._max_count and self._bytes < self._max_bytes:
            try:
                self._start(*self._deferred.popleft())
            except Exception as defect:
                self._on_defect(defect)
        if self._idle is not None:
            self._tell_idle()

    def _tell_idle(self) -> None:
        if self.is_idle and self._idle is not None:
            callback, self._idle = self._idle, None
            callback()
