"""A cache for slow checks, which runs one check at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from jdbcstore.util.clock import Clock

T = TypeVar("T")


class CachedProbe(Generic[T]):
    """The result of the last check, at most ``period`` seconds old when requested, on one event loop.

    :param patience: the seconds for which a caller waits for a check
    """

    def __init__(self, clock: Clock, *, period: float, patience: float) -> None:
        self._clock = clock
        self._period = period
        self._patience = patience
        self._last: T | None = None
        self._began = -period
        self._running: asyncio.Task[None] | None = None

    async def last(self, probe: Callable[[], Awaitable[T]]) -> T | None:
        """Return the last result; None if the first check takes longer than the patience.

        :param probe: the check, which must not raise
        """
        now = self._clock.monotonic()
        if self._running is None and now - self._began >= self._period:
            self._began = now
            self._running = asyncio.create_task(self._probe(probe))
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=self._patience)
        return self._last

    async def _probe(self, probe: Callable[[], Awaitable[T]]) -> None:
        try:
            self._last = await probe()
        finally:
            self._running = None
