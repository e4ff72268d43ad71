"""Browsers: subscriptions that show the messages of queues without consuming."""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial

from jdbcstore.abc import MessageStore, Store
from jdbcstore.broker.api import Delivery
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.cursors.store import AllPages
from jdbcstore.broker.entry import Entry, TransientSource
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.errors import StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message


@dataclass(eq=False, repr=False)
class Browser(BaseSubscription):
    """A subscription to copies, first of stored messages, then of transient ones.

    It shows the messages that existed when it began. An acknowledgement only makes room for more.
    """

    _store: Store
    _page_size: int
    _last_sequence: int
    """The last sequence in the store when the broker started: earlier messages may have been delivered."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._shows: list[Callable[[int], Awaitable[None]]] = []
        """For each queue, the copies of its messages up to a sequence."""
        self._room = asyncio.Event()
        self._task: Task[None] | None = None

    def browse(
        self, queue: Destination, store: MessageStore | None, transient: Callable[[], list[Message]]
    ) -> None:
        """Show this queue too: its stored messages, and the others in memory, in order.

        A queue that is created later is not shown.
        """
        self._shows.append(partial(self._show, queue, store, transient))

    def begin(self) -> None:
        super().begin()
        if not self.closed:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            last = await self._loop.run(self._store.last_sequence)
            for show in self._shows:
                await show(last)
            if not self.closed:
                self.consumer.browsed()
        except StoreError as error:
            self.end(error)

    async def _show(
        self,
        queue: Destination,
        store: MessageStore | None,
        transient: Callable[[], list[Message]],
        last: int,
    ) -> None:
        shown = _Shown(self._loop, queue, self._resources.memory, Counters(), self._room)
        self.queues.append(shown)
        messages, known = transient(), self._last_sequence
        if store is not None:
            async for page in AllPages(self._loop.run, store.recover, self._page_size):
                await self._deliver_all(
                    Entry(message, shown, sequence, stored=True, redelivered=sequence <= known)
                    for message in page
                    if (sequence := message.sequence or 0) <= last
                )
                if self.closed:
                    return
        await self._deliver_all(Entry(message, shown, 0, stored=False) for message in messages)

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

    def close(self, unseen: Collection[Delivery] = (), *, has_left: bool = False) -> None:
        super().close(unseen, has_left=has_left)
        self._room.set()


@dataclass(eq=False, repr=False)
class _Shown(TransientSource):
    """The copies of one queue's messages for one browser."""

    _room: asyncio.Event

    def has_room(self, subscription: BaseSubscription) -> None:  # noqa: ARG002
        self._room.set()

    def leave(self, subscription: BaseSubscription) -> None: ...

    def when_settled(self, callback: Callable[[], None]) -> None: ...
