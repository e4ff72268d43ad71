"""Concurrent store and dispatch: messages delivered to a consumer while they are being written.

A message is dispatched at once if none waits before it. An acknowledgement that comes before the write has
begun cancels both; a later one is written after it.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial

from jdbcstore.abc import MessageReference, MessageStore
from jdbcstore.broker.entry import Entry, EntrySource, PendingWrite
from jdbcstore.broker.loop import BrokerLoop, settle
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.queues.dispatcher import Dispatcher
from jdbcstore.broker.store_io.outbox import StoreLine
from jdbcstore.errors import OutcomeUnknown
from jdbcstore.message.message import Message


@dataclass(eq=False, repr=False)
class ConcurrentSends:
    """The concurrent sends to one queue."""

    _loop: BrokerLoop
    _line: StoreLine
    _source: EntrySource
    _store: MessageStore
    _memory: MemoryUsage
    _dispatcher: Dispatcher
    _resync: Callable[[], None]

    def send(self, message: Message, promise: Future[None]) -> bool:
        """Dispatch and write a message; False if it has to wait its turn."""
        entry = Entry(message, self._source, 0, stored=True)
        subscription = self._dispatcher.taker_of_next(entry)
        if subscription is None:
            return False
        writing = entry.begin_write(self._loop.create_future())
        self._memory.increase(entry.size)
        self._line.submit(
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
        writing: PendingWrite,
        promise: Future[None],
        reference: MessageReference | None,
        error: BaseException | None,
    ) -> None:
        # Without one it was withdrawn, refused, or a duplicate to the store.
        sequence = reference.sequence if reference is not None and reference.sequence >= 0 else None
        entry.end_write(sequence)
        if error is None or isinstance(error, CancelledError):
            self._source.counters.enqueued += 1
        if sequence is not None:
            self._dispatcher.dispatched_early(entry)
        if isinstance(error, OutcomeUnknown):
            self._resync()
        writing.done.set_result(None)
        settle(promise, None if isinstance(error, CancelledError) else error)


def when_written(entries: Sequence[Entry], callback: Callable[[Entry], None]) -> Sequence[Entry]:
    """The entries that are not being written; the callback gets each of the others once it is written."""
    writing = [entry for entry in entries if entry.writing is not None]
    for entry in writing:
        if entry.writing is not None:
            entry.writing.done.add_done_callback(lambda _, entry=entry: callback(entry))  # type: ignore[misc]
    return [entry for entry in entries if entry.writing is None] if writing else entries
