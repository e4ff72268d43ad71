"""Messages that were dropped while their consumer had them, read again when they are needed."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial

from jdbcstore.abc import MessageStore
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.subscription import pass_on
from jdbcstore.errors import CorruptMessage, MessageNotFound
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)

Entries = Sequence[Entry]


class Filling:
    """For the entries of one queue, or of one durable subscription of a topic.

    :param on_failure: what becomes of entries whose messages cannot be read now
    :param on_gone: what becomes of those that the store has no more
    """

    def __init__(
        self,
        parts: Parts,
        memory: MemoryUsage,
        on_failure: Callable[[Entries], None],
        on_gone: Callable[[Entries], None],
    ) -> None:
        self._parts = parts
        self._memory = memory
        self._on_failure = on_failure
        self._on_gone = on_gone

    def then(
        self, store: MessageStore | None, entries: Entries, go_on: Callable[[Entries], Future[None]]
    ) -> Future[None]:
        """Go on with them when all have their messages, which mostly is at once."""
        hollow = [entry for entry in entries if entry.is_hollow]
        if not hollow or store is None:
            return go_on(entries)
        promise: Future[None] = self._parts.loop.create_future()
        sequences = [entry.sequence for entry in hollow]
        reading = self._parts.run(lambda: [_read(store, sequence) for sequence in sequences])
        end = partial(self._end, entries, hollow, go_on, promise)
        reading.add_done_callback(self._parts.guarded(end))
        return promise

    def _end(
        self,
        entries: Entries,
        hollow: Entries,
        go_on: Callable[[Entries], Future[None]],
        promise: Future[None],
        reading: Future[list[Message | None]],
    ) -> None:
        if reading.cancelled():
            promise.cancel()
            return
        error = reading.exception()
        if error is not None:
            if isinstance(error, CorruptMessage):
                log.error("a message cannot be read and stays where it is: %s", error)
            else:
                self._on_failure(entries)
            self._parts.settle(promise, error)
            return
        gone: list[Entry] = []
        for entry, message in zip(hollow, reading.result(), strict=True):
            if message is None:
                gone.append(entry)
            else:
                entry.fill(message, self._memory)
        if gone:
            self._on_gone(gone)
        go_on([entry for entry in entries if entry not in gone]).add_done_callback(partial(pass_on, promise))


def _read(store: MessageStore, sequence: int) -> Message | None:
    """In a thread."""
    try:
        return store.get_message(sequence)
    except MessageNotFound:
        return None
