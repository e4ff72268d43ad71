"""The management of a broker: what an administrator sees and does while it serves.

Everything runs on the broker's loop and by the broker's own rules: an operation on a queue takes messages
from the reach of its consumers first, so none that was removed or moved is delivered, and none that a
consumer has is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio import Future
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from operator import attrgetter
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from jdbcstore.abc import Checkpointed, Cursor, JournalState, Measured, Store
from jdbcstore.broker.api import SubscriptionRequest
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.management.audit import Actor, Audit
from jdbcstore.broker.management.holds import (
    Collector,
    HeldOfQueue,
    HeldOfSubscription,
    Holds,
    first_of_subscription,
)
from jdbcstore.broker.management.messages import (
    Consumed,
    MessageChoice,
    MessagePage,
    addressed,
    browse,
    change,
    defect_of,
    message_page,
    move,
)
from jdbcstore.broker.management.views import (
    BrokerView,
    ConnectionView,
    DestinationView,
    LockEvent,
    MastershipView,
    OperationOutcome,
    StoreView,
    SubscriptionView,
    TransactionView,
    WritesView,
    destination_view,
    durable_of,
    offline_view,
    subscription_view,
    timings_view,
    values_of,
)
from jdbcstore.broker.memory import Entry
from jdbcstore.broker.queues.browser import Browser
from jdbcstore.broker.queues.dead_letters import dead_letter_queue
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.queues.selection import Act
from jdbcstore.broker.topics.durable import Durable
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.broker.transport.connector import Connector
from jdbcstore.config.policy import IndividualDeadLetterStrategy
from jdbcstore.errors import (
    CorruptMessage,
    DestinationNotFound,
    InvalidDestination,
    InvalidMessage,
    MessageNotFound,
    NotMaster,
    StoreClosed,
    SubscriptionExists,
    SubscriptionInUse,
    SubscriptionNotFound,
)
from jdbcstore.lockers.io_exceptions import GuardedStore
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId, XATransactionId
from jdbcstore.message.message import Message
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.timings import Timings

log = logging.getLogger(__name__)

MAX_BROWSED = 1000
"""Messages that one call of :meth:`Management.browse` returns at most."""
_NUMBERS = (
    "connections",
    "connections_total",
    "queues",
    "topics",
    "memory_used",
    "memory_limit",
    "temp_used",
    "temp_limit",
)
_CONNECTION = "management"
_BATCH = 200
_PATIENCE = 60.0
"""Seconds that a send may wait for room."""


class Served(Protocol):
    """A broker that is the master."""

    @property
    def engine(self) -> Engine | None:
        """None while it does not serve."""

    @property
    def connectors(self) -> Sequence[Connector]: ...

    @property
    def store(self) -> Store: ...


class Managed(Protocol):
    """The process of a broker."""

    @property
    def master(self) -> Served | None:
        """The broker, while it is the master."""

    @property
    def history(self) -> Iterable[LockEvent]:
        """The last changes of the mastership, oldest first."""

    def obstacle(self) -> str | None:
        """Why it is not serving; None if it is."""

    def hand_over(self) -> None:
        """Let another broker become the master, and be a slave."""


@dataclass(eq=False, repr=False)
class Management:
    """Views and operations of one broker; every method is called on its loop.

    Operations are logged, see :mod:`jdbcstore.broker.management.audit`. Each raises
    :class:`~jdbcstore.errors.NotMaster` while the broker does not serve.
    """

    _managed: Managed
    _clock: Clock = field(default_factory=SystemClock)
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._audit = Audit(self._clock)
        self._began = self._clock.monotonic()
        self._holds = Holds()
        self._listing = asyncio.Lock()
        self._before: WeakKeyDictionary[Queue | Topic | Engine, Counters] = WeakKeyDictionary()
        """The counters as they were when they were reset."""

    def _master(self) -> tuple[Served, Engine]:
        master = self._managed.master
        engine = None if master is None else master.engine
        if master is None or engine is None:
            raise NotMaster(
                f"this broker does not serve: {self._managed.obstacle()}; ask the one that is the master"
            )
        return master, engine

    # Views

    def broker(self, *, monotonic: bool = False) -> BrokerView:
        """The whole broker, also while it does not serve.

        :param monotonic: as in :meth:`destinations`
        """
        master = self._managed.master
        engine = None if master is None else master.engine
        common: dict[str, Any] = {
            "version": _version(),
            "obstacle": self._managed.obstacle(),
            "uptime": self._clock.monotonic() - self._began,
        }
        if master is None or engine is None:
            zeros: dict[str, Any] = dict.fromkeys(_NUMBERS, 0)
            zeros |= values_of(Counters())
            return BrokerView(name="", addresses=(), **common, **zeros)
        total = _total(engine)
        if not monotonic:
            total = self._since_reset(engine, total)
        topics = sum(isinstance(found, Topic) for found in engine.destinations.values())
        counters: dict[str, Any] = dict(values_of(total))
        memory, files = engine.resources.memory, engine.resources.files
        return BrokerView(
            name=next((one.broker_id for one in master.connectors), ""),
            addresses=tuple(map(_uri, master.connectors)),
            connections=sum(len(one.clients) for one in master.connectors),
            connections_total=sum(one.accepted for one in master.connectors),
            queues=len(engine.destinations) - topics,
            topics=topics,
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
        """The queues and topics that the broker knows, sorted by name; some of them if ``names`` is given.

        :param monotonic: whether the counters are those that :meth:`reset` leaves alone
        :raises StoreError: the store cannot be read
        """
        if names is not None:
            return await self._views([*names], monotonic=monotonic)
        # One after the other: the loop does other work between two of them, however many are asked for.
        async with self._listing:
            await asyncio.sleep(0)
            _, engine = self._master()
            return await self._views([*engine.destinations], monotonic=monotonic)

    async def _views(self, chosen: Sequence[Destination], *, monotonic: bool) -> list[DestinationView]:
        master, engine = self._master()
        for queue in [found for name in chosen if isinstance(found := engine.destinations.get(name), Queue)]:
            if queue.size is None:
                await engine.count(queue)
        in_flight = _in_flight(engine)
        producers = Counter(name for one in _clients(master) for name in one.sends_to)
        views = [
            destination_view(
                found,
                found.counters if monotonic else self._since_reset(found, found.counters),
                in_flight[name],
                producers[name],
            )
            for name in chosen
            if (found := engine.destinations.get(name)) is not None
        ]
        return sorted(views, key=attrgetter("name"))

    async def destination(self, name: Destination) -> DestinationView:
        """One queue or topic, with the age of its first message.

        :raises DestinationNotFound: it does not exist
        :raises StoreError: the store cannot be read
        """
        _, engine = self._master()
        found = _existing(engine, name)
        views = await self.destinations([name])
        age = await self.oldest_age(found) if isinstance(found, Queue) else None
        if not views:
            raise _missing(name)
        return replace(views[0], oldest_age=age)

    def _since_reset(self, of: Queue | Topic | Engine, counters: Counters) -> Counters:
        before = self._before.get(of)
        return counters if before is None else counters.since(before)

    async def oldest_age(self, queue: Queue) -> float | None:
        """The age of the first message of a queue; None if there is none.

        :raises StoreError: the store cannot be read
        """
        _, engine = self._master()
        store = queue.store
        first = list(await engine.run(partial(store.recover, 1))) if store is not None else []
        times = [one.timestamp_ms for one in [*first, *queue.transient_messages()] if one.timestamp_ms]
        return max(self._clock.now_ms() - min(times), 0) / 1000 if times else None

    def connections(self) -> list[ConnectionView]:
        """The connections whose clients have logged in."""
        master, engine = self._master()
        consumers: Counter[str] = Counter()
        in_flight: Counter[str] = Counter()
        for one in engine.subscriptions:
            consumers[one.request.connection_id] += 1
            in_flight[one.request.connection_id] += len(one.held)
        return [
            ConnectionView(
                id=client.connection_id,
                client_id=client.client_id,
                user=client.principal_name,
                peer=client.peer,
                protocol=client.protocol,
                age=client.age,
                consumers=consumers[client.connection_id],
                in_flight=in_flight[client.connection_id],
                is_slow=client.paused,
                sends_to=tuple(sorted(map(str, client.sends_to))),
                connector=_uri(connector),
            )
            for connector in master.connectors
            for client in connector.clients
        ]

    async def subscriptions(self, *, pending: bool = False) -> list[SubscriptionView]:
        """Every consumer, and the durable subscriptions that have none.

        :param pending: whether to count the pending messages of durable subscriptions
        :raises StoreError: the store cannot be read
        """
        _, engine = self._master()
        numbers: Counter[str] = Counter()
        views = []
        for one in engine.subscriptions:
            numbers[one.request.connection_id] += 1
            view = subscription_view(one, numbers[one.request.connection_id])
            views.append((view, durable_of(one)))
        views += [(offline_view(one), one) for one in engine.durables if not one.is_in_use]
        if not pending:
            return [view for view, _ in views]
        counted = {}
        for _, durable in views:
            if durable is not None:
                counted[durable.key] = await engine.run(partial(_pending, engine.store, durable))
        return [view if one is None else replace(view, pending=counted[one.key]) for view, one in views]

    async def transactions(self) -> list[TransactionView]:
        """The XA transactions in doubt.

        :raises StoreError: the store cannot be read
        """
        _, engine = self._master()
        found = {
            one.xid: tuple(map(WritesView.of, one.writes))
            for one in await engine.run(engine.store.xa.recover)
        }
        xids = await engine.prepared()
        return [TransactionView(xid=str(xid), writes=found.get(xid, ())) for xid in xids]

    def lock(self) -> MastershipView:
        """The mastership, also while the broker does not serve."""
        master = self._managed.master
        store = None if master is None else master.store
        fence = store.fence if isinstance(store, GuardedStore) else None
        if fence is None:
            return MastershipView(is_held=False, epoch=None, lost=None)
        lost = fence.lost
        epoch: int | None = getattr(fence, "epoch", None)
        return MastershipView(is_held=lost is None, epoch=epoch, lost=None if lost is None else str(lost))

    def lock_history(self) -> list[LockEvent]:
        """The last changes of the mastership as this process has seen them, oldest first."""
        return list(self._managed.history)

    async def journal(self) -> JournalState | None:
        """The journal in front of the store; None if there is none.

        :raises StoreError: its folder cannot be read
        """
        _, engine = self._master()
        store = engine.store
        return await engine.run(store.journal_state) if isinstance(store, Checkpointed) else None

    async def store(self) -> StoreView:
        """The store, and its journal if there is one.

        :raises StoreError: the store cannot be read
        """
        _, engine = self._master()
        count, size = engine.pending
        return StoreView(
            kind=type(engine.store).__name__,
            pending_writes=count,
            pending_bytes=size,
            last_sequence=await engine.run(engine.store.last_sequence),
            timings={name: timings_view(one) for name, one in self.timings().items()},
        )

    def pending(self) -> tuple[int, int]:
        """The number and the bytes of writes that wait for the store, or are under way."""
        return self._master()[1].pending

    async def with_ages(self, views: Sequence[DestinationView]) -> list[DestinationView]:
        """The views of queues with the age of the first message, in one go.

        :raises StoreError: the store cannot be read
        """
        _, engine = self._master()
        names = [Destination.parse(view.name) for view in views]
        queues = [
            found if view.size and isinstance(found := engine.destinations.get(name), Queue) else None
            for name, view in zip(names, views, strict=True)
        ]
        stores = [None if queue is None else queue.store for queue in queues]
        firsts = await engine.run(lambda: [[*store.recover(1)] if store else [] for store in stores])
        now_ms = self._clock.now_ms()
        return [
            replace(view, oldest_age=max(now_ms - first[0].timestamp_ms, 0) / 1000)
            if first and first[0].timestamp_ms
            else view
            for view, first in zip(views, firsts, strict=True)
        ]

    def dead_letter_queues(self) -> list[Destination]:
        """The queues that dead letters go to by the policies of the destinations in memory, sorted."""
        _, engine = self._master()
        places: set[Destination] = set()
        seen: set[int] = set()
        for name, found in engine.destinations.items():
            strategy = found.policy.dead_letter_strategy
            if not isinstance(strategy, IndividualDeadLetterStrategy):  # the same for all
                if id(strategy) in seen:
                    continue
                seen.add(id(strategy))
            place = dead_letter_queue(strategy, name)
            if place is not None:
                places.add(place)
        found_queues = [place for place in places if isinstance(engine.destinations.get(place), Queue)]
        return sorted(found_queues, key=str)

    def tallies(self) -> dict[Destination, tuple[int, Counters]]:
        """The size of each destination, 0 if it is not known, and its counters; the store is not asked."""
        _, engine = self._master()
        return {
            name: ((found.size or 0) if isinstance(found, Queue) else 0, found.counters)
            for name, found in engine.destinations.items()
        }

    def timings(self) -> dict[str, Timings]:
        """The counters of the store's work, as :class:`~jdbcstore.abc.Measured` has them; none if there are
        none."""
        master = self._managed.master
        store = None if master is None else master.store
        return dict(store.timings) if isinstance(store, Measured) else {}

    # Messages

    async def browse(
        self, queue: Destination, choice: MessageChoice | None = None, *, limit: int = 100
    ) -> list[Message]:
        """The first messages of a queue, those with consumers included; they stay where they are.

        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it is a topic
        :raises InvalidSelector: the selector is invalid
        :raises StoreError: the store cannot be read
        """
        _, engine = self._master()
        choice = choice or MessageChoice()
        most = min(limit, MAX_BROWSED, choice.limit or MAX_BROWSED)
        return [one async for one in browse(engine, _queue(engine, queue), choice, most)]

    async def page(
        self, queue: Destination, choice: MessageChoice, *, after: Cursor | None = None, limit: int = 50
    ) -> MessagePage:
        """Messages of a queue after a position, found by their sequence: as fast anywhere in a long queue.

        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it is a topic
        :raises InvalidSelector: the selector is invalid
        :raises ValueError: the position is of another kind of queue
        :raises StoreError: the store cannot be read
        """
        _, engine = self._master()
        found = _queue(engine, queue)
        transient = found.transient_messages
        return await message_page(engine.run, found.store, transient, choice.wanted(), after, limit)

    async def message(self, queue: Destination, message_id: str) -> Message:
        """One message of a queue.

        :raises DestinationNotFound: the queue does not exist
        :raises InvalidDestination: it is a topic
        :raises MessageNotFound: the queue does not have it
        :raises StoreError: the store cannot be read
        """
        found = await self.browse(queue, MessageChoice(ids=(message_id,)), limit=1)
        if not found:
            raise MessageNotFound(
                f"{queue} does not have the message {message_id}; it may have been consumed"
            )
        return found[0]

    async def send(self, actor: Actor, messages: Sequence[Message]) -> OperationOutcome:
        """Send messages, as a client does; all are durable when this returns, if they are persistent.

        :raises StoreError: some of them were not sent
        """
        places = sorted({str(one.destination) for one in messages})
        with self._audit.operation(actor, "send", destination=",".join(places)) as line:
            _, engine = self._master()
            async with asyncio.timeout(_PATIENCE):
                await asyncio.gather(*[engine.send(each, _CONNECTION) for each in messages])
            line["count"] = len(messages)
        return OperationOutcome(count=len(messages))

    async def purge(
        self, actor: Actor, destination: Destination, *, expired: bool = False
    ) -> OperationOutcome:
        """Remove all messages of a queue, as :meth:`remove`; of a topic, those of its durable subscriptions.

        Subscriptions that have a consumer are left alone; their messages are counted in ``left``.

        :param expired: whether to remove only those of a queue that have expired
        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it is a topic, and ``expired``
        :raises StoreError: some of them could not be removed, which stay
        """
        if not destination.is_topic:
            return await self.remove(actor, destination, MessageChoice(expired=expired), name="purge")
        count = left = 0
        with self._audit.operation(actor, "purge", destination=str(destination)) as line:
            _, engine = self._master()
            _existing(engine, destination)
            if expired:
                raise InvalidDestination(
                    f"{destination} is a topic; only queues are searched for expired messages"
                )
            for durable in [one for one in engine.durables if destination in one.topics]:
                try:
                    count += await engine.purge_subscription(*durable.key, destination)
                except SubscriptionInUse:
                    left += await engine.run(partial(_pending, engine.store, durable, [destination]))
                except SubscriptionNotFound:
                    continue
            line["count"] = count
        return OperationOutcome(count=count, left=left)

    async def purge_subscription(self, actor: Actor, client_id: str, name: str) -> OperationOutcome:
        """Remove what is pending for a durable subscription that has no consumer.

        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        :raises StoreError: some of it could not be removed
        """
        with self._audit.operation(
            actor, "purge_subscription", client_id=client_id, subscription=name
        ) as line:
            _, engine = self._master()
            line["count"] = count = await engine.purge_subscription(client_id, name)
        return OperationOutcome(count=count)

    async def remove(
        self, actor: Actor, queue: Destination, choice: MessageChoice, *, name: str = "remove"
    ) -> OperationOutcome:
        """Remove the messages of a queue that had arrived before this call, and that no consumer has.

        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it is a topic
        :raises InvalidSelector: the selector is invalid
        :raises StoreError: some of them could not be removed, which stay
        """
        with self._operation(actor, name, queue, choice) as line:
            _, engine = self._master()
            source = _queue(engine, queue)
            count = await self._take(engine, source, choice, source.acknowledge)
            line["count"] = count
        return OperationOutcome(count=count, left=_left(engine, queue, choice, count))

    async def move(
        self, actor: Actor, queue: Destination, choice: MessageChoice, to: Destination | None = None
    ) -> OperationOutcome:
        """Move messages to another destination, or to the one that each came from, in its order.

        A message is added there and removed here in one transaction. Back where it came from it is as it was
        sent, without the cause of its death and without an expiration.

        :param to: None is where each came from; those of unknown origin stay
        :raises DestinationNotFound: the queue does not exist
        :raises InvalidDestination: it is a topic, or the same as ``to``
        :raises InvalidSelector: the selector is invalid
        :raises StoreError: some of them could not be moved, which stay
        """
        lost: list[MessageId | None] = []
        with self._operation(actor, "retry" if to is None else "move", queue, choice) as line:
            line["to"] = None if to is None else str(to)
            _, engine = self._master()
            source = _queue(engine, queue)
            if to is not None:
                _check_target(queue, to)
            act = partial(move, engine, source, to)
            line["count"] = count = await self._take(
                engine, source, choice, act, unknown=lost if to is None else None
            )
        return OperationOutcome(count=count, left=_left(engine, queue, choice, count) + len(lost))

    async def retry(self, actor: Actor, queue: Destination, choice: MessageChoice) -> OperationOutcome:
        """Send dead letters again to where each came from, as :meth:`move` without ``to``."""
        return await self.move(actor, queue, choice)

    async def copy(
        self, actor: Actor, queue: Destination, choice: MessageChoice, to: Destination
    ) -> OperationOutcome:
        """Send copies of messages of a queue that had arrived before this call, those with consumers
        included, to another destination.

        :raises DestinationNotFound: the queue does not exist
        :raises InvalidDestination: it is a topic, or the same as ``to``
        :raises InvalidSelector: the selector is invalid
        :raises StoreError: some of them could not be copied
        """
        count, batch = 0, []
        with self._operation(actor, "copy", queue, choice) as line:
            line["to"] = str(to)
            _, engine = self._master()
            source = _queue(engine, queue)
            _check_target(queue, to)
            async for each in browse(engine, source, choice, choice.limit, last=source.arrived):
                batch.append(addressed(engine, each, to))
                if len(batch) == _BATCH:
                    await asyncio.gather(*[engine.send(one, _CONNECTION) for one in batch])
                    count, batch = count + len(batch), []
            await asyncio.gather(*[engine.send(one, _CONNECTION) for one in batch])
            line["count"] = count = count + len(batch)
        return OperationOutcome(count=count)

    async def change(
        self,
        actor: Actor,
        queue: Destination,
        choice: MessageChoice,
        *,
        priority: int | None = None,
        expiration_ms: int | None = None,
    ) -> OperationOutcome:
        """Replace messages by new ones with another priority or expiration, last in their queue.

        Each is replaced in one transaction, and gets a new message id.

        :param expiration_ms: epoch milliseconds; 0 is never
        :raises DestinationNotFound: the queue does not exist
        :raises InvalidDestination: it is a topic
        :raises InvalidMessage: nothing is to be changed, or the priority is none
        :raises InvalidSelector: the selector is invalid
        :raises StoreError: some of them could not be replaced, which stay
        """
        with self._operation(actor, "change", queue, choice) as line:
            line |= {"priority": priority, "expiration_ms": expiration_ms}
            _, engine = self._master()
            source = _queue(engine, queue)
            if priority is None and expiration_ms is None:
                raise InvalidMessage("nothing is to be changed; give a priority or an expiration")
            if priority is not None and not 0 <= priority <= 9:
                raise InvalidMessage(f"{priority} is not a priority; use one from 0 to 9")
            act = partial(change, engine, source, priority=priority, expiration_ms=expiration_ms)
            line["count"] = count = await self._take(engine, source, choice, act)
        return OperationOutcome(count=count, left=_left(engine, queue, choice, count))

    async def consume(self, actor: Actor, queue: Destination, choice: MessageChoice) -> Consumed:
        """Take the first messages of a queue that no consumer has, without those that have expired.

        They are delivered again unless :meth:`acknowledge` is called with the token within a minute.

        :raises DestinationFull: too many messages are held like this
        :raises DestinationNotFound: the queue does not exist
        :raises InvalidDestination: it is a topic
        :raises InvalidSelector: the selector is invalid
        :raises StoreError: the store cannot be read
        """
        wanted, now_ms, taken = choice.wanted(), self._clock.now_ms(), list[Entry]()
        damaged: list[CorruptMessage] = []

        def chosen(message: Message) -> bool:
            if 0 < message.expiration_ms <= now_ms or not wanted(message):
                return False
            defect = defect_of(message)
            damaged.extend([] if defect is None else [defect])
            return defect is None

        def keep(entries: Sequence[Entry]) -> Future[None]:
            taken.extend(entries)
            done: Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done

        with self._operation(actor, "consume", queue, choice) as line:
            _, engine = self._master()
            source = _queue(engine, queue)
            self._holds.check_room()
            ids = None if choice.ids is None else [MessageId.parse(one) for one in choice.ids]
            most = min(choice.limit or MAX_BROWSED, MAX_BROWSED)
            line["count"] = await source.take(chosen, keep, most=most, ids=ids)
        token = self._holds.hold(HeldOfQueue(engine, source, taken)) if taken else None
        return Consumed(token, tuple(entry.message for entry in taken), tuple(damaged))

    async def consume_subscription(
        self, actor: Actor, client_id: str, name: str, *, limit: int = MAX_BROWSED
    ) -> Consumed:
        """Take the first messages of a durable subscription that has no consumer, as :meth:`consume`.

        It is in use until they are acknowledged or given back. Those that are damaged stay.

        :raises DestinationFull: too many messages are held like this
        :raises InvalidSelector: the subscription's own selector is invalid
        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        :raises StoreError: the store cannot be read
        """
        most = min(limit, MAX_BROWSED)
        with self._audit.operation(actor, "consume", client_id=client_id, subscription=name) as line:
            _, engine = self._master()
            self._holds.check_room()
            durable = engine.unused_durable(client_id, name)
            subscription, deliveries = await first_of_subscription(engine, durable, _CONNECTION, most)
            damaged = [found for one in deliveries if (found := defect_of(one.message)) is not None]
            deliveries = [one for one in deliveries if defect_of(one.message) is None]
            line["count"] = len(deliveries)
        if not deliveries:
            subscription.close()
            return Consumed(None, (), tuple(damaged))
        token = self._holds.hold(HeldOfSubscription(subscription, deliveries))
        return Consumed(token, tuple(one.message for one in deliveries), tuple(damaged))

    async def acknowledge(self, actor: Actor, token: str) -> OperationOutcome:
        """Remove messages that :meth:`consume` or :meth:`consume_subscription` has returned.

        :raises MessageNotFound: they were given back meanwhile
        :raises StoreError: they could not be removed
        """
        with self._audit.operation(actor, "acknowledge") as line:
            self._master()
            held, done = self._holds.acknowledge(token)
            await done
            line |= {"destination": held.place, "count": held.count}
        return OperationOutcome(count=held.count)

    async def _take(
        self,
        engine: Engine,
        source: Queue,
        choice: MessageChoice,
        act: Act,
        *,
        unknown: list[MessageId | None] | None = None,
    ) -> int:
        """Take the chosen messages; those without an origin only if it does not matter.

        :param unknown: gets the ids of dead letters that stay because their origin is unknown
        """
        wanted = choice.wanted()

        def chosen(message: Message) -> bool:
            if not wanted(message):
                return False
            if unknown is None or message.original_destination is not None:
                return True
            unknown.append(message.message_id)
            return False

        def checked(entries: Sequence[Entry]) -> Future[None]:
            if engine.is_stopping:
                raise StoreClosed("the broker is stopping; ask the next master")
            return act(entries)

        ids = None if choice.ids is None else [MessageId.parse(one) for one in choice.ids]
        return await source.take(chosen, checked, most=choice.limit, ids=ids)

    def _operation(
        self, actor: Actor, name: str, queue: Destination, choice: MessageChoice
    ) -> AbstractContextManager[dict[str, Any]]:
        return self._audit.operation(
            actor,
            name,
            destination=str(queue),
            ids=choice.ids,
            selector=choice.selector,
            origin=None if choice.origin is None else str(choice.origin),
            limit=choice.limit,
            group=choice.group,
        )

    # Destinations

    def pause(self, actor: Actor, queue: Destination) -> None:
        """Deliver no message of a queue until :meth:`resume`, also after a failure of the store.

        Messages that consumers have stay with them, and messages that are sent are stored.

        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it is a topic
        """
        self._set_paused(actor, queue, True)

    def resume(self, actor: Actor, queue: Destination) -> None:
        """Deliver the messages of a queue again.

        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it is a topic
        """
        self._set_paused(actor, queue, False)

    def _set_paused(self, actor: Actor, queue: Destination, paused: bool) -> None:
        with self._audit.operation(actor, "pause" if paused else "resume", destination=str(queue)):
            _, engine = self._master()
            found = _queue(engine, queue)
            if paused:
                engine.paused.add(queue)
                found.pause()
            else:
                engine.paused.discard(queue)
                found.resume()

    async def create(self, actor: Actor, destination: Destination) -> None:
        """Have a queue or topic exist, which is forgotten again if it stays empty and unused.

        :raises InvalidDestination: it cannot be a name of one destination
        """
        with self._audit.operation(actor, "create", destination=str(destination)):
            _, engine = self._master()
            if destination.is_composite:
                raise InvalidDestination(f"{destination} names several destinations; create each")
            engine.destination(destination)

    async def delete(
        self, actor: Actor, destination: Destination, *, keep_subscriptions: bool = False
    ) -> OperationOutcome:
        """Remove the messages of a queue and forget it, or a topic with its durable subscriptions.

        Nothing is changed if it has consumers. Otherwise every message that had arrived is removed, and
        delivered to no consumer that comes meanwhile; of what producers go on to send, the messages that
        arrive before some moment of the call are removed, too. Later ones are in a destination of the same
        name, and the deletion ends all the same. Those of a queue are counted in ``left``, with those that
        an open transaction has.

        :param keep_subscriptions: the durable subscriptions of a topic stay, without messages, as in ActiveMQ
        :raises DestinationNotFound: it does not exist
        :raises InvalidDestination: it has consumers
        :raises StoreError: some of it could not be deleted, which stays
        :raises SubscriptionInUse: a durable subscription of the topic is in use
        """
        with self._audit.operation(actor, "delete", destination=str(destination)) as line:
            _, engine = self._master()
            found = _existing(engine, destination)
            if found.has_consumers:
                raise InvalidDestination(f"{destination} has consumers; close them before it is deleted")
            count, left = await engine.delete(found, keep_subscriptions=keep_subscriptions)
            line["count"] = count
        return OperationOutcome(count=count, left=left)

    # The rest

    async def end_transaction(self, actor: Actor, xid: str, *, commit: bool) -> None:
        """Commit an XA transaction in doubt, or roll it back, instead of its transaction manager.

        :raises TransactionError: this is not an XID
        :raises TransactionNotFound: it is not prepared
        :raises StoreError: it could not be ended, and stays in doubt
        """
        with self._audit.operation(actor, "commit" if commit else "roll_back", xid=xid):
            _, engine = self._master()
            branch = XATransactionId.parse(xid)
            await (engine.commit_prepared(branch) if commit else engine.rollback_prepared(branch))

    def reset(self, actor: Actor, destination: Destination | None = None) -> None:
        """Have the counters of views begin at 0 again: those of a queue or topic, or of everything.

        Metrics go on, because Prometheus computes with differences.

        :raises DestinationNotFound: it does not exist
        """
        name = None if destination is None else str(destination)
        with self._audit.operation(actor, "reset_counters", destination=name):
            _, engine = self._master()
            if destination is not None:
                found = _existing(engine, destination)
                self._before[found] = found.counters.since(Counters())
                return
            self._before[engine] = _total(engine)
            for found in engine.destinations.values():
                self._before[found] = found.counters.since(Counters())

    def drop_connection(self, actor: Actor, connection_id: str) -> None:
        """Close a client's connection; its unacknowledged messages are delivered again.

        :raises MessageNotFound: there is none of this id
        """
        with self._audit.operation(actor, "drop_connection", connection=connection_id):
            master, _ = self._master()
            found = [one for one in _clients(master) if one.connection_id == connection_id]
            if not found:
                raise MessageNotFound(f"there is no connection {connection_id!r}; list them, and take an id")
            for one in found:
                one.end_reason = "an administrator has closed it"
                one.abort()

    async def destroy_subscription(self, actor: Actor, client_id: str, name: str) -> None:
        """Delete a durable subscription that has no consumer.

        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        """
        with self._audit.operation(actor, "destroy_subscription", client_id=client_id, subscription=name):
            _, engine = self._master()
            await engine.unsubscribe(client_id, name)

    async def subscribe(
        self,
        actor: Actor,
        topic: Destination,
        client_id: str,
        name: str,
        *,
        selector: str | None = None,
        retroactive: bool = False,
    ) -> int:
        """Create a durable subscription, unless it exists; returns the number of its pending messages.

        :param retroactive: whether a new one begins at the first message still stored
        :raises InvalidDestination: it is not one topic, or the store cannot hold its name
        :raises InvalidSelector: the selector is invalid
        :raises InvalidSubscription: the store cannot hold its names, or durable subscriptions are rejected
        :raises SubscriptionExists: it exists with another selector or topic
        """
        details = {"client_id": client_id, "subscription": name, "selector": selector}
        with self._audit.operation(actor, "subscribe", destination=str(topic), **details):
            _, engine = self._master()
            if not topic.is_topic or topic.is_composite or topic.is_temporary:
                raise InvalidDestination(f"{topic} is not one topic that stays; name a topic")
            key, wanted = (client_id, name), (topic, selector or None)
            found = next((one for one in engine.durables if one.key == key), None)
            if found is None:
                request = SubscriptionRequest(
                    destination=topic,
                    connection_id=_CONNECTION,
                    prefetch=0,
                    selector=selector,
                    client_id=client_id,
                    subscription_name=name,
                    retroactive=retroactive,
                )
                (await engine.subscribe(request, Collector(0))).close()
                found = engine.unused_durable(*key)
            elif (found.destination, found.selector) != wanted:
                raise SubscriptionExists(
                    f"{name} of {client_id} subscribes to {found.destination}"
                    f" {'without a selector' if found.selector is None else f'with {found.selector!r}'};"
                    " delete it first"
                )
            return await engine.run(partial(_pending, engine.store, found))

    async def cleanup(self, actor: Actor) -> OperationOutcome:
        """Remove topic messages that every durable subscription has acknowledged.

        :raises StoreError: some of them could not be removed
        """
        with self._audit.operation(actor, "cleanup") as line:
            _, engine = self._master()
            line["count"] = count = await engine.run(engine.store.cleanup)
        return OperationOutcome(count=count)

    async def checkpoint(self, actor: Actor) -> None:
        """Write what is in the journal to the backing store; does nothing without a journal.

        :raises StoreError: the backing store failed
        """
        with self._audit.operation(actor, "checkpoint"):
            _, engine = self._master()
            if isinstance(engine.store, Checkpointed):
                await engine.run(engine.store.checkpoint)

    def hand_over(self, actor: Actor) -> None:
        """Let another broker become the master: this one closes its clients' connections, and is a slave.

        If none takes the lock in time, it is the master again.
        """
        with self._audit.operation(actor, "hand_over"):
            self._master()
            self._managed.hand_over()


def _total(engine: Engine) -> Counters:
    total = engine.ended.since(Counters())
    for found in engine.destinations.values():
        total.add(found.counters)
    return total


def _version() -> str:
    try:
        return version("jdbcstore")
    except PackageNotFoundError:
        return "unknown"


def _uri(connector: Connector) -> str:
    return f"{connector.config.scheme}://{connector.address}"


def _clients(master: Served) -> list[ClientConnection]:
    return [client for connector in master.connectors for client in connector.clients]


def _existing(engine: Engine, name: Destination) -> Queue | Topic:
    found = engine.destinations.get(name)
    if found is None:
        raise _missing(name)
    return found


def _missing(name: Destination) -> DestinationNotFound:
    return DestinationNotFound(f"{name} does not exist; send to it, or list the destinations")


def _queue(engine: Engine, name: Destination) -> Queue:
    found = _existing(engine, name)
    if not isinstance(found, Queue):
        raise InvalidDestination(f"{name} is a topic; only queues can be looked into and changed")
    return found


def _check_target(queue: Destination, to: Destination) -> None:
    if to == queue:
        raise InvalidDestination(f"the messages are in {queue} already; name another destination")


def _in_flight(engine: Engine) -> Counter[Destination]:
    """Messages with consumers, by destination."""
    return Counter(
        entry.destination
        for one in engine.subscriptions
        if not isinstance(one, Browser)
        for entry in one.held
    )


def _left(engine: Engine, queue: Destination, choice: MessageChoice, count: int) -> int:
    """The chosen messages that consumers have, after an operation on so many others."""
    wanted = choice.wanted()
    left = sum(
        entry.destination == queue and wanted(entry.message)
        for one in engine.subscriptions
        if not isinstance(one, Browser)
        for entry in one.held
    )
    return left if choice.limit is None else min(left, choice.limit - count)


def _pending(store: Store, durable: Durable, topics: Sequence[Destination] | None = None) -> int:
    """In a thread."""
    count = 0
    for topic in topics or [*durable.topics]:
        with contextlib.suppress(SubscriptionNotFound):
            count += store.topic(topic).subscription(*durable.key).message_count()
    return count
