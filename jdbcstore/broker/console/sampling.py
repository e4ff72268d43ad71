"""Samples of a broker's counters for its charts, taken while it serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from aiohttp import web

from jdbcstore.broker.console.history import INTERVAL, CounterHistory
from jdbcstore.broker.management.reading import Views
from jdbcstore.errors import NotMaster
from jdbcstore.util.clock import Clock

_BEHIND = 0.1


class Sampler:
    """Adds the counters of a broker to a history, always at the same point of an interval."""

    def __init__(self, views: Views, history: CounterHistory, clock: Clock) -> None:
        self._views = views
        self._history = history
        self._clock = clock

    async def sampling(self, _: web.Application) -> AsyncIterator[None]:
        """Take samples while an application runs."""
        task = asyncio.create_task(self._sample(), name="jdbcstore-console")
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _sample(self) -> None:
        while True:
            self._take()
            # A sample that slips into the next interval leaves a gap.
            await asyncio.sleep(INTERVAL - self._clock.monotonic() % INTERVAL + _BEHIND)

    def _take(self) -> None:
        try:
            tallies = self._views.tallies()
            total = self._views.broker(monotonic=True)
        except NotMaster:
            return
        size = sum(size for size, _ in tallies.values())
        self._history.add(self._clock.monotonic(), tallies, (size, total))
