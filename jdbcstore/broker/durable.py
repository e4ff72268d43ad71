"""Durable subscriptions: known whether or not somebody consumes them, by one consumer at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from jdbcstore.abc import SubscriptionInfo, TopicMessageStore
from jdbcstore.broker.api import Consumer, SubscriptionRequest
from jdbcstore.broker.dispatcher import InHand
from jdbcstore.broker.durable_subscriber import DurableSubscriber
from jdbcstore.broker.parts import Parts
from jdbcstore.broker.policies import Policies
from jdbcstore.destination import Destination
from jdbcstore.errors import InvalidDestination, SubscriptionInUse, SubscriptionNotFound
from jdbcstore.patterns import DestinationPattern
from jdbcstore.selector import Selector

if TYPE_CHECKING:
    from jdbcstore.broker.feed import DurableFeed
    from jdbcstore.broker.topic import Topic

Key = tuple[str, str]
"""Client id and subscription name."""


class Track:
    """What is known of one topic's row of a durable subscription, also while nobody consumes it."""

    __slots__ = ("delivered", "feed", "in_hand")

    def __init__(self) -> None:
        self.delivered: dict[int, int] = {}
        """The redelivery counts of what was with a consumer that is gone."""
        self.in_hand = InHand()
        self.feed: DurableFeed | None = None


class Durable:
    """One durable subscription, for which messages are stored."""

    def __init__(self, key: Key, destination: Destination, selector: str | None) -> None:
        self.key = key
        self.pattern = DestinationPattern(destination)
        self.selector = selector
        self.tracks: dict[Destination, Track] = {}
        """By topic, with the pattern itself: what has a row, or is about to."""
        self.is_in_use = False
        self.is_certain = True
        """Whether its rows are known to be there."""
        self.is_ending = False

    @property
    def destination(self) -> Destination:
        return self.pattern.destination

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
            durable.tracks[info.destination] = Track()

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
                topic.durables.add(durable.key)
                if topic.destination not in durable.tracks:
                    durable.tracks[topic.destination] = Track()
                    missing.append(durable)

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
            raise _in_use(key)
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
        durable.tracks.update((destination, Track()) for destination in wanted)
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
            topic.durables.add(key)
        return durable

    def _forget(self, durable: Durable) -> None:
        for topic in self._topics():
            if topic.destination in durable.tracks:
                topic.durables.discard(durable.key)

    async def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        """Delete a durable subscription.

        :raises SubscriptionInUse: somebody consumes it
        :raises SubscriptionNotFound: there is none
        """
        key = (client_id, subscription_name)
        durable = self._by_key.get(key)
        if durable is None:
            raise SubscriptionNotFound(
                f"client {client_id!r} has no durable subscription {subscription_name!r}; jdbcstore"
                " subscriptions lists what there is"
            )
        if durable.is_in_use:
            raise _in_use(key)
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


def _in_use(key: Key) -> SubscriptionInUse:
    return SubscriptionInUse(
        f"the durable subscription {key[1]!r} of client {key[0]!r} has a consumer; close that one first"
    )
