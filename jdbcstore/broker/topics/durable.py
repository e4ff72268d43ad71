"""Durable subscriptions: known whether or not somebody consumes them, by one consumer at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from jdbcstore.abc import SubscriptionInfo, TopicMessageStore
from jdbcstore.broker.api import Consumer, SubscriptionRequest
from jdbcstore.broker.cursors import Backlog
from jdbcstore.broker.cursors.choice import memory_or_file
from jdbcstore.broker.entry import Entry, Shared, Source
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.queues.dispatcher import InHand
from jdbcstore.broker.topics.durable_subscriber import DurableSubscriber
from jdbcstore.errors import (
    CorruptMessage,
    InvalidDestination,
    InvalidSelector,
    SubscriptionInUse,
    SubscriptionNotFound,
)
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.message.selector import Selector

if TYPE_CHECKING:
    from jdbcstore.broker.topics.feed import DurableFeed
    from jdbcstore.broker.topics.topic import Topic

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""Client id and subscription name."""


class Track:
    """What is known of one topic's row of a durable subscription, also while nobody consumes it.

    What is not stored waits here, as in ActiveMQ, for the consumer that is there or for the next.
    """

    __slots__ = ("_durable", "_memory", "_transient", "delivered", "feed", "in_hand")

    def __init__(self, durable: Durable) -> None:
        self._durable = durable
        self._transient: Backlog | None = None
        self._memory: MemoryUsage | None = None
        self.delivered: dict[int, int] = {}
        """The redelivery counts of what was with a consumer that is gone."""
        self.in_hand = InHand()
        self.feed: DurableFeed | None = None

    def transient(self, topic: Topic) -> Backlog:
        """The messages of the topic that are not stored."""
        if self._transient is None:
            lanes = 10 if topic.policy.prioritized_messages else 1
            name = f"the messages of {topic.destination} for {self._durable.name}"
            kind = topic.policy.pending_durable_subscriber_policy
            cursor = memory_or_file(
                kind, name, self._source_of, topic.memory,
                lanes=lanes, folder=topic.folder, files=topic.files,
            )  # fmt: skip
            self._transient, self._memory = Backlog(cursor, lanes), topic.memory
        return self._transient

    def keep(self, topic: Topic, shared: Shared, number: int) -> None:
        """A message that is not stored has come while nobody consumes."""
        message = shared.message
        if self._durable.wants(message):
            source = self._source_of(message)
            self.transient(topic).cursor.push(Entry(message, source, number, stored=False, shared=shared))

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits here that is not stored."""
        return self._transient is None or self._transient.is_empty

    @property
    def name(self) -> str:
        """Whose it is, for the log."""
        return self._durable.name

    @property
    def is_full(self) -> bool:
        """Whether producers should wait until what is not stored has been consumed."""
        return self._transient is not None and self._transient.cursor.is_full

    def _source_of(self, message: Message) -> Source:  # noqa: ARG002
        return cast(Source, self.feed)  # the feed that delivers an entry becomes its source

    def close(self) -> None:
        """Forget what is not stored."""
        if self._transient is not None and self._memory is not None:
            self._memory.let_go(self._transient.returned)
            self._transient.close()
            self._transient = None


class Durable:
    """One durable subscription, for which messages are stored."""

    def __init__(self, key: Key, destination: Destination, selector: str | None) -> None:
        self.key = key
        self.pattern = DestinationPattern(destination)
        self.selector = selector
        self.defect: InvalidSelector | None = None
        """Why its stored selector cannot be understood: nobody can consume it, and others are served."""
        self._compiled: Selector | None = None
        try:
            self._compiled = Selector(selector) if selector else None
        except InvalidSelector as error:
            self.defect = error
        self.tracks: dict[Destination, Track] = {}
        """By topic, with the pattern itself: what has a row, or is about to."""
        self.is_in_use = False
        self.is_certain = True
        """Whether its rows are known to be there."""
        self.is_ending = False

    @property
    def destination(self) -> Destination:
        return self.pattern.destination

    @property
    def name(self) -> str:
        """For the log."""
        return f"the subscription {self.key[1]} of {self.key[0]}"

    def wants(self, message: Message) -> bool:
        """Whether it is worth keeping for it."""
        if self.defect is not None:
            return False
        try:
            return self._compiled is None or self._compiled.matches(message)
        except CorruptMessage:
            return False

    def is_for(self, request: SubscriptionRequest) -> bool:
        """Whether a client asks for it as it is."""
        return self.destination == request.destination and self.selector == (request.selector or None)


class Durables:
    """Every durable subscription of a broker."""

    def __init__(self, parts: Parts, policies: Policies, topics: Callable[[], Iterable[Topic]]) -> None:
        self._parts = parts
        self._policies = policies
        self._topics = topics
        self._by_key: dict[Key, Durable] = {}

    async def load(self, destinations: Iterable[Destination]) -> None:
        """Find out what the store holds, before there is any topic."""
        topics = [destination for destination in destinations if destination.is_topic]
        for info in await self._parts.run(lambda: [*self._read(topics)]):
            key = (info.client_id, info.subscription_name)
            durable = self._by_key.get(key)
            if durable is None:
                durable = self._by_key[key] = Durable(key, info.subscribed_destination, info.selector)
                if durable.defect is not None:
                    log.error(
                        "%s of %s cannot be consumed, though messages are kept for it: %s; let its client"
                        " subscribe with another selector, or end it with jdbcstore unsubscribe",
                        *(durable.name, durable.destination, durable.defect),
                    )
            durable.tracks[info.destination] = Track(durable)

    def _read(self, topics: Iterable[Destination]) -> Iterator[SubscriptionInfo]:
        """In a thread."""
        for topic in topics:
            yield from self._store_of(topic).subscriptions()

    def _store_of(self, topic: Destination) -> TopicMessageStore:
        prioritized = self._policies.of(topic).prioritized_messages
        return self._parts.store.topic(topic, prioritized=prioritized)

    def introduce(self, topic: Topic) -> None:
        """A topic is new: what is sent there is stored for those whose pattern matches it."""
        if topic.store is None:
            return
        missing: list[Durable] = []
        for durable in self._by_key.values():
            if not durable.is_ending and durable.pattern.matches(topic.destination):
                if topic.destination not in durable.tracks:
                    durable.tracks[topic.destination] = Track(durable)
                    missing.append(durable)
                topic.durables[durable.key] = durable.tracks[topic.destination]

        def write() -> None:
            for durable in missing:
                self._write_row(durable, topic.destination)

        if missing:
            topic.await_rows(lambda: self._parts.run(write))

    def _write_row(self, durable: Durable, destination: Destination, retroactive: bool = False) -> None:
        """In a thread."""
        self._store_of(destination).subscribe(
            *durable.key,
            selector=durable.selector,
            retroactive=retroactive,
            subscribed_destination=durable.destination,
        )

    def _delete_rows(self, key: Key, destinations: Sequence[Destination]) -> None:
        """In a thread."""
        for destination in destinations:
            try:
                self._store_of(destination).unsubscribe(*key)
            except SubscriptionNotFound:
                continue

    async def subscribe(self, request: SubscriptionRequest, consumer: Consumer) -> DurableSubscriber:
        """Create a durable subscription, or take up the existing one.

        As in ActiveMQ, one that exists with another selector or destination is deleted, and made anew.

        :raises SubscriptionInUse: somebody consumes it
        """
        key = _key_of(request)
        selector = Selector(request.selector) if request.selector else None
        durable = self._by_key.get(key)
        if durable is not None and durable.is_in_use:
            raise SubscriptionInUse(
                f"Durable consumer is in use for client: {key[0]} and subscriptionName: {key[1]}"
            )
        if durable is None or not durable.is_certain or not durable.is_for(request):
            durable = await self._create(durable, request, key)
        durable.is_in_use = True
        policy = self._policies.of(request.destination)
        return DurableSubscriber(self._parts, request, consumer, policy, durable, selector)

    async def _create(self, former: Durable | None, request: SubscriptionRequest, key: Key) -> Durable:
        durable = Durable(key, request.destination, request.selector or None)
        durable.is_in_use = True
        # Topics that are made meanwhile have their rows from introduce().
        self._by_key[key] = durable
        topics = [
            topic
            for topic in self._topics()
            if topic.store is not None and durable.pattern.matches(topic.destination)
        ]
        wanted = dict.fromkeys([durable.destination, *(topic.destination for topic in topics)])
        durable.tracks.update((destination, Track(durable)) for destination in wanted)
        unwanted = [] if former is None else [*former.tracks]

        def write() -> None:
            self._delete_rows(key, unwanted)
            for destination in wanted:
                self._write_row(durable, destination, request.retroactive)

        try:
            await self._parts.run(write)
        except BaseException:
            # Any of the rows may be there: whoever asks again makes it whole.
            durable.is_in_use = durable.is_certain = False
            raise
        if former is not None:
            self._forget(former)
        for topic in topics:
            topic.durables[key] = durable.tracks[topic.destination]
        return durable

    def _forget(self, durable: Durable) -> None:
        for topic in self._topics():
            if topic.destination in durable.tracks:
                topic.durables.pop(durable.key, None)
        for track in durable.tracks.values():
            track.close()

    async def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        """Delete a durable subscription.

        :raises SubscriptionInUse: somebody consumes it
        :raises SubscriptionNotFound: there is none
        """
        key = (client_id, subscription_name)
        durable = self._by_key.get(key)
        if durable is None:
            raise SubscriptionNotFound(
                f"No durable subscription exists for clientID: {client_id} and subscriptionName:"
                f" {subscription_name}; jdbcstore subscriptions lists those that do"
            )
        if durable.is_in_use:
            raise SubscriptionInUse("Durable consumer is in use")
        durable.is_in_use = durable.is_ending = True
        try:
            await self._parts.run(lambda: self._delete_rows(key, [*durable.tracks]))
        except BaseException:
            durable.is_in_use = durable.is_ending = durable.is_certain = False
            raise
        del self._by_key[key]
        self._forget(durable)


def _key_of(request: SubscriptionRequest) -> Key:
    destination = request.destination
    if destination.is_temporary:
        raise InvalidDestination(f"{destination} is temporary, and ends before a durable subscription of it")
    if destination.is_composite:
        raise InvalidDestination(
            f"{destination} is a composite; make a durable subscription of each member, or of a wildcard"
        )
    return request.client_id or "", request.subscription_name or ""
