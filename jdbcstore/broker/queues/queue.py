"""A queue: every message is delivered to one of its consumers.

Persistent messages are written to the store first, together with the other sends of the same turn of the
loop, and then wait in a cursor until the dispatcher delivers them. A message leaves the store when its
acknowledgement is written, again one write for all of a turn.
"""

from __future__ import annotations

import logging
from asyncio import Future, TimerHandle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, dataclass
from functools import partial
from itertools import count

from jdbcstore.abc import MessageReference, MessageStore, Transaction
from jdbcstore.broker.api import MessageEventKind
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.cursors.backlog import Backlog, MemoryCursor, MessageCursor
from jdbcstore.broker.cursors.choice import cursor_of_stored, memory_or_file
from jdbcstore.broker.cursors.store import InFlight, StoreCursor
from jdbcstore.broker.entry import Entry, PriorityLanes, lanes_of
from jdbcstore.broker.loop import Promise, settle
from jdbcstore.broker.memory import FlowControl, Resources
from jdbcstore.broker.queues.browser import Browser
from jdbcstore.broker.queues.concurrent import ConcurrentSends, when_written
from jdbcstore.broker.queues.dead_letters import DeadLetters
from jdbcstore.broker.queues.dispatcher import Consumers, Dispatcher
from jdbcstore.broker.queues.expiry import ExpirySweep
from jdbcstore.broker.queues.marks import RedeliveredMarks
from jdbcstore.broker.queues.redelivery import MAX_DELAYED, Rejections, redelivered_again
from jdbcstore.broker.queues.selection import Act, QueueSelection
from jdbcstore.broker.store_io.outbox import Acknowledgements, Outbox, PendingSend
from jdbcstore.broker.store_io.transaction import SendTarget
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import SpillFailed
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture

log = logging.getLogger(__name__)

_ASSEMBLY = 1.0
"""Seconds that a queue waits for a number of consumers, unless its policy says how long."""


@dataclass(eq=False, repr=False)
class Queue:
    """One queue of the broker: a target of sends, and an :class:`~jdbcstore.broker.entry.EntrySource`.

    Messages keep the order in which their producers sent them, within a priority if the policy is
    prioritized; stored and transient messages are ordered separately. Every method is called on the loop.
    """

    _resources: Resources
    _outbox: Outbox
    _find: Callable[[Destination], SendTarget]
    """The destination of a name now: one that was idle and is closed passes late messages on to it."""
    destination: Destination
    policy: PolicyEntry
    dead_letters: InitVar[DeadLetters]
    _last_sequence: int
    """The last sequence in the store when the broker started: messages up to it may have been delivered
    before, and are marked as redelivered."""
    is_concurrent: InitVar[bool]
    """Whether messages are dispatched while they are being written."""
    is_empty: InitVar[bool]
    """Whether the store is known to hold nothing of this queue."""

    is_rerouted: bool = False
    """Whether its messages may be sent elsewhere or later, which the engine decides for each."""
    is_paused: bool = False
    """Whether an administrator has paused the dispatch."""

    def __post_init__(self, dead_letters: DeadLetters, is_concurrent: bool, is_empty: bool) -> None:
        loop, destination, policy = self._resources.loop, self.destination, self.policy
        self._loop = loop
        self.memory = memory = self._resources.memory_of(policy)
        self.store: MessageStore | None = None
        if not destination.is_temporary:
            self.store = self._outbox.store.queue(destination, prioritized=policy.prioritized_messages)
        line, in_flight = self._outbox.line, InFlight()
        self._in_flight = in_flight
        self.counters = Counters()
        self.stored_before: int | None = 0 if is_empty else None
        """The number of messages in the store that the counters do not have; None if it is not known."""
        self._arrived = self._last_sequence
        """The sequence up to which all messages of the queue have arrived here."""
        self._holds = 0
        """Operations under way that hold up the dispatch."""
        lanes, stored, transient = lanes_of(policy), self._make_stored(is_empty), self._make_transient()
        self.consumers = Consumers(
            policy.use_consumer_priority, policy.all_consumers_exclusive_by_default, policy.message_groups
        )
        self._rejections = Rejections(loop, dead_letters, self, self.store, memory, policy)
        self._marks: RedeliveredMarks | None = None
        if policy.persist_jms_redelivered and self.store is not None:
            self._marks = RedeliveredMarks(loop, self._outbox, self, self._wake)
        self._dispatcher = Dispatcher(
            Backlog(stored, lanes),
            Backlog(transient, lanes),
            in_flight,
            self.consumers,
            loop.clock,
            self._rejections.expire,
            BaseSubscription.deliver if self._marks is None else self._marks.deliver,
            PriorityLanes(lanes),
            5 * policy.max_page_size,
        )
        resources = self._resources
        self._stored_flow = self._make_flow(lambda: stored.is_full or resources.is_store_full)
        self._transient_flow = self._make_flow(lambda: transient.is_full)
        self._concurrent: ConcurrentSends | None = None
        self._is_watched = policy.advisory_for_delivery or policy.send_advisory_if_no_consumers
        """Whether what arrives is reported."""
        is_plain = not (self._is_watched or policy.persist_jms_redelivered)
        if is_concurrent and self.store is not None and is_plain:
            self._concurrent = ConcurrentSends(
                loop, line, self, self.store, memory, self._dispatcher, self.resync
            )
        self._settling: list[Callable[[], None]] = []
        self._ahead = 0
        """Messages being written that have to be dispatched before any that comes now."""
        self.expiry = ExpirySweep(
            loop,
            policy,
            self._dispatcher,
            in_flight,
            self.store,
            self._take_stored,
            self._rejections.move_expired,
        )
        self._acknowledgements = Acknowledgements(
            loop, line, memory, in_flight, self._write_acknowledgements, self.give_back, self.counters
        )
        self._numbers = count(1)
        """The order of transient messages."""
        self._selection = QueueSelection(
            loop, policy, self._dispatcher, in_flight, self.store, self._take_stored, self._rejections
        )
        self._assembling: TimerHandle | None = None
        """Ends the wait for more consumers, as the policy says."""
        self._was_used = True
        """Since :meth:`is_idle` was called last."""
        self._is_closed = False
        self._is_window = isinstance(stored, StoreCursor) and stored.is_window

    def _make_stored(self, is_empty: bool) -> MessageCursor:
        if self.store is None:
            return MemoryCursor(self.memory, lanes_of(self.policy))
        return cursor_of_stored(
            self.policy.pending_queue_policy,
            f"stored messages of {self.destination}",
            self,
            self._resources,
            self.store.recover,
            self._in_flight,
            self._entry_of,
            self._wake,
            self.memory,
            self.policy,
            self._on_lost,
            is_empty=is_empty,
        )

    def _make_transient(self) -> MessageCursor:
        """The cursor of transient messages: beside the store's cursor it may use files, as in ActiveMQ."""
        return memory_or_file(
            self.policy.pending_queue_policy,
            f"messages of {self.destination} that are not stored",
            lambda _: self,
            self._resources,
            self.memory,
            lanes_of(self.policy),
            may_read=lambda: not self._is_held_up(),
        )

    def _make_flow(self, is_full: Callable[[], bool]) -> FlowControl:
        return FlowControl(
            self._resources,
            self.destination,
            self.policy,
            self.memory,
            is_full,
            self._wake,
        )

    def _wake(self) -> None:
        self._loop.schedule(self)

    def _is_held_up(self) -> bool:
        """Whether a consumer's unacknowledged messages leave no memory to read more from files."""
        if not self.memory.is_full:
            return False
        holder = next((one for one in self.consumers if one.held), None)
        if holder is None:
            return False
        self.memory.when_room(self._wake)
        self._resources.notices.held_up(self.memory.reached, holder.request, self.destination)
        return True

    def _on_lost(self, error: SpillFailed) -> None:
        """A temporary file cannot be read back; its messages are still stored."""
        log.error("%s is read again from the store: %s", self.destination, error)
        # Not in the middle of a dispatch.
        self._loop.call_soon(self._start_over)

    def _start_over(self) -> None:
        cursor = self._dispatcher.stored.cursor
        if isinstance(cursor, StoreCursor):
            cursor.start_over()
        self._wake()

    def _entry_of(self, message: Message) -> Entry:
        """The entry of a message read from the store."""
        sequence = message.sequence or 0
        redeliveries = self._in_flight.redeliveries.get(sequence)
        if redeliveries is None:
            return Entry(message, self, sequence, stored=True, redelivered=sequence <= self._last_sequence)
        message = redelivered_again(message, redeliveries, self.policy.redelivery_policy)
        redelivered = redeliveries > 0 or sequence <= self._last_sequence
        return Entry(message, self, sequence, stored=True, redelivered=redelivered, returned=True)

    def _take_stored(self, message: Message) -> Entry:
        entry = self._entry_of(message)
        self.memory.increase(entry.size)
        return entry

    # Sending

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Completes when the message is durable, if it is persistent, and there is room for more."""
        stored = message.persistent and self.store is not None
        flow = self._stored_flow if stored else self._transient_flow
        if flow.must_wait:
            return flow.block(message, connection_id)
        if not stored:
            self.arrive(message, None, connection_id)
            return self._loop.done()
        promise = Promise(loop=self._loop.events)
        if self._concurrent is not None:
            # Earlier messages are dispatched first.
            is_next = not (self._ahead or self._outbox.committing or self._is_held)
            if is_next and self._concurrent.send(message, promise):
                return promise
            self._ahead += 1
            promise.add_done_callback(self._landed)
        self._outbox.add(PendingSend(message, self, connection_id, promise))
        return promise

    def _landed(self, _: Future[None]) -> None:
        self._ahead -= 1

    def _is_stored(self, message: Message) -> bool:
        return message.persistent and self.store is not None

    def stage(self, transaction: Transaction, message: Message) -> bool:
        if not self._is_stored(message):
            return False
        transaction.queue(self.destination).add_message(message)
        return True

    def before(self, connection_id: str) -> list[Future[None]]:
        passed = (self._stored_flow.passed(connection_id), self._transient_flow.passed(connection_id))
        return [future for future in passed if future is not None]

    def room(self, message: Message) -> Future[None]:
        return (self._stored_flow if self._is_stored(message) else self._transient_flow).room()

    def arrive(self, message: Message, reference: MessageReference | None, connection_id: str) -> None:
        if self._is_closed:
            self._find(self.destination).arrive(message, reference, connection_id)
            return
        self._was_used = True
        self.counters.enqueued += 1
        if self._is_watched and (reference is None or reference.sequence >= 0):
            self._report_arrival(message)
        if reference is None:
            entry = Entry(message, self, next(self._numbers), stored=False)
            self._dispatcher.transient.cursor.push(entry)
        elif reference.sequence >= 0:  # else the store has dropped it as a duplicate
            self._arrived = reference.sequence
            if message.message_id is not reference.message_id:
                message = message.replace(message_id=reference.message_id)
            self._dispatcher.stored.cursor.push(Entry(message, self, reference.sequence, stored=True))
        self._loop.schedule(self)

    def _report_arrival(self, message: Message) -> None:
        events = self._resources.events
        events.happened(MessageEventKind.DELIVERED, self.destination, [message])
        if not (message.persistent or self.has_consumers):
            events.happened(MessageEventKind.UNWANTED, self.destination, [message])

    def resync(self) -> None:
        if self._is_closed:
            self._find(self.destination).resync()
            return
        self.stored_before = None
        cursor = self._dispatcher.stored.cursor
        if isinstance(cursor, StoreCursor):
            cursor.resync()
            self._wake()

    def read_from(self, sequence: int | None) -> None:
        """Read again what is stored from a sequence on, or all; nothing in flight comes again."""
        if self._is_closed:
            self._find(self.destination).read_from(sequence)
            return
        self.stored_before = None
        cursor = self._dispatcher.stored.cursor
        if isinstance(cursor, StoreCursor):
            cursor.read_from(sequence)
            self._wake()

    def _admit_blocked(self) -> None:
        """Let blocked producers send, if there is room now."""
        while (blocked := self._stored_flow.take()) is not None:
            self._outbox.add(PendingSend(blocked.message, self, blocked.connection_id, blocked.promise))
        while (blocked := self._transient_flow.take()) is not None:
            self.arrive(blocked.message, None, blocked.connection_id)
            settle(blocked.promise, None)

    # Consuming

    def _transient_messages(self) -> list[Message]:
        """The messages in memory that are not stored, in order, for browsers."""
        held = [
            entry.message
            for subscription in self.consumers
            for entry in subscription.held
            if entry.source is self and not entry.stored
        ]
        return held + [entry.message for entry in self._dispatcher.waiting_transient()]

    def add(self, subscription: BaseSubscription) -> None:
        """Start to serve a consumer or a browser."""
        if isinstance(subscription, Browser):
            subscription.browse(self.destination, self.store, self._transient_messages)
            return
        subscription.queues.append(self)
        self.consumers.add(subscription)
        self._dispatcher.reconsider(subscription)
        self._assemble()
        self._wake()

    def _assemble(self) -> None:
        """Wait for more consumers than the first, so that they share the first messages or groups."""
        wanted, most = self.policy.consumers_before_dispatch_starts, self.policy.time_before_dispatch_starts
        if len(self.consumers) == 1 and self._assembling is None and (wanted > 1 or (most and not wanted)):
            self._assembling = self._loop.call_later(most or _ASSEMBLY, self._assembled)

    def _is_assembling(self) -> bool:
        """Whether to wait for more consumers."""
        if self._assembling is not None:
            wanted = self.policy.consumers_before_dispatch_starts
            if 0 < wanted <= sum(one.begun for one in self.consumers):
                self._assembled()
        return self._assembling is not None

    def _assembled(self) -> None:
        if self._assembling is not None:
            self._assembling.cancel()
            self._assembling = None
            self._wake()

    def has_room(self, subscription: BaseSubscription) -> None:
        self.consumers.wake(subscription)
        self._loop.schedule(self)

    def when_settled(self, callback: Callable[[], None]) -> None:
        self._settling.append(callback)
        self._wake()

    async def settled(self) -> None:
        """Wait until no page of it is being read."""
        settled: Future[None] = self._loop.create_future()
        self.when_settled(partial(settled.set_result, None))
        await settled

    def leave(self, subscription: BaseSubscription) -> None:
        if self.consumers.remove(subscription):
            self._dispatcher.reconsider()
            self._wake()

    def delivered(self, entry: Entry) -> None:
        needed = self.policy.advisory_for_consumed
        is_stored = entry.stored and entry.writing is None
        if self._is_window and self.memory.is_high and is_stored and not needed:
            entry.unload(self.memory)

    def give_back(self, entries: Sequence[Entry]) -> None:
        entries = when_written(entries, self._give_back_late)
        unloaded = [entry for entry in entries if entry.is_unloaded]
        self._dispatcher.give_back([entry for entry in entries if not entry.is_unloaded])
        if unloaded:
            cursor = self._dispatcher.stored.cursor
            assert isinstance(cursor, StoreCursor)  # noqa: S101 - others' entries are never unloaded
            # With all that waits: it would be dispatched before them otherwise.
            cursor.read_again([*unloaded, *self._dispatcher.stored.take_returned()])
        self._wake()

    def _give_back_late(self, entry: Entry) -> None:
        if entry.stored:
            self.give_back([entry])
        else:
            # Its producer knows that it is not stored.
            self.memory.decrease(entry.size)

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        if self._concurrent is not None:
            late = [entry for entry in entries if entry.writing and not entry.writing.withdraw()]
            if late:
                written = self._loop.all_done([entry.writing.done for entry in late if entry.writing])
                return self._loop.after(written, lambda: self._acknowledgements.add(entries))
        return self._acknowledgements.add(entries)

    def _write_acknowledgements(self, entries: list[Entry]) -> StoreFuture[None]:
        assert self.store is not None  # noqa: S101 - stored entries are of a store
        return self.store.acknowledge_async(*[entry.sequence for entry in entries])

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        stored = [entry.sequence for entry in entries if entry.stored]
        if stored:
            transaction.queue(self.destination).acknowledge(*stored)
        return bool(stored)

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        self._acknowledgements.committed(entries)

    def retain(self, entries: Sequence[Entry]) -> None:
        self._rejections.retain(entries)

    def reject(self, entries: Sequence[Entry], cause: str | None) -> Future[None]:
        entries = when_written(entries, partial(self._reject_late, cause))
        return self._rejections.reload(entries, partial(self._rejections.reject, cause=cause))

    def expire(self, entries: Sequence[Entry]) -> Future[None]:
        entries = when_written(entries, partial(self._reject_late, None))
        return self._rejections.reload(entries, self._rejections.move_expired)

    def _reject_late(self, cause: str | None, entry: Entry) -> None:
        if entry.stored:
            self.reject([entry], cause).add_done_callback(Future.exception)  # it is logged
        else:
            self.memory.decrease(entry.size)

    # Administration

    @property
    def _is_held(self) -> bool:
        return self.is_paused or self._holds > 0

    @property
    def size(self) -> int | None:
        """The number of messages here, those with consumers included; None if it has to be counted."""
        if self.stored_before is None:
            return None
        return max(self.stored_before + self.counters.enqueued - self.counters.dequeued, 0)

    def set_stored_before(self, count: int) -> None:
        """Take the number of messages in the store that the counters do not have."""
        self.stored_before = count

    def pause(self) -> None:
        """Deliver nothing until :meth:`resume`; messages that consumers have stay with them."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        if not self._is_closed:
            self._wake()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Deliver nothing meanwhile."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if not self._is_closed:
                self._wake()

    def transient_messages(self) -> list[Message]:
        """The messages in memory that are not stored, in order."""
        return self._transient_messages()

    @property
    def arrived(self) -> int:
        """The sequence up to which all stored messages have arrived."""
        return self._arrived

    async def take(
        self,
        wanted: Callable[[Message], bool],
        act: Act,
        *,
        most: int | None = None,
        ids: Sequence[MessageId] | None = None,
    ) -> int:
        """Take messages from the reach of consumers, in batches, and pass each to ``act``; their number.

        These are messages that have arrived before this call. Those that a consumer or an open transaction
        has stay there. ``act`` decides where the entries go: it acknowledges, moves or gives them back.

        :param ids: only messages with these ids, which are looked up instead of searched for
        :raises StoreError: the store cannot be read, or as ``act`` does
        """
        holds = not self._is_window  # files and lists of all messages cannot be searched while they change
        self._holds += holds
        try:
            return await self._selection.run(wanted, act, self._arrived, next(self._numbers), most, ids)
        finally:
            self._holds -= holds
            if holds and not self._is_closed:
                self._start_over()

    # Once per turn of the loop

    def turn(self) -> None:
        """Admit blocked producers, and dispatch."""
        self._admit_blocked()
        held = self._is_held or len(self._rejections.delayed) >= MAX_DELAYED
        if not held and not self._is_assembling():
            self._dispatcher.run()
        is_delivering = self._marks is not None and self._marks.is_delivering
        if self._settling and not (self._dispatcher.is_reading or is_delivering):
            settling, self._settling = self._settling, []
            for callback in settling:
                callback()

    @property
    def has_consumers(self) -> bool:
        return len(self.consumers) > 0

    @property
    def consumer_count(self) -> int:
        return len(self.consumers)

    @property
    def is_drained(self) -> bool:
        """Whether nothing waits, is with a consumer or is being written."""
        blocks = self._stored_flow.is_blocking or self._transient_flow.is_blocking
        return self._dispatcher.is_empty and not (self._ahead or blocks or self._acknowledgements.pending)

    def is_idle(self) -> bool:
        """Whether it is empty and without consumers, and was not used since the last call."""
        was_used, self._was_used = self._was_used, False
        holds = self.memory.used or len(self.consumers) or not self._dispatcher.is_empty
        blocks = self._stored_flow.is_blocking or self._transient_flow.is_blocking
        pending = self._ahead or blocks or self._acknowledgements.pending or self._rejections.delayed
        return not (was_used or holds or pending or self._holds)

    def close(self) -> None:
        """Forget what is in memory; stored messages stay stored."""
        self._is_closed = True
        if self._assembling is not None:
            self._assembling.cancel()
        self.expiry.close()
        self._rejections.clear()
        self._dispatcher.close()
