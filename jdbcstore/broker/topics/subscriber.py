"""Non-durable subscribers of topics; each has its own cursor, and shares messages with the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count

from jdbcstore.broker.api import Delivery, MessageEventKind, SubscriptionRequest
from jdbcstore.broker.counters import Counters
from jdbcstore.broker.cursors.choice import memory_or_file
from jdbcstore.broker.entry import Entry, SharedMessage, TransientSource
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.notices import name_of
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)


def is_local(message: Message, request: SubscriptionRequest) -> bool:
    """Return whether a ``no_local`` subscriber's own connection sent this message."""
    if not request.no_local:
        return False
    producer = message.producer_id or (message.message_id and message.message_id.producer_id)
    return producer is not None and producer.connection_id == request.connection_id


@dataclass(eq=False, repr=False)
class TopicSubscriber(BaseSubscription):
    """A non-durable subscriber of one or more topics.

    Messages for which its consumer has room are delivered immediately; others wait in its own cursor, in
    memory or in files. They end with the subscription.
    """

    _policy: PolicyEntry
    memory: MemoryUsage
    """The memory of its only topic, or the broker's memory if it has several."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.discarded = 0
        """Messages dropped because too many were pending."""
        self._max_pending = self._policy.pending_message_limit
        multiplier = self._policy.pending_message_limit_multiplier
        if self._max_pending is None and multiplier is not None:
            self._max_pending = int(multiplier * self.prefetch)
        self._sources: dict[Destination, TopicSource] = {}
        self._numbers = count(1)
        destination = self.request.destination
        self._cursor = memory_or_file(
            "vmCursor" if destination.is_temporary else self._policy.pending_subscriber_policy,
            f"the messages of {destination} for {name_of(self.request)}",
            self._source_of,
            self._resources,
            self.memory,
            on_lost=self.on_lost,
        )
        self.pending = 0
        """Messages in the cursor."""

    def join(
        self, topic: Destination, counters: Counters, on_leave: Callable[[TopicSubscriber], None]
    ) -> TopicSource:
        """Subscribe to one more topic; ``on_leave`` is called when the subscription closes."""
        source = self._sources[topic] = TopicSource(self._loop, topic, self.memory, counters, self, on_leave)
        return source

    def offer(self, shared: SharedMessage, source: TopicSource) -> None:
        """Take a message of this topic."""
        message = shared.message
        if is_local(message, self.request) or not self.wants(message):
            return
        entry = Entry(message, source, next(self._numbers), stored=False, shared=shared)
        if not self.pending and self._may_deliver:
            self.memory.hold(entry)
            self.deliver(entry)
            self.is_slow = False
            return
        if self.pending > self.prefetch > 1:  # as in ActiveMQ; a durable subscription may have less
            self.fall_behind(message, self._sources)
        self._cursor.push(entry)
        self.pending += 1
        if self.pending == 1 and self.room > 0:
            self._loop.schedule(self)  # it is delayed by the memory limit, which is logged
        if self._max_pending is not None:
            while self.pending > self._max_pending:
                self._discard_oldest()

    @property
    def is_full(self) -> bool:
        """Whether producers should wait for it."""
        return self._cursor.is_full

    @property
    def _may_deliver(self) -> bool:
        if self.room <= 0:
            return False
        # Unacknowledged messages are in memory, unless the consumer no longer needs them.
        return self.unloads_messages or not (self.held and self.memory.is_full)

    def _discard_oldest(self) -> None:
        entry = self._pop()
        if entry is None:
            return
        entry.source.acknowledged([entry])
        if not self.discarded:
            log.warning(
                "a slow subscriber of %s loses messages, because more than %d are pending",
                self.request.destination,
                self._max_pending,
            )
        self.discarded += 1
        self._resources.events.happened(
            *(MessageEventKind.DISCARDED, entry.destination, [entry.message]),
            *(self.request, self.discarded),
        )

    def _pop(self) -> Entry | None:
        if self._cursor.head() is None:
            self.pending = 0
            return None
        self.pending -= 1
        return self._cursor.pop()

    def _call_when_settled(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)  # after the iteration that a pull has scheduled

    def on_room(self) -> None:
        if self.pending and self.room > 0:
            self._loop.schedule(self)

    def turn(self) -> None:
        """Deliver pending messages."""
        expired: list[Entry] = []
        while self._may_deliver and (entry := self._pop()) is not None:
            if 0 < entry.message.expiration_ms < self._loop.clock.now_ms():
                expired.append(entry)
            else:
                self.deliver(entry)
        if expired:
            self.memory.release(expired)
            for entry in expired:
                entry.source.counters.expired += 1
                self._resources.events.happened(MessageEventKind.EXPIRED, entry.destination, [entry.message])
        if self.pending and self.room > 0 and not self._may_deliver:
            self.memory.when_room(self.on_room)
            self._resources.notices.held_up(self.memory.reached, self.request, self.request.destination)

    def close(self, unseen: Collection[Delivery] = (), *, has_left: bool = False) -> None:
        if self.closed:
            return
        for source in self._sources.values():
            source.on_leave(self)
        super().close(unseen, has_left=has_left)
        self._cursor.close()
        self.pending = 0

    def _source_of(self, message: Message) -> TopicSource:
        assert message.destination is not None  # noqa: S101 - a topic's message has one
        return self._sources[message.destination]


@dataclass(eq=False, repr=False)
class TopicSource(TransientSource):
    """One topic's messages for one subscriber."""

    subscriber: TopicSubscriber
    on_leave: Callable[[TopicSubscriber], None]
