"""Consumers of topics that are not durable: what waits for one is its own, the messages are shared."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jdbcstore.abc import Transaction
from jdbcstore.broker.api import Consumer, SubscriptionRequest
from jdbcstore.broker.cursors.choice import memory_or_file
from jdbcstore.broker.entry import Entry, Shared
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.notices import name_of
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import SpillFailed
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.selector import Selector

if TYPE_CHECKING:
    from jdbcstore.broker.topics.topic import Topic

log = logging.getLogger(__name__)


def is_local(message: Message, request: SubscriptionRequest) -> bool:
    """Whether a subscriber who does not want what its own connection sends has sent this."""
    if not request.no_local:
        return False
    producer = message.producer_id or (message.message_id and message.message_id.producer_id)
    return producer is not None and producer.connection_id == request.connection_id


class TopicSubscriber(BaseSubscription):
    """A consumer of topics that is not durable.

    What its consumer takes at once goes there; the rest waits in a cursor of its own, in memory or in
    files. Nothing of it outlives the subscription.

    :param memory: of the one topic that it is for, else the broker's
    """

    def __init__(
        self,
        parts: Parts,
        request: SubscriptionRequest,
        consumer: Consumer,
        policy: PolicyEntry,
        memory: MemoryUsage,
    ) -> None:
        prefetch = policy.topic_prefetch if request.prefetch is None else request.prefetch
        selector = Selector(request.selector) if request.selector else None
        super().__init__(parts, request, consumer, prefetch, selector)
        self.memory = memory
        self.discarded = 0
        """Messages that were dropped because too many waited."""
        self._most_pending = policy.pending_message_limit
        self._shares: dict[Destination, Share] = {}
        self._cursor = memory_or_file(
            "vmCursor" if request.destination.is_temporary else policy.pending_subscriber_policy,
            f"the messages of {request.destination} for {name_of(request)}",
            self._source_of,
            memory,
            folder=parts.folder,
            on_lost=self._on_lost,
            files=parts.files,
        )
        self.pending = 0
        """Messages in the cursor."""

    def join(self, topic: Topic) -> Share:
        """This topic's messages are for it too."""
        share = self._shares[topic.destination] = Share(self, topic)
        return share

    def offer(self, shared: Shared, share: Share) -> None:
        """A message has come, of the topic that this is the share of."""
        message = shared.message
        if is_local(message, self.request) or not self.wants(message):
            return
        entry = Entry(message, share, next(self.parts.numbers), stored=False, shared=shared)
        if not self.pending and self._may_deliver:
            self.memory.hold(entry)
            self.deliver(entry)
            return
        self._cursor.push(entry)
        self.pending += 1
        if self.pending == 1 and self.room > 0:
            self.parts.touch(self)  # it is held up by the memory, which says so
        if self._most_pending is not None:
            while self.pending > self._most_pending:
                self._discard_oldest()

    @property
    def is_full(self) -> bool:
        """Whether producers should wait for it."""
        return self._cursor.is_full

    @property
    def _may_deliver(self) -> bool:
        if self.room <= 0:
            return False
        # What is with the consumer is in memory, unless it needs it no more.
        return self._lets_go or not (self.held and self.memory.is_full)

    def _discard_oldest(self) -> None:
        entry = self._pop()
        if entry is None:
            return
        entry.source.acknowledged([entry])
        if not self.discarded:
            log.warning(
                "a slow subscriber of %s loses messages, for more than %d wait for it",
                self.request.destination,
                self._most_pending,
            )
        self.discarded += 1

    def _pop(self) -> Entry | None:
        if self._cursor.head() is None:
            self.pending = 0
            return None
        self.pending -= 1
        return self._cursor.pop()

    def tell_room(self) -> None:
        if self.pending and self.room > 0:
            self.parts.touch(self)

    def turn(self) -> None:
        expired: list[Entry] = []
        while self._may_deliver and (entry := self._pop()) is not None:
            if 0 < entry.message.expiration_ms < self.parts.clock.now_ms():
                expired.append(entry)
            else:
                self.deliver(entry)
        if expired:
            for share in self._shares.values():
                share.expire([entry for entry in expired if entry.source is share])
        if self.pending and self.room > 0 and not self._may_deliver:
            self.memory.when_room(self.tell_room)
            self.parts.notices.held_up(self.memory, self.request, self.request.destination)

    def close(self) -> None:
        if self.closed:
            return
        for share in self._shares.values():
            share.topic.leave(self)
        super().close()
        self._cursor.close()
        self.pending = 0

    def _source_of(self, message: Message) -> Share:
        assert message.destination is not None  # noqa: S101 - a topic's message says so
        return self._shares[message.destination]

    def _on_lost(self, error: SpillFailed) -> None:
        # Not in the middle of a dispatch.
        self.loop.call_soon(self.end, error)


class Share:
    """What one topic gives to one subscriber; a :class:`jdbcstore.broker.entry.Source`."""

    __slots__ = ("_subscriber", "topic")

    def __init__(self, subscriber: TopicSubscriber, topic: Topic) -> None:
        self._subscriber = subscriber
        self.topic = topic

    @property
    def destination(self) -> Destination:
        return self.topic.destination

    @property
    def subscriber(self) -> str:
        """Whose it is, for the log."""
        return name_of(self._subscriber.request)

    @property
    def is_full(self) -> bool:
        """Whether producers should wait for the subscriber."""
        return self._subscriber.is_full

    def offer(self, shared: Shared) -> None:
        """A message of this topic has come."""
        self._subscriber.offer(shared, self)

    def given(self, entry: Entry) -> None:
        """It does not come again, whatever becomes of it."""
        entry.hollow(self._subscriber.memory)

    def acknowledge(self, entries: Sequence[Entry]) -> Future[None]:
        self.acknowledged(entries)
        return self._subscriber.parts.done()

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> bool:  # noqa: ARG002
        return False

    def acknowledged(self, entries: Sequence[Entry]) -> None:
        self._subscriber.memory.let_go(entries)

    def reject(self, entries: Sequence[Entry], subscription: BaseSubscription) -> Future[None]:  # noqa: ARG002
        """They are gone, as in ActiveMQ."""
        return self.acknowledge(entries)

    def retain(self, entries: Sequence[Entry]) -> None:
        """A dead letter could not be written: it is gone, as the subscription could be."""
        self.acknowledged(entries)

    def give_back(self, entries: Sequence[Entry]) -> None:
        """The subscription is closed, or going to be."""
        self.acknowledged(entries)

    def expire(self, entries: Sequence[Entry]) -> None:
        if entries:
            self.acknowledged(entries)

    def has_room(self, subscription: BaseSubscription) -> None: ...

    def leave(self, subscription: BaseSubscription) -> None: ...
