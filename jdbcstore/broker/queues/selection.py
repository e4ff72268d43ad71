"""Selections: messages of a queue that an administrator wants, taken from the reach of its consumers.

First those in memory, then those in the store, page by page. What is taken counts as in flight: no page
brings it to a consumer. Each page is compared with memory and taken in one step, between which the queue
dispatches as always.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from jdbcstore.abc import MessageStore
from jdbcstore.broker.cursors.store import AllPages
from jdbcstore.broker.entry import Entry, Wanted
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.queues.pending import PendingMessages
from jdbcstore.errors import CorruptMessage, MessageNotFound
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message

Act = Callable[[Sequence[Entry]], Future[None]]
"""The fate of entries that were taken; completes when that is durable, or has failed."""
_T = TypeVar("_T")


@dataclass(eq=False, repr=False)
class QueueSelection:
    """Takes the wanted messages of one queue."""

    _loop: BrokerLoop
    _pending: PendingMessages

    async def run(
        self,
        wanted: Callable[[Message], bool],
        act: Act,
        last: int,
        last_transient: int,
        most: int | None,
        ids: Sequence[MessageId] | None,
        goes_on: Callable[[int, int], bool],
    ) -> int:
        """Take at most so many messages and pass them to ``act`` in batches; returns their number.

        :param last: the sequence up to which all messages have arrived: a later one may still be on its way
            from the store to the queue, which would then have it twice
        :param last_transient: the same for messages that are not stored
        :param goes_on: called after each batch with the numbers of messages that were taken, and looked at;
            whether to go on with the next
        :raises StoreError: the store cannot be read, or as ``act`` does
        """
        count = 0

        def chosen(entry: Entry) -> bool:
            nonlocal count
            if count == most or entry.sequence > (last if entry.stored else last_transient):
                return False
            if not wanted(entry.message):
                return False
            count += 1
            return True

        async for taken, number in self._batches(chosen, ids):
            if taken:
                await act(taken)
            if not goes_on(len(taken), number) or count == most:
                break
        return count

    async def _batches(
        self, chosen: Wanted, ids: Sequence[MessageId] | None
    ) -> AsyncIterator[tuple[list[Entry], int]]:
        """Yield what is taken, and of how many messages: from memory, then from each page of the store."""
        while taken := self._from_memory(chosen):
            yield taken, len(taken)
            if self._pending.transient.head() is None:  # it reads more from files, if there are any
                break
        rows = self._pending.rows
        if rows is not None:
            async for page in self._pages(rows.store, ids):
                # Those of the page that are in memory are taken from there, or are not wanted.
                yield [*self._from_memory(chosen), *self._pending.take_stored(page, chosen)], len(page)

    def _from_memory(self, chosen: Wanted) -> list[Entry]:
        return [*self._pending.take(chosen), *self._pending.rejections.take(chosen)]

    async def _pages(
        self, store: MessageStore, ids: Sequence[MessageId] | None
    ) -> AsyncIterator[Sequence[Message]]:
        if ids is not None:
            yield await self._read(partial(find_messages, store, ids))
            return
        async for page in AllPages(self._read, store.recover, self._pending.policy.max_page_size):
            yield page

    async def _read(self, read: Callable[[], _T]) -> _T:
        self._pending.in_flight.begin_reading()
        try:
            return await self._loop.run(read)
        finally:
            self._pending.in_flight.end_reading()


def find_messages(store: MessageStore, ids: Sequence[MessageId]) -> list[Message]:
    """Return the stored messages with these ids, in order; read in a thread."""
    found = []
    for each in ids:
        try:
            found.append(store.get_message(each))
        except (CorruptMessage, MessageNotFound):
            continue
    return sorted(found, key=lambda message: message.sequence or 0)
