"""The registry of durable subscriptions: their rows in the store, creation and deletion."""

from __future__ import annotations

import logging
import time
from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from jdbcstore.abc import SubscriptionInfo, TopicMessageStore, pages
from jdbcstore.broker.api import Consumer, DurableInfo, SubscriptionRequest
from jdbcstore.broker.directory import Directory
from jdbcstore.broker.memory import Resources
from jdbcstore.broker.queues.selection import BatchSize
from jdbcstore.broker.store_io.outbox import Outbox
from jdbcstore.broker.subscription import BaseSubscription
from jdbcstore.broker.topics.durable import Durable, DurableSubscriber, Key, TopicState
from jdbcstore.broker.topics.topic import Topic
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import (
    InvalidDestination,
    InvalidSubscription,
    SubscriptionExists,
    SubscriptionInUse,
    SubscriptionNotFound,
)
from jdbcstore.message.destination import Destination

log = logging.getLogger(__name__)

_MOST = 200
"""Messages per acknowledgement for an administrator."""


class _Stopped(Exception):
    """An administrator stopped the removal of messages."""


@dataclass(eq=False, repr=False)
class DurableRegistry:
    """The durable subscriptions of one broker."""

    _resources: Resources
    _outbox: Outbox
    _policy_of: Callable[[Destination], PolicyEntry]
    """The policy entry of a destination."""
    _topics: Callable[[], Iterable[Topic]]
    """The existing topics."""
    _directory: Directory
    """It is notified of deleted subscriptions."""

    def __post_init__(self) -> None:
        self._loop = self._resources.loop
        self._last_sequence = 0
        self._by_key: dict[Key, Durable] = {}

    async def load(self, destinations: Iterable[Destination], last_sequence: int) -> None:
        """Read the subscriptions from the store, before any topic exists.

        :param last_sequence: the last sequence in the store: messages up to it may have been delivered before
        """
        self._last_sequence = last_sequence
        topics = [destination for destination in destinations if destination.is_topic]
        for info in await self._loop.run(lambda: [*self._read(topics)]):
            key = (info.client_id, info.subscription_name)
            durable = self._by_key.get(key)
            if durable is None:
                durable = self._by_key[key] = Durable(key, info.subscribed_destination, info.selector)
                if durable.defect is not None:
                    log.error(
                        "%s of %s cannot be consumed, but messages are stored for it: %s; subscribe with "
                        "another selector, or delete it with jdbcstore unsubscribe",
                        *(durable.name, durable.destination, durable.defect),
                    )
            durable.topics[info.destination] = TopicState(durable, self._last_sequence)
            durable.disconnect(self._loop.clock.monotonic())

    def _read(self, topics: Iterable[Destination]) -> Iterator[SubscriptionInfo]:
        """In a thread."""
        for topic in topics:
            yield from self._store_of(topic).subscriptions()

    def _store_of(self, topic: Destination) -> TopicMessageStore:
        prioritized = self._policy_of(topic).prioritized_messages
        return self._outbox.store.topic(topic, prioritized=prioritized)

    def __iter__(self) -> Iterator[Durable]:
        return iter(self._by_key.values())

    def introduce(self, topic: Topic) -> None:
        """Store the messages of a new topic for every subscription whose pattern matches."""
        if topic.store is None:
            return
        missing: list[Durable] = []
        for durable in self._by_key.values():
            if not durable.is_ending and durable.pattern.matches(topic.destination):
                if topic.destination not in durable.topics:
                    durable.topics[topic.destination] = TopicState(durable, self._last_sequence)
                    missing.append(durable)
                topic.durables[durable.key] = durable.topics[topic.destination]

        def write() -> None:
            for durable in missing:
                if not durable.is_ending:  # the store may have rejected it meanwhile
                    self._write_row(durable, topic.destination)

        if missing:
            topic.await_rows(lambda: self._loop.run(write))

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

    async def subscribe(
        self,
        request: SubscriptionRequest,
        consumer: Consumer,
        on_close: Callable[[BaseSubscription], object],
    ) -> DurableSubscriber:
        """Create a durable subscription, or connect to the existing one.

        As in ActiveMQ, a subscription with another selector or destination is deleted and created again.

        :raises SubscriptionInUse: it has a consumer
        :raises InvalidDestination: the store cannot hold the name of the topic
        :raises InvalidSubscription: the store cannot hold its names or its selector; an existing subscription
            stays
        """
        key = _key_of(request)
        wanted = Durable(key, request.destination, request.selector or None)
        if wanted.defect is not None:
            raise wanted.defect
        durable = self._by_key.get(key)
        if durable is not None and durable.is_in_use:
            raise SubscriptionInUse(
                f"Durable consumer is in use for client: {key[0]} and subscriptionName: {key[1]}"
            )
        if durable is None or not durable.is_certain or not durable.is_like(wanted):
            await self._create(wanted, durable, request.retroactive)
            durable = wanted
        durable.begin_use()
        prefetch = self._policy_of(request.destination).durable_topic_prefetch
        return DurableSubscriber(self._resources, request, consumer, prefetch, durable, on_close=on_close)

    async def _create(self, durable: Durable, former: Durable | None, retroactive: bool) -> None:
        key = durable.key
        durable.begin_use()
        # Topics that are created meanwhile get their rows from introduce().
        self._by_key[key] = durable
        topics = [
            topic
            for topic in self._topics()
            if topic.store is not None and durable.pattern.matches(topic.destination)
        ]
        wanted = dict.fromkeys([durable.destination, *(topic.destination for topic in topics)])
        last = self._last_sequence
        durable.topics.update((destination, TopicState(durable, last)) for destination in wanted)
        unwanted = [] if former is None else [*former.topics]

        is_accepted = False

        def write() -> None:
            nonlocal is_accepted
            # The store rejects names and a selector that it cannot hold before it looks for the former
            # subscription.
            with suppress(SubscriptionExists):
                self._write_row(durable, durable.destination, retroactive)
            is_accepted = True
            self._delete_rows(key, unwanted)
            for destination in wanted:
                self._write_row(durable, destination, retroactive)

        try:
            await self._loop.run(write)
        except BaseException as error:
            if not is_accepted and isinstance(error, InvalidDestination | InvalidSubscription):
                self._refused(durable, former)
            else:
                # Any of the rows may exist, so the next subscribe writes all of them.
                durable.survive(is_certain=False)
            raise
        if former is not None:
            self._forget(former)
        for topic in topics:
            state = topic.durables[key] = durable.topics[topic.destination]
            for shared in topic.retained_transient() if retroactive else ():
                state.keep(topic, shared)

    def _refused(self, durable: Durable, former: Durable | None) -> None:
        """Drop a subscription that the store cannot hold, and of which it has written nothing."""
        durable.begin_deletion()
        self._forget(durable)
        del self._by_key[durable.key]
        if former is not None:
            self._by_key[durable.key] = former
            for topic in self._topics():
                self.introduce(topic)

    def _forget(self, durable: Durable) -> None:
        for topic in self._topics():
            if topic.destination in durable.topics:
                topic.durables.pop(durable.key, None)
        for state in durable.topics.values():
            state.close()

    async def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        """Delete a durable subscription.

        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        """
        durable = self.unused(client_id, subscription_name)
        durable.begin_deletion()
        try:
            await self._loop.run(lambda: self._delete_rows(durable.key, [*durable.topics]))
        except BaseException:
            durable.survive(is_certain=False)
            raise
        del self._by_key[durable.key]
        self._forget(durable)
        self._directory.remove(
            DurableInfo(
                client_id=client_id, subscription_name=subscription_name, destination=durable.destination
            )
        )

    async def delete_topic(
        self, topic: Topic, *, keep_subscriptions: bool, goes_on: Callable[[int, int], bool]
    ) -> int:
        """Delete the messages of a topic, and the durable subscriptions to it alone.

        Return the number of messages. Subscriptions with a wildcard stay, without its messages. Messages sent
        while rows of subscriptions are deleted wait.

        :param keep_subscriptions: all other subscriptions stay too
        :param goes_on: called in a thread after each batch with the numbers of removed and examined messages.
            If it returns false, the rest of the messages and every subscription stay
        :raises SubscriptionInUse: a subscription is in use
        """
        name, store = topic.destination, self._outbox.store
        own = [self.unused(*durable.key) for durable in self._by_key.values() if durable.destination == name]
        removed, is_whole = await self._remove_messages(topic, own, goes_on)
        if not is_whole:
            return removed
        ending = [] if keep_subscriptions else own
        for durable in ending:
            durable.begin_deletion()
        staying = [
            durable.durable for key, durable in topic.durables.items() if self._by_key[key] not in ending
        ]
        for durable in staying:
            durable.topics[name].close()
            durable.topics[name] = topic.durables[durable.key] = TopicState(durable, self._last_sequence)

        def delete() -> int:
            count = store.delete_destination(name)
            write(staying)
            return count

        def write(durables: Iterable[Durable]) -> None:
            for durable in durables:
                self._write_row(durable, name)

        first = self._loop.run(delete)
        attempts: Iterator[Future[Any]] = iter([first])
        # If it fails, any of the rows may be missing, so the next send writes all of them.
        restore = partial(self._loop.run, partial(write, [*ending, *staying]))
        topic.await_rows(lambda: next(attempts, None) or restore())
        try:
            removed += await first
        except BaseException:
            for durable in ending:
                durable.survive()
            raise
        for durable in ending:
            del self._by_key[durable.key]
            self._forget(durable)
        return removed

    async def _remove_messages(
        self, topic: Topic, durables: Sequence[Durable], goes_on: Callable[[int, int], bool]
    ) -> tuple[int, bool]:
        """Remove the messages of a topic, in transactions between which others write.

        Return their number, and whether these are all.

        :param durables: subscriptions to reserve meanwhile
        """
        removed, is_whole = 0, True

        def progress(count: int) -> None:
            nonlocal removed, is_whole
            removed += count
            is_whole = goes_on(count, count)
            if not is_whole:
                raise _Stopped

        for durable in durables:
            durable.begin_use()
        try:
            with suppress(_Stopped):
                await self._loop.run(lambda: self._store_of(topic.destination).remove_all_messages(progress))
        finally:
            for durable in durables:
                durable.topics[topic.destination].close()
                durable.end_use()
        return removed, is_whole

    async def purge(
        self,
        client_id: str,
        subscription_name: str,
        topic: Destination | None = None,
        *,
        goes_on: Callable[[int, int], bool] = lambda _done, _seen: True,
    ) -> int:
        """Acknowledge the pending messages of a durable subscription, of one topic or of all.

        Meanwhile it is in use. Return the number of stored messages among them.

        :param goes_on: called in a thread after each page with the numbers of acknowledged and examined
            messages; returns whether to continue

        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        """
        durable = self.unused(client_id, subscription_name)
        states = {name: state for name, state in durable.topics.items() if topic in (None, name)}
        durable.begin_use()
        try:
            count = await self._loop.run(
                lambda: sum(self._acknowledge(durable, name, goes_on) for name in states)
            )
            for state in states.values():
                state.close()
        finally:
            durable.end_use()
        return count

    def _acknowledge(self, durable: Durable, topic: Destination, goes_on: Callable[[int, int], bool]) -> int:
        """Acknowledge the messages that are pending now; called in a thread."""
        count, last, size = 0, self._outbox.store.last_sequence(), BatchSize(_MOST)
        try:
            subscription = self._store_of(topic).subscription(*durable.key)
            for page in pages(subscription):
                sequences = [
                    message.sequence
                    for message in page
                    if message.sequence is not None and message.sequence <= last
                ]
                seen = len(page)
                while sequences:
                    batch, sequences = sequences[: size.value], sequences[size.value :]
                    began = time.monotonic()
                    subscription.acknowledge(*batch)
                    size.took(len(batch), time.monotonic() - began)
                    count += len(batch)
                    if not goes_on(len(batch), seen):
                        return count
                    seen = 0
                if seen and not goes_on(0, seen):
                    return count
        except SubscriptionNotFound:  # it has no row for a topic without messages
            return count
        return count

    def unused(self, client_id: str, subscription_name: str) -> Durable:
        """Return a durable subscription without a consumer.

        :raises SubscriptionInUse: it has a consumer
        :raises SubscriptionNotFound: it does not exist
        """
        key = (client_id, subscription_name)
        durable = self._by_key.get(key)
        if durable is None:
            raise SubscriptionNotFound(
                f"No durable subscription exists for clientID: {client_id} and subscriptionName:"
                f" {subscription_name}; jdbcstore subscriptions lists the existing ones"
            )
        if durable.is_in_use:
            raise SubscriptionInUse("Durable consumer is in use")
        return durable


def _key_of(request: SubscriptionRequest) -> Key:
    destination = request.destination
    if destination.is_temporary:
        raise InvalidDestination(f"{destination} is temporary, so it cannot have a durable subscription")
    if destination.is_composite:
        raise InvalidDestination(
            f"{destination} is a composite; create a durable subscription for each member, or for a wildcard"
        )
    return request.client_id or "", request.subscription_name or ""
