"""Queues, topics and durable subscriptions in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any

from jdbcstore import openwire
from jdbcstore.abc import (
    Cursor,
    MessageReference,
    Page,
    Progress,
    Reference,
    Statistics,
    SubscriptionInfo,
)
from jdbcstore.adapters.sql import Row
from jdbcstore.destination import Destination
from jdbcstore.memory.holding import hold_acknowledged, hold_added, hold_taken
from jdbcstore.memory.shared import Held, Shared, Write
from jdbcstore.memory.shelf import Shelf, Stored, Subscription
from jdbcstore.message import Message, MessageId
from jdbcstore.names import (
    check_subscription,
    message_not_found,
    name_of,
    subscription_exists,
    subscription_not_found,
)
from jdbcstore.paging import read_lanes


class MemoryMessageStore:
    """See :class:`jdbcstore.abc.MessageStore`. Futures are done when they are returned."""

    def __init__(self, shared: Shared, shelf: Shelf) -> None:
        self._shared = shared
        self._shelf = shelf

    @property
    def destination(self) -> Destination:
        return self._shelf.destination

    @property
    def prioritized(self) -> bool:
        return self._shelf.prioritized

    def add_message(self, message: Message) -> MessageReference:
        return self._shared.write([self.adding(message)])[0]

    def add_message_async(self, message: Message) -> Future[MessageReference]:
        return _done(self.add_message(message))

    def add_messages(self, messages: Iterable[Message]) -> list[MessageReference]:
        return self._shared.write([self.adding(message) for message in messages])

    def adding(self, message: Message) -> Write:
        shelf, shared = self._shelf, self._shared
        encoded = shared.encoder.encode(message, shelf.destination, prioritized=shelf.prioritized)
        name = (encoded.producer, encoded.producer_sequence)

        def is_duplicate() -> bool:
            return shared.audit is not None and shared.audit.is_duplicate(*name)

        def add() -> MessageReference:
            return MessageReference(-1, encoded.message_id) if is_duplicate() else store()

        def store() -> MessageReference:
            sequence = shared.last_sequence + 1
            stored = self._decode(encoded.blob_for(sequence), sequence)
            size = len(encoded.blob)
            shelf.add(sequence, Stored(stored, size, encoded.priority, encoded.expiration_ms, name))
            shared.last_sequence = sequence
            return MessageReference(sequence, encoded.message_id)

        def hold() -> Held | None:
            return None if is_duplicate() else hold_added(shared, shelf, name, store)

        return Write(add, hold=hold)

    def _decode(self, blob: bytes, sequence: int) -> Message:
        # What a reader gets is what it would get from a database, and nothing the writer can change.
        return openwire.decode(blob, sequence=sequence, container=self.destination.qualified_name)

    def get_message(self, message: MessageId | int) -> Message:
        with self._shared.entered():
            return self._stored(message).message

    def _stored(self, name: MessageId | int) -> Stored:
        for sequence in self._shelf.find(name):
            return self._shelf.stored[sequence]
        raise message_not_found(name, self.destination)

    def acknowledge(self, *messages: Reference) -> None:
        self._shared.write([self.acknowledging(messages)])

    def acknowledge_async(self, *messages: Reference) -> Future[None]:
        self.acknowledge(*messages)
        return _done(None)

    def acknowledging(self, messages: Sequence[Reference]) -> Write:
        sequences = self.find(messages)

        def remove() -> None:
            for sequence in sequences:
                self._shelf.remove(sequence)

        return Write(remove, hold=lambda: hold_taken(self._shelf, sequences))

    def find(self, messages: Sequence[Reference]) -> list[int]:
        """The sequences of all that is meant and still there."""
        names = [name_of(message) for message in messages]
        with self._shared.entered():
            return [sequence for name in names for sequence in self._shelf.find(name)]

    def update_message(self, message: Message) -> None:
        self._shared.write([self.updating(message)])

    def updating(self, message: Message) -> Write:
        shelf = self._shelf
        with self._shared.entered():
            old = self._stored(name_of(message)).message
        if message.message_id is None:
            message = message.replace(message_id=old.message_id)
        encoded = self._shared.encoder.encode(message, shelf.destination, prioritized=shelf.prioritized)
        sequence = old.sequence or 0
        new = self._decode(encoded.blob_for(sequence), sequence)

        def update() -> None:
            stored = shelf.stored.get(sequence)
            if stored is not None:
                shelf.total_size += len(encoded.blob) - stored.size
                stored.message, stored.size = new, len(encoded.blob)

        return Write(update)

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        with self._shared.entered():
            return self._page([lane.behind for lane in self._shelf.lanes], limit, after)

    def recover_expired(self, limit: int = 500, after: Cursor | None = None) -> Page:
        now_ms = self._shared.clock.now_ms()
        with self._shared.entered():
            return self._page([lambda behind: self._shelf.expired(now_ms, behind)], limit, after)

    def _page(
        self, lanes: Sequence[Callable[[int], Iterator[int]]], limit: int, after: Cursor | None
    ) -> Page:
        def fetch(priority: int | None, behind: int, count: int) -> list[Row]:
            stored = self._shelf.stored
            return [
                (number, stored[number].message) for number in islice(lanes[priority or 0](behind), count)
            ]

        rows, cursor = read_lanes(fetch, limit, after, [-1] * len(lanes))
        return Page([message for _, message in rows], cursor, len(rows) < limit)

    def message_count(self) -> int:
        with self._shared.entered():
            return len(self._shelf.stored)

    def statistics(self) -> Statistics:
        with self._shared.entered():
            oldest = self._shelf.oldest()
            timestamp_ms = None if oldest is None else oldest.timestamp_ms
            return Statistics(len(self._shelf.stored), self._shelf.total_size, timestamp_ms)

    def remove_all_messages(self, progress: Progress | None = None) -> int:
        return self._shared.remove(self._shelf, lambda: self._shelf.stored, progress)

    def remove_expired(self, progress: Progress | None = None) -> int:
        now_ms = self._shared.clock.now_ms()
        return self._shared.remove(self._shelf, lambda: self._shelf.expired(now_ms, -1), progress)


class MemoryTopicMessageStore(MemoryMessageStore):
    """See :class:`jdbcstore.abc.TopicMessageStore`."""

    def subscribe(
        self,
        client_id: str,
        subscription_name: str,
        *,
        selector: str | None = None,
        retroactive: bool = False,
        subscribed_destination: Destination | None = None,
    ) -> MemoryDurableSubscription:
        pattern = subscribed_destination or self.destination
        info = SubscriptionInfo(client_id, subscription_name, self.destination, pattern, selector)
        check_subscription(info, self._shared.lengths)
        with self._shared.entered():
            existing = self._shelf.subscriptions.get((client_id, subscription_name))
            if existing is None:
                self._shelf.subscribe(info, retroactive=retroactive)
            elif existing.info != info:
                raise subscription_exists(existing.info)
        return MemoryDurableSubscription(self, info)

    def subscription(self, client_id: str, subscription_name: str) -> MemoryDurableSubscription:
        with self._shared.entered():
            return MemoryDurableSubscription(self, self._subscription(client_id, subscription_name).info)

    def subscriptions(self) -> list[SubscriptionInfo]:
        with self._shared.entered():
            return [subscription.info for subscription in self._shelf.subscriptions.values()]

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        with self._shared.entered():
            self._subscription(client_id, subscription_name)
            del self._shelf.subscriptions[client_id, subscription_name]

    def _subscription(self, client_id: str, subscription_name: str) -> Subscription:
        found = self._shelf.subscriptions.get((client_id, subscription_name))
        if found is None:
            raise subscription_not_found(client_id, subscription_name, self.destination)
        return found

    def acknowledging_subscription(
        self, client_id: str, subscription_name: str, messages: Sequence[Reference]
    ) -> Write:
        self.subscription(client_id, subscription_name)
        sequences = self.find(messages)

        def check() -> None:
            self._subscription(client_id, subscription_name)

        def acknowledge() -> None:
            subscription = self._subscription(client_id, subscription_name)
            for sequence in sequences:
                subscription.acknowledge(sequence)

        def hold() -> Held | None:
            subscription = self._subscription(client_id, subscription_name)
            return hold_acknowledged(subscription, sequences)

        return Write(acknowledge, check, hold)

    def acknowledge_subscription(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> None:
        write = self.acknowledging_subscription(info.client_id, info.subscription_name, messages)
        self._shared.write([write])

    def recover_pending(self, info: SubscriptionInfo, limit: int, after: Cursor | None) -> Page:
        """The next messages that a subscription has not acknowledged."""
        with self._shared.entered():
            subscription = self._subscription(info.client_id, info.subscription_name)
            return self._page([lane.behind for lane in subscription.lanes], limit, after)

    def count_pending(self, info: SubscriptionInfo) -> int:
        """How many messages a subscription has not acknowledged."""
        with self._shared.entered():
            return len(self._subscription(info.client_id, info.subscription_name))

    def cleanup(self, progress: Progress | None) -> int:
        """Remove what every subscription has acknowledged."""
        shelf = self._shelf
        # Asked again before each goes: a retroactive subscription may have come and want it.
        return self._shared.remove(
            shelf, lambda: filter(shelf.is_done, shelf.stored), progress, still=shelf.is_done
        )


class MemoryDurableSubscription:
    """See :class:`jdbcstore.abc.DurableSubscription`."""

    def __init__(self, topic: MemoryTopicMessageStore, info: SubscriptionInfo) -> None:
        self._topic = topic
        self._info = info

    @property
    def info(self) -> SubscriptionInfo:
        return self._info

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        return self._topic.recover_pending(self._info, limit, after)

    def acknowledge(self, *messages: Reference) -> None:
        self._topic.acknowledge_subscription(self._info, messages)

    def acknowledge_async(self, *messages: Reference) -> Future[None]:
        self.acknowledge(*messages)
        return _done(None)

    def message_count(self) -> int:
        return self._topic.count_pending(self._info)


def _done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future
