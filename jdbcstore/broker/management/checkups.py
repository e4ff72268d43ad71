"""Checkups of the store's database: one at a time, and not at each page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jdbcstore.abc import Examined
from jdbcstore.errors import StoreError
from jdbcstore.util.checkup import WARNING, Checkup, Diagnosis
from jdbcstore.util.clock import Clock

_PERIOD = 15.0
_PATIENCE = 2.0
"""Seconds for which a page waits: a database that is sick may take long to say so."""

Run = Callable[[Callable[[], Checkup]], Awaitable[Checkup]]
"""Calls a function in a thread."""


class Checkups:
    """The last checkup, at most fifteen seconds old when it is asked for; used on one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: Checkup | None = None
        self._began = -_PERIOD
        self._running: asyncio.Task[None] | None = None

    async def of(self, store: object, run: Run) -> Checkup | None:
        """Return what is wrong with the database of a store.

        None if the store has no database, or the first checkup takes more than two seconds.
        """
        if not isinstance(store, Examined):
            return None
        now = self._clock.monotonic()
        if self._running is None and now - self._began >= _PERIOD:
            self._began = now
            self._running = asyncio.create_task(self._examine(store, run))
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=_PATIENCE)
        return self._last

    async def _examine(self, store: Examined, run: Run) -> None:
        try:
            self._last = await run(store.examine)
        except StoreError as error:
            unknown = Diagnosis(
                name="not examined",
                severity=WARNING,
                text=f"The state of the database could not be read: {error}",
                cure="jdbcstore doctor, which says more",
            )
            self._last = Checkup({}, (unknown,))
        finally:
            self._running = None
