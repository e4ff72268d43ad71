"""Durable subscriptions of topics: their state, and the consumer that is connected.

The state stays while no consumer is connected: which topics have a row of the subscription, transient
messages that wait, and redelivery counts. A connected consumer has a feed for each topic, which reads stored
messages through a cursor, as a queue does.
"""

from __future__ import annotations

import math
from asyncio import Future
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import InitVar, dataclass
from functools import partial
from itertools import count
from typing import cast

from jdbcstore.abc import Cursor, DurableSubscription, Page, Reference, TopicMessageStore, Transaction
from jdbcstore.broker.api import Delivery
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.cursors.backlog import Backlog
from jdbcstore.broker.cursors.choice import cursor_of_stored, memory_or_file
from jdbcstore.broker.cursors.store import InFlight
from jdbcstore.broker.entry import Entry, EntrySource, SharedMessage, lanes_of
from jdbcstore.broker.memory import MemoryUsage, Resources
from jdbcstore.broker.queues.dead_letters import DeadLetters
from jdbcstore.broker.queues.redelivery import Rejections, redelivered_again
from jdbcstore.broker.store_io.outbox import Acknowledgements, Outbox, StoreLine
from jdbcstore.broker.store_io.transaction import SendTarget
from jdbcstore.broker.subscription import BaseSubscription, matches
from jdbcstore.broker.topics.subscriber import is_local
from jdbcstore.config.policy import PolicyEntry
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
    """A topic as durable subscriptions use it: their rows and feeds, and the messages that they share.

    The rows are written before the first message is stored.
    """

    _resources: Resources
    _outbox: Outbox
    _find: Callable[[Destination], SendTarget]
    """The destination of a name now: one that was idle and is closed passes late messages on to it."""
    destination: Destination
    policy: PolicyEntry

    def __post_init__(self) -> None:
        self._loop = self._resources.loop
        self.memory = self._resources.memory_of(self.policy)
        self.counters = Counters()
        self.store: TopicMessageStore | None = None
        if not self.destination.is_temporary:
            prioritized = self.policy.prioritized_messages
            self.store = self._outbox.store.topic(self.destination, prioritized=prioritized)
        self.durables: dict[Key, TopicState] = {}
        """The durable subscriptions that have a row for this topic, or are about to."""
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
        """True if messages can be sent; else calls back, with the error if there is one, in order."""
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
        """The message as all its subscribers share it; a stored one may be in memory already."""
        found = None if sequence is None else self._shared.get(sequence)
        return found or SharedMessage(message, self.memory, sequence, self._shared)

    def add_feed(self, feed: DurableFeed) -> None:
        """Push messages to this feed from now on."""
        self._feeds = (*self._feeds, feed)

    def remove_feed(self, feed: DurableFeed) -> None:
        self._feeds = tuple(one for one in self._feeds if one is not feed)


class TopicState:
    """One durable subscription on one topic, with or without a consumer.

    Transient messages wait here, as in ActiveMQ, for the consumer that is connected or for the next.
    """

    __slots__ = ("_memory", "_transient", "durable", "feed", "in_flight", "numbers")

    def __init__(self, durable: Durable) -> None:
        self.durable = durable
        self._transient: Backlog | None = None
        self._memory: MemoryUsage | None = None
        self.in_flight = InFlight()
        self.feed: DurableFeed | None = None
        self.numbers = count(1)
        """The order of transient messages."""

    def transient(self, topic: StoredTopic, resources: Resources) -> Backlog:
        """The messages of the topic that are not stored."""
        if self._transient is None:
            lanes = lanes_of(topic.policy)
            name = f"the messages of {topic.destination} for {self.durable.name}"
            kind = topic.policy.pending_durable_subscriber_policy
            cursor = memory_or_file(kind, name, self._source_of, resources, topic.memory, lanes)
            self._transient, self._memory = Backlog(cursor, lanes), topic.memory
        return self._transient

    def keep(self, topic: StoredTopic, resources: Resources, shared: SharedMessage) -> None:
        """A transient message has arrived while no consumer is connected."""
        message = shared.message
        if self.durable.wants(message):
            entry = Entry(message, self._source_of(message), next(self.numbers), stored=False, shared=shared)
            self.transient(topic, resources).cursor.push(entry)

    @property
    def is_full(self) -> bool:
        """Whether producers should wait until transient messages have been consumed."""
        return self._transient is not None and self._transient.cursor.is_full

    def _source_of(self, message: Message) -> EntrySource:  # noqa: ARG002
        return cast(EntrySource, self.feed)  # the feed that delivers an entry becomes its source

    def close(self) -> None:
        """Forget the transient messages."""
        if self._transient is not None and self._memory is not None:
            self._memory.release(self._transient.take_returned())
            self._transient.close()
            self._transient = None


class Durable:
    """One durable subscription, for which messages are stored."""

    def __init__(self, key: Key, destination: Destination, selector: str | None) -> None:
        self.key = key
        self.pattern = DestinationPattern(destination)
        self.selector = selector
        self.defect: InvalidSelector | None = None
        """Why its stored selector is invalid: it cannot be consumed, but other subscriptions can."""
        self._compiled: Selector | None = None
        try:
            self._compiled = Selector(selector) if selector else None
        except InvalidSelector as error:
            self.defect = error
        self.topics: dict[Destination, TopicState] = {}
        """The topics that have a row of it, or are about to, and the pattern itself."""
        self.is_in_use = False
        self.offline_since = math.inf
        """When it lost its consumer, by the monotonic clock; infinite if it has not had one."""
        self.is_certain = True
        """Whether its rows are known to exist."""
        self.is_ending = False

    @property
    def destination(self) -> Destination:
        return self.pattern.destination

    @property
    def name(self) -> str:
        """The name in the log."""
        return f"the subscription {self.key[1]} of {self.key[0]}"

    def wants(self, message: Message) -> bool:
        """Whether the selector matches."""
        return self.defect is None and (self._compiled is None or matches(self._compiled, message))

    def is_like(self, other: Durable) -> bool:
        """Whether the other has the same destination and selector."""
        return (self.destination, self.selector) == (other.destination, other.selector)


MakeFeed = Callable[[StoredTopic, TopicMessageStore, "DurableSubscriber", TopicState], "DurableFeed"]


@dataclass(eq=False, repr=False)
class DurableSubscriber(BaseSubscription):
    """The consumer of a durable subscription, with a feed for each topic, served in turns."""

    _make_feed: MakeFeed
    durable: Durable

    def __post_init__(self) -> None:
        super().__post_init__()
        self._feeds: list[DurableFeed] = []
        self._ready: deque[DurableFeed] = deque()
        """Feeds that may have messages, the next one first."""
        self._settling: list[Callable[[], None]] = []
        self._arrived = 0
        """Messages that have arrived since its last turn, if anybody watches."""

    def wants(self, message: Message) -> bool:
        return not is_local(message, self.request) and super().wants(message)

    def attach(self, topic: StoredTopic) -> None:
        """Consume the messages of this topic too."""
        state = self.durable.topics.get(topic.destination)
        if self.closed or state is None or state.feed is not None or topic.store is None:
            return
        if not topic.when_ready(partial(self._attach_later, topic)):
            return
        feed = state.feed = self._make_feed(topic, topic.store, self, state)
        self._feeds.append(feed)
        topic.add_feed(feed)
        self.wake(feed)

    def _attach_later(self, topic: StoredTopic, error: BaseException | None) -> None:
        if error is None:
            self.attach(topic)
        else:
            self._loop.call_later(_BEFORE_ANOTHER_TRY, self.attach, topic)

    def wake(self, feed: DurableFeed) -> None:
        """The feed may have messages."""
        if not feed.is_ready:
            feed.is_ready = True
            self._ready.append(feed)
        if self.room > 0:
            self._loop.schedule(self)

    def arrived(self, message: Message) -> None:
        """A new message waits: if there is no room for it, the consumer is slow."""
        if self.begun and self._resources.events.are_watched and not self.is_slow and self.wants(message):
            self._arrived += 1
            if self._arrived > self.room:
                self.fall_behind(message, [feed.destination for feed in self._feeds])

    def when_settled(self, callback: Callable[[], None]) -> None:
        self._settling.append(callback)
        self._loop.schedule(self)

    def on_room(self) -> None:
        if self._ready and self.room > 0:
            self._loop.schedule(self)

    def turn(self) -> None:
        """Deliver the messages of the feeds, one of each in turn."""
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
        if self._settling and not any(feed.is_reading for feed in self._feeds):
            settling, self._settling = self._settling, []
            for callback in settling:
                callback()
        if held_up:
            for feed in ready:
                feed.memory.when_room(self.on_room)
                self._resources.notices.held_up(feed.memory.reached, self.request, feed.destination)

    def close(self, unseen: Collection[Delivery] = ()) -> None:
        if self.closed:
            return
        super().close(unseen)
        for feed in self._feeds:
            feed.close()
        self._feeds.clear()
        self._ready.clear()
        self.durable.is_in_use = False
        self.durable.offline_since = self._loop.clock.monotonic()


@dataclass(eq=False, repr=False)
class DurableFeed:
    """One topic's messages for a :class:`DurableSubscriber`; a :class:`jdbcstore.broker.entry.EntrySource`.

    Stored messages come through a window on the store, or wait in memory or in files; transient ones wait in
    the :class:`TopicState`. Expired messages, and those that the selector does not match, are acknowledged
    for the consumer, in batches.
    """

    resources: InitVar[Resources]
    line: InitVar[StoreLine]
    dead_letters: InitVar[DeadLetters]
    _last_sequence: int
    """The last sequence in the store when the broker started: messages up to it may have been delivered
    before, and are marked as redelivered."""
    _topic: StoredTopic
    _store: TopicMessageStore
    _subscriber: DurableSubscriber
    _state: TopicState
    is_ready: bool = False
    """Whether the subscriber is to ask it for messages."""
    is_held_up: bool = False
    """Whether it has messages, but no memory for them now."""

    def __post_init__(self, resources: Resources, line: StoreLine, dead_letters: DeadLetters) -> None:
        loop, topic, state = resources.loop, self._topic, self._state
        policy, in_flight = topic.policy, state.in_flight
        self._loop = loop
        self.destination, self.memory, self.counters = topic.destination, topic.memory, topic.counters
        self._key = state.durable.key
        self._subscription: DurableSubscription | None = None
        self._cursor = cursor_of_stored(
            policy.pending_durable_subscriber_policy,
            f"{state.durable.name} of {self.destination}",
            self,
            resources,
            self._recover,
            in_flight,
            self._entry_of,
            self._wake,
            self.memory,
            policy,
            self._subscriber.on_lost,
        )
        self._stored = Backlog(self._cursor, lanes_of(policy))
        self._transient = state.transient(topic, resources)
        self._transient_turn = False
        self._returned: dict[Entry, None] = {}
        """Stored entries that were given back and wait again."""
        self._acknowledgements = Acknowledgements(
            loop, line, self.memory, in_flight, self._write_acknowledgements, self.give_back, self.counters
        )
        self._rejections = Rejections(
            loop, dead_letters, self, self._store, self.memory, policy, ":".join(self._key)
        )

    def _recover(self, limit: int, after: Cursor) -> Page:
        """In a thread."""
        if self._subscription is None:
            subscription = self._store.subscription(*self._key)
            subscription.acknowledge()  # its first look-up must not block the loop
            self._subscription = subscription
        return self._subscription.recover(limit, after)

    def _entry_of(self, message: Message) -> Entry:
        """The entry of a message read from the store."""
        sequence = message.sequence or 0
        redeliveries = self._state.in_flight.redeliveries.get(sequence)
        shared = self._topic.share(message, sequence)
        if redeliveries is None:
            message, redelivered = shared.message, sequence <= self._last_sequence
        else:
            message = redelivered_again(message, redeliveries, self._topic.policy.redelivery_policy)
            # Without a count it was only prefetched.
            redelivered = redeliveries > 0 or sequence <= self._last_sequence
        return Entry(message, self, sequence, stored=True, redelivered=redelivered, shared=shared)

    def _wake(self) -> None:
        self._subscriber.wake(self)

    def push(self, shared: SharedMessage, sequence: int | None) -> None:
        """A message has arrived at the topic; it is stored if it has a sequence."""
        message = shared.message
        if sequence is not None:
            self._cursor.push(Entry(message, self, sequence, stored=True, shared=shared))
        else:
            number = next(self._state.numbers)
            self._transient.cursor.push(Entry(message, self, number, stored=False, shared=shared))
        self._wake()
        self._subscriber.arrived(message)

    def resync(self) -> None:
        """Read from the store what a write of unknown outcome may have committed."""
        self._cursor.resync()
        self._wake()

    @property
    def is_reading(self) -> bool:
        """Whether a page is being read, which may bring messages."""
        return self._cursor.is_reading

    def read_from(self, sequence: int | None) -> None:
        """Read again what is stored from a sequence on, or all; nothing in flight comes again."""
        self._cursor.read_from(sequence)
        self._wake()

    def expire(self, entries: Sequence[Entry]) -> Future[None]:
        return self._rejections.reload(entries, self._rejections.move_expired)

    @property
    def is_full(self) -> bool:
        """Whether producers should wait until stored messages have been consumed."""
        return self._cursor.is_full

    def next(self) -> Entry | None:
        """Remove the next message that the consumer wants; None if none is in memory."""
        expired: list[Entry] = []
        found = None
        while found is None and (backlog := self._choose()) is not None:
            entry = backlog.head()
            assert entry is not None  # noqa: S101 - the backlog was chosen by its head
            backlog.pop(entry)
            if entry.stored:
                self._state.in_flight.add(entry.sequence)
                self._returned.pop(entry, None)
            elif entry.source is not self:  # it has waited since an earlier consumer
                entry.move_to(self)
            if 0 < entry.message.expiration_ms < self._loop.clock.now_ms():
                expired.append(entry)
            elif self._subscriber.wants(entry.message):
                found = entry
            else:
                self._acknowledgements.add_unawaited([entry])
        if expired:
            self._rejections.expire(expired)
        return found

    def _choose(self) -> Backlog | None:
        """The backlog of the next message: stored and transient ones in turns."""
        stored, transient = self._stored.head(), self._transient.head()
        self.is_held_up = False
        if self._subscriber.held and self.memory.is_full:
            # Unacknowledged messages are in memory, unless they can be read again.
            if not (self._subscriber.unloads_messages and self._cursor.is_window):
                self.is_held_up = stored is not None
                stored = None
            self.is_held_up |= transient is not None
            transient = None
        if transient is None:
            return None if stored is None else self._stored
        if stored is not None:
            self._transient_turn = not self._transient_turn
            if not self._transient_turn:
                return self._stored
        return self._transient

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        return self._acknowledgements.add(entries)

    def _write_acknowledgements(self, entries: list[Entry]) -> StoreFuture[None]:
        assert self._subscription is not None  # noqa: S101 - stored entries come from it
        return self._subscription.acknowledge_async(*self._references(entries))

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:
        stored = self._references([entry for entry in entries if entry.stored])
        if stored:
            transaction.topic(self.destination).acknowledge_subscription(*self._key, *stored)
        return bool(stored)

    def _references(self, entries: Sequence[Entry]) -> list[Reference]:
        # With priorities the store looks up those that are not given.
        prioritized = self._topic.policy.prioritized_messages
        return [entry.message if prioritized else entry.sequence for entry in entries]

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        self._acknowledgements.committed(entries)

    def reject(self, entries: Sequence[Entry], cause: str | None) -> Future[None]:
        return self._rejections.reject(entries, cause)

    def retain(self, entries: Sequence[Entry]) -> None:
        if self._subscriber.closed:
            self.give_back(entries)
        else:
            self._rejections.retain(entries)

    def give_back(self, entries: Sequence[Entry]) -> None:
        """Let entries wait again, here or for the next consumer."""
        stored = [entry for entry in entries if entry.stored]
        self._transient.give_back([entry for entry in entries if not entry.stored])
        if not self._subscriber.closed:
            self._take_back(stored)
            self._wake()
            return
        self.memory.release(stored)
        next_feed = self._state.feed
        if next_feed is None or next_feed is self:
            self._state.in_flight.leave_to_store(stored)
        else:
            next_feed.adopt(stored)

    def adopt(self, entries: Sequence[Entry]) -> None:
        """Take entries of an earlier consumer, which the pages of this one did not bring."""
        for entry in entries:
            entry.move_to(self)
            self.memory.hold(entry)
        self._take_back(entries)
        self._wake()

    def _take_back(self, entries: Sequence[Entry]) -> None:
        unloaded = [entry for entry in entries if entry.is_unloaded]
        entries = [entry for entry in entries if not entry.is_unloaded]
        self._stored.give_back(entries)
        self._returned.update(dict.fromkeys(entries))
        if unloaded:
            # With all that waits: it would be delivered before them otherwise.
            self._cursor.read_again([*unloaded, *self._stored.take_returned()])
            self._returned.clear()

    def delivered(self, entry: Entry) -> None:
        needed = self._topic.policy.advisory_for_consumed
        if entry.stored and self._cursor.is_window and self.memory.is_high and not needed:
            entry.unload(self.memory)

    def close(self) -> None:
        """Return what waits to the :class:`TopicState` and to the store."""
        self.give_back([*self._rejections.clear(), *self._returned])
        self._state.feed = None
        self._topic.remove_feed(self)
        self._stored.close()
