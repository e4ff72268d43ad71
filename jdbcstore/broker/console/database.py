"""A database as a read-only source of the console's pages, usable while a broker serves it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from jdbcstore import JdbcStore
from jdbcstore.abc import Cursor, RemovalRecord
from jdbcstore.broker.condition import BrokerCondition, BrokerState
from jdbcstore.broker.management.checkups import Checkups
from jdbcstore.broker.management.messages import MessageChoice, MessagePage, message_page
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.views import (
    BrokerIdentity,
    BrokerView,
    DestinationView,
    MastershipView,
    StoreView,
    SubscriptionView,
    TransactionView,
    WritesView,
)
from jdbcstore.errors import DestinationNotFound, InvalidDestination, SubscriptionNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.util.checkup import Checkup
from jdbcstore.util.clock import SystemClock

_FRESH = 5.0
"""Seconds for which a list and a count are cached."""
_BUDGET = 0.4
"""Seconds for counting the messages of queues for one page; the next page continues."""
_DEAD = ("ActiveMQ.DLQ", "DLQ.")


class DatabaseSource:
    """Views of a store that was opened read-only; :class:`Views` documents each.

    Nothing is written and no lock is taken. It has the views that a database can answer alone, without
    clients and counters; large queues are counted one after the other. ``identity`` is shown instead of a
    broker's.
    """

    def __init__(self, store: JdbcStore, identity: BrokerIdentity) -> None:
        self._store = store
        self._identity = identity
        self._began = time.monotonic()
        self._checkups = Checkups(SystemClock())
        self._names: list[Destination] = []
        self._listed = -_FRESH
        self._sizes: dict[Destination, tuple[int, float]] = {}
        """The number of messages, and when they were counted."""

    def broker(self) -> BrokerView:
        topics = sum(name.is_topic for name in self._names)
        return BrokerView(
            name=self._store.place,
            identity=self._identity,
            condition=BrokerCondition(state=BrokerState.SERVING),
            uptime=time.monotonic() - self._began,
            queues=len(self._names) - topics,
            topics=topics,
        )

    async def destinations(self, names: Iterable[Destination] | None = None) -> list[DestinationView]:
        """Return all destinations, or those with these names, whose messages are then all counted."""
        chosen = None if names is None else {*names}
        listed = await asyncio.to_thread(self._list, chosen)
        return [self._view(name) for name in listed if chosen is None or name in chosen]

    def _list(self, chosen: set[Destination] | None) -> list[Destination]:
        """List the destinations, and count messages within the time limit; called in a thread."""
        now = time.monotonic()
        if now - self._listed >= _FRESH:
            self._names, self._listed = self._store.destinations(), now
        queues = [name for name in self._names if not name.is_topic and (chosen is None or name in chosen)]
        queues.sort(key=lambda name: self._sizes.get(name, (0, -_FRESH))[1])
        for name in queues:
            if chosen is None and time.monotonic() - now >= _BUDGET:
                break
            if name not in self._sizes or now - self._sizes[name][1] >= _FRESH:
                self._sizes[name] = self._store.queue(name).message_count(), time.monotonic()
        return self._names

    def _view(self, name: Destination) -> DestinationView:
        return DestinationView(
            name=str(name),
            is_topic=name.is_topic,
            size=None if name.is_topic else self._sizes.get(name, (None, 0.0))[0],
        )

    async def destination(self, name: Destination) -> DestinationView:
        views = await self.destinations([name])
        if not views:
            raise DestinationNotFound(f"{name} does not exist; list the destinations")
        return (await self.with_ages(views))[0]

    async def with_ages(self, views: Sequence[DestinationView]) -> list[DestinationView]:
        return await asyncio.to_thread(lambda: [self._with_age(view) for view in views])

    def _with_age(self, view: DestinationView) -> DestinationView:
        if not view.size:
            return view
        first = self._store.queue(Destination.parse(view.name)).recover(1)
        if not first or not first[0].timestamp_ms:
            return view
        return replace(view, oldest_age=max(time.time() - first[0].timestamp_ms / 1000, 0.0))

    def dead_letter_queues(self) -> list[Destination]:
        """Return the queues with ActiveMQ's names, because the broker's policies are not in the database."""
        return [name for name in self._names if not name.is_topic and any(map(name.name.startswith, _DEAD))]

    async def subscriptions(self, *, pending: bool = False) -> list[SubscriptionView]:
        return await asyncio.to_thread(self._subscriptions, pending)

    def _subscriptions(self, pending: bool) -> list[SubscriptionView]:
        views = []
        for topic in [name for name in self._store.destinations() if name.is_topic]:
            store = self._store.topic(topic)
            for info in store.subscriptions():
                try:
                    count = (
                        store.subscription(info.client_id, info.subscription_name).message_count()
                        if pending
                        else None
                    )
                except SubscriptionNotFound:
                    continue
                views.append(
                    SubscriptionView(
                        destination=str(info.subscribed_destination),
                        client_id=info.client_id,
                        name=info.subscription_name,
                        selector=info.selector,
                        pending=count,
                    )
                )
        return views

    async def transactions(self) -> list[TransactionView]:
        return [
            TransactionView(
                xid=str(transaction.xid),
                writes=tuple(map(WritesView.of, transaction.writes)),
            )
            for transaction in await asyncio.to_thread(self._store.xa.recover)
        ]

    def lock(self) -> MastershipView:
        lock = self._store.lock()
        return MastershipView(is_held=lock.is_leased, epoch=lock.epoch, lost=None)

    async def store(self) -> StoreView:
        return StoreView(
            kind=type(self._store).__name__,
            pending_writes=0,
            pending_bytes=0,
            last_sequence=await asyncio.to_thread(self._store.last_sequence),
            timings={},
        )

    async def checkup(self) -> Checkup | None:
        return await self._checkups.of(self._store, asyncio.to_thread)

    async def page(
        self, queue: Destination, choice: MessageChoice, *, after: Cursor | None = None, limit: int = 50
    ) -> MessagePage:
        store = self._store.queue(_checked(queue))
        return await message_page(asyncio.to_thread, store, lambda: (), choice.wanted(), after, limit)

    async def removals(self, message: MessageId, since_ms: int | None = None) -> list[RemovalRecord]:
        return await asyncio.to_thread(self._store.removals, message, since_ms)

    async def message(self, queue: Destination, message_id: str) -> Message:
        store = self._store.queue(_checked(queue))
        return await asyncio.to_thread(store.get_message, MessageId.parse(message_id))


def _checked(queue: Destination) -> Destination:
    if queue.is_topic:
        raise InvalidDestination(f"{queue} is a topic; only queues can be browsed")
    return queue


ConsoleSource = Views | DatabaseSource
"""The source of pages: a serving broker, or a database."""
