"""Selections: messages of a queue that are hidden from its consumers for an administrator.

Messages in memory come first, then stored ones, page by page. Taken messages count as in flight, so no page
returns them to a consumer. Each page is compared with memory and taken in one step; between steps the queue
dispatches as usual.

The messages are processed in consecutive commits, and a client's commit waits for the running one. So each
commit covers as many messages as take a few hundredths of a second.
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
"""Processes taken entries; completes when that is durable, or has failed."""
_T = TypeVar("_T")
_TARGET = 0.02
"""Target seconds of a batch, for which a client's commit may wait."""
_FIRST, _LEAST = 50, 5


class BatchSize:
    """The size of an operation's next batch, from the duration of the last ones.

    :param most: the largest
    """

    def __init__(self, most: int) -> None:
        self._most = max(most, 1)
        self.value = min(_FIRST, self._most)

    def took(self, count: int, seconds: float) -> None:
        """Record a batch. A batch that waited for other work changes the next one by half at most."""
        wanted = int(count * _TARGET / max(seconds, 1e-6))
        wanted = min(max(wanted, self.value // 2, _LEAST), 2 * self.value)
        self.value = min(wanted, self._most)


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
        """Take messages, up to a limit, and pass them to ``act`` in batches; return their number.

        :param last: the sequence up to which all messages have arrived; a later message may still be on its
            way from the store to the queue, which would then have it twice
        :param last_transient: the same for transient messages
        :param goes_on: called after each batch with the numbers of taken and examined messages; returns
            whether to continue
        :raises StoreError: the store cannot be read, or ``act`` raises it
        """
        count = 0
        size = BatchSize(self._pending.policy.max_page_size)

        def chosen(entry: Entry) -> bool:
            nonlocal count
            if count == most or entry.sequence > (last if entry.stored else last_transient):
                return False
            if not wanted(entry.message):
                return False
            count += 1
            return True

        async for taken, number in self._pages_of(chosen, ids):
            goes, at = True, 0
            while at < len(taken):
                batch = taken[at : at + size.value]
                at += len(batch)
                try:
                    await self._act(act, batch, size)
                except BaseException:
                    self._pending.retain(taken[at:])
                    raise
                goes = goes_on(len(batch), number)
                number = 0
                if not (goes or self._pending.is_window):  # there may be any number of them in memory
                    count -= len(taken) - at
                    self._pending.give_back(taken[at:])
                    break
            if number:
                goes = goes_on(0, number)
            if not goes or count == most:
                break
        return count

    async def _act(self, act: Act, batch: list[Entry], size: BatchSize) -> None:
        began = self._loop.events.time()
        await act(batch)
        size.took(len(batch), self._loop.events.time() - began)

    async def _pages_of(
        self, chosen: Wanted, ids: Sequence[MessageId] | None
    ) -> AsyncIterator[tuple[list[Entry], int]]:
        """Yield taken entries and the number of examined messages: from memory, then from each page of the
        store."""
        while taken := self._from_memory(chosen):
            yield taken, len(taken)
            if self._pending.transient.head() is None:  # this reads more from files, if there are any
                break
        rows = self._pending.rows
        if rows is not None:
            async for page in self._pages(rows.store, ids):
                # Messages of the page that are in memory are taken from there, or are not wanted.
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
    messages = []
    for each in ids:
        try:
            messages.append(store.get_message(each))
        except (CorruptMessage, MessageNotFound):
            continue
    return sorted(messages, key=lambda message: message.sequence or 0)
