"""A topic: every message is delivered to all its subscribers, and stored for the durable ones."""

from __future__ import annotations

import logging
from asyncio import Future
from collections import deque
from dataclasses import dataclass
from functools import partial
from math import inf

from jdbcstore.abc import MessageReference, Transaction
from jdbcstore.broker.api import MessageEventKind
from jdbcstore.broker.entry import SharedMessage
from jdbcstore.broker.loop import Promise, complete
from jdbcstore.broker.memory import FlowControl
from jdbcstore.broker.notices import name_of
from jdbcstore.broker.queues.expiry import ExpirySweep
from jdbcstore.broker.store_io.outbox import PendingSend
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.topics.durable import DurableSubscriber, StoredTopic
from jdbcstore.broker.topics.expiry import TopicExpiry
from jdbcstore.broker.topics.queries import MessageQuery, make_query
from jdbcstore.broker.topics.subscriber import TopicSource, TopicSubscriber
from jdbcstore.config.policy import (
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    QueryBasedSubscriptionRecoveryPolicy,
    SubscriptionRecoveryPolicy,
    TimedSubscriptionRecoveryPolicy,
)
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)


class Retained:
    """Earlier messages of one topic for retroactive subscribers, according to its subscription recovery
    policy.

    The oldest are dropped when they fill half of the memory, or the memory is nearly full.
    """

    def __init__(self, policy: SubscriptionRecoveryPolicy, clock: Clock) -> None:
        self._clock = clock
        self._kept: deque[tuple[int, SharedMessage]] = deque()
        """The time of arrival in milliseconds, and the message."""
        self._size = 0
        self._most_messages = self._most_bytes = self._duration_ms = inf
        match policy:
            case NoSubscriptionRecoveryPolicy() | QueryBasedSubscriptionRecoveryPolicy():
                self._most_messages = 0
            case LastImageSubscriptionRecoveryPolicy():
                self._most_messages = 1
            case FixedCountSubscriptionRecoveryPolicy():
                self._most_messages = policy.maximum_size
            case FixedSizedSubscriptionRecoveryPolicy():
                self._most_bytes = policy.maximum_size
            case TimedSubscriptionRecoveryPolicy():
                self._duration_ms = policy.recover_duration * 1000

    def add(self, message: SharedMessage) -> None:
        """Keep an arrived message."""
        if self._most_messages == 0:
            return
        message.hold()
        self._kept.append((self._clock.now_ms(), message))
        self._size += message.size
        self._drop()
        memory = message.memory
        while len(self._kept) > 1 and (memory.is_high or self._size > memory.limit // 2):
            self._drop_oldest()

    def messages(self) -> list[SharedMessage]:
        """Return the messages for a new retroactive subscriber, in order of arrival."""
        self._drop()
        now_ms = self._clock.now_ms()
        return [shared for _, shared in self._kept if not 0 < shared.message.expiration_ms <= now_ms]

    def close(self) -> None:
        """Drop all messages."""
        while self._kept:
            self._drop_oldest()

    def _drop(self) -> None:
        kept, since = self._kept, self._clock.now_ms() - self._duration_ms
        while kept and (
            len(kept) > self._most_messages or self._size > self._most_bytes or kept[0][0] < since
        ):
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, shared = self._kept.popleft()
        self._size -= shared.size
        shared.release()


@dataclass(eq=False, repr=False)
class Topic(StoredTopic):
    """One topic of the broker: a :class:`~jdbcstore.broker.store_io.transaction.SendTarget` of sends.

    Every method is called on the loop. A message is stored if it is persistent and there is a durable
    subscription; it is then delivered after its commit, and later messages of its producer wait for it.
    """

    is_rerouted: bool = False
    """Whether its messages may be changed, redirected or scheduled, so that the engine routes each."""

    def __post_init__(self) -> None:
        super().__post_init__()
        policy, loop = self.policy, self._loop
        self._was_used = True
        """Whether it was used since the last call of :meth:`is_idle`."""
        self._is_closed = False
        self._retained = Retained(policy.subscription_recovery_policy, loop.clock)
        self._query = make_query(policy.subscription_recovery_policy)
        self._subscribers: dict[TopicSubscriber, TopicSource] = {}
        self._sources: tuple[TopicSource, ...] = ()
        self._submitted = 0
        self._completed = 0
        self._behind: deque[tuple[int, Message, Future[None]]] = deque()
        """Transient messages, each waiting for a number of earlier writes."""
        self._receiver = _OutboxReceiver(self)
        search = TopicExpiry(self).search
        self._expiry = ExpirySweep(loop, policy.expire_messages_period, search)
        self._flow = FlowControl(self.account, self._is_full, lambda: loop.schedule(self), self._who_is_full)

    # Sending

    def is_stored(self, message: Message) -> bool:
        """Return whether the message must be stored."""
        return bool(message.persistent and self.durables and self.store is not None)

    def send(self, message: Message, connection_id: str) -> Future[None]:
        """Send a message; completes when it is durable, if it is stored, and there is room for more."""
        if self._flow.must_wait:
            return self._flow.block(message, connection_id)
        if self._write_rows is None and not self._behind:
            if self.is_stored(message):
                return self._store_message(message, Promise(loop=self._loop.events))
            if self._submitted == self._completed:
                self.arrive(message, None, connection_id)
                return self._loop.done()
        promise = Promise(loop=self._loop.events)
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
        self.outbox.add(PendingSend(message, self._receiver, "", promise, message.memory_size))
        return promise

    def write_ended(self) -> None:
        """Record that a submitted write has completed or failed."""
        self._completed += 1
        self._deliver_behind()

    def _not_stored(self, promise: Future[None]) -> None:
        if not promise.cancelled() and promise.exception() is not None:
            self.write_ended()

    def _is_full(self) -> bool:
        """Return whether a subscriber has no room for waiting messages, or the store for durable ones."""
        return (
            (bool(self.durables) and self._resources.is_store_full)
            or any(source.subscriber.is_full for source in self._sources)
            or any(feed.is_full for feed in self._feeds)
            or any(state.is_full for state in self.durables.values())
        )

    def _who_is_full(self) -> str:
        """Return the subscriber that producers wait for."""
        for source in self._sources:
            if source.subscriber.is_full:
                return name_of(source.subscriber.request)
        for state in self.durables.values():
            if state.is_full or (state.feed is not None and state.feed.is_full):
                return state.durable.name
        return ""

    def turn(self) -> None:
        """Let blocked producers send, if there is room."""
        while (blocked := self._flow.take()) is not None:
            if self.when_ready(partial(self._send_later, blocked.message, blocked.promise)):
                self._send(blocked.message, blocked.promise)

    def _deliver_behind(self) -> None:
        while self._behind and self._behind[0][0] <= self._completed:
            _, message, promise = self._behind.popleft()
            if not promise.done():
                complete(promise, None)
                self.arrive(message, None, "")

    def before(self, connection_id: str) -> list[Future[None]]:
        passed = self._flow.passed(connection_id)
        waits = [] if passed is None else [passed]
        if self._write_rows is not None:
            waits.append(self._loop.create_future())
            self.when_ready(partial(complete, waits[-1]))
        return waits

    def stage(self, transaction: Transaction, message: Message) -> bool:
        if not self.is_stored(message):
            return False
        transaction.topic(self.destination).add_message(message)
        return True

    def arrive(self, message: Message, reference: MessageReference | None, connection_id: str) -> None:
        if self._is_closed:
            self._find(self.destination).arrive(message, reference, connection_id)
            return
        sequence = None
        if reference is not None:
            if reference.sequence < 0:
                return  # the store dropped it as a duplicate
            sequence = reference.sequence
            message = self._as_stored(message, reference)
        self._was_used = True
        self.counters.enqueued += 1
        is_unwanted = not (message.persistent or self.has_consumers)
        self._resources.events.arrived(self.destination, message, is_unwanted=is_unwanted)
        shared = self.share(message, sequence)
        for feed in self._feeds:
            feed.push(shared, sequence)
        if sequence is None and len(self._feeds) < len(self.durables):
            self._keep(shared)
        if 0 < message.expiration_ms < self._loop.clock.now_ms():
            self.counters.expired += 1
            self._resources.events.happened(MessageEventKind.EXPIRED, self.destination, [message])
            return
        if self._query is None or self._query.validate_update(message):
            for source in self._sources:
                source.subscriber.offer(shared, source)
            self._retained.add(shared)

    def _as_stored(self, message: Message, reference: MessageReference) -> Message:
        """Return the stored form of a message."""
        if message.message_id is not reference.message_id:
            message = message.replace(message_id=reference.message_id)
        if self.policy.prioritized_messages:
            message = message.replace(sequence=reference.sequence)  # its acknowledgement needs the priority
        return message

    def _keep(self, shared: SharedMessage) -> None:
        """Keep a transient message for durable subscriptions without a consumer."""
        for state in self.durables.values():
            if state.feed is None:
                state.keep(self, shared)

    def room(self, message: Message) -> Future[None]:  # noqa: ARG002
        return self._flow.room()

    @property
    def has_consumers(self) -> bool:
        return bool(self._sources or self._feeds)

    @property
    def consumer_count(self) -> int:
        return len(self._sources) + len(self._feeds)

    @property
    def is_drained(self) -> bool:
        """Whether no message is on its way to the topic or the store."""
        waiting = self._behind or self._waiting or self._flow.is_blocking
        return not (waiting or self._writing or self._submitted != self._completed)

    def is_idle(self) -> bool:
        """Return whether it has no subscribers and no messages, and was not used since the last call."""
        was_used, self._was_used = self._was_used, False
        holds = self.memory.used or self._sources or self._feeds or self.durables
        return not (was_used or holds) and self.is_drained

    def resync(self) -> None:
        if self._is_closed:
            self._find(self.destination).resync()
            return
        for feed in self._feeds:
            feed.pending.resync()

    def read_from(self, sequence: int | None) -> None:
        """Make every durable subscription with a consumer read again, like :meth:`Queue.read_from`."""
        if self._is_closed:
            self._find(self.destination).read_from(sequence)
            return
        for feed in self._feeds:
            feed.pending.read_from(sequence)

    # Subscribing

    def add(self, subscription: BaseSubscription) -> None:
        """Start serving a consumer."""
        if isinstance(subscription, DurableSubscriber):
            subscription.attach(self)
        elif isinstance(subscription, TopicSubscriber) and subscription not in self._subscribers:
            source = self._subscribers[subscription] = subscription.join(
                self.destination, self.counters, self._leave
            )
            self._sources = tuple(self._subscribers.values())
            if subscription.request.retroactive or self.policy.always_retroactive:
                for shared in self._retained.messages():
                    subscription.offer(shared, source)
                if self._query is not None:
                    query = self._loop.run(partial(_found, self._query, self.destination))
                    query.add_done_callback(self._loop.guarded(partial(self._offer, subscription, source)))

    def _offer(self, subscriber: TopicSubscriber, source: TopicSource, query: Future[list[Message]]) -> None:
        """Offer the messages of a query to a subscriber, unless it has ended."""
        if query.cancelled() or subscriber not in self._subscribers:
            return
        error = query.exception()
        if error is not None:
            log.error("a new subscriber of %s gets no earlier messages", self.destination, exc_info=error)
            return
        for message in query.result():
            own = message.replace(destination=self.destination, persistent=False)
            subscriber.offer(self.share(own, None), source)

    def retained_transient(self) -> list[SharedMessage]:
        """Return the transient messages for a new retroactive subscriber."""
        return [shared for shared in self._retained.messages() if shared.sequence is None]

    def _leave(self, subscriber: TopicSubscriber) -> None:
        self._subscribers.pop(subscriber, None)
        self._sources = tuple(self._subscribers.values())

    def close(self) -> None:
        """Forget the content of memory, and cancel waiting sends."""
        self._is_closed = True
        self._expiry.close()
        self._retained.close()
        for state in self.durables.values():
            state.close()
        behind, self._behind = self._behind, deque()
        for _, _, promise in behind:
            promise.cancel()


def _found(query: MessageQuery, topic: Destination) -> list[Message]:
    """Return the messages of a query; called in a thread."""
    return [*query.execute(topic)]


class _OutboxReceiver:
    """A topic as the receiver of the outbox, which counts the end of each write."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.destination, self.resync = topic.destination, topic.resync

    def arrive(self, message: Message, reference: MessageReference | None, connection_id: str) -> None:
        self._topic.arrive(message, reference, connection_id)
        self._topic.write_ended()
