"""The queues that an administrator has paused, recorded in the store for the next master."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import partial

from jdbcstore.abc import PausedQueue, Pausing, Store
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.message.destination import Destination

KnownPauses = MutableMapping[Destination, PausedQueue]
"""The user who paused each queue, and the time."""


class Pauses:
    """The paused queues of a broker, by name. Every method is called on the loop.

    :param known: the paused queues of this process, for a store that does not record them
    """

    def __init__(self, store: Store, loop: BrokerLoop, known: KnownPauses) -> None:
        self._store = store
        self._loop = loop
        self.known = known
        """The user who paused each queue, and the time."""

    def __contains__(self, queue: Destination) -> bool:
        return queue in self.known

    def __iter__(self) -> Iterator[Destination]:
        return iter(self.known)

    async def load(self) -> None:
        """Read the paused queues from the store.

        :raises StoreError: it cannot be read
        """
        if isinstance(self._store, Pausing):
            kept = await self._loop.run(self._store.paused_queues)
            self.known.clear()
            self.known.update((pause.queue, pause) for pause in kept)

    async def add(self, queue: Destination, user: str, now_ms: int) -> None:
        """Record that a queue is paused.

        :raises StoreError: the store could not record it; it is paused until this process ends
        """
        self.known[queue] = PausedQueue(queue, user, now_ms)
        if isinstance(self._store, Pausing) and not queue.is_temporary:
            await self._loop.run(partial(self._store.pause_queue, queue, user))

    async def remove(self, queue: Destination) -> None:
        """Forget that a queue is paused; do nothing if it is not.

        :raises StoreError: the store still has the record, so the next master pauses it again
        """
        if self.known.pop(queue, None) is not None and isinstance(self._store, Pausing):
            await self._loop.run(partial(self._store.resume_queue, queue))
