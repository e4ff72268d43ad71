"""A queue: every message goes to one of its consumers."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from jdbcstore.abc import Cursor, MessageReference, MessageStore, Page, Transaction
from jdbcstore.broker.browser import Browser
from jdbcstore.broker.consumers import Consumers
from jdbcstore.broker.cursors import MemoryCursor, MessageCursor
from jdbcstore.broker.cursors.store import StoreCursor
from jdbcstore.broker.dead_letters import expired, is_dead_letter_queue
from jdbcstore.broker.dispatcher import Dispatcher
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.expiry import ExpirySweep
from jdbcstore.broker.intake import Intake
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.queue_cursors import cursor_of_stored, cursor_of_transient
from jdbcstore.broker.redelivery import Delays, delay_before, is_over
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.config.policy import PolicyEntry, RedeliveryPolicy
from jdbcstore.destination import Destination
from jdbcstore.errors import SpillFailed
from jdbcstore.message import Message

log = logging.getLogger(__name__)

_REJECTED = "java.lang.Throwable: Rejected by its consumer"
_MOST_DELAYED = 10_000
_BEFORE_ANOTHER_TRY = 1.0


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
        self._store: MessageStore | None = None
        if not destination.is_temporary:
            self._store = parts.store.queue(destination, prioritized=policy.prioritized_messages)
        lanes = 10 if policy.prioritized_messages else 1
        stored, transient = (
            self._make_stored(lanes, is_empty),
            cursor_of_transient(self, policy, self.memory, lanes, parts.folder),
        )
        self.consumers = Consumers(
            use_priority=policy.use_consumer_priority,
            all_exclusive=policy.all_consumers_exclusive_by_default,
        )
        self._dispatcher = Dispatcher(
            stored,
            transient,
            self.consumers,
            parts.clock,
            self._expired,
            lanes=lanes,
            most_blocked=5 * policy.max_page_size,
        )
        self._intake = Intake(parts, policy, self.memory, self, self._store, stored, transient)
        self.send = self._intake.send
        self.room = self._intake.room
        self.disconnected = self._intake.disconnected
        self._delays = Delays(parts.loop, self.give_back)
        self.expiry = ExpirySweep(
            parts, policy, self._dispatcher, self._store, self._take_stored, self._bury_expired
        )
        self._acknowledged: list[Entry] = []
        self._acknowledging: list[Future[None]] = []

    @property
    def destination(self) -> Destination:
        return self._destination

    def touch(self) -> None:
        self._parts.touch(self)

    def _make_stored(self, lanes: int, is_empty: bool) -> MessageCursor:
        if self._store is None:
            return MemoryCursor(self.memory, lanes)
        return cursor_of_stored(
            self,
            self.policy,
            self.memory,
            lanes,
            self._parts.folder,
            read=partial(self._read_page, self._store),
            make_entry=self._entry_of_page,
            on_ready=self._page_is_ready,
            on_lost=self._lose,
            is_empty=is_empty,
        )

    def _lose(self, error: SpillFailed) -> None:
        """A file could not be read back: its messages are still stored."""
        log.error("%s is read anew from the store: %s", self._destination, error)
        # Not in the middle of a dispatch.
        self._parts.loop.call_soon(self._start_over)

    def _start_over(self) -> None:
        cursor = self._dispatcher.stored.cursor
        if isinstance(cursor, StoreCursor):
            cursor.start_over()
        self.touch()

    def _read_page(self, store: MessageStore, limit: int, after: Cursor) -> Future[Page]:
        self._dispatcher.in_hand.begin_reading()
        return self._parts.run(lambda: store.recover(limit, after))

    def _page_is_ready(self) -> None:
        self._dispatcher.in_hand.end_reading()
        self.touch()

    def _entry_of_page(self, message: Message) -> Entry | None:
        return None if (message.sequence or 0) in self._dispatcher.in_hand else self._entry_of(message)

    def _entry_of(self, message: Message) -> Entry:
        sequence = message.sequence or 0
        known = sequence <= self._parts.last_sequence
        return Entry(message, self, sequence, stored=True, redelivered=known)

    def _take_stored(self, message: Message) -> Entry:
        entry = self._entry_of(message)
        self.memory.take(entry.size)
        return entry

    # Sending

    def ready(self) -> None:
        return None

    def stage(self, transaction: Transaction, message: Message) -> bool:
        if not self._intake.is_stored(message):
            return False
        transaction.queue(self._destination).add_message(message)
        return True

    def arrive(self, message: Message, reference: MessageReference | None, connection_id: str) -> None:  # noqa: ARG002
        """A message is here: committed under this reference, or not stored."""
        if reference is None:
            entry = Entry(message, self, next(self._parts.numbers), stored=False)
            self._dispatcher.transient.cursor.push(entry)
        elif reference.sequence >= 0:  # else the store has seen it before
            if message.message_id is not reference.message_id:
                message = message.replace(message_id=reference.message_id)
            self._dispatcher.stored.cursor.push(Entry(message, self, reference.sequence, stored=True))
        self.touch()

    def lose_sight(self) -> None:
        cursor = self._dispatcher.stored.cursor
        if isinstance(cursor, StoreCursor):
            cursor.lose_sight()
            self.touch()

    # Consuming

    @property
    def store(self) -> MessageStore | None:
        return self._store

    def transient_messages(self) -> list[Message]:
        held = [
            entry.message
            for subscription in self.consumers
            for entry in subscription.held
            if entry.source is self and not entry.stored
        ]
        return held + [entry.message for entry in self._dispatcher.waiting_transient()]

    def add(self, subscription: BaseSubscription) -> None:
        if isinstance(subscription, Browser):
            subscription.browse(self)
            return
        subscription.sources.append(self)
        self.consumers.add(subscription)
        self._dispatcher.reconsider()
        self.touch()

    def has_room(self, subscription: BaseSubscription) -> None:
        self.consumers.wake(subscription)
        self.touch()

    def leave(self, subscription: BaseSubscription) -> None:
        if self.consumers.remove(subscription):
            self._dispatcher.reconsider()
            self.touch()

    def give_back(self, entries: Sequence[Entry]) -> None:
        self._dispatcher.give_back(entries)
        self.touch()

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        stored = [entry for entry in entries if entry.stored]
        self.memory.release(sum([entry.size for entry in entries]))
        if not stored:
            return self._parts.done()
        promise: Future[None] = self._parts.loop.create_future()
        self._acknowledged.extend(stored)
        self._acknowledging.append(promise)
        self.touch()
        return promise

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        stored = [entry.sequence for entry in entries if entry.stored]
        if stored:
            transaction.queue(self._destination).acknowledge(*stored)
        return bool(stored)

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        self.memory.release(sum([entry.size for entry in entries]))
        self._dispatcher.in_hand.remove([entry for entry in entries if entry.stored])

    def retain(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._delays.add(entry, _BEFORE_ANOTHER_TRY)

    def reject(self, entries: Sequence[Entry], subscription: BaseSubscription) -> Future[None]:  # noqa: ARG002
        policy = self.policy.redelivery_policy
        if is_dead_letter_queue(self.policy.dead_letter_strategy, self._destination):
            # Its messages have nowhere else to go.
            policy = replace(policy or RedeliveryPolicy(), maximum_redeliveries=-1)
        dead = []
        for entry in entries:
            count = entry.message.redelivery_counter
            if policy is None or is_over(policy, count):
                dead.append(entry)
            else:
                entry.redeliver()
                self._delays.add(entry, delay_before(policy, count))
        if not dead:
            return self._parts.done()
        return self._parts.dead_letters.bury(
            self, self.policy.dead_letter_strategy, dead, lambda _: _REJECTED
        )

    def _expired(self, entries: Sequence[Entry]) -> None:
        self._bury_expired(entries).add_done_callback(Future.exception)  # told of already

    def _bury_expired(self, entries: Sequence[Entry]) -> Future[None]:
        return self._parts.dead_letters.bury(
            self, self.policy.dead_letter_strategy, entries, expired, is_expiry=True
        )

    # What happens once in a turn of the loop

    def turn(self) -> None:
        if self._acknowledged:
            self._write_acknowledgements()
        self._intake.let_in()
        if len(self._delays) < _MOST_DELAYED:
            self._dispatcher.run()

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
        if error is None:
            self._dispatcher.in_hand.remove(entries)
        else:
            for entry in entries:
                entry.redeliver()
                self.memory.take(entry.size)
            self.give_back(entries)
        for promise in promises:
            self._parts.settle(promise, error)

    def close(self) -> None:
        self.expiry.close()
        self._delays.clear()
        self._dispatcher.close()
