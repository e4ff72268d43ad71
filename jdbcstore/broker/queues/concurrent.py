"""Concurrent store and dispatch: messages delivered to a consumer while they are being written.

A message is dispatched immediately if no message waits before it. An acknowledgement before the beginning of
the write cancels both; a later one is written after it.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial

from jdbcstore.abc import MessageReference, MessageStore
from jdbcstore.broker.entry import Entry, PendingWrite
from jdbcstore.broker.loop import BrokerLoop, complete
from jdbcstore.broker.queues.dispatcher import Dispatcher
from jdbcstore.broker.queues.pending import PendingMessages
from jdbcstore.broker.store_io.outbox import StoreLine
from jdbcstore.errors import OutcomeUnknown
from jdbcstore.message.message import Message


class ConcurrentSends:
    """The concurrent sends to one queue.

    :param resync: reads messages that a write of unknown outcome may have committed
    """

    def __init__(
        self,
        loop: BrokerLoop,
        line: StoreLine,
        store: MessageStore,
        pending: PendingMessages,
        dispatcher: Dispatcher,
        resync: Callable[[], None],
    ) -> None:
        self._loop, self._line, self._store = loop, line, store
        self._source, self._dispatcher, self._resync = pending, dispatcher, resync

    def send(self, message: Message, promise: Future[None]) -> bool:
        """Dispatch and write a message; return False if it must wait for its turn."""
        entry = Entry(message, self._source, 0, stored=True)
        subscription = self._dispatcher.consumer_of_next(entry)
        if subscription is None:
            return False
        writing = entry.begin_write(self._loop.create_future())
        self._source.memory.increase(entry.size)
        self._line.submit(
            partial(writing.start, partial(self._store.add_message_async, message)),
            entry.size,
            partial(self._written, entry, writing, promise),
        )
        if not writing.done.done():  # otherwise it was rejected
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
        # Without a reference it was withdrawn, rejected, or a duplicate to the store.
        sequence = reference.sequence if reference is not None and reference.sequence >= 0 else None
        entry.end_write(sequence)
        if error is None or isinstance(error, CancelledError):
            self._source.counters.enqueued += 1
        if sequence is not None:
            self._dispatcher.dispatched_early(entry)
        if isinstance(error, OutcomeUnknown):
            self._resync()
        writing.done.set_result(None)
        complete(promise, None if isinstance(error, CancelledError) else error)
