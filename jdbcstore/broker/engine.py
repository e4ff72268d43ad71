"""The broker's engine: routes sends, subscriptions and transactions of connectors to queues and topics.

A send goes to its destination, which writes it through the outbox and dispatches it after the commit. All
state that outlives the engine is in the store, and the next engine starts from there.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from jdbcstore.abc import InMemory, KeepsLargeBodies, KeepsOutbox, Store, Transaction, XATransaction
from jdbcstore.broker.amending import amending
from jdbcstore.broker.api import BrokerTransaction, Consumer, Subscription, SubscriptionRequest
from jdbcstore.broker.deletion import DestinationDeletion
from jdbcstore.broker.destinations import DestinationRegistry
from jdbcstore.broker.directory import Directory
from jdbcstore.broker.event_log import EventLog
from jdbcstore.broker.events import MessageEvents
from jdbcstore.broker.inserted import OutboxSender
from jdbcstore.broker.large import LargeTransfers
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.memory import MemoryUsage, Resources
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.queues.moves import Moves
from jdbcstore.broker.queues.pauses import KnownPauses, Pauses
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.routing import Router, addressed
from jdbcstore.broker.scheduler.management import is_management, manage
from jdbcstore.broker.scheduler.scheduler import Scheduler
from jdbcstore.broker.slow_consumers import SlowConsumers
from jdbcstore.broker.statistics import StatisticsAnswers
from jdbcstore.broker.store_io.occupancy import StoreOccupancy
from jdbcstore.broker.store_io.outbox import Outbox, StoreLine
from jdbcstore.broker.store_io.prepared import PreparedTransactions
from jdbcstore.broker.store_io.room import StorageRoom
from jdbcstore.broker.store_io.transaction import EngineTransaction, OpenTransactions, Route, SendTarget
from jdbcstore.broker.subscribing import ConsumerSubscriptions
from jdbcstore.broker.temporary import TemporaryDestinations, owner_of
from jdbcstore.broker.topics.offline import OfflineDurables
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.config.plugins import (
    LoggingConfig,
    StatisticsConfig,
)
from jdbcstore.errors import ConfigurationError, InvalidDestination, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import ProducerId, XATransactionId
from jdbcstore.message.jobs import JOBS
from jdbcstore.message.message import Message
from jdbcstore.stores.io_exceptions import GuardedStore
from jdbcstore.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from jdbcstore.broker.tracing import Tracing

log = logging.getLogger(__name__)


Routed = Sequence[tuple[Queue | Topic | Scheduler, Message]]
"""A destination of a message, and the message in its form for this destination."""


class Engine:
    """The engine of a broker, on one store and one event loop.

    Create, start, use and stop it on the loop; no method blocks. The caller opens the store before and closes
    it after. When a persistent send or a commit completes, its messages are durable. Messages of a connection
    reach each destination in the order of its sends.

    :param on_defect: called on the loop with an unexpected error, after which the engine must be replaced,
        because some callers may never be answered, and some stored messages are delivered only by the next
        engine
    :param paused: the paused queues, which the engine changes, for a store that does not record them
    :param tracing: makes spans of sends, deliveries and acknowledgements
    :raises ConfigurationError: the store has an outbox, and no locker
    """

    def __init__(
        self,
        store: Store,
        policies: Policies | None = None,
        *,
        options: EngineOptions | None = None,
        clock: Clock | None = None,
        on_defect: Callable[[Exception], None] | None = None,
        paused: KnownPauses | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.store, self.options = store, options or EngineOptions()
        self.is_stopping, self._tracing, self._defect_handler = False, tracing, on_defect
        options, policies = self.options, policies or Policies()
        self.loop = loop = BrokerLoop(clock or SystemClock(), self._on_defect)
        """The loop, and the threads for functions that read from the store."""
        self.resources = resources = self._make_resources(policies)
        line = StoreLine(loop, options.max_pending_count, options.max_pending_bytes)
        room = StorageRoom(loop, store, options.data_folders, options.disk_free_limit)
        self.outbox = outbox = Outbox(loop, store, line, room)
        """The pending writes to the store."""
        self._transactions = OpenTransactions(
            resources, outbox, options.memory_limit, options.max_uncommitted_count
        )
        self._gates = self._transactions.gates
        self.moves = Moves(loop, outbox)
        """Moves of messages between destinations, for an administrator."""
        self.directory = Directory(loop, resources.events)
        """The connections, producers, consumers and destinations that clients can watch."""
        event_log = resources.event_log
        if event_log is not None:
            self.directory.watch(event_log, only_temporary=False)
        self._amend = amending(options.plugins, loop.clock, None if event_log is None else event_log.sent)
        self._temporary = TemporaryDestinations(self.directory)
        pauses = Pauses(store, loop, {} if paused is None else paused)
        self.destinations = DestinationRegistry(
            resources, outbox, self.moves, policies, self.directory, pauses, options
        )
        self._by_name, self.durables = self.destinations.by_name, self.destinations.durables
        self.deletion = DestinationDeletion(destinations=self.destinations, outbox=outbox)
        self._consumers = ConsumerSubscriptions(
            resources, outbox, policies, self.destinations, self._temporary, self.directory, options
        )
        self.offline = OfflineDurables(loop, self.durables, options)
        """The deletion of durable subscriptions without a consumer."""
        self.router = Router(self.destinations, self._temporary, loop.clock, is_audited=options.audited)
        self.scheduler = self._make_scheduler()
        """The scheduled messages, if they are enabled."""
        self.inserted = self._make_outbox_sender()
        """The messages that SQL statements insert, if the store has an outbox."""
        self.slow_consumers = SlowConsumers(loop, policies, lambda: self.destinations.subscriptions)
        """The slow consumers, which policies may close."""
        self._statistics = self._make_statistics()
        self._has_policies = any(part is not None for part in (self._amend, tracing, self._statistics))
        """Whether plug-ins must see each sent message."""
        self.large = LargeTransfers(loop, store.large_bodies) if isinstance(store, KeepsLargeBodies) else None
        """The bodies that the store keeps in pieces; None if the store does not support it."""
        self._prepared = PreparedTransactions(loop, store, self._target_of_prepared)
        self._occupancy = self._make_occupancy()

    def _make_resources(self, policies: Policies) -> Resources:
        options = self.options
        is_bounded = options.bounds_stored and isinstance(self.store, InMemory)
        logged = [plugin for plugin in options.plugins if isinstance(plugin, LoggingConfig)]
        return Resources(
            loop=self.loop,
            memory=MemoryUsage(options.memory_limit),
            files=MemoryUsage(options.temp_limit, high_water_mark=100, name="temp_limit"),
            stored=MemoryUsage(options.memory_limit) if is_bounded else None,
            folder=options.folder,
            tracing=self._tracing,
            event_log=EventLog(logged[0]) if logged else None,
            events=MessageEvents(policies.of, reports_dispatches=policies.report_dispatches),
        )

    def _make_scheduler(self) -> Scheduler | None:
        options = self.options
        if not options.scheduler_support:
            return None
        route, most = partial(self.router.route, connection_id=""), options.max_scheduler_repeats
        return Scheduler(self.loop, self.outbox, route, options.audited, most)

    def _make_occupancy(self) -> StoreOccupancy | None:
        store, stored = self.store, self.resources.stored
        if not isinstance(store, InMemory) or stored is None:
            return None
        return StoreOccupancy(self.loop, store, store.cleanup, stored)

    def _make_outbox_sender(self) -> OutboxSender | None:
        outbox = self.store.outbox if isinstance(self.store, KeepsOutbox) else None
        if outbox is None:
            return None
        if isinstance(self.store, GuardedStore) and self.store.fence is None:
            raise ConfigurationError(
                "without a locker two brokers could send each row of the outbox: add a locker, or leave out"
                " outbox",
                option="outbox",
            )
        return OutboxSender(self.loop, outbox, self.begin, self.scheduler is not None)

    def _make_statistics(self) -> StatisticsAnswers | None:
        if not any(isinstance(plugin, StatisticsConfig) for plugin in self.options.plugins):
            return None
        return StatisticsAnswers(
            self.options, self.resources, self.destinations, self.directory, self._send_due
        )

    # From start to stop

    async def start(self) -> None:
        """Make the destinations and durable subscriptions that the store has.

        :raises StoreError: it cannot be read
        """
        self.store.use_loop(self.loop.events)
        self.outbox.room.start()
        if self._occupancy is not None:
            self._occupancy.start()
        last_sequence = await self.loop.run(self.store.last_sequence)
        names = await self.loop.run(self.store.destinations)
        await self.destinations.load(names, last_sequence, is_counted=self.options.counted)
        self.destinations.declare(self.options.destinations)
        if self.scheduler is not None:
            self.scheduler.start()
        elif JOBS in names:
            log.warning("there are scheduled messages, which are not sent until scheduler_support is on")
        self.offline.start()
        self.slow_consumers.start()
        if self.inserted is not None:
            self.inserted.start()

    async def stop(self) -> None:
        """Close all subscriptions, wait for pending writes, and forget all other state."""
        self.is_stopping = True
        self.deletion.stop()
        self.slow_consumers.stop()
        await self.outbox.room.stop()
        await self.offline.stop()
        if self._occupancy is not None:
            await self._occupancy.stop()
        if self.inserted is not None:
            await self.inserted.stop()
        if self.scheduler is not None:
            await self.scheduler.stop()
        await self.destinations.stop()
        await self.until_idle()
        self.store.use_loop(None)
        self.destinations.close()
        self.loop.close()

    async def until_idle(self) -> None:
        """Wait until no write to the store is pending."""
        loop, outbox = self.loop, self.outbox
        while not (loop.is_idle and not loop.reading and outbox.is_empty and outbox.line.is_idle):
            if loop.reading:
                await asyncio.wait(loop.reading)
                continue
            settled: Future[None] = loop.create_future()
            # Scheduled work is done in the next iteration of the loop.
            loop.call_soon(outbox.line.when_idle, partial(settled.set_result, None))
            await settled

    def _on_defect(self, error: Exception) -> None:
        log.error("unexpected error in the broker", exc_info=error)
        if self._defect_handler is not None:
            self._defect_handler(error)

    # Sending

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Route a message to its ``destination``, which may be a composite.

        Completes when the message is durable, if it is persistent, and there is room for more; the future is
        a :class:`~jdbcstore.broker.loop.Promise` unless it completes immediately. For producer flow control,
        a connector stops reading from a connection with too many pending sends.

        :raises StoreError: through the future; nothing was sent
        """
        if self._amend is not None:
            message = self._amend(message)
        if self._tracing is None and connection_id not in self._gates.closed:
            return self._send(message, connection_id)
        send = partial(self._send_in_turn, connection_id=connection_id)
        return send(message) if self._tracing is None else self._tracing.send(message, connection_id, send)

    def lane_to(self, message: Message, connection_id: str) -> Queue | None:
        """Return the queue of a message that only needs storing; None if the message needs :meth:`send`.

        For a later callback of the loop, the same message may be a different case.
        """
        destination = message.destination if message.persistent and message.reply_to is None else None
        if destination is None or self._has_policies or connection_id in self._gates.closed:
            return None
        target = self._by_name.get(destination)
        if not isinstance(target, Queue) or target.is_rerouted or not target.only_stores:
            return None
        return target

    def _send_in_turn(self, message: Message, connection_id: str) -> Future[None]:
        if connection_id in self._gates.closed:
            return self._gates.send(connection_id, partial(self._send, message, connection_id))
        return self._send(message, connection_id)

    def _send(self, message: Message, connection_id: str) -> Future[None]:
        destination = self._by_name.get(message.destination) if message.destination else None
        try:
            if message.reply_to is not None:
                self._temporary.expect_reply(message.reply_to, connection_id)
            if destination is not None and not destination.is_rerouted and self._statistics is None:
                return destination.send(message, connection_id)
            if self.scheduler is not None and is_management(message.destination):
                return self.loop.create_task(manage(self.scheduler, message, self._send_due))
            if self._statistics is not None and self._statistics.accepts(message):
                return self.loop.create_task(self._statistics.answer(message))
            targets = self._route(message, connection_id)
        except StoreError as error:
            return self.loop.failed(error)
        if len(targets) == 1:
            [(target, routed)] = targets
            return target.send(routed, connection_id)
        return self._send_together(targets, message, connection_id) if targets else self.loop.done()

    def _send_together(self, targets: Routed, message: Message, connection_id: str) -> Future[None]:
        """Send to all members of a composite or virtual destination, or to none."""
        transaction = EngineTransaction(self._transactions, lambda _: targets, connection_id)
        room = transaction.send(message)
        if room.done() and room.exception() is not None:
            transaction.rollback()
            return room
        commit = transaction.commit()
        return commit if room.done() else self.loop.all_done([commit, room])

    def _route(self, message: Message, connection_id: str) -> Routed:
        """Return each destination of a message, and the message for it; a scheduled message is a job."""
        destination = self._by_name.get(message.destination) if message.destination else None
        if destination is not None and not destination.is_rerouted and self._statistics is None:
            return [(destination, message)]
        scheduler, statistics = self.scheduler, self._statistics
        if statistics is not None and statistics.accepts(message):
            self.loop.create_task(statistics.answer(message))  # outside the transaction
            return []
        if scheduler is not None and is_management(message.destination):
            raise InvalidDestination(
                f"{message.destination} acts immediately; send to it without a transaction"
            )
        if scheduler is None or not scheduler.accepts(message):
            return self.router.route(message, connection_id)
        members = self.router.members(message, connection_id)
        for member in members:
            self.destinations.check_name(member)
        return [(scheduler, scheduler.job(addressed(message, name), n)) for n, name in enumerate(members)]

    def _send_due(self, message: Message) -> None:
        """Send a non-persistent message, without a waiting caller."""
        for target, routed in self.router.route(message, ""):
            target.arrive(routed, None, "")

    def last_producer_sequence(self, producer_id: ProducerId) -> Future[int | None]:
        """Return the number of a producer's last stored message, for a producer that sends again."""
        return self.loop.run(partial(self.store.last_producer_sequence_id, producer_id))

    # Transactions

    def begin(
        self, connection_id: str, xid: XATransactionId | None = None, moving: Transaction | None = None
    ) -> BrokerTransaction:
        """Begin a transaction of this connection, or a branch of a distributed transaction.

        :raises TransactionError: the branch has an id that cannot be stored, or is already prepared
        """
        route = partial(self._route, connection_id=connection_id)
        if self._amend is not None:
            route = partial(self._route_amended, connection_id=connection_id)
        transaction: EngineTransaction
        if xid is None:
            transaction = EngineTransaction(self._transactions, route, connection_id, moving=moving)
        else:
            branch = self.store.xa.start(xid)
            transaction = _Branch(self._transactions, route, connection_id, branch, self._prepared)
        begun: BrokerTransaction = transaction
        if self.resources.event_log is not None:
            begun = self.resources.event_log.transaction(begun, connection_id)
        return begun if self._tracing is None else self._tracing.transaction(begun, connection_id)

    def _route_amended(self, message: Message, connection_id: str) -> Routed:
        return self._route(message if self._amend is None else self._amend(message), connection_id)

    def prepared(self) -> Future[list[XATransactionId]]:
        """Return the ids of all prepared transactions, including those of earlier brokers on the store."""
        return self.loop.create_task(self._prepared.ids())

    def commit_prepared(self, xid: XATransactionId) -> Future[None]:
        """Perform phase two; completes when it is durable.

        :raises TransactionNotFound: through the future; it is not prepared
        """
        return self.loop.create_task(self._prepared.commit(xid))

    def rollback_prepared(self, xid: XATransactionId) -> Future[None]:
        """Drop the sends of a prepared transaction, and deliver its messages again.

        :raises TransactionNotFound: through the future; it is not prepared
        """
        return self.loop.create_task(self._prepared.rollback(xid))

    def _target_of_prepared(self, name: Destination) -> SendTarget:
        """Return the target that wrote to a destination of the store; the scheduler wrote jobs."""
        if self.scheduler is not None and name == JOBS:
            return self.scheduler
        return self.destinations.find(name)

    # Subscriptions and destinations

    def knows(self, destination: Destination) -> bool:
        """Return whether a queue or topic of this name, without wildcards, exists."""
        return destination in self._by_name

    def subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> Future[Subscription]:
        """Start consuming.

        :raises InvalidSelector: through the future
        :raises StoreError: through the future; no subscription was created
        """
        return self._consumers.subscribe(request, consumer)

    def unsubscribe(self, client_id: str, subscription_name: str) -> Future[None]:
        """Delete a durable subscription, which must not have a consumer."""
        return self.loop.create_task(self.durables.unsubscribe(client_id, subscription_name))

    def delete_destination(self, destination: Destination) -> Future[None]:
        """Delete a queue or topic and its messages; do nothing if it does not exist.

        :raises InvalidDestination: through the future; it has consumers or durable subscriptions
        :raises StoreError: through the future; a part could not be deleted, and stays
        """
        return self.loop.create_task(self.deletion.delete_unused(destination))

    def create_temporary(self, destination: Destination, connection_id: str) -> None:
        """Create a temporary destination before it is used.

        :raises InvalidDestination: it is not this connection's, or the connection has too many
        """
        self._temporary.own([destination], connection_id)

    def delete_temporary(self, destination: Destination, connection_id: str) -> None:
        """Delete a temporary destination and its messages; do nothing if it does not exist.

        :raises InvalidDestination: it is not this connection's, or it has consumers
        """
        if owner_of(destination) != connection_id:
            raise InvalidDestination(
                f"{destination} belongs to another connection; only that connection may delete it"
            )
        existing = self._by_name.get(destination)
        if existing is not None and existing.has_consumers:
            raise InvalidDestination(f"{destination} has consumers; close them first")
        self._temporary.delete(destination)
        self.destinations.end_temporary(destination)

    def disconnected(self, connection_id: str) -> None:
        """Forget an ended connection with its subscriptions; its temporary destinations end."""
        self.directory.disconnected(connection_id)
        self._drop(connection_id)
        if connection_id in self._gates.closed:  # messages that wait at the gate may still arrive
            self._gates.call(connection_id, lambda: self._drop(connection_id))

    def _drop(self, connection_id: str) -> None:
        for flow in self.resources.flows.pop(connection_id, ()):
            flow.drop(connection_id)
        for destination in self._temporary.end(connection_id):
            self.destinations.end_temporary(destination)


class _Branch(EngineTransaction):
    """A branch of a distributed transaction, which the broker keeps after its preparation."""

    def __init__(
        self,
        transactions: OpenTransactions,
        route: Route,
        connection_id: str,
        branch: XATransaction,
        prepared: PreparedTransactions,
    ) -> None:
        super().__init__(transactions, route, connection_id, branch)
        self._xid = branch.xid
        self._prepared = prepared

    def prepare(self) -> Future[bool]:
        self._prepared.begin(self._xid)
        return super().prepare()

    def _preparation_ended(self, *, is_prepared: bool) -> None:
        self._prepared.end(self._xid, self if is_prepared else None)
