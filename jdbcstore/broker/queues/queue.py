"""A queue: every message goes to one of its consumers."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial

from jdbcstore.abc import Cursor, MessageReference, MessageStore, Page, Transaction
from jdbcstore.broker.cursors import MemoryCursor, MessageCursor
from jdbcstore.broker.cursors.queue import cursor_of_stored, cursor_of_transient
from jdbcstore.broker.cursors.store import StoreCursor
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.filling import Filling
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.queues.browser import Browser
from jdbcstore.broker.queues.concurrent import ConcurrentSends, when_written
from jdbcstore.broker.queues.consumers import Consumers
from jdbcstore.broker.queues.dispatcher import Dispatcher
from jdbcstore.broker.queues.expiry import ExpirySweep
from jdbcstore.broker.queues.intake import Intake
from jdbcstore.broker.queues.rejections import Rejections
from jdbcstore.broker.subscription import BaseSubscription, all_done, then
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import SpillFailed
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

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
        self._store: MessageStore | None = None
        if not destination.is_temporary:
            self._store = parts.store.queue(destination, prioritized=policy.prioritized_messages)
        lanes = 10 if policy.prioritized_messages else 1
        stored, transient = (
            self._make_stored(lanes, is_empty),
            cursor_of_transient(
                self, policy, self.memory, lanes, parts, may_read=lambda: not self._is_held_up()
            ),
        )
        self.consumers = Consumers(
            use_priority=policy.use_consumer_priority,
            all_exclusive=policy.all_consumers_exclusive_by_default,
        )
        self._rejections = Rejections(parts, self, policy)
        self._dispatcher = Dispatcher(
            stored,
            transient,
            self.consumers,
            parts.clock,
            self._rejections.expired,
            lanes=lanes,
            most_blocked=5 * policy.max_page_size,
        )
        self._intake = Intake(parts, policy, self.memory, self, self._store, stored, transient)
        self.send = self._intake.send
        self.room = self._intake.room
        self.before = self._intake.before
        if parts.concurrent and self._store is not None:
            self._intake.concurrent = ConcurrentSends(
                parts, self, self._store, self.memory, self._dispatcher, self.lose_sight
            )
        self.expiry = ExpirySweep(
            parts, policy, self._dispatcher, self._store, self._take_stored, self._rejections.bury_expired
        )
        self._is_used = True
        """Since it was last asked whether it is idle."""
        self._is_closed = False
        self._filling = Filling(parts, self.memory, self.retain, self.acknowledged)
        self._is_window = self._store is not None and isinstance(stored, StoreCursor) and stored.is_window
        self._delivered: dict[int, int] = {}
        """The redelivery counts of what has come back from a consumer, and is in the store alone."""
        self._acknowledged: list[Entry] = []
        self._acknowledging: list[Future[None]] = []

    def is_idle(self) -> bool:
        was_used, self._is_used = self._is_used, False
        holds = self.memory.used or len(self.consumers) or not self._dispatcher.is_empty
        under_way = self._intake.is_waiting or self._acknowledged or self._rejections.count
        return not (was_used or holds or under_way)

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
            self._parts,
            read=partial(self._read_page, self._store),
            make_entry=self._entry_of_page,
            on_ready=self._page_is_ready,
            on_lost=self._lose,
            is_empty=is_empty,
        )

    def _is_held_up(self) -> bool:
        """Whether there is no memory to read more from files, and something is with consumers."""
        if not self.memory.is_full:
            return False
        holder = next((one for one in self.consumers if one.held), None)
        if holder is None:
            return False
        self.memory.when_room(self.touch)
        self._parts.notices.held_up(self.memory, holder.request, self._destination)
        return True

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

    def _read_page(
        self, store: MessageStore, limit: int, after: Cursor, then: Callable[[Future[Page]], None]
    ) -> None:
        self._dispatcher.in_hand.begin_reading()
        page = self._parts.run(lambda: store.recover(limit, after))
        page.add_done_callback(self._parts.guarded(then))

    def _page_is_ready(self) -> None:
        self._dispatcher.in_hand.end_reading()
        self.touch()

    def _entry_of_page(self, message: Message) -> Entry | None:
        return None if (message.sequence or 0) in self._dispatcher.in_hand else self._entry_of(message)

    def _entry_of(self, message: Message) -> Entry:
        sequence = message.sequence or 0
        known = sequence <= self._parts.last_sequence
        count = self._delivered.get(sequence) if self._delivered else None
        if count is None:
            return Entry(message, self, sequence, stored=True, redelivered=known)
        message = message.replace(redelivery_counter=count)
        entry = Entry(message, self, sequence, stored=True, redelivered=True)
        entry.returned = True
        return entry

    def _take_stored(self, message: Message) -> Entry:
        entry = self._entry_of(message)
        self.memory.take(entry.size)
        return entry

    # Sending

    def stage(self, transaction: Transaction, message: Message) -> bool:
        if not self._intake.is_stored(message):
            return False
        transaction.queue(self._destination).add_message(message)
        return True

    def arrive(self, message: Message, reference: MessageReference | None, connection_id: str) -> None:
        """A message is here: committed under this reference, or not stored."""
        if self._is_closed:
            self._parts.find(self._destination).arrive(message, reference, connection_id)
            return
        self._is_used = True
        if reference is None:
            entry = Entry(message, self, next(self._parts.numbers), stored=False)
            self._dispatcher.transient.cursor.push(entry)
        elif reference.sequence >= 0:  # else the store has seen it before
            if message.message_id is not reference.message_id:
                message = message.replace(message_id=reference.message_id)
            self._dispatcher.stored.cursor.push(Entry(message, self, reference.sequence, stored=True))
        self.touch()

    def lose_sight(self) -> None:
        if self._is_closed:
            self._parts.find(self._destination).lose_sight()
            return
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
        entries = when_written(entries, self._give_back_late)
        hollow = [entry for entry in entries if entry.is_hollow]
        self._dispatcher.give_back([entry for entry in entries if not entry.is_hollow])
        if hollow:
            # With all that waits: it would come before them.
            self._read_again([*hollow, *self._dispatcher.stored.take_returned()])
        self.touch()

    def _read_again(self, entries: Sequence[Entry]) -> None:
        """They are in the store: pages bring them in their places."""
        cursor = self._dispatcher.stored.cursor
        assert isinstance(cursor, StoreCursor)  # noqa: S101 - else none is dropped
        self._delivered.update((entry.sequence, entry.message.redelivery_counter) for entry in entries)
        self._dispatcher.in_hand.release(entries)
        for entry in entries:
            cursor.leave(entry)
        cursor.go_back()

    def given(self, entry: Entry) -> None:
        if self._is_window and self.memory.is_high and entry.stored and entry.writing is None:
            entry.hollow(self.memory)

    def _give_back_late(self, entry: Entry) -> None:
        if entry.stored:
            self.give_back([entry])
        else:
            # Its producer was told that it could not be stored.
            self.memory.release(entry.size)

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        if self._intake.concurrent is not None:
            late = [entry for entry in entries if entry.writing and not entry.writing.withdraw()]
            if late:
                written = [entry.writing.done for entry in late if entry.writing]
                return then(
                    self._parts.loop,
                    all_done(self._parts.loop, written),
                    lambda: self._acknowledge(entries),
                )
        return self._acknowledge(entries)

    def _acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        stored = [entry for entry in entries if entry.stored and entry.writing is None]
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
        self._forget([entry for entry in entries if entry.stored])

    def _forget(self, entries: Sequence[Entry]) -> None:
        """The store has."""
        self._dispatcher.in_hand.remove(entries)
        if self._delivered:
            for entry in entries:
                self._delivered.pop(entry.sequence, None)

    def retain(self, entries: Sequence[Entry]) -> None:
        self._rejections.retain(entries)

    def reject(self, entries: Sequence[Entry], subscription: BaseSubscription | None) -> Future[None]:  # noqa: ARG002
        entries = when_written(entries, self._reject_late)
        return self._filling.then(self._store, entries, self._rejections.reject)

    def _reject_late(self, entry: Entry) -> None:
        if entry.stored:
            self.reject([entry], None).add_done_callback(Future.exception)  # it is logged
        else:
            self.memory.release(entry.size)

    # What happens once in a turn of the loop

    def turn(self) -> None:
        if self._acknowledged:
            self._write_acknowledgements()
        self._intake.let_in()
        if not self._rejections.are_many:
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
            self._forget(entries)
        else:
            for entry in entries:
                entry.redeliver()
                self.memory.take(entry.size)
            self.give_back(entries)
        for promise in promises:
            self._parts.settle(promise, error)

    def close(self) -> None:
        self._is_closed = True
        self.expiry.close()
        self._rejections.clear()
        self._dispatcher.close()
