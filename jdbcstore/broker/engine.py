"""The broker's engine: routes sends, subscriptions and transactions of connectors to queues and topics.

A send goes to its destination, which writes it through the outbox and dispatches it once it is committed. A
destination is created when it is first named, and forgotten when it is empty and idle: all that outlives the
engine is in the store, and the next engine on it starts from there.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from asyncio import Future, Task
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from jdbcstore.abc import InMemory, Store, XATransaction
from jdbcstore.broker.api import (
    BrokerTransaction,
    ConnectionInfo,
    Consumer,
    DurableInfo,
    Known,
    ProducerInfo,
    Subscription,
    SubscriptionRequest,
    Watcher,
)
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.directory import Directory
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.events import MessageEvents
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.memory import MemoryUsage, Resources
from jdbcstore.broker.queues.browser import Browser
from jdbcstore.broker.queues.dead_letters import DeadLetters, renamed
from jdbcstore.broker.queues.moves import Moves
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.scheduler.jobs import JOBS
from jdbcstore.broker.scheduler.management import is_management, manage
from jdbcstore.broker.scheduler.scheduler import Scheduler
from jdbcstore.broker.store_io.outbox import Outbox, StoreLine
from jdbcstore.broker.store_io.prepared import PreparedTransactions
from jdbcstore.broker.store_io.transaction import EngineTransaction, Route, Target, Transactions
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.temporary import TemporaryDestinations, owner_of
from jdbcstore.broker.topics.durable import Durable
from jdbcstore.broker.topics.registry import DurableRegistry
from jdbcstore.broker.topics.subscriber import TopicSubscriber
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.broker.virtual import VirtualDestinations
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.config.virtual import DEFAULT_VIRTUAL_TOPICS, CompositeConfig, VirtualTopicConfig
from jdbcstore.errors import (
    InvalidDestination,
    InvalidSubscription,
    StoreClosed,
    StoreError,
    SubscriptionInUse,
    SubscriptionNotFound,
)
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ProducerId, XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationMap, DestinationPattern, is_wildcard
from jdbcstore.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from jdbcstore.broker.tracing import Tracing

log = logging.getLogger(__name__)

T = TypeVar("T")
_IDLE_PERIOD = 30.0
"""Seconds after which a destination is forgotten that was idle all the time."""
_ROOM_PERIOD = 0.5
"""Seconds between two searches for acknowledged messages in a store in memory that is full."""
_MOST_MEMBERS = 1000
"""Of a composite destination, each of which stores a copy of the message with the composite's whole name."""
_ROUNDS = 10
"""How often a deletion removes what has arrived since it began."""
_PATIENCE = 60.0
"""Seconds that a deletion waits until a page of the queue is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Limits and switches of an engine."""

    max_pending_count: int = 2_000
    """Pending writes to the store; keep it well below the store's own limit, which blocks."""
    max_pending_bytes: int = 16 * 1024 * 1024
    memory_limit: int = 64 * 1024 * 1024
    """Bytes of messages in memory."""
    temp_limit: int = 10 * 1024 * 1024 * 1024
    """Bytes of messages in temporary files."""
    folder: Path | None = None
    """The folder of temporary files; None is the system's."""
    concurrent_store_and_dispatch_queues: bool = False
    """Whether messages of queues are dispatched while they are being written."""
    virtual_topics: tuple[VirtualTopicConfig, ...] = DEFAULT_VIRTUAL_TOPICS
    composite_destinations: tuple[CompositeConfig, ...] = ()
    scheduler_support: bool = False
    """Whether messages can be sent later."""
    max_scheduler_repeats: int = 1000
    """The most repetitions that such a message may ask for."""
    reject_durables: bool = False
    """Whether nobody may consume as a durable subscriber."""
    offline_durable_timeout: float = 0.0
    """Seconds without a consumer after which a durable subscription is deleted; 0 never."""
    offline_durable_period: float = 300.0
    """Seconds between two searches for these; 0 never."""
    counted: bool = False
    """Whether the stored messages of each queue are counted when the engine starts."""
    bounds_stored: bool = False
    """Whether ``memory_limit`` also bounds what is stored, if the store has it in memory."""
    audited: bool = False
    """Whether the store has ``enable_audit``: it drops a message id that it has seen in any destination."""


Routed = list[tuple[Queue | Topic | Scheduler, Message]]
"""Where a message goes, and the message as it is there."""


class Policies:
    """The policy entries of a broker.

    Exactly one entry applies to a destination: that of its name, else of the most specific wildcard that
    matches, else the entry without a destination, else the defaults. Only the last two apply to temporary
    destinations.
    """

    def __init__(self, entries: Sequence[PolicyEntry] = ()) -> None:
        named = [(entry.destination, entry) for entry in entries]
        self._by_destination = DestinationMap((where, entry) for where, entry in named if where is not None)
        self._default = next((entry for where, entry in named if where is None), PolicyEntry())

    def of(self, destination: Destination) -> PolicyEntry:
        return self._by_destination.find(destination) or self._default


class Engine:
    """A :class:`jdbcstore.broker.api.Broker` on one store and one event loop.

    Create, start, use and stop it on the loop; no method blocks. The caller opens the store before and closes
    it after. When a persistent send or a commit completes, its messages are durable; messages of a connection
    reach each destination in the order of its sends.

    :param on_defect: called on the loop with an unexpected error, after which the engine has to be replaced:
        some callers may never be answered, and some stored messages are delivered by the next engine only
    :param paused: the queues whose dispatch is paused, which the engine changes
    :param tracing: makes spans of sends, deliveries and acknowledgements
    """

    def __init__(
        self,
        store: Store,
        policies: Policies | None = None,
        *,
        options: EngineOptions | None = None,
        clock: Clock | None = None,
        on_defect: Callable[[Exception], None] | None = None,
        paused: set[Destination] | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.policies = policies or Policies()
        self._defect_handler = on_defect
        self.store = store
        self.paused = set() if paused is None else paused
        self.ended = Counters()
        """Those of all destinations that the engine has forgotten."""
        self.is_stopping = False
        self._thread = threading.get_ident()
        self._options = options = options or EngineOptions()
        self._loop = loop = BrokerLoop(clock or SystemClock(), self._on_defect)
        self._resources = resources = Resources(
            loop=loop,
            memory=MemoryUsage(options.memory_limit),
            files=MemoryUsage(options.temp_limit, high_water_mark=100, name="temp_limit"),
            stored=MemoryUsage(options.memory_limit) if options.bounds_stored else None,
            folder=options.folder,
            tracing=tracing,
            events=MessageEvents(self.policies.of),
        )
        line = StoreLine(loop, options.max_pending_count, options.max_pending_bytes)
        self._outbox = outbox = Outbox(loop, store, line)
        self._transactions = Transactions(resources, outbox, options.memory_limit)
        self._gates = self._transactions.gates
        self.moves = Moves(loop, outbox)
        self._dead_letters = DeadLetters(
            loop, self.moves, self.destination, options.audited, resources.events
        )
        self._durables = DurableRegistry(
            resources, outbox, self._dead_letters, self.policies.of, self._topics
        )
        self._last_sequence = 0
        """The last sequence in the store when the engine started."""
        self._destinations: dict[Destination, Queue | Topic] = {}
        self._subscriptions: dict[BaseSubscription, list[DestinationPattern]] = {}
        """Each subscription with its wildcards."""
        self._directory = directory = Directory(
            loop, self._lasting_destinations, lambda: self._temporary.all()
        )
        self._temporary = TemporaryDestinations(directory.add, directory.ended)
        self._virtual = VirtualDestinations(
            options.virtual_topics, options.composite_destinations, self._is_wanted_in
        )
        self.scheduler: Scheduler | None = None
        """The scheduled messages, if there is support for them."""
        if options.scheduler_support:
            route, most = partial(self._route_due, ""), options.max_scheduler_repeats
            self.scheduler = Scheduler(loop, outbox, route, options.audited, most)
        self._recording: dict[Destination, Future[None]] = {}
        """The queues of virtual topics that the store has recorded, or is about to."""
        self._prepared = PreparedTransactions(loop, store, self._target_of_prepared)
        self._idle_timer: asyncio.TimerHandle | None = None
        self._offline_timer: asyncio.TimerHandle | None = None
        self._deleting: Task[None] | None = None
        self._making_room: Task[None] | None = None
        self._tracing = tracing

    async def start(self) -> None:
        """Create the destinations and durable subscriptions that the store has.

        :raises StoreError: it cannot be read
        """
        self.store.use_loop(self._loop.events)
        if self._resources.stored is not None and isinstance(self.store, InMemory):
            self.store.watch_memory(self._stored_changed)
            self._stored_changed()
        self._last_sequence = await self._loop.run(self.store.last_sequence)
        destinations = await self._loop.run(self.store.destinations)
        await self._durables.load(destinations, self._last_sequence)
        if self.scheduler is not None:
            self.scheduler.start()
        elif JOBS in destinations:
            log.warning("there are scheduled messages, which wait until scheduler_support is on")
        for destination in destinations:
            if destination != JOBS and not (destination.is_topic and is_wildcard(destination)):
                self._destinations[destination] = self._make_destination(destination, is_empty=False)
        if self._options.counted:
            await self._count([found for found in self._destinations.values() if isinstance(found, Queue)])
        self._idle_timer = self._loop.call_later(_IDLE_PERIOD, self._look_for_idle)
        if self._options.offline_durable_timeout and self._options.offline_durable_period:
            self._look_for_offline_later()

    async def stop(self) -> None:
        """Close all subscriptions, wait for pending writes, and forget the rest."""
        self.is_stopping = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._offline_timer is not None:
            self._offline_timer.cancel()
        if self._making_room is not None:
            self._making_room.cancel()
        ending = [each for each in (self._deleting, self._making_room) if each is not None]
        await asyncio.gather(*ending, return_exceptions=True)
        for subscription in list(self._subscriptions):
            subscription.close()
        if self.scheduler is not None:
            await self.scheduler.stop()
        await asyncio.gather(*self._recording.values(), return_exceptions=True)
        await self.settled()
        self.store.use_loop(None)
        if isinstance(self.store, InMemory):
            self.store.watch_memory(None)
        for destination in self._destinations.values():
            destination.close()
        self._loop.close()

    def _stored_changed(self) -> None:
        """In any thread."""
        if threading.get_ident() == self._thread:
            self._count_stored()
        else:
            self._loop.events.call_soon_threadsafe(self._count_stored)

    def _count_stored(self) -> None:
        stored = self._resources.stored
        if stored is None or not isinstance(self.store, InMemory) or self.is_stopping:
            return
        stored.set(self.store.memory_size)
        if stored.is_full and self._making_room is None:
            self._making_room = self._loop.create_task(self._make_room(stored))

    async def _make_room(self, stored: MemoryUsage) -> None:
        """Remove what the durable subscribers have acknowledged, as long as the store is full."""
        try:
            while stored.is_full and not self.is_stopping:
                await self._loop.run(self.store.cleanup)
                await asyncio.sleep(_ROOM_PERIOD)
        finally:
            self._making_room = None

    async def settled(self) -> None:
        """Wait until no write to the store is pending."""
        while not (self._loop.is_idle and self._outbox.is_empty and self._outbox.line.is_idle):
            settled: Future[None] = self._loop.create_future()
            # Scheduled work is done in the next turn.
            self._loop.call_soon(self._outbox.line.when_idle, partial(settled.set_result, None))
            await settled

    def _on_defect(self, error: Exception) -> None:
        log.error("unexpected error in the broker", exc_info=error)
        if self._defect_handler is not None:
            self._defect_handler(error)

    # Destinations

    def _make_destination(self, destination: Destination, *, is_empty: bool) -> Queue | Topic:
        """A new queue or topic; ``is_empty`` if the store holds nothing of it."""
        is_rerouted = self.scheduler is not None or self._virtual.apply_to(destination)
        common = (self._resources, self._outbox, self.destination, destination, self.policies.of(destination))
        if destination.is_topic:
            topic = Topic(*common)
            topic.is_rerouted = is_rerouted
            self._durables.introduce(topic)
            return topic
        concurrent = self._options.concurrent_store_and_dispatch_queues
        queue = Queue(*common, self._dead_letters, self._last_sequence, concurrent, is_empty)
        queue.is_rerouted = is_rerouted
        queue.is_paused = destination in self.paused
        if self._virtual.takes_copies(destination):
            self._virtual.introduce(destination)
            self._record(destination)
        return queue

    def _record(self, queue: Destination) -> Future[None]:
        """Have the store record a queue of a virtual topic, which exists even if it is empty."""
        recording = self._recording.get(queue)
        if recording is None:
            recording = self._recording[queue] = self._loop.run(partial(self.store.record_queue, queue))
            recording.add_done_callback(partial(self._recorded, queue))
        return recording

    def _recorded(self, queue: Destination, recording: Future[None]) -> None:
        if recording.cancelled() or recording.exception() is not None:
            del self._recording[queue]  # the next consumer tries again

    def _is_wanted_in(self, queue: Destination, message: Message) -> bool:
        found = self._destinations.get(queue)
        return isinstance(found, Queue) and any(one.wants(message) for one in found.consumers)

    def _topics(self) -> list[Topic]:
        return [found for found in self._destinations.values() if isinstance(found, Topic)]

    def destination(self, destination: Destination) -> Queue | Topic:
        """The queue or topic of this name, created if it is new.

        :raises InvalidDestination: the name has wildcards
        """
        found = self._destinations.get(destination)
        if found is None:
            self._check_name(destination)
            found = self._destinations[destination] = self._make_destination(destination, is_empty=True)
            if not destination.is_temporary:
                self._directory.add(destination)
            for subscription, patterns in self._subscriptions.items():
                if any(pattern.matches(destination) for pattern in patterns):
                    found.add(subscription)
        return found

    def _check_name(self, destination: Destination) -> None:
        """Check that a destination can be sent to, without creating it.

        :raises InvalidDestination: it has wildcards, or the store cannot hold its name
        """
        if destination == JOBS:
            raise InvalidDestination(f"{JOBS} has the scheduled messages; use another queue")
        if is_wildcard(destination):
            raise InvalidDestination(f"{destination} has wildcards; send to a name without them")
        if not destination.is_temporary:
            find = self.store.topic if destination.is_topic else self.store.queue
            find(destination, prioritized=self.policies.of(destination).prioritized_messages)

    def knows(self, destination: Destination) -> bool:
        return destination in self._destinations

    def forget_idle(self) -> None:
        """Forget the destinations that have been empty and unused since the last call.

        Clients may use any number of names. A forgotten destination is created again when it is named again.
        """
        for name, found in [*self._destinations.items()]:
            if not self._virtual.takes_copies(name) and found.is_idle():
                self._forget(found)

    def _look_for_idle(self) -> None:
        self.forget_idle()
        self._idle_timer = self._loop.call_later(_IDLE_PERIOD, self._look_for_idle)

    def _look_for_offline_later(self) -> None:
        period = self._options.offline_durable_period
        self._offline_timer = self._loop.call_later(period, self._look_for_offline)

    def _look_for_offline(self) -> None:
        def done(deleting: Task[None]) -> None:
            deleting.result()
            if not self.is_stopping:
                self._look_for_offline_later()

        self._deleting = self._loop.create_task(self.delete_offline())
        self._deleting.add_done_callback(self._loop.guarded(done))

    async def delete_offline(self) -> None:
        """Delete the durable subscriptions that have been without a consumer for too long."""
        timeout = self._options.offline_durable_timeout
        latest = self._loop.clock.monotonic() - timeout
        for durable in [*self._durables]:
            if self.is_stopping:
                return
            # Any of them may have come back, and gone again, while another was deleted.
            if durable.offline_since > latest:
                continue
            try:
                if self._durables.unused(*durable.key) is not durable:
                    continue
                await self._unsubscribe(*durable.key)
            except (SubscriptionInUse, SubscriptionNotFound):
                continue
            except StoreError as error:
                log.warning("%s could not be deleted, and is tried again later: %s", durable.name, error)
            else:
                log.info("%s is deleted: it had no consumer for %g seconds", durable.name, timeout)

    # Administration

    @property
    def destinations(self) -> Mapping[Destination, Queue | Topic]:
        """The queues and topics that exist now."""
        return self._destinations

    @property
    def subscriptions(self) -> Collection[BaseSubscription]:
        """Those with a consumer, browsers included."""
        return self._subscriptions.keys()

    @property
    def durables(self) -> Iterable[Durable]:
        """The durable subscriptions, with and without a consumer."""
        return self._durables

    @property
    def resources(self) -> Resources:
        return self._resources

    @property
    def is_audited(self) -> bool:
        """Whether the store drops a message id that it has seen in any destination."""
        return self._options.audited

    @property
    def pending(self) -> tuple[int, int]:
        """The number and the bytes of writes that are passed to the store, or wait for that."""
        return self._outbox.line.pending

    def run(self, function: Callable[[], T]) -> Future[T]:
        """Run a function that reads from the store in a thread."""
        return self._loop.run(function)

    def route(self, message: Message) -> Routed:
        """The places of a message that is sent now, and the message as each gets it.

        :raises InvalidDestination: it cannot be sent there
        """
        return self._route_due("", message)

    async def _count(self, queues: Sequence[Queue]) -> None:
        stores = [queue.store for queue in queues]
        counts = await self._loop.run(lambda: [each.message_count() if each else 0 for each in stores])
        for queue, count in zip(queues, counts, strict=True):
            queue.stored_before = count

    async def count(self, queue: Queue) -> int:
        """The number of messages of a queue whose size is not known, which is known from now on.

        It is exact if nothing of the queue is written meanwhile.

        :raises StoreError: the store cannot be read
        """
        counters = queue.counters
        await self._loop.run(self.store.last_sequence)  # behind what is being read now
        known = counters.enqueued - counters.dequeued
        counted = 0 if queue.store is None else await self._loop.run(queue.store.message_count)
        queue.stored_before = counted - known
        return max(counted + counters.enqueued - counters.dequeued - known, 0)

    async def _forget_drained(self, queue: Queue) -> bool:
        """Forget a queue, if it has no consumer and no message; returns whether it had none.

        :raises StoreError: the record of a queue of a virtual topic could not be removed
        """
        name = queue.destination
        if not self._can_forget(queue):
            return False
        if self._virtual.takes_copies(name):
            await self._loop.run(partial(self.store.drop_record, name))
            self._recording.pop(name, None)
            if not self._can_forget(queue):  # it has come into use meanwhile
                await self._record(name)
                return False
        self._forget(queue)
        return True

    def _can_forget(self, found: Queue | Topic) -> bool:
        is_current = self._destinations.get(found.destination) is found
        return is_current and not found.has_consumers and found.is_drained

    async def delete(self, found: Queue | Topic, *, keep_subscriptions: bool = False) -> tuple[int, int]:
        """Remove the messages of a queue without consumers and forget it, or delete a topic without them.

        A topic is deleted with the durable subscriptions to it alone, and what is sent meanwhile waits, and
        is sent to a topic of the same name. Returns how many messages of a queue were removed, and how many
        are left: those that have arrived since, and those that an open transaction has.

        :param keep_subscriptions: the durable subscriptions stay, without messages
        :raises StoreError: some of it could not be deleted, which stays
        :raises SubscriptionInUse: a durable subscription of the topic is in use
        """
        count = left = 0
        if isinstance(found, Topic):
            await self._durables.delete_topic(found, keep_subscriptions=keep_subscriptions)
            if self._can_forget(found):
                self._forget(found)
        else:
            with found.held():
                for _ in range(_ROUNDS):
                    count += await found.take(lambda _: True, partial(self._remove, found))
                    async with asyncio.timeout(_PATIENCE):
                        await found.settled()
                    if await self._forget_drained(found) or found.has_consumers:
                        break
                if self._destinations.get(found.destination) is found:
                    left = await self.count(found)
            found.resume()
        self.paused.discard(found.destination)
        return count, left

    def _remove(self, queue: Queue, entries: Sequence[Entry]) -> Future[None]:
        if self.is_stopping:
            raise StoreClosed("the broker is stopping; ask the next master")
        return queue.acknowledge(entries)

    def delete_destination(self, destination: Destination) -> Future[None]:
        return self._loop.create_task(self._delete_unused(destination))

    async def _delete_unused(self, destination: Destination) -> None:
        if destination.is_composite or is_wildcard(destination):
            raise InvalidDestination(f"{destination} names several destinations; delete each")
        await self._outbox.written()
        found = self._destinations.get(destination)
        if found is None:
            return
        if found.has_consumers or (isinstance(found, Topic) and found.durables):
            raise InvalidDestination(
                f"Destination: {destination} still has an active subscription; end it before it is deleted"
            )
        await self.delete(found)

    def _forget(self, found: Queue | Topic) -> None:
        name = found.destination
        self.ended.add(found.counters)
        del self._destinations[name]
        self._virtual.forget(name)
        found.close()
        if not name.is_temporary:
            self._directory.remove(name)

    # Sending

    def send(self, message: Message, connection_id: str) -> Future[None]:
        if self._tracing is not None:
            return self._tracing.send(message, connection_id, lambda each: self._gated(each, connection_id))
        return self._gated(message, connection_id)

    def _gated(self, message: Message, connection_id: str) -> Future[None]:
        if connection_id in self._gates.closed:
            return self._gates.send(connection_id, partial(self._send, message, connection_id))
        return self._send(message, connection_id)

    def _send(self, message: Message, connection_id: str) -> Future[None]:
        found = self._destinations.get(message.destination) if message.destination else None
        try:
            if message.reply_to is not None:
                self._temporary.expect_reply(message.reply_to, connection_id)
            if found is not None and not found.is_rerouted:
                return found.send(message, connection_id)
            if self.scheduler is not None and is_management(message.destination):
                return self._loop.create_task(manage(self.scheduler, message, self._send_due))
            targets = self._route(message, connection_id)
        except StoreError as error:
            return self._loop.failed(error)
        if len(targets) == 1:
            [(target, each)] = targets
            return target.send(each, connection_id)
        return self._send_together(targets, message, connection_id) if targets else self._loop.done()

    def _send_together(self, targets: Routed, message: Message, connection_id: str) -> Future[None]:
        """Send to all members of a composite destination, or of a virtual one, or to none."""
        transaction = EngineTransaction(self._transactions, lambda _: targets, connection_id)
        room = transaction.send(message)
        if room.done() and room.exception() is not None:
            transaction.rollback()
            return room
        commit = transaction.commit()
        return commit if room.done() else self._loop.all_done([commit, room])

    def begin(self, connection_id: str, xid: XATransactionId | None = None) -> BrokerTransaction:
        route = partial(self._route, connection_id=connection_id)
        transaction: EngineTransaction
        if xid is None:
            transaction = EngineTransaction(self._transactions, route, connection_id)
        else:
            branch = self.store.xa.start(xid)
            transaction = _Branch(self._transactions, route, connection_id, branch, self._prepared)
        return transaction if self._tracing is None else self._tracing.transaction(transaction, connection_id)

    def prepared(self) -> Future[list[XATransactionId]]:
        return self._loop.create_task(self._prepared.ids())

    def commit_prepared(self, xid: XATransactionId) -> Future[None]:
        return self._loop.create_task(self._prepared.commit(xid))

    def rollback_prepared(self, xid: XATransactionId) -> Future[None]:
        return self._loop.create_task(self._prepared.rollback(xid))

    def _target_of_prepared(self, destination: Destination) -> Target:
        """The target that has written to a destination of the store: jobs are the scheduler's."""
        if self.scheduler is not None and destination == JOBS:
            return self.scheduler
        return self.destination(destination)

    def last_producer_sequence(self, producer_id: ProducerId) -> Future[int | None]:
        return self._loop.run(partial(self.store.last_producer_sequence_id, producer_id))

    def _route(self, message: Message, connection_id: str) -> Routed:
        """Each destination of a message, and the message as it gets it."""
        found = self._destinations.get(message.destination) if message.destination else None
        if found is not None and not found.is_rerouted:
            return [(found, message)]
        scheduler = self.scheduler
        if scheduler is not None and is_management(message.destination):
            raise InvalidDestination(f"{message.destination} acts at once; send to it without a transaction")
        if scheduler is None or message.destination is None or not scheduler.takes(message):
            return self._route_due(connection_id, message)
        members = _members_of(message.destination)
        self._temporary.use(members, connection_id)
        for member in members:
            self._check_name(member)
        return [(scheduler, scheduler.job(_addressed(message, one), n)) for n, one in enumerate(members)]

    def _send_due(self, message: Message) -> None:
        """Send a message that is not persistent, without a caller that waits."""
        for target, each in self._route_due("", message):
            target.arrive(each, None, "")

    def _route_due(self, connection_id: str, message: Message) -> Routed:
        """As :meth:`_route`, for a message that is sent now."""
        if message.destination is None:
            raise InvalidDestination("a message needs a destination to be sent to")
        members = _members_of(message.destination)
        self._temporary.use(members, connection_id)
        messages = [_addressed(message, member) for member in members]
        if any(map(self._virtual.apply_to, members)):
            messages = [copy for each in messages for copy in self._virtual.route(each)]
        if self._options.audited:
            messages[1:] = [each.replace(message_id=renamed(each.message_id)) for each in messages[1:]]
        return [(self.destination(each.destination), each) for each in messages if each.destination]

    # Subscribing

    def subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> Future[Subscription]:
        try:
            members = _members_of(request.destination)
            if len({member.is_topic for member in members}) > 1:
                raise InvalidDestination(f"{request.destination} has queues and topics; subscribe to each")
            if request.subscription_name is not None and self._options.reject_durables:
                raise InvalidSubscription("Durable Consumers are not allowed; use a plain subscriber")
            self._temporary.own(members, request.connection_id)
        except StoreError as error:
            return self._loop.failed(error)
        subscribed = self._loop.create_task(self._subscribe(request, consumer))
        # The first of its callbacks: nothing is delivered before the others have run.
        subscribed.add_done_callback(self._begin_soon)
        return subscribed

    async def _subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> Subscription:
        subscription: BaseSubscription
        if not request.destination.members[0].is_topic:
            if request.browser:
                await self._outbox.written()  # a client sees what it has sent and committed before
            subscription = self._subscribed_to_queues(request, consumer)
            for member in request.destination.members:
                if member in self._destinations and self._virtual.takes_copies(member):
                    await asyncio.shield(self._record(member))
        elif request.subscription_name is None:
            subscription = self._subscribed_to_topics(request, consumer)
        else:
            subscription = await self._durables.subscribe(request, consumer)
        subscription.on_close = self._closed
        self._add(subscription)
        self._directory.add(request)
        return subscription

    def _closed(self, subscription: BaseSubscription) -> None:
        self._subscriptions.pop(subscription, None)
        self._directory.remove(subscription.request)

    def _begin_soon(self, subscribed: Future[Subscription]) -> None:
        if not subscribed.cancelled() and subscribed.exception() is None:
            self._loop.call_soon(cast(BaseSubscription, subscribed.result()).begin)

    def _subscribed_to_topics(self, request: SubscriptionRequest, consumer: Consumer) -> BaseSubscription:
        policy, memory = self.policies.of(request.destination.members[0]), self._resources.memory
        if not request.destination.is_composite and not is_wildcard(request.destination):
            memory = self.destination(request.destination).memory
        return TopicSubscriber(self._resources, request, consumer, policy.topic_prefetch, policy, memory)

    def _subscribed_to_queues(self, request: SubscriptionRequest, consumer: Consumer) -> BaseSubscription:
        for member in request.destination.members:
            if not is_wildcard(member):
                self.destination(member)
            elif not request.browser:
                self._make_of_pattern(member)
        policy, resources = self.policies.of(request.destination), self._resources
        if not request.browser:
            return BaseSubscription(resources, request, consumer, policy.queue_prefetch)
        prefetch, size = policy.queue_browser_prefetch, policy.max_browse_page_size
        return Browser(resources, request, consumer, prefetch, self.store, size, self._last_sequence)

    def _make_of_pattern(self, queues: Destination) -> None:
        """As in ActiveMQ, the first consumer of several virtual topics at once has a queue of that name."""
        pattern = DestinationPattern(queues)
        if self._virtual.takes_copies(queues) and not any(
            pattern.overlaps(DestinationPattern(one)) for one in self._destinations
        ):
            self._destinations[queues] = self._make_destination(queues, is_empty=True)

    def _add(self, subscription: BaseSubscription) -> None:
        members = subscription.request.destination.members
        patterns = [DestinationPattern(member) for member in members if is_wildcard(member)]
        self._subscriptions[subscription] = patterns
        found = {self.destination(member) for member in members if not is_wildcard(member)}
        found.update(
            candidate
            for destination, candidate in self._destinations.items()
            if any(pattern.matches(destination) for pattern in patterns)
        )
        for destination in found:
            destination.add(subscription)

    def unsubscribe(self, client_id: str, subscription_name: str) -> Future[None]:
        return self._loop.create_task(self._unsubscribe(client_id, subscription_name))

    async def _unsubscribe(self, client_id: str, subscription_name: str) -> None:
        destination = self._durables.unused(client_id, subscription_name).destination
        await self._durables.unsubscribe(client_id, subscription_name)
        self._directory.remove(
            DurableInfo(client_id=client_id, subscription_name=subscription_name, destination=destination)
        )

    def unused_durable(self, client_id: str, subscription_name: str) -> Durable:
        """A durable subscription without a consumer.

        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        """
        return self._durables.unused(client_id, subscription_name)

    async def purge_subscription(
        self, client_id: str, subscription_name: str, topic: Destination | None = None
    ) -> int:
        """Acknowledge what is pending for a durable subscription without a consumer; its number.

        :param topic: only messages of this topic
        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        """
        return await self._durables.purge(client_id, subscription_name, topic)

    def create_temporary(self, destination: Destination, connection_id: str) -> None:
        self._temporary.own([destination], connection_id)

    def delete_temporary(self, destination: Destination, connection_id: str) -> None:
        if owner_of(destination) != connection_id:
            raise InvalidDestination(f"{destination} is another connection's own; only that may delete it")
        found = self._destinations.get(destination)
        if found is not None and found.has_consumers:
            raise InvalidDestination(f"{destination} has consumers; close them before it is deleted")
        self._temporary.delete(destination)
        self._end_temporary(destination)

    # What is there

    def _lasting_destinations(self) -> list[Destination]:
        return [destination for destination in self._destinations if not destination.is_temporary]

    def connected(self, connection: ConnectionInfo) -> None:
        self._directory.add(connection)

    def add_producer(self, producer: ProducerInfo) -> None:
        self._directory.add(producer)

    def remove_producer(self, connection_id: str, producer_id: ProducerId) -> None:
        producer = self._directory.producer(connection_id, producer_id)
        if producer is not None:
            self._directory.remove(producer)

    def all_known(self, *, only_temporary: bool) -> list[Known]:
        return [*(self._temporary.all() if only_temporary else self._directory)]

    def count_consumers(self, destination: Destination) -> int:
        return self._directory.consumers_of(destination)

    def count_producers(self, destination: Destination) -> int:
        return self._directory.producers_of(destination)

    def watch(self, watcher: Watcher, *, only_temporary: bool) -> None:
        self._directory.watch(watcher, only_temporary=only_temporary)
        if not only_temporary:
            self._resources.events.watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._directory.unwatch(watcher)
        self._resources.events.unwatch(watcher)

    def disconnected(self, connection_id: str) -> None:
        self._directory.disconnected(connection_id)
        self._drop(connection_id)
        if connection_id in self._gates.closed:  # what waits at the gate may still arrive
            self._gates.call(connection_id, lambda: self._drop(connection_id))

    def _drop(self, connection_id: str) -> None:
        for flow in self._resources.flows.pop(connection_id, ()):
            flow.drop(connection_id)
        for own in self._temporary.end(connection_id):
            self._end_temporary(own)

    def _end_temporary(self, destination: Destination) -> None:
        ended = self._destinations.pop(destination, None)
        if ended is not None:
            self.ended.add(ended.counters)
            ended.close()
            ended.memory.decrease(ended.memory.used)  # also of what was given back


class _Branch(EngineTransaction):
    """A branch of a distributed transaction, which the broker keeps once it is prepared."""

    def __init__(
        self,
        transactions: Transactions,
        route: Route,
        connection_id: str,
        branch: XATransaction,
        prepared: PreparedTransactions,
    ) -> None:
        super().__init__(transactions, route, connection_id, branch)
        self._xid = branch.xid
        self._prepared = prepared

    def prepare(self) -> Future[bool]:
        done = super().prepare()
        # The first of its callbacks: whoever is notified may commit at once.
        done.add_done_callback(self._keep)
        return done

    def _keep(self, done: Future[bool]) -> None:
        if not done.cancelled() and done.exception() is None and done.result():
            self._prepared.add(self._xid, self)


def _members_of(destination: Destination) -> tuple[Destination, ...]:
    """The members of a composite destination, or the destination itself.

    :raises InvalidDestination: there are too many
    """
    members = destination.members
    if len(members) > _MOST_MEMBERS:
        raise InvalidDestination(
            f"a composite of {len(members)} destinations is too long: use several of at most {_MOST_MEMBERS}"
        )
    return members


def _addressed(message: Message, member: Destination) -> Message:
    """The message as one member of a composite destination gets it."""
    if message.destination == member:
        return message
    return message.replace(
        destination=member, original_destination=message.original_destination or message.destination
    )
