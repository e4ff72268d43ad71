"""The periodic search of a queue for expired messages that no consumer asks for."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future, Task, TimerHandle
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jdbcstore.abc import MessageStore, Page
from jdbcstore.broker.cursors.store import AllPages, InFlight, StoreCursor
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.queues.dispatcher import Dispatcher
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import StoreError
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class ExpirySweep:
    """A search every ``expire_messages_period``: first in memory, then in the store, page by page.

    Files are searched from their front, as long as all in front has expired. The store is left alone while
    memory has all that it has.
    """

    _loop: BrokerLoop
    _policy: PolicyEntry
    _dispatcher: Dispatcher
    _in_flight: InFlight
    _store: MessageStore | None
    _take: Callable[[Message], Entry]
    _on_expired: Callable[[Sequence[Entry]], Future[None]]

    def __post_init__(self) -> None:
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
        while expired := self._dispatcher.take_expired():
            await self._on_expired(expired)
            await asyncio.sleep(0)  # there may be millions
        if self._store is None or self._dispatcher.is_empty:
            return
        cursor = self._dispatcher.stored.cursor
        if isinstance(cursor, StoreCursor) and cursor.holds_all:
            return
        most = self._policy.max_expire_page_size
        async for page in AllPages(self._read, self._store.recover_expired, most):
            found = self._found(page)
            if found:
                await self._on_expired(found)

    async def _read(self, read: Callable[[], Page]) -> Page:
        async with self._loop.searching:
            self._in_flight.begin_reading()
            try:
                return await self._loop.run(read)
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
