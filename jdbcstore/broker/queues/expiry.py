"""The periodic search of a queue for expired messages that no consumer asks for."""

from __future__ import annotations

import logging
from asyncio import Future, Task, TimerHandle
from collections.abc import Callable, Sequence

from jdbcstore.abc import Cursor, MessageStore, Page
from jdbcstore.broker.cursors.store import InFlight, PageSize, StoreCursor
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.memory import Entry, size_of
from jdbcstore.broker.queues.dispatcher import Dispatcher
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import StoreError
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)

_PAGE_BYTES = 1024 * 1024
"""The size of a page; at least one message."""


class ExpirySweep:
    """A search every ``expire_messages_period``: first in memory, then in the store, page by page."""

    def __init__(
        self,
        loop: BrokerLoop,
        policy: PolicyEntry,
        dispatcher: Dispatcher,
        in_flight: InFlight,
        store: MessageStore | None,
        take: Callable[[Message], Entry],
        on_expired: Callable[[Sequence[Entry]], Future[None]],
    ) -> None:
        self._loop = loop
        self._policy = policy
        self._dispatcher = dispatcher
        self._in_flight = in_flight
        self._store = store
        self._take = take
        self._on_expired = on_expired
        self._pages = PageSize()
        self._timer: TimerHandle | None = None
        self._task: Task[None] | None = None
        self._wait()

    def _wait(self) -> None:
        if self._policy.expire_messages_period > 0:
            self._timer = self._loop.call_later(self._policy.expire_messages_period, self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self.sweep()
        except StoreError as error:
            log.warning("the search for expired messages failed and will be repeated: %s", error)
        self._wait()

    async def sweep(self) -> None:
        """Search once.

        :raises StoreError: not all were found or moved
        """
        expired = self._dispatcher.take_expired()
        if expired:
            await self._on_expired(expired)
        if self._store is None or self._dispatcher.is_empty:
            return
        after: Cursor | None = None
        while True:
            page = await self._read(self._store, after)
            self._pages.saw(max(map(size_of, page), default=0))
            found = self._found(page)
            if found:
                await self._on_expired(found)
            if page.at_end:
                return
            after = page.cursor

    async def _read(self, store: MessageStore, after: Cursor | None) -> Page:
        limit = self._pages.most(self._policy.max_expire_page_size, _PAGE_BYTES)
        self._in_flight.begin_reading()
        try:
            return await self._loop.run(lambda: store.recover_expired(limit, after))
        finally:
            self._in_flight.end_reading()

    def _found(self, page: Page) -> list[Entry]:
        """The messages of a page that are nowhere else in the broker; they are in flight from now on."""
        cursor = self._dispatcher.stored.cursor
        found = []
        for message in cursor.not_waiting(page) if isinstance(cursor, StoreCursor) else page:
            sequence = message.sequence or 0
            if sequence not in self._in_flight:
                self._in_flight.add(sequence)
                found.append(self._take(message))
        return found

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
