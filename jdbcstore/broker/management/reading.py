"""Views of a running broker: its destinations, clients and store, and the messages of its queues."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any

from jdbcstore.abc import Checkpointed, Cursor, JournalState, Measured, Recorded, RemovalRecord, Store
from jdbcstore.broker.consumer_watch import SLOW, ConsumerWatch
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.management.baselines import Baselines, total_of
from jdbcstore.broker.management.checkups import Checkups, StreamProbe
from jdbcstore.broker.management.history import CounterHistory
from jdbcstore.broker.management.lists import arranged
from jdbcstore.broker.management.loads import ConsumerLoads
from jdbcstore.broker.management.master import (
    CurrentMaster,
    clients_of,
    existing,
    missing,
    queue_of,
)
from jdbcstore.broker.management.messages import MessageChoice, MessagePage, browse, message_page
from jdbcstore.broker.management.runs import OperationRun, OperationRuns
from jdbcstore.broker.management.subscriptions import pending_messages
from jdbcstore.broker.management.views import (
    BrokerView,
    ConnectionView,
    DestinationView,
    LockEvent,
    MastershipView,
    StoreView,
    SubscriptionView,
    TransactionView,
    WritesView,
    destination_view,
    durable_of,
    offline_view,
    rejects_most,
    subscription_view,
    timings_view,
    values_of,
)
from jdbcstore.broker.operations import MAX_BROWSED
from jdbcstore.broker.queues.dead_letters import dead_letter_queue
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.broker.transport.connector import Connector
from jdbcstore.config.policy import IndividualDeadLetterStrategy
from jdbcstore.errors import MessageNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.stores.io_exceptions import GuardedStore
from jdbcstore.util.checkup import Checkup
from jdbcstore.util.clock import Clock
from jdbcstore.util.stream_health import StreamHealth
from jdbcstore.util.timings import Timings

_AT_ONCE = 250
"""Destinations read per iteration of the event loop, in some milliseconds."""


class Views:
    """A view of one broker; every method is called on its loop.

    Each raises :class:`~jdbcstore.errors.NotMaster` while the broker is not serving, unless documented
    otherwise. Views that read the store raise :class:`~jdbcstore.errors.StoreError` if it cannot be read.
    """

    def __init__(
        self,
        *,
        master: CurrentMaster,
        baselines: Baselines,
        runs: OperationRuns,
        history: CounterHistory,
        clock: Clock,
    ) -> None:
        self._runs = runs
        self._history = history
        self._master = master
        self._baselines = baselines
        self._clock = clock
        self._began = clock.monotonic()
        self._listing = asyncio.Lock()
        self._checkups = Checkups(clock)
        self._stream_probe = StreamProbe(clock)
        self._watched = ConsumerWatch()

    def broker(self, *, monotonic: bool = False) -> BrokerView:
        """Return the broker's version, addresses, totals and memory, also while it is not serving.

        :param monotonic: as in :meth:`destinations`
        """
        master = self._master.process.master
        engine = None if master is None else master.engine
        common: dict[str, Any] = {
            "identity": self._master.process.identity,
            "condition": self._master.process.condition,
            "uptime": self._clock.monotonic() - self._began,
        }
        if master is None or engine is None:
            return BrokerView(**common)
        total = total_of(engine)
        if not monotonic:
            total = self._baselines.since(engine, total)
        topics = sum(isinstance(destination, Topic) for destination in engine.destinations.by_name.values())
        counters: dict[str, Any] = dict(values_of(total))
        memory, files = engine.resources.memory, engine.resources.files
        return BrokerView(
            name=next((connector.service.broker_id for connector in master.connectors), ""),
            addresses=tuple(map(_uri, master.connectors)),
            connections=sum(len(connector.clients) for connector in master.connectors),
            connections_total=sum(connector.accepted for connector in master.connectors),
            queues=len(engine.destinations) - topics,
            topics=topics,
            refused=engine.outbox.room.refused,
            moved=0 if engine.inserted is None else engine.inserted.moved,
            bad=0 if engine.inserted is None else engine.inserted.bad,
            memory_used=memory.used,
            memory_limit=memory.limit,
            temp_used=files.used,
            temp_limit=files.limit,
            **common,
            **counters,
        )

    async def destinations(
        self, names: Iterable[Destination] | None = None, *, monotonic: bool = False
    ) -> list[DestinationView]:
        """Return the queues and topics that the broker knows, or those of ``names``, sorted by name.

        :param monotonic: whether to return the counters that :meth:`reset` does not change
        """
        if names is not None:
            return await self._views([*names], monotonic=monotonic)
        # One after the other, so that the loop does other work between two of them.
        async with self._listing:
            await asyncio.sleep(0)
            engine = self._master.engine()
            return await self._views([*engine.destinations], monotonic=monotonic)

    async def _views(self, chosen: Sequence[Destination], *, monotonic: bool) -> list[DestinationView]:
        served, engine = self._master.required()
        known = engine.destinations.by_name
        for queue in [queue for name in chosen if isinstance(queue := known.get(name), Queue)]:
            if queue.stored_before is None:
                await engine.destinations.count(queue)
        loads = ConsumerLoads(engine.destinations.subscriptions)
        producers = Counter(name for client in clients_of(served) for name in client.access.writable)
        now = self._clock.monotonic()
        views = []
        for number, name in enumerate(chosen, 1):
            destination = known.get(name)
            if destination is not None:
                counters = destination.counters
                views.append(
                    destination_view(
                        destination,
                        counters if monotonic else self._baselines.since(destination, counters),
                        loads,
                        producers.get(name, 0),
                        engine.destinations.pauses.known.get(name),
                        self._history.activity(name, now),
                    )
                )
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        return sorted(views, key=attrgetter("name"))

    async def listed(
        self,
        *,
        kind: str | None = None,
        search: str = "",
        where: str = "",
        sort: str = "name",
        order: str = "asc",
        offset: int = 0,
        limit: int = 100,
        ages: bool = False,
    ) -> dict[str, Any]:
        """Return a page of the queues and topics, sorted by a field, and the ``total`` of all pages.

        Destinations without a value of that field come last.

        :param kind: ``queue`` or ``topic``
        :param search: a part of the name, ignoring case
        :param where: conditions for :func:`jdbcstore.broker.management.lists.conditions`
        :param ages: whether to read the age of the first message of each queue
        """
        matching = [
            view
            for view in await self.destinations()
            if (kind is None or view.is_topic == (kind == "topic")) and search.lower() in view.name.lower()
        ]
        matching = arranged(matching, where=where, sort=sort, is_descending=order == "desc")
        page = matching[offset : offset + limit]
        return {"total": len(matching), "destinations": await self.with_ages(page) if ages else page}

    async def destination(self, name: Destination) -> DestinationView:
        """Return one queue or topic, with the age of its first message.

        :raises DestinationNotFound: it does not exist
        """
        engine = self._master.engine()
        destination = existing(engine, name)
        views = await self.destinations([name])
        age = await self.oldest_age(destination) if isinstance(destination, Queue) else None
        if not views:
            raise missing(name)
        return replace(views[0], oldest_age=age)

    async def oldest_age(self, queue: Queue) -> float | None:
        """Return the age of the first message of a queue; None if there is none."""
        engine = self._master.engine()
        store = queue.store
        first = list(await engine.loop.run(partial(store.recover, 1))) if store is not None else []
        times = [
            message.timestamp_ms for message in [*first, *queue.transient_messages()] if message.timestamp_ms
        ]
        return max(self._clock.now_ms() - min(times), 0) / 1000 if times else None

    def connections(self) -> list[ConnectionView]:
        """Return the connections whose clients have logged in."""
        served, engine = self._master.required()
        consumers: Counter[str] = Counter()
        in_flight: Counter[str] = Counter()
        for subscription in engine.destinations.subscriptions:
            consumers[subscription.request.connection_id] += 1
            in_flight[subscription.request.connection_id] += len(subscription.held)
        return [
            ConnectionView(
                id=client.connection_id,
                client_id=client.access.client_id,
                user=client.access.principal_name,
                peer=client.peer,
                protocol=client.protocol,
                age=client.age,
                consumers=consumers[client.connection_id],
                in_flight=in_flight[client.connection_id],
                is_slow=client.output.paused,
                sends_to=tuple(sorted(map(str, client.access.writable))),
                connector=_uri(connector),
            )
            for connector in served.connectors
            for client in connector.clients
        ]

    def unacknowledged(self, connection: str, limit: int) -> list[tuple[Entry, float]]:
        """Return the first unacknowledged messages of a client, and the seconds since their deliveries."""
        now_ms = self._clock.now_ms()
        held = [
            (entry, max(now_ms - time_ms, 0) / 1000)
            for subscription in self._master.engine().destinations.subscriptions
            if subscription.request.connection_id == connection
            for entry, time_ms in islice(subscription.held.items(), limit)
            if time_ms
        ]
        return sorted(held, key=lambda pair: -pair[1])[:limit]

    def operations(self) -> list[OperationRun]:
        """Return running operations on messages, and the last 50 finished ones."""
        self._master.engine()
        return self._runs.all()

    def slow_clients(self) -> list[str]:
        """Return the clients that do not read their messages, by client id, or by connection."""
        served, _ = self._master.required()
        slow = [client for client in clients_of(served) if client.output.paused]
        return [client.access.client_id or client.connection_id for client in slow]

    def failing_consumers(self) -> list[SubscriptionView]:
        """Return the consumers that are slow or reject most messages."""
        now, watched = self._clock.monotonic(), self._watched
        return [
            view
            for view, _ in self._consumers(
                lambda consumer: rejects_most(consumer) or (watched.unsettled(consumer, now) or 0.0) >= SLOW
            )
        ]

    def dead_letters(self) -> int:
        """Return the number of dead letters, as far as it is known without reading the store."""
        destinations = self._master.engine().destinations
        queues = (destinations.get(name) for name in self.dead_letter_queues())
        return sum((queue.size or 0) for queue in queues if isinstance(queue, Queue))

    def look_at_consumers(self) -> None:
        """Record the progress of consumers."""
        self._watched.observe(self._master.engine().destinations.subscriptions, self._clock.monotonic())

    def _consumers(
        self, wanted: Callable[[BaseSubscription], bool] = lambda _: True
    ) -> list[tuple[SubscriptionView, BaseSubscription]]:
        self.look_at_consumers()
        numbers: Counter[str] = Counter()
        views = []
        for subscription in self._master.engine().destinations.subscriptions:
            numbers[subscription.request.connection_id] += 1
            if wanted(subscription):
                number = numbers[subscription.request.connection_id]
                view = subscription_view(subscription, number, self._watched, self._clock)
                views.append((view, subscription))
        return views

    async def subscriptions(self, *, pending: bool = False) -> list[SubscriptionView]:
        """Return all consumers, and durable subscriptions without a consumer.

        The consumer with the oldest unacknowledged message is the first.

        :param pending: whether to count the pending messages of durable subscriptions
        """
        engine = self._master.engine()
        views = [(view, durable_of(consumer)) for view, consumer in self._consumers()]
        views.sort(key=lambda pair: -(pair[0].oldest_unacknowledged or 0.0))
        views += [(offline_view(durable), durable) for durable in engine.durables if not durable.is_in_use]
        if not pending:
            return [view for view, _ in views]
        counted = {}
        for _, durable in views:
            if durable is not None:
                counted[durable.key] = await engine.loop.run(partial(pending_messages, engine.store, durable))
        return [
            view if durable is None else replace(view, pending=counted[durable.key])
            for view, durable in views
        ]

    async def transactions(self) -> list[TransactionView]:
        """Return the prepared XA transactions."""
        engine = self._master.engine()
        writes = {
            transaction.xid: tuple(map(WritesView.of, transaction.writes))
            for transaction in await engine.loop.run(engine.store.xa.recover)
        }
        xids = await engine.prepared()
        return [TransactionView(xid=str(xid), writes=writes.get(xid, ())) for xid in xids]

    def lock(self) -> MastershipView:
        """Return the mastership and its epoch, also while the broker does not serve."""
        master = self._master.process.master
        return _mastership(None if master is None else master.store)

    def lock_history(self) -> list[LockEvent]:
        """Return the last 100 changes of the mastership in this process, the oldest first."""
        return list(self._master.process.history)

    async def journal(self) -> JournalState | None:
        """Return the journal in front of the store; None if there is none."""
        engine = self._master.engine()
        store = engine.store
        return await engine.loop.run(store.journal_state) if isinstance(store, Checkpointed) else None

    async def streams(self) -> list[StreamHealth]:
        """Return the state of the journals' streams, at most two seconds old."""
        return await self._stream_probe.of(self._master.engine().store)

    async def store(self) -> StoreView:
        """Return the store, and its journal if there is one."""
        engine = self._master.engine()
        count, size = engine.outbox.line.pending
        return StoreView(
            kind=type(engine.store).__name__,
            pending_writes=count,
            pending_bytes=size,
            last_sequence=await engine.loop.run(engine.store.last_sequence),
            timings={name: timings_view(timings) for name, timings in self.timings().items()},
        )

    async def checkup(self) -> Checkup | None:
        """Return the diagnoses and figures of the database, at most fifteen seconds old.

        None without a database, and while the first checkup takes long.
        """
        engine = self._master.engine()
        return await self._checkups.of(engine.store, engine.loop.run)

    def pending(self) -> tuple[int, int]:
        """Return the number and the bytes of waiting and running writes."""
        return self._master.engine().outbox.line.pending

    async def with_ages(self, views: Sequence[DestinationView]) -> list[DestinationView]:
        """Return the views of queues with the age of the first message, read together."""
        engine = self._master.engine()
        names = [Destination.parse(view.name) for view in views]
        queues = [
            queue if view.size and isinstance(queue := engine.destinations.get(name), Queue) else None
            for name, view in zip(names, views, strict=True)
        ]
        stores = [None if queue is None else queue.store for queue in queues]
        firsts = await engine.loop.run(lambda: [[*store.recover(1)] if store else [] for store in stores])
        now_ms = self._clock.now_ms()
        return [
            replace(view, oldest_age=max(now_ms - first[0].timestamp_ms, 0) / 1000)
            if first and first[0].timestamp_ms
            else view
            for view, first in zip(views, firsts, strict=True)
        ]

    def dead_letter_queues(self) -> list[Destination]:
        """Return the dead letter queues by the policies of the destinations in memory, sorted."""
        engine = self._master.engine()
        queues: set[Destination] = set()
        seen: set[int] = set()
        for name, destination in engine.destinations.by_name.items():
            strategy = destination.policy.dead_letter_strategy
            if id(strategy) in seen:
                continue
            if not isinstance(strategy, IndividualDeadLetterStrategy):  # the same queue for all
                seen.add(id(strategy))
            queue = dead_letter_queue(strategy, name)
            if queue is not None:
                queues.add(queue)
        known = [queue for queue in queues if isinstance(engine.destinations.get(queue), Queue)]
        return sorted(known, key=str)

    def tallies(self) -> dict[Destination, tuple[int, Counters]]:
        """Return the size of each destination, 0 if it is unknown, and its counters, without reading the
        store."""
        engine = self._master.engine()
        return {
            name: ((destination.size or 0) if isinstance(destination, Queue) else 0, destination.counters)
            for name, destination in engine.destinations.by_name.items()
        }

    def timings(self) -> dict[str, Timings]:
        """Return the timings of the store's work, if it is :class:`~jdbcstore.abc.Measured`."""
        master = self._master.process.master
        store = None if master is None else master.store
        return dict(store.timings) if isinstance(store, Measured) else {}

    # Messages

    async def browse(
        self, queue: Destination, choice: MessageChoice | None = None, *, limit: int = 100
    ) -> list[Message]:
        """Return the first messages of a queue without removing them, including unacknowledged ones.

        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it is a topic
        :raises InvalidSelector: the selector is invalid
        """
        engine = self._master.engine()
        choice = choice or MessageChoice()
        most = min(limit, MAX_BROWSED, choice.limit or MAX_BROWSED)
        return [message async for message in browse(engine, queue_of(engine, queue), choice, most)]

    async def page(
        self, queue: Destination, choice: MessageChoice, *, after: Cursor | None = None, limit: int = 50
    ) -> MessagePage:
        """Return a page of messages after a position; every page of a long queue is equally fast.

        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it is a topic
        :raises InvalidSelector: the selector is invalid
        :raises NotARequest: the position belongs to another kind of queue
        """
        engine = self._master.engine()
        source = queue_of(engine, queue)
        transient = source.transient_messages
        return await message_page(engine.loop.run, source.store, transient, choice.wanted(), after, limit)

    def holder(self, queue: Destination, message: Message) -> str | None:
        """Return the client that holds a message of a queue unacknowledged, or None."""
        served, engine = self._master.required()
        names = {client.connection_id: client.access.client_id for client in clients_of(served)}
        for subscription in engine.destinations.subscriptions:
            if any(
                entry.destination == queue and entry.stored and entry.sequence == message.sequence
                for entry in subscription.held
            ):
                connection = subscription.request.connection_id
                return names.get(connection) or connection
        return None

    async def removals(self, message: MessageId, since_ms: int | None = None) -> list[RemovalRecord]:
        """Return the recorded removals of a message; see :class:`jdbcstore.abc.Recorded`."""
        engine = self._master.engine()
        store = engine.store
        if not isinstance(store, Recorded):
            return []
        return await engine.loop.run(partial(store.removals, message, since_ms))

    async def message(self, queue: Destination, message_id: str) -> Message:
        """Return one message of a queue.

        :raises DestinationNotFound: the queue does not exist
        :raises InvalidDestination: it is a topic
        :raises MessageNotFound: the queue does not have it
        """
        messages = await self.browse(queue, MessageChoice(ids=(message_id,)), limit=1)
        if not messages:
            raise MessageNotFound(
                f"{queue} does not have the message {message_id}; it may have been consumed"
            )
        return messages[0]


def _uri(connector: Connector) -> str:
    return f"{connector.config.scheme}://{connector.address}"


def _mastership(store: Store | None) -> MastershipView:
    fence = store.fence if isinstance(store, GuardedStore) else None
    if fence is None:
        return MastershipView(is_held=False, epoch=None, lost=None)
    lost = fence.lost
    epoch: int | None = getattr(fence, "epoch", None)
    return MastershipView(is_held=lost is None, epoch=epoch, lost=None if lost is None else str(lost))
