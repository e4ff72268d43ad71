"""Durable subscriptions of topics: their state, and their connected consumer.

The state outlives the connection of a consumer: the topics with a row of the subscription, waiting transient
messages, and redelivery counts. A connected consumer has a feed for each topic, which reads stored messages
through a cursor, like a queue.
"""

from __future__ import annotations

import math
from asyncio import Future
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from jdbcstore.abc import Cursor, DurableSubscription, Page, Reference, TopicMessageStore, Transaction
from jdbcstore.broker.api import Delivery
from jdbcstore.broker.cursors.backlog import Backlog
from jdbcstore.broker.cursors.choice import memory_or_file
from jdbcstore.broker.cursors.store import InFlight, StoredRows
from jdbcstore.broker.entry import Entry, EntrySource, SharedMessage, TransientSource
from jdbcstore.broker.memory import Account, MemoryUsage
from jdbcstore.broker.queues.dead_letters import DeadLetters
from jdbcstore.broker.queues.pending import PendingMessages
from jdbcstore.broker.store_io.outbox import Outbox
from jdbcstore.broker.store_io.transaction import SendTarget
from jdbcstore.broker.subscription import BaseSubscription, matches
from jdbcstore.broker.topics.subscriber import is_local
from jdbcstore.errors import InvalidSelector
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.message.selector import Selector
from jdbcstore.util.futures import StoreFuture

_BEFORE_ANOTHER_TRY = 1.0

Key = tuple[str, str]
"""Client id and subscription name."""


@dataclass(eq=False, repr=False)
class StoredTopic:
    """A topic's state for durable subscriptions: their rows and feeds, and shared messages.

    The rows are written before the first message is stored.
    """

    account: Account
    outbox: Outbox
    _find: Callable[[Destination], SendTarget]
    """Returns the current destination of a name, to which a closed idle one passes late messages."""
    dead_letters: DeadLetters

    def __post_init__(self) -> None:
        account = self.account
        self._resources, self._loop = account.resources, account.loop
        self.destination, self.policy = account.destination, account.policy
        self.memory, self.counters = account.memory, account.counters
        self.store: TopicMessageStore | None = None
        if not self.destination.is_temporary:
            prioritized = self.policy.prioritized_messages
            self.store = self.outbox.store.topic(self.destination, prioritized=prioritized)
        self.durables: dict[Key, TopicState] = {}
        """The durable subscriptions that have, or are getting, a row for this topic."""
        self._feeds: tuple[DurableFeed, ...] = ()
        self._shared: dict[int, SharedMessage] = {}
        """The stored messages in memory, by sequence."""
        self._write_rows: Callable[[], Future[None]] | None = None
        self._writing = False
        self._waiting: list[Callable[[BaseException | None], None]] = []

    def await_rows(self, write: Callable[[], Future[None]]) -> None:
        """Hold all sends until ``write`` has succeeded."""
        self._write_rows = write
        self._begin()

    def when_ready(self, callback: Callable[[BaseException | None], None]) -> bool:
        """Return whether messages can be sent; otherwise call back, in order, with the error or None."""
        if self._write_rows is None:
            return True
        self._waiting.append(callback)
        if not self._writing:
            self._begin()
        return False

    def _begin(self) -> None:
        assert self._write_rows is not None  # noqa: S101 - this is only called to write them
        self._writing = True
        self._write_rows().add_done_callback(self._loop.guarded(self._rows_written))

    def _rows_written(self, future: Future[None]) -> None:
        self._writing = False
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._write_rows = None
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback(error)

    def share(self, message: Message, sequence: int | None) -> SharedMessage:
        """Return the message shared by all its subscribers; a stored message may already be in memory."""
        shared = None if sequence is None else self._shared.get(sequence)
        return shared or SharedMessage(message, self.memory, sequence, self._shared)

    def add_feed(self, feed: DurableFeed) -> None:
        """Push messages to this feed from now on."""
        self._feeds = (*self._feeds, feed)

    def remove_feed(self, feed: DurableFeed) -> None:
        self._feeds = tuple(kept for kept in self._feeds if kept is not feed)


@dataclass(eq=False, repr=False)
class OfflineSource(TransientSource):
    """The source of a durable subscription's entries while no consumer is connected."""

    rows: SubscriptionRows | None
    """Its stored messages; None if the topic is not stored."""
    in_flight: InFlight

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        stored = [entry for entry in entries if entry.stored]
        if self.rows is None or not stored:
            return False
        self.rows.stage_acknowledgement(transaction, stored)
        return True

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        self.in_flight.removed([entry for entry in entries if entry.stored])
        super().acknowledged(entries)

    def give_back(self, entries: Sequence[Entry]) -> None:
        self.in_flight.release([entry for entry in entries if entry.stored])
        super().give_back(entries)

    retain = give_back


class TopicState:
    """One durable subscription on one topic, with or without a consumer.

    As in ActiveMQ, transient messages wait here for the connected or the next consumer.
    """

    __slots__ = ("_memory", "_offline", "_transient", "durable", "feed", "in_flight", "numbers")

    def __init__(self, durable: Durable, last_sequence: int) -> None:
        self.durable = durable
        self._transient: Backlog | None = None
        self._memory: MemoryUsage | None = None
        self._offline: OfflineSource | None = None
        self.in_flight = InFlight(last_sequence)
        self.feed: DurableFeed | None = None
        self.numbers = count(1)
        """The order of transient messages."""

    def transient(self, topic: StoredTopic) -> Backlog:
        """Return the transient messages of the topic."""
        if self._transient is None:
            name = f"the messages of {topic.destination} for {self.durable.name}"
            kind, account = topic.policy.pending_durable_subscriber_policy, topic.account
            source_of = partial(self._source_of, topic)
            cursor = memory_or_file(kind, name, source_of, account.resources, account.memory, account.lanes)
            self._transient, self._memory = Backlog(cursor, account.lanes), account.memory
        return self._transient

    def keep(self, topic: StoredTopic, shared: SharedMessage) -> None:
        """Keep a transient message that arrives without a connected consumer."""
        message = shared.message
        if self.durable.wants(message):
            source = self._source_of(topic)
            entry = Entry(message, source, next(self.numbers), stored=False, shared=shared)
            self.transient(topic).cursor.push(entry)

    @property
    def is_full(self) -> bool:
        """Whether producers should wait until transient messages have been consumed."""
        return self._transient is not None and self._transient.cursor.is_full

    def _source_of(
        self,
        topic: StoredTopic,
        message: Message | None = None,  # noqa: ARG002
    ) -> EntrySource:
        # An entry gets the source of the feed that delivers it.
        return self.offline(topic) if self.feed is None else self.feed.pending

    def offline(self, topic: StoredTopic) -> OfflineSource:
        """Return the source of its entries without a connected consumer."""
        if self._offline is None:
            account, rows = topic.account, None
            if topic.store is not None:
                rows = SubscriptionRows(topic, topic.store, self.durable)
            self._offline = OfflineSource(
                account.loop, account.destination, account.memory, account.counters, rows, self.in_flight
            )
        return self._offline

    def close(self) -> None:
        """Forget the transient messages, and the topic."""
        self._offline = None
        if self._transient is not None and self._memory is not None:
            self._memory.release(self._transient.take_returned())
            self._transient.close()
            self._transient = None


class Durable:
    """One durable subscription, for which messages are stored."""

    def __init__(self, key: Key, destination: Destination, selector: str | None) -> None:
        self.key = key
        self.destination, self.pattern = destination, DestinationPattern(destination)
        self.selector = selector
        self.defect: InvalidSelector | None = None
        """The reason why its stored selector is invalid, so that only this subscription cannot be
        consumed."""
        self._compiled: Selector | None = None
        try:
            self._compiled = Selector(selector) if selector else None
        except InvalidSelector as error:
            self.defect = error
        self.topics: dict[Destination, TopicState] = {}
        """The topics that have, or are getting, a row of it, and the pattern itself."""
        self.is_in_use = False
        """Whether a consumer or an exclusive operation uses it."""
        self.offline_since = math.inf
        """The time when it lost its consumer, by the monotonic clock; infinite if it never had one."""
        self.is_certain = True
        """Whether its rows are known to exist."""
        self.is_ending = False
        """Whether it is being deleted."""

    def begin_use(self) -> None:
        """Reserve it for a consumer or an operation."""
        self.is_in_use = True

    def end_use(self) -> None:
        """Release it for the next consumer or operation."""
        self.is_in_use = False

    def disconnect(self, now: float) -> None:
        """Record the time, by the monotonic clock, when it lost its consumer."""
        self.is_in_use = False
        self.offline_since = now

    def begin_deletion(self) -> None:
        """Reserve it for its deletion."""
        self.is_in_use = self.is_ending = True

    def survive(self, *, is_certain: bool = True) -> None:
        """Continue to exist after a failed creation or deletion.

        :param is_certain: whether its rows are known to exist; otherwise the next consumer writes them
        """
        self.is_in_use = self.is_ending = False
        self.is_certain = self.is_certain and is_certain

    @property
    def name(self) -> str:
        """The name in the log."""
        return f"the subscription {self.key[1]} of {self.key[0]}"

    def wants(self, message: Message) -> bool:
        """Return whether the selector matches."""
        return self.defect is None and (self._compiled is None or matches(self._compiled, message))

    def is_like(self, other: Durable) -> bool:
        """Return whether the other has the same destination and selector."""
        return (self.destination, self.selector) == (other.destination, other.selector)


@dataclass(eq=False, repr=False)
class DurableSubscriber(BaseSubscription):
    """The consumer of a durable subscription, with a feed for each topic, served in turn."""

    durable: Durable

    def __post_init__(self) -> None:
        super().__post_init__()
        self._feeds: list[DurableFeed] = []
        self._ready: deque[DurableFeed] = deque()
        """Feeds that may have messages, the next one first."""
        self._settling: list[Callable[[], None]] = []
        self._arrived = 0
        """Messages that arrived since its last turn, if there are watchers."""

    def wants(self, message: Message) -> bool:
        return not is_local(message, self.request) and super().wants(message)

    def attach(self, topic: StoredTopic) -> None:
        """Consume the messages of this topic too."""
        state = self.durable.topics.get(topic.destination)
        if self.closed or state is None or state.feed is not None or topic.store is None:
            return
        if not topic.when_ready(partial(self._attach_later, topic)):
            return
        feed = state.feed = DurableFeed(topic, topic.store, self, state)
        self._feeds.append(feed)
        topic.add_feed(feed)
        self.wake(feed)

    def _attach_later(self, topic: StoredTopic, error: BaseException | None) -> None:
        if error is None:
            self.attach(topic)
        else:
            self._loop.call_later(_BEFORE_ANOTHER_TRY, self.attach, topic)

    def wake(self, feed: DurableFeed) -> None:
        """Record that the feed may have messages."""
        if not feed.is_ready:
            feed.is_ready = True
            self._ready.append(feed)
        if self.room > 0:
            self._loop.schedule(self)

    def arrived(self, message: Message) -> None:
        """Record a new waiting message; the consumer is slow if there is no room for it."""
        if self.begun and self._resources.events.are_watched and not self.is_slow and self.wants(message):
            self._arrived += 1
            if self._arrived > self.room:
                self.fall_behind(message, [feed.destination for feed in self._feeds])

    def _call_when_settled(self, callback: Callable[[], None]) -> None:
        self._settling.append(callback)
        self._loop.schedule(self)

    def on_room(self) -> None:
        if self._ready and self.room > 0:
            self._loop.schedule(self)

    def turn(self) -> None:
        """Deliver the messages of the feeds, one from each in turn."""
        ready, held_up = self._ready, 0
        self._arrived = 0
        if self.room > 0:
            self.is_slow = False
        while held_up < len(ready) and self.room > 0:
            feed = ready[0]
            entry = feed.next()
            if entry is not None:
                ready.rotate(-1)
                self.deliver(entry)
                held_up = 0
            elif feed.is_held_up:
                ready.rotate(-1)
                held_up += 1
            else:
                ready.popleft().is_ready = False
        if self._settling and not any(feed.pending.is_reading for feed in self._feeds):
            settling, self._settling = self._settling, []
            for callback in settling:
                callback()
        if held_up:
            for feed in ready:
                feed.memory.when_room(self.on_room)
                self._resources.notices.held_up(feed.memory.reached, self.request, feed.destination)

    def close(self, unseen: Collection[Delivery] = (), *, has_left: bool = False) -> None:
        if self.closed:
            return
        super().close(unseen, has_left=has_left)
        for feed in self._feeds:
            feed.close()
        self._feeds.clear()
        self._ready.clear()
        self.durable.disconnect(self._loop.clock.monotonic())


class SubscriptionRows(StoredRows):
    """The unacknowledged messages of a topic for a durable subscription, for :class:`PendingMessages`."""

    store: TopicMessageStore

    def __init__(self, topic: StoredTopic, store: TopicMessageStore, durable: Durable) -> None:
        name = f"{durable.name} of {topic.destination}"
        super().__init__(store, topic.policy.pending_durable_subscriber_policy, name)
        self.subscriber, self.share = ":".join(durable.key), topic.share
        self._key = durable.key
        self._is_prioritized = topic.policy.prioritized_messages
        self._subscription: DurableSubscription | None = None

    def recover(self, limit: int, after: Cursor | None) -> Page:
        """Read a page; called in a thread."""
        if self._subscription is None:
            subscription = self.store.subscription(*self._key)
            subscription.acknowledge()  # warm the subscription here, off the loop
            self._subscription = subscription
        return self._subscription.recover(limit, after)

    def acknowledge(self, entries: list[Entry]) -> StoreFuture[None]:
        assert self._subscription is not None  # noqa: S101 - stored entries come from it
        return self._subscription.acknowledge_async(*self._references(entries))

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> None:
        references = self._references(entries)
        transaction.topic(self.store.destination).acknowledge_subscription(*self._key, *references)

    def _references(self, entries: Sequence[Entry]) -> list[Reference]:
        # With priorities the store looks up missing ones.
        return [entry.message if self._is_prioritized else entry.sequence for entry in entries]


class DurableFeed:
    """The :attr:`pending` messages of one topic for a :class:`DurableSubscriber`.

    Stored messages come through a window on the store, or wait in memory or in files; transient ones wait in
    the :class:`TopicState`. Expired messages, and messages that do not match the selector, are acknowledged
    for the consumer, in batches.
    """

    def __init__(
        self, topic: StoredTopic, store: TopicMessageStore, subscriber: DurableSubscriber, state: TopicState
    ) -> None:
        self._topic, self._subscriber, self._state = topic, subscriber, state
        self.destination, self.memory = topic.destination, topic.memory
        self.is_ready = False
        """Whether the subscriber should ask it for messages."""
        self.is_held_up = False
        """Whether it has messages, but no memory for them now."""
        self.pending = PendingMessages(
            account=topic.account,
            line=topic.outbox.line,
            dead_letters=topic.dead_letters,
            rows=SubscriptionRows(topic, store, state.durable),
            transient=state.transient(topic),
            in_flight=state.in_flight,
            on_ready=partial(subscriber.wake, self),
            on_lost=subscriber.on_lost,
        )

    def push(self, shared: SharedMessage, sequence: int | None) -> None:
        """Add an arrived message of the topic; it is stored if it has a sequence."""
        message, pending = shared.message, self.pending
        if sequence is not None:
            pending.stored.cursor.push(Entry(message, pending, sequence, stored=True, shared=shared))
        else:
            number = next(self._state.numbers)
            pending.transient.cursor.push(Entry(message, pending, number, stored=False, shared=shared))
        self._subscriber.wake(self)
        self._subscriber.arrived(message)

    @property
    def is_full(self) -> bool:
        """Whether producers should wait until stored messages have been consumed."""
        return self.pending.stored.cursor.is_full

    def next(self) -> Entry | None:
        """Remove and return the next wanted message; None if none is in memory."""
        pending, expired, next_entry = self.pending, [], None
        while next_entry is None:
            self.is_held_up = False
            is_full = self._subscriber.held and self.memory.is_full
            entry, backlog = self._next_if_full() if is_full else pending.next()
            if entry is None:
                break
            pending.pop(backlog, entry)
            if entry.source is not pending:  # it has waited since an earlier consumer
                entry.move_to(pending)
            if pending.is_expired(entry):
                expired.append(entry)
            elif self._subscriber.wants(entry.message):
                next_entry = entry
            else:
                pending.acknowledgements.add_unawaited([entry])
        if expired:
            pending.rejections.expire(expired)
        return next_entry

    def _next_if_full(self) -> tuple[Entry | None, Backlog]:
        """Return the next message and its backlog, if it may be delivered although memory is full."""
        pending = self.pending
        # Unacknowledged messages are in memory, unless they can be read again.
        reads_again = self._subscriber.unloads_messages and pending.is_window
        waits = None if reads_again else pending.stored.head()
        self.is_held_up = waits is not None or pending.transient.head() is not None
        return pending.next(with_stored=reads_again, with_transient=False)

    def close(self) -> None:
        """Return waiting messages to the :class:`TopicState` and to the store."""
        self._state.feed = None
        self._topic.remove_feed(self)
        self.pending.close(heir=self._pass_on)

    def _pass_on(self, entries: Sequence[Entry]) -> None:
        """Leave stored entries to the next consumer, which may already be connected."""
        self.memory.release(entries)
        successor = self._state.feed
        if successor is None:
            self._state.in_flight.leave_to_store(entries)
        else:
            successor.pending.adopt(entries)
