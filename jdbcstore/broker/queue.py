"""A queue: every message goes to one of its consumers."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Sequence
from functools import partial

from jdbcstore.abc import Cursor, MessageReference, MessageStore, Page, Transaction
from jdbcstore.broker.consumers import Consumers
from jdbcstore.broker.cursors import Backlog, MemoryCursor
from jdbcstore.broker.cursors.store import StoreCursor
from jdbcstore.broker.entry import Entry, size_of
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.destination import Destination
from jdbcstore.errors import OutcomeUnknown
from jdbcstore.message import Message

log = logging.getLogger(__name__)


class Queue:
    """The messages of one queue that are on their way: from the store, to consumers, out of the store.

    Acknowledgements of one turn of the loop are one write.
    """

    def __init__(
        self, parts: Parts, destination: Destination, policy: PolicyEntry, *, is_empty: bool = False
    ) -> None:
        self._parts = parts
        self._destination = destination
        self.policy = policy
        self.memory = MemoryUsage(
            policy.memory_limit or parts.memory.limit,
            high_water_mark=policy.cursor_memory_high_water_mark,
            parent=parts.memory,
        )
        self._store = self._open_store()
        lanes = 10 if policy.prioritized_messages else 1
        self._transient = Backlog(MemoryCursor(self.memory, lanes), lanes)
        self._stored = Backlog(self._make_cursor(lanes, is_empty), lanes)
        self.consumers = Consumers(
            use_priority=policy.use_consumer_priority,
            all_exclusive=policy.all_consumers_exclusive_by_default,
        )
        self._acknowledged: list[Entry] = []
        self._acknowledging: list[Future[None]] = []
        self._transient_turn = False

    @property
    def destination(self) -> Destination:
        return self._destination

    def _open_store(self) -> MessageStore | None:
        if self._destination.is_temporary:
            return None
        return self._parts.store.queue(self._destination, prioritized=self.policy.prioritized_messages)

    def _make_cursor(self, lanes: int, is_empty: bool) -> StoreCursor | MemoryCursor:
        if self._store is None:
            return MemoryCursor(self.memory, lanes)
        return StoreCursor(
            self._read_page,
            self._entry_of_page,
            lambda: self._parts.touch(self),
            memory=self.memory,
            page_size=self.policy.max_page_size,
            lanes=lanes,
            is_empty=is_empty,
        )

    def _read_page(self, limit: int, after: Cursor) -> Future[Page]:
        store = self._store
        assert store is not None  # noqa: S101 - only a stored queue has a store cursor
        return self._parts.run(lambda: store.recover(limit, after))

    def _entry_of_page(self, message: Message) -> Entry:
        sequence = message.sequence or 0
        return Entry(message, self, sequence, stored=True, redelivered=sequence <= self._parts.last_sequence)

    # Sending

    def is_stored(self, message: Message) -> bool:
        """Whether the message goes through the store."""
        return message.persistent and self._store is not None

    def send(self, message: Message) -> Future[None]:
        """Done when it is durable, if persistent."""
        if not message.persistent or self._store is None:
            self.arrive(message, None)
            return self._parts.done()
        promise: Future[None] = self._parts.loop.create_future()
        self._parts.line.submit(
            partial(self._store.add_message_async, message),
            size_of(message),
            partial(self._sent, message, promise),
        )
        return promise

    def _sent(
        self,
        message: Message,
        promise: Future[None],
        reference: MessageReference,
        error: BaseException | None,
    ) -> None:
        if error is None:
            self.arrive(message, reference)
        elif isinstance(error, OutcomeUnknown):
            self.lose_sight()
        if promise.done():
            return
        if error is None:
            promise.set_result(None)
        else:
            promise.set_exception(error)

    def stage(self, transaction: Transaction, message: Message) -> bool:
        """Add the message to a transaction of the store; False if it is not stored.

        After the commit :meth:`arrive` is called, in the order of the sends.
        """
        if not self.is_stored(message):
            return False
        transaction.queue(self._destination).add_message(message)
        return True

    def arrive(self, message: Message, reference: MessageReference | None) -> None:
        """A message is here: committed under this reference, or not stored."""
        if reference is None:
            entry = Entry(message, self, next(self._parts.numbers), stored=False)
            self._transient.cursor.push(entry)
        elif reference.sequence >= 0:  # else the store has seen it before
            if message.message_id is not reference.message_id:
                message = message.replace(message_id=reference.message_id)
            self._stored.cursor.push(Entry(message, self, reference.sequence, stored=True))
        self._parts.touch(self)

    def lose_sight(self) -> None:
        """A write may have been committed or not."""
        if isinstance(self._stored.cursor, StoreCursor):
            self._stored.cursor.lose_sight()
            self._parts.touch(self)

    # Consuming

    def add(self, subscription: BaseSubscription) -> None:
        """A consumer begins."""
        subscription.sources.append(self)
        self.consumers.add(subscription)
        self._parts.touch(self)

    def has_room(self, subscription: BaseSubscription) -> None:
        self.consumers.wake(subscription)
        self._parts.touch(self)

    def leave(self, subscription: BaseSubscription) -> None:
        self.consumers.remove(subscription)

    def give_back(self, entries: Sequence[Entry]) -> None:
        self._stored.give_back([entry for entry in entries if entry.stored])
        self._transient.give_back([entry for entry in entries if not entry.stored])
        self._parts.touch(self)

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        stored = [entry for entry in entries if entry.stored]
        self.memory.release(sum(entry.size for entry in entries))
        if not stored:
            return self._parts.done()
        promise: Future[None] = self._parts.loop.create_future()
        self._acknowledged.extend(stored)
        self._acknowledging.append(promise)
        self._parts.touch(self)
        return promise

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        stored = [entry.sequence for entry in entries if entry.stored]
        if stored:
            transaction.queue(self._destination).acknowledge(*stored)
        return bool(stored)

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        self.memory.release(sum(entry.size for entry in entries))

    def reject(self, entries: Sequence[Entry], subscription: BaseSubscription) -> Future[None]:  # noqa: ARG002
        self.give_back(entries)
        return self._parts.done()

    # What happens once in a turn of the loop

    def turn(self) -> None:
        if self._acknowledged:
            self._write_acknowledgements()
        self._dispatch()

    def _write_acknowledgements(self) -> None:
        assert self._store is not None  # noqa: S101 - stored entries are of a store
        entries, self._acknowledged = self._acknowledged, []
        promises, self._acknowledging = self._acknowledging, []
        self._parts.line.submit(
            partial(self._store.acknowledge_async, *[entry.sequence for entry in entries]),
            0,
            partial(self._acknowledgements_written, entries, promises),
        )

    def _acknowledgements_written(
        self, entries: list[Entry], promises: list[Future[None]], _: None, error: BaseException | None
    ) -> None:
        if error is not None:
            self.retain(entries)
        for promise in promises:
            if promise.done():
                continue
            if error is None:
                promise.set_result(None)
            else:
                promise.set_exception(error)

    def retain(self, entries: Sequence[Entry]) -> None:
        """Their acknowledgement has failed: they are delivered again."""
        for entry in entries:
            entry.redelivered = True
            self.memory.take(entry.size)
        self.give_back(entries)

    def _dispatch(self) -> None:
        consumers = self.consumers
        while consumers.any_room:
            found = self._next()
            if found is None:
                return
            entry, backlog = found
            subscription = consumers.next_for(entry)
            if subscription is None:
                return
            backlog.pop(entry)
            subscription.deliver(entry)

    def _next(self) -> tuple[Entry, Backlog] | None:
        """The next message, stored and not stored ones in turns, and where it waits."""
        stored, transient = self._stored.head(), self._transient.head()
        if transient is None:
            return None if stored is None else (stored, self._stored)
        if stored is not None:
            self._transient_turn = not self._transient_turn
            if not self._transient_turn:
                return stored, self._stored
        return transient, self._transient

    def close(self) -> None:
        """Forget what is in memory."""
        self._stored.close()
        self._transient.close()
