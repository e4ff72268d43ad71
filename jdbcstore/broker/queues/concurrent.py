"""Concurrent store and dispatch: a message is with a consumer while it is being written.

It is given out at once where nothing comes before it. An acknowledgement that comes before the write
has begun cancels both; one that comes later is written behind it.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial

from jdbcstore.abc import MessageReference, MessageStore
from jdbcstore.broker.entry import Entry, Source
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.queues.dispatcher import Dispatcher
from jdbcstore.errors import OutcomeUnknown
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture


class Writing:
    """The write of an entry that is with a consumer, or was, before it is known to be stored."""

    def __init__(self, done: Future[None]) -> None:
        self.done = done
        """Never fails; the entry then knows whether it is stored, and its sequence."""
        self.under_way: StoreFuture[MessageReference] | None = None
        self.is_withdrawn = False

    def withdraw(self) -> bool:
        """Do not write it, unless that has begun."""
        if self.under_way is not None and not self.under_way.cancel():
            return False
        self.is_withdrawn = True
        return True

    def start(self, write: Callable[[], StoreFuture[MessageReference]]) -> StoreFuture[MessageReference]:
        if self.is_withdrawn:
            withdrawn: StoreFuture[MessageReference] = StoreFuture()
            withdrawn.cancel()
            return withdrawn
        self.under_way = write()
        return self.under_way


class ConcurrentSends:
    """For one queue, on the loop."""

    def __init__(
        self,
        parts: Parts,
        source: Source,
        store: MessageStore,
        memory: MemoryUsage,
        dispatcher: Dispatcher,
        lose_sight: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._source = source
        self._store = store
        self._memory = memory
        self._dispatcher = dispatcher
        self._lose_sight = lose_sight

    def send(self, message: Message, promise: Future[None]) -> bool:
        """Give it out and write it; False if it has to wait its turn."""
        entry = Entry(message, self._source, 0, stored=True)
        subscription = self._dispatcher.taker_of_next(entry)
        if subscription is None:
            return False
        writing = entry.writing = Writing(self._parts.loop.create_future())
        self._memory.take(entry.size)
        self._parts.line.submit(
            partial(writing.start, partial(self._store.add_message_async, message)),
            entry.size,
            partial(self._written, entry, writing, promise),
        )
        if not writing.done.done():  # else it was refused
            subscription.deliver(entry)
        return True

    def _written(
        self,
        entry: Entry,
        writing: Writing,
        promise: Future[None],
        reference: MessageReference | None,
        error: BaseException | None,
    ) -> None:
        entry.writing = None
        if reference is not None and reference.sequence >= 0:
            entry.sequence = reference.sequence
            self._dispatcher.cover(entry)
        else:
            # Acknowledged before, refused, or known to the store already.
            entry.stored = False
        if isinstance(error, OutcomeUnknown):
            self._lose_sight()
        writing.done.set_result(None)
        self._parts.settle(promise, None if isinstance(error, CancelledError) else error)


def when_written(entries: Sequence[Entry], callback: Callable[[Entry], None]) -> Sequence[Entry]:
    """Those entries that are not being written; the callback gets each of the others when it is."""
    writing = [entry for entry in entries if entry.writing is not None]
    for entry in writing:
        if entry.writing is not None:
            entry.writing.done.add_done_callback(partial(_call_back, callback, entry))
    return [entry for entry in entries if entry.writing is None] if writing else entries


def _call_back(callback: Callable[[Entry], None], entry: Entry, _: Future[None]) -> None:
    callback(entry)
