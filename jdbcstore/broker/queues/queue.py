"""A queue: every message is delivered to one of its consumers.

Persistent messages are written to the store first, together with other sends of the same iteration of the
event loop, and then wait in a cursor until the dispatcher delivers them. A message leaves the store when its
acknowledgement is written, again one write per iteration.
"""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count

from jdbcstore.abc import Cursor, MessageReference, MessageStore, Page, Transaction
from jdbcstore.broker.cursors.backlog import Backlog
from jdbcstore.broker.cursors.choice import memory_or_file
from jdbcstore.broker.cursors.store import InFlight, StoreCursor, StoredRows
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.loop import Promise, complete
from jdbcstore.broker.memory import Account, FlowControl
from jdbcstore.broker.queues.browser import Browser
from jdbcstore.broker.queues.concurrent import ConcurrentSends
from jdbcstore.broker.queues.dead_letters import DeadLetters
from jdbcstore.broker.queues.dispatcher import Assembly, Consumers, Dispatcher
from jdbcstore.broker.queues.expiry import ExpirySweep, QueueExpiry
from jdbcstore.broker.queues.marks import RedeliveredMarks
from jdbcstore.broker.queues.pending import PendingMessages
from jdbcstore.broker.queues.redelivery import MAX_DELAYED
from jdbcstore.broker.queues.selection import Act, QueueSelection
from jdbcstore.broker.store_io.outbox import Outbox, PendingSend
from jdbcstore.broker.store_io.transaction import SendTarget
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.errors import SpillFailed
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture

log = logging.getLogger(__name__)


class QueueRows(StoredRows):
    """The stored messages of a queue, for its :class:`PendingMessages`."""

    def recover(self, limit: int, after: Cursor | None) -> Page:
        return self.store.recover(limit, after)

    def acknowledge(self, entries: list[Entry]) -> StoreFuture[None]:
        return self.store.acknowledge_async(*[entry.sequence for entry in entries])

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> None:
        transaction.queue(self.store.destination).acknowledge(*[entry.sequence for entry in entries])


class Queue:
    """One queue of the broker: a target of sends, whose :attr:`pending` messages its consumers get.

    Messages keep the order in which their producers sent them, within a priority if the policy is
    prioritized; stored and transient messages are ordered separately. Every method is called on the loop.

    :param find: returns the current destination of a name, to which a closed idle one passes late messages
    :param last_sequence: the last sequence in the store when the broker started: messages up to it may have
        been delivered before
    :param is_concurrent: whether messages are dispatched while they are being written
    :param is_empty: whether the store is known to have no messages of this queue
    :param is_rerouted: whether its messages may be changed, redirected or scheduled, so that the engine
        routes each
    """

    def __init__(
        self,
        *,
        account: Account,
        outbox: Outbox,
        find: Callable[[Destination], SendTarget],
        dead_letters: DeadLetters,
        last_sequence: int,
        is_concurrent: bool,
        is_empty: bool,
        is_rerouted: bool,
    ) -> None:
        self._account, self._outbox, self._find = account, outbox, find
        self._resources, self._loop = account.resources, account.loop
        self.destination, self.policy = account.destination, account.policy
        self.memory, self.counters = account.memory, account.counters
        self.is_rerouted = is_rerouted
        self.is_paused = False
        """Whether an administrator has paused the dispatch."""
        self.store: MessageStore | None = None
        if not self.destination.is_temporary:
            prioritized = self.policy.prioritized_messages
            self.store = outbox.store.queue(self.destination, prioritized=prioritized)
        self.stored_before: int | None = 0 if is_empty else None
        """The number of stored messages that the counters do not include; None if unknown."""
        self.arrived = last_sequence
        """The sequence up to which all stored messages have arrived."""
        self._holds = 0
        """The number of running operations that suspend the dispatch."""
        self._settling: list[Callable[[], None]] = []
        self._ahead = 0
        """Messages being written that must be dispatched before any later message."""
        self._numbers = count(1)
        """The order of transient messages."""
        self._was_used = True
        """Whether it was used since the last call of :meth:`is_idle`."""
        self._is_closed = False
        self._is_watched = self.policy.advisory_for_delivery or self.policy.send_advisory_if_no_consumers
        """Whether arrivals are reported."""
        self.pending = self._make_pending(dead_letters, InFlight(last_sequence), is_empty)
        stored, transient = self.pending.stored.cursor, self.pending.transient.cursor
        self._stored_flow = FlowControl(
            account, lambda: stored.is_full or self._resources.is_store_full, self._wake
        )
        self._transient_flow = FlowControl(account, lambda: transient.is_full, self._wake)
        self.consumers = Consumers(self.policy)
        self._marks: RedeliveredMarks | None = None
        if self.policy.persist_jms_redelivered and self.store is not None:
            self._marks = RedeliveredMarks(self._loop, outbox, self.pending, self._wake)
        deliver = BaseSubscription.deliver if self._marks is None else self._marks.deliver
        self._dispatcher = Dispatcher(self.pending, self.consumers, deliver)
        self._concurrent: ConcurrentSends | None = None
        if is_concurrent and self.store is not None and self._marks is None and not self._is_watched:
            self._concurrent = ConcurrentSends(
                self._loop, outbox.line, self.store, self.pending, self._dispatcher, self.resync
            )
        self._assembly = Assembly(self._loop, self.policy, self.consumers, self._wake)
        search = QueueExpiry(self._loop, self.pending).search
        self.expiry = ExpirySweep(self._loop, self.policy.expire_messages_period, search)
        self._selection = QueueSelection(self._loop, self.pending)

    def _make_pending(
        self, dead_letters: DeadLetters, in_flight: InFlight, is_empty: bool
    ) -> PendingMessages:
        # The cursor of transient messages may use files in addition to the store's cursor, as in ActiveMQ.
        account, kind = self._account, self.policy.pending_queue_policy
        name = f"stored messages of {self.destination}"
        transient = memory_or_file(
            kind,
            f"messages of {self.destination} that are not stored",
            lambda _: self.pending,
            account.resources,
            account.memory,
            account.lanes,
            may_read=lambda: not self._is_held_up(),
        )
        return PendingMessages(
            account=account,
            line=self._outbox.line,
            dead_letters=dead_letters,
            rows=None if self.store is None else QueueRows(self.store, kind, name, is_empty=is_empty),
            transient=Backlog(transient, account.lanes),
            in_flight=in_flight,
            on_ready=self._wake,
            on_lost=self._on_lost,
        )

    def _wake(self) -> None:
        self._loop.schedule(self)

    def _is_held_up(self) -> bool:
        """Return whether consumers' unacknowledged messages leave no memory to read more from files."""
        if not self.memory.is_full:
            return False
        holder = next((consumer for consumer in self.consumers if consumer.held), None)
        if holder is None:
            return False
        self.memory.when_room(self._wake)
        self._resources.notices.held_up(self.memory.reached, holder.request, self.destination)
        return True

    def _on_lost(self, error: SpillFailed) -> None:
        """Read from the store again, because a temporary file cannot be read back."""
        log.error("%s: reading again from the store: %s", self.destination, error)
        # Not in the middle of a dispatch.
        self._loop.call_soon(self._start_over)

    def _start_over(self) -> None:
        if self.pending.cursor is not None:
            self.pending.cursor.start_over()
        self._wake()

    # Sending

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Send a message; completes when it is durable, if it is persistent, and there is room for more."""
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
            is_next = not (
                self._ahead or self._outbox.committing or self._is_held or self._outbox.room.refusal
            )
            if is_next and self._concurrent.send(message, promise):
                return promise
            self._ahead += 1
            promise.add_done_callback(self._landed)
        self._outbox.add(PendingSend(message, self, connection_id, promise, message.memory_size))
        return promise

    @property
    def only_stores(self) -> bool:
        """Whether the next persistent messages only need storing; if not, they must wait, or are dispatched
        before."""
        if self.store is None or self._concurrent is not None:
            return False
        # The window of a store's cursor is never full, so there is no check for each message.
        fills = type(self.pending.stored.cursor) is not StoreCursor or self._resources.stored is not None
        return not (fills and self._stored_flow.must_wait)

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
            is_unwanted = not (message.persistent or self.has_consumers)
            self._resources.events.arrived(self.destination, message, is_unwanted=is_unwanted)
        if reference is None:
            entry = Entry(message, self.pending, next(self._numbers), stored=False)
            self.pending.transient.cursor.push(entry)
        elif reference.sequence >= 0:  # otherwise the store dropped it as a duplicate
            self.arrived = reference.sequence
            window = None if self.consumers.members else self.pending.window
            if window is not None and window.pass_over(message, reference.sequence):
                return
            if message.message_id is not reference.message_id:
                message = message.replace(message_id=reference.message_id)
            entry = Entry(message, self.pending, reference.sequence, stored=True)
            self.pending.stored.cursor.push(entry)
        if self.consumers.members and self.consumers.any_room:
            self._loop.schedule(self)

    def resync(self) -> None:
        if self._is_closed:
            self._find(self.destination).resync()
            return
        self.stored_before = None
        self.pending.resync()

    def read_from(self, sequence: int | None) -> None:
        """Read stored messages again from a sequence on, or all, except messages in flight."""
        if self._is_closed:
            self._find(self.destination).read_from(sequence)
            return
        self.stored_before = None
        self.pending.read_from(sequence)

    def _admit_blocked(self) -> None:
        """Let blocked producers send, if there is room."""
        while (blocked := self._stored_flow.take()) is not None:
            message, promise = blocked.message, blocked.promise
            self._outbox.add(PendingSend(message, self, blocked.connection_id, promise, message.memory_size))
        while (blocked := self._transient_flow.take()) is not None:
            self.arrive(blocked.message, None, blocked.connection_id)
            complete(blocked.promise, None)

    # Consuming

    def transient_messages(self) -> list[Message]:
        """Return the messages in memory that are not stored, in order."""
        held = [
            entry.message
            for subscription in self.consumers
            for entry in subscription.held
            if entry.source is self.pending and not entry.stored
        ]
        return held + [entry.message for entry in self.pending.waiting_transient()]

    def add(self, subscription: BaseSubscription) -> None:
        """Start serving a consumer or a browser."""
        if isinstance(subscription, Browser):
            subscription.browse(self.destination, self.store, self.transient_messages)
            return
        subscription.queues.append(self)
        self.consumers.add(subscription)
        self.pending.reconsider(lambda entry: subscription.wants(entry.message))
        self._assembly.joined()
        self._wake()

    def has_room(self, subscription: BaseSubscription) -> None:
        self.consumers.wake(subscription)
        self._loop.schedule(self)

    def when_settled(self, callback: Callable[[], None]) -> None:
        self._settling.append(callback)
        self._wake()

    async def until_idle(self) -> None:
        """Wait until no page of the queue is being read."""
        settled: Future[None] = self._loop.create_future()
        self.when_settled(partial(settled.set_result, None))
        await settled

    def leave(self, subscription: BaseSubscription) -> None:
        if self.consumers.remove(subscription):
            self.pending.reconsider()
            self._wake()

    # Administration

    @property
    def _is_held(self) -> bool:
        return self.is_paused or self._holds > 0

    @property
    def size(self) -> int | None:
        """The number of messages, including unacknowledged ones; None if it must be counted."""
        if self.stored_before is None:
            return None
        return max(self.stored_before + self.counters.enqueued - self.counters.dequeued, 0)

    @property
    def has_waiting(self) -> bool:
        """Whether a message waits for a consumer with room; this may read from the store."""
        pending = self.pending
        if pending.aside.count or pending.transient.head() is not None:
            return True
        return pending.stored.head() is not None

    def set_stored_before(self, count: int) -> None:
        """Set the number of stored messages that the counters do not include."""
        self.stored_before = count

    def pause(self) -> None:
        """Deliver nothing until :meth:`resume`; consumers keep their messages."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        if not self._is_closed:
            self._wake()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Suspend deliveries during the block."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if not self._is_closed:
                self._wake()

    async def take(
        self,
        wanted: Callable[[Message], bool],
        act: Act,
        *,
        most: int | None = None,
        ids: Sequence[MessageId] | None = None,
        goes_on: Callable[[int, int], bool] = lambda _done, _seen: True,
    ) -> int:
        """Withdraw messages from dispatch in batches, pass each to ``act``, and return their number.

        This covers messages that arrived before this call, except messages of a consumer or an open
        transaction. ``act`` acknowledges, moves or gives back the entries.

        :param ids: only messages with these ids, which are looked up instead of searched for
        :param goes_on: called after each batch with the numbers of taken and examined messages; returns
            whether to continue
        :raises StoreError: the store cannot be read, or ``act`` raises it
        """
        # Files, and lists of all messages, cannot be searched while they change.
        holds = not self.pending.is_window
        self._holds += holds
        try:
            last_transient = next(self._numbers)
            return await self._selection.run(wanted, act, self.arrived, last_transient, most, ids, goes_on)
        finally:
            self._holds -= holds
            if holds and not self._is_closed:
                self._start_over()

    # Once per iteration of the loop

    def turn(self) -> None:
        """Admit blocked producers, and dispatch."""
        self._admit_blocked()
        held = self._is_held or len(self.pending.rejections.delayed) >= MAX_DELAYED
        if not held and not self._assembly.is_waiting():
            self._dispatcher.run()
        is_delivering = self._marks is not None and self._marks.is_delivering
        if self._settling and not (self.pending.is_reading or is_delivering):
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
        """Whether no message waits, is with a consumer or is being written."""
        blocks = self._stored_flow.is_blocking or self._transient_flow.is_blocking
        return self.pending.is_empty and not (self._ahead or blocks or self.pending.acknowledgements.pending)

    def is_idle(self) -> bool:
        """Return whether it is empty and without consumers, and was not used since the last call."""
        was_used, self._was_used = self._was_used, False
        if not was_used and self.size == 0:
            self.pending.stored.head()  # it was purged, as an empty page shows
        holds = self.memory.used or len(self.consumers) or not self.pending.is_empty
        blocks = self._stored_flow.is_blocking or self._transient_flow.is_blocking
        unwritten = self._ahead or blocks or self.pending.acknowledgements.pending
        return not (was_used or holds or unwritten or self.pending.rejections.delayed or self._holds)

    def close(self) -> None:
        """Forget the content of memory; stored messages stay stored."""
        self._is_closed = True
        self._assembly.close()
        self.expiry.close()
        self.pending.close()
        self.pending.transient.close()
