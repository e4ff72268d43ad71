"""The memory of a store in memory, and its limit."""

from __future__ import annotations

import asyncio
import threading
from asyncio import Task
from collections.abc import Callable

from jdbcstore.abc import InMemory
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.memory import MemoryUsage

_PERIOD = 0.5
"""Seconds between two searches for acknowledged messages while the store is full."""


class StoreOccupancy:
    """Counts the bytes of a store in memory, and triggers a cleanup while it is full.

    :param cleanup: removes messages from the store that all durable subscribers have acknowledged
    :param stored: the usage that counts the bytes
    """

    def __init__(
        self, loop: BrokerLoop, store: InMemory, cleanup: Callable[[], int], stored: MemoryUsage
    ) -> None:
        self._loop = loop
        self._store = store
        self._cleanup = cleanup
        self._stored = stored
        self._thread = threading.get_ident()
        self._making_room: Task[None] | None = None
        self._is_stopping = False

    def start(self) -> None:
        """Start counting."""
        self._store.watch_memory(self._changed)
        self._changed()

    async def stop(self) -> None:
        """Stop counting and cleaning."""
        self._is_stopping = True
        self._store.watch_memory(None)
        if self._making_room is not None:
            self._making_room.cancel()
            await asyncio.gather(self._making_room, return_exceptions=True)

    def _changed(self) -> None:
        """Count again; called in any thread."""
        if threading.get_ident() == self._thread:
            self._count()
        else:
            self._loop.events.call_soon_threadsafe(self._count)

    def _count(self) -> None:
        if self._is_stopping:
            return
        self._stored.set(self._store.memory_size)
        if self._stored.is_full and self._making_room is None:
            self._making_room = self._loop.create_task(self._make_room())

    async def _make_room(self) -> None:
        try:
            while self._stored.is_full and not self._is_stopping:
                await self._loop.run(self._cleanup)
                await asyncio.sleep(_PERIOD)
        finally:
            self._making_room = None
