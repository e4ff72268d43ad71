"""The periodic search for expired messages without a consumer."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Task, TimerHandle
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from jdbcstore.abc import Page
from jdbcstore.broker.cursors.store import AllPages
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.queues.pending import PendingMessages
from jdbcstore.errors import StoreError

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class ExpirySweep:
    """A search every ``expire_messages_period``.

    A search may raise :class:`StoreError` if not all messages were found or moved; the next search continues.
    """

    _loop: BrokerLoop
    _period: float
    _search: Callable[[], Awaitable[None]]

    def __post_init__(self) -> None:
        self._timer: TimerHandle | None = None
        self._task: Task[None] | None = None
        self._wait()

    def _wait(self) -> None:
        if self._period > 0:
            self._timer = self._loop.call_later(self._period, self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._search()
        except StoreError as error:
            log.warning("the search for expired messages failed and will be repeated: %s", error)
        self._wait()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


@dataclass(eq=False, repr=False)
class QueueExpiry:
    """The search of a queue: first in memory, then in the store, page by page.

    Files are searched from their front, as long as all messages in front have expired. The store is not read
    while memory has all its messages.
    """

    _loop: BrokerLoop
    _pending: PendingMessages

    async def search(self) -> None:
        """Search once."""
        pending = self._pending
        while expired := pending.take_expired():
            await pending.rejections.move_expired(expired)
            await asyncio.sleep(0)  # there may be millions
        rows, cursor = pending.rows, pending.cursor
        if rows is None or cursor is None or pending.is_empty or cursor.holds_all:
            return
        most = pending.policy.max_expire_page_size
        async for page in AllPages(self._read, rows.store.recover_expired, most):
            expired = pending.take_stored(cursor.not_waiting(page))
            if expired:
                await pending.rejections.move_expired(expired)

    async def _read(self, read: Callable[[], Page]) -> Page:
        async with self._loop.searching:
            self._pending.in_flight.begin_reading()
            try:
                return await self._loop.run(read)
            finally:
                self._pending.in_flight.end_reading()
