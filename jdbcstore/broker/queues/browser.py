"""Browsers: subscriptions that show a client what queues hold, and consume nothing."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Task
from collections.abc import Iterable
from typing import Protocol

from jdbcstore.abc import Cursor, MessageStore, Store
from jdbcstore.broker.api import Consumer, SubscriptionRequest
from jdbcstore.broker.cursors.store import PageSize
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.memory import Entry, MemoryUsage, Resources, TransientSource, size_of
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.errors import StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector

log = logging.getLogger(__name__)

_PAGE_BYTES = 1024 * 1024
"""The size of a page; at least one message."""


class Browsed(Protocol):
    """A queue as a browser reads it."""

    @property
    def destination(self) -> Destination: ...

    @property
    def store(self) -> MessageStore | None: ...

    def transient_messages(self) -> list[Message]:
        """The messages in memory that are not stored, in order."""


class Browser(BaseSubscription):
    """A subscription to copies: first of the stored messages, then of the transient ones.

    It shows the messages that existed when it began. An acknowledgement only makes room for more.

    :param last_sequence: the last sequence in the store when the broker started: earlier messages may have
        been delivered before
    """

    def __init__(
        self,
        loop: BrokerLoop,
        resources: Resources,
        store: Store,
        request: SubscriptionRequest,
        consumer: Consumer,
        prefetch: int,
        selector: Selector | None,
        page_size: int,
        last_sequence: int,
    ) -> None:
        super().__init__(loop, resources, request, consumer, prefetch, selector)
        self._store = store
        self._last_sequence = last_sequence
        self._page_size = page_size
        self._pages = PageSize()
        self._queues: list[Browsed] = []
        self._room = asyncio.Event()
        self._task: Task[None] | None = None

    def browse(self, queue: Browsed) -> None:
        """Show this queue too. A queue that is created later is not shown."""
        self._queues.append(queue)

    def begin(self) -> None:
        super().begin()
        if not self.closed:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            last = await self._loop.run(self._store.last_sequence)
            for queue in self._queues:
                await self._show(queue, last)
            if not self.closed:
                self.consumer.browsed()
        except StoreError as error:
            self.end(error)

    async def _show(self, queue: Browsed, last: int) -> None:
        shown = _Shown(self._loop, queue.destination, self._resources.memory, self._room)
        self.queues.append(shown)
        transient = queue.transient_messages()
        if queue.store is not None:
            await self._show_stored(queue.store, shown, last)
        await self._deliver_all(Entry(message, shown, 0, stored=False) for message in transient)

    async def _show_stored(self, store: MessageStore, shown: _Shown, last: int) -> None:
        after: Cursor | None = None
        while not self.closed:
            limit = self._pages.most(self._page_size, _PAGE_BYTES)
            page = await self._loop.run(lambda after=after, limit=limit: store.recover(limit, after))  # type: ignore[misc]
            self._pages.saw(max(map(size_of, page), default=0))
            known = self._last_sequence
            await self._deliver_all(
                Entry(message, shown, sequence, stored=True, redelivered=sequence <= known)
                for message in page
                if (sequence := message.sequence or 0) <= last
            )
            if page.at_end:
                return
            after = page.cursor

    async def _deliver_all(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if not self.wants(entry.message):
                continue
            while self.room <= 0:
                if self.closed:
                    return
                self._room.clear()
                await self._room.wait()
            self._resources.memory.hold(entry)
            self.deliver(entry)

    def close(self) -> None:
        super().close()
        self._room.set()


class _Shown(TransientSource):
    """The copies of one queue's messages for one browser."""

    def __init__(
        self, loop: BrokerLoop, destination: Destination, memory: MemoryUsage, room: asyncio.Event
    ) -> None:
        super().__init__(loop, destination, memory)
        self._room = room

    def has_room(self, subscription: BaseSubscription) -> None:  # noqa: ARG002
        self._room.set()

    def leave(self, subscription: BaseSubscription) -> None: ...
