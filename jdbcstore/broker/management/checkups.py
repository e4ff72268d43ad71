"""Checkups of the store's database, and of the streams of its journals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from jdbcstore.abc import Examined, Streamed
from jdbcstore.broker.management.probes import CachedProbe
from jdbcstore.errors import StoreError
from jdbcstore.util.checkup import WARNING, Checkup, Diagnosis
from jdbcstore.util.clock import Clock
from jdbcstore.util.stream_health import StreamHealth

_PATIENCE = 2.0
"""Seconds for which a page waits, because an ailing database may answer slowly."""

Run = Callable[[Callable[[], Checkup]], Awaitable[Checkup]]
"""Calls a function in a thread."""


class Checkups:
    """The last checkup, at most fifteen seconds old when requested; used on one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._probe: CachedProbe[Checkup] = CachedProbe(clock, period=15.0, patience=_PATIENCE)

    async def of(self, store: object, run: Run) -> Checkup | None:
        """Return the checkup of a store's database.

        None if the store has no database, or the first checkup takes more than two seconds.
        """
        return await self._probe.last(partial(_examine, store, run)) if isinstance(store, Examined) else None


async def _examine(store: Examined, run: Run) -> Checkup:
    try:
        return await run(store.examine)
    except StoreError as error:
        unknown = Diagnosis(
            name="not examined",
            severity=WARNING,
            text=f"The state of the database could not be read: {error}",
            cure="run jdbcstore doctor",
        )
        return Checkup({}, (unknown,))


class StreamProbe:
    """The last state of a store's streams, at most two seconds old; used on one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._probe: CachedProbe[list[StreamHealth]] = CachedProbe(clock, period=2.0, patience=5.0)

    async def of(self, store: object) -> list[StreamHealth]:
        """Return the state of the streams from their servers; empty without streams, or after five seconds
        without an answer."""
        if not isinstance(store, Streamed):
            return []
        return await self._probe.last(partial(_probe_streams, store)) or []


async def _probe_streams(store: Streamed) -> list[StreamHealth]:
    try:
        # In a separate pool, because servers may not answer and the broker's threads must read messages.
        return await asyncio.to_thread(store.streams)
    except StoreError:  # the store was closed meanwhile
        return []
