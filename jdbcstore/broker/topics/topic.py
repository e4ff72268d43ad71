"""A topic: every message goes to all that subscribe to it, and into the store for those that are durable."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Callable
from functools import partial

from jdbcstore.abc import MessageReference, TopicMessageStore, Transaction
from jdbcstore.broker.api import Promise
from jdbcstore.broker.entry import Shared
from jdbcstore.broker.memory import FlowControl, MemoryUsage
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.store_io.outbox import Letter
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.topics.durable import Track
from jdbcstore.broker.topics.durable_subscriber import DurableSubscriber
from jdbcstore.broker.topics.feed import DurableFeed
from jdbcstore.broker.topics.recovery import Retained
from jdbcstore.broker.topics.subscriber import Share, TopicSubscriber
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

WhenReady = Callable[[BaseException | None], None]
"""Called when a topic can be sent to, or with the reason why it cannot."""


class Topic:
    """The messages of one topic on their way to its subscribers.

    A message is stored if it is persistent and there is a durable subscription; then it is delivered
    once it is committed, and what its producer sends next waits behind it.
    """

    def __init__(self, parts: Parts, destination: Destination, policy: PolicyEntry) -> None:
        self._parts = parts
        self._destination = destination
        self.policy = policy
        self.memory = MemoryUsage(
            policy.memory_limit or parts.memory.limit,
            high_water_mark=policy.cursor_memory_high_water_mark,
            parent=parts.memory,
        )
        self.folder, self.files = parts.folder, parts.files
        self.store: TopicMessageStore | None = None
        if not destination.is_temporary:
            self.store = parts.store.topic(destination, prioritized=policy.prioritized_messages)
        self._is_used = True
        """Since it was last asked whether it is idle."""
        self._is_closed = False
        self._shared: dict[int, Shared] = {}
        """By sequence, what is stored and in memory."""
        self.durables: dict[tuple[str, str], Track] = {}
        """The durable subscriptions that have a row here, or are about to."""
        self._retained = Retained(policy.subscription_recovery_policy, parts.clock)
        self._subscribers: dict[TopicSubscriber, Share] = {}
        self._shares: tuple[Share, ...] = ()
        self._feeds: tuple[DurableFeed, ...] = ()
        self._submitted = 0
        self._completed = 0
        self._behind: deque[tuple[int, Message, Future[None]]] = deque()
        """What is not stored and waits for so many writes that were submitted before it."""
        self._letters = _Letters(self)
        self._flow = FlowControl(
            parts,
            destination,
            policy,
            self.memory,
            self._is_full,
            lambda: parts.touch(self),
            self._who_is_full,
        )
        self._write_rows: Callable[[], Future[None]] | None = None
        self._writing = False
        self._waiting: list[WhenReady] = []

    @property
    def destination(self) -> Destination:
        return self._destination

    # Rows of durable subscriptions, which are there before the first message is stored

    def await_rows(self, write: Callable[[], Future[None]]) -> None:
        """Nothing is sent here before ``write`` has succeeded."""
        self._write_rows = write
        self._begin()

    def when_ready(self, callback: WhenReady) -> bool:
        """True if the topic can be sent to; else it is called back, in the order of the calls."""
        if self._write_rows is None:
            return True
        self._waiting.append(callback)
        if not self._writing:
            self._begin()
        return False

    def _begin(self) -> None:
        assert self._write_rows is not None  # noqa: S101 - it is what begins
        self._writing = True
        self._write_rows().add_done_callback(self._parts.guarded(self._rows_written))

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

    # Sending

    def is_stored(self, message: Message) -> bool:
        """Whether the message goes through the store."""
        return bool(message.persistent and self.durables and self.store is not None)

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Done when it is durable, if it is stored, and there is room for more."""
        if self._flow.must_wait:
            return self._flow.hold(message, connection_id)
        if self._write_rows is None and not self._behind:
            if self.is_stored(message):
                return self._store_message(message, Promise(loop=self._parts.loop))
            if self._submitted == self._completed:
                self.arrive(message, None, connection_id)
                return self._parts.done()
        promise = Promise(loop=self._parts.loop)
        if self.when_ready(partial(self._send_later, message, promise)):
            self._send(message, promise)
        return promise

    def _send_later(self, message: Message, promise: Future[None], error: BaseException | None) -> None:
        if promise.done():
            return
        if error is None:
            self._send(message, promise)
        else:
            promise.set_exception(error)

    def _send(self, message: Message, promise: Future[None]) -> None:
        if self.is_stored(message):
            self._store_message(message, promise)
        else:
            self._behind.append((self._submitted, message, promise))
            self._deliver_behind()

    def _store_message(self, message: Message, promise: Future[None]) -> Future[None]:
        self._submitted += 1
        promise.add_done_callback(self._not_stored)
        self._parts.outbox.add(Letter(message, self._letters, "", promise))
        return promise

    def letter_is_over(self) -> None:
        """A write that was submitted has come to its end."""
        self._completed += 1
        self._deliver_behind()

    def _not_stored(self, promise: Future[None]) -> None:
        if not promise.cancelled() and promise.exception() is not None:
            self.letter_is_over()

    def _is_full(self) -> bool:
        """Whether somebody has no place left where messages could wait."""
        return (
            any(share.is_full for share in self._shares)
            or any(feed.is_full for feed in self._feeds)
            or any(track.is_full for track in self.durables.values())
        )

    def _who_is_full(self) -> str:
        """For whom producers wait."""
        for share in self._shares:
            if share.is_full:
                return share.subscriber
        for track in self.durables.values():
            if track.is_full or (track.feed is not None and track.feed.is_full):
                return track.name
        return ""

    def turn(self) -> None:
        """Let producers go on that have waited, if there is room now."""
        while (held := self._flow.take()) is not None:
            if self.when_ready(partial(self._send_later, held.message, held.promise)):
                self._send(held.message, held.promise)

    def _deliver_behind(self) -> None:
        while self._behind and self._behind[0][0] <= self._completed:
            _, message, promise = self._behind.popleft()
            if not promise.done():
                self._parts.settle(promise, None)
                self.arrive(message, None, "")

    def before(self, connection_id: str) -> list[Future[None]]:
        """What has to be done before the connection commits anything that it sends here."""
        passed = self._flow.passed(connection_id)
        waits = [] if passed is None else [passed]
        if self._write_rows is not None:
            waits.append(self._parts.loop.create_future())
            self.when_ready(partial(self._parts.settle, waits[-1]))
        return waits

    def stage(self, transaction: Transaction, message: Message) -> bool:
        """Add the message to a transaction of the store; False if it is not stored."""
        if not self.is_stored(message):
            return False
        transaction.topic(self._destination).add_message(message)
        return True

    def arrive(self, message: Message, reference: MessageReference | None, connection_id: str) -> None:
        """A message is here: committed under this reference, or not stored."""
        if self._is_closed:
            self._parts.find(self._destination).arrive(message, reference, connection_id)
            return
        sequence = None
        if reference is not None:
            if reference.sequence < 0:
                return  # the store has seen it before
            sequence = reference.sequence
            if message.message_id is not reference.message_id:
                message = message.replace(message_id=reference.message_id)
            if self.policy.prioritized_messages:
                message = message.replace(sequence=sequence)  # its acknowledgement needs the priority
        self._is_used = True
        shared = self.share(message, sequence)
        for feed in self._feeds:
            feed.push(shared, sequence)
        if sequence is None and len(self._feeds) < len(self.durables):
            self._keep(shared)
        if 0 < message.expiration_ms < self._parts.clock.now_ms():
            return
        for share in self._shares:
            share.offer(shared)
        self._retained.add(shared)

    def share(self, message: Message, sequence: int | None) -> Shared:
        """The message as all have it who get it; that of a sequence may be in memory already."""
        found = None if sequence is None else self._shared.get(sequence)
        return found or Shared(message, self.memory, sequence, self._shared)

    def _keep(self, shared: Shared) -> None:
        """What is not stored, for durable subscriptions that nobody consumes."""
        for track in self.durables.values():
            if track.feed is None:
                track.keep(self, shared, next(self._parts.numbers))

    def room(self, message: Message) -> Future[None]:  # noqa: ARG002
        """Done when a producer may send more, who has just sent this in a transaction."""
        return self._flow.room()

    def is_idle(self) -> bool:
        was_used, self._is_used = self._is_used, False
        under_way = self._behind or self._waiting or self._writing or self._submitted != self._completed
        holds = self.memory.used or self._shares or self._feeds or self.durables or self._flow.is_holding
        return not (was_used or under_way or holds)

    def lose_sight(self) -> None:
        """A write may have been committed or not."""
        if self._is_closed:
            self._parts.find(self._destination).lose_sight()
            return
        for feed in self._feeds:
            feed.lose_sight()

    # Subscribing

    def add(self, subscription: BaseSubscription) -> None:
        """A consumer begins."""
        if isinstance(subscription, DurableSubscriber):
            subscription.attach(self)
        elif isinstance(subscription, TopicSubscriber) and subscription not in self._subscribers:
            share = self._subscribers[subscription] = subscription.join(self)
            self._shares = tuple(self._subscribers.values())
            if subscription.request.retroactive or self.policy.always_retroactive:
                for shared in self._retained.messages():
                    share.offer(shared)

    def leave(self, subscriber: TopicSubscriber) -> None:
        """A consumer is gone."""
        self._subscribers.pop(subscriber, None)
        self._shares = tuple(self._subscribers.values())

    def add_feed(self, feed: DurableFeed) -> None:
        """What is stored from now on is for this one too."""
        self._feeds = (*self._feeds, feed)

    def remove_feed(self, feed: DurableFeed) -> None:
        self._feeds = tuple(one for one in self._feeds if one is not feed)

    def close(self) -> None:
        """The broker stops, or the topic ends: what waits is not sent, and what is not stored is gone."""
        self._is_closed = True
        self._retained.close()
        for track in self.durables.values():
            track.close()
        behind, self._behind = self._behind, deque()
        for _, _, promise in behind:
            promise.cancel()


class _Letters:
    """Where the outbox delivers what was sent to a topic outside of transactions."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.lose_sight = topic.lose_sight

    @property
    def destination(self) -> Destination:
        return self._topic.destination

    def arrive(self, message: Message, reference: MessageReference | None, connection_id: str) -> None:
        self._topic.arrive(message, reference, connection_id)
        self._topic.letter_is_over()
