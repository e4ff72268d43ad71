"""Looks at what may be slow to answer: one at a time, and not at each page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from jdbcstore.util.clock import Clock

T = TypeVar("T")


class Looks(Generic[T]):
    """The result of the last look, at most ``period`` seconds old when it is asked for, on one event loop.

    :param patience: the seconds for which who asks waits for a look
    """

    def __init__(self, clock: Clock, *, period: float, patience: float) -> None:
        self._clock = clock
        self._period = period
        self._patience = patience
        self._last: T | None = None
        self._began = -period
        self._running: asyncio.Task[None] | None = None

    async def last(self, look: Callable[[], Awaitable[T]]) -> T | None:
        """Return the last result; None if the first look takes longer than the patience.

        :param look: looks again, and does not raise
        """
        now = self._clock.monotonic()
        if self._running is None and now - self._began >= self._period:
            self._began = now
            self._running = asyncio.create_task(self._look(look))
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=self._patience)
        return self._last

    async def _look(self, look: Callable[[], Awaitable[T]]) -> None:
        try:
            self._last = await look()
        finally:
            self._running = None
