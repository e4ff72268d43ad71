"""Queues and topics in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from jdbcstore.abc import (
    Cursor,
    MessageReference,
    Page,
    Progress,
    Reference,
    Statistics,
    SubscriptionInfo,
)
from jdbcstore.errors import CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.stores.memory.shelf import MemorySubscription, Shelf, StoredMessage
from jdbcstore.stores.memory.state import (
    HeldWrite,
    MemoryUnit,
    MemoryWrite,
    State,
    hold_acknowledged,
    hold_added,
    hold_taken,
)
from jdbcstore.stores.shared.checkpoint import Referring
from jdbcstore.stores.shared.checks import message_not_found, name_of
from jdbcstore.stores.shared.encoding import encode_each, everything, nothing, only
from jdbcstore.stores.shared.paging import read_lanes
from jdbcstore.stores.shared.rows import EncodedMessage, StoredRow
from jdbcstore.stores.shared.subscriptions import (
    SubscribedTopic,
    check_subscription,
    subscription_exists,
    subscription_not_found,
)
from jdbcstore.stores.shared.writing import UnitWrites


class MemoryMessageStore(UnitWrites[MemoryUnit]):
    """See :class:`jdbcstore.abc.MessageStore`. Futures are done when they are returned."""

    def __init__(self, state: State, shelf: Shelf) -> None:
        self._state = state
        self.shelf = shelf
        """The messages; for the store, under its lock."""
        self.destination = shelf.destination
        self.prioritized = shelf.prioritized
        self.execute, self.submit = state.execute, state.submit
        self.encode, self.encode_all = state.encoder.of(self.destination, prioritized=self.prioritized)

    def unit_of_add(self, message: Message) -> MemoryUnit:
        return MemoryUnit(only, [self.adding(message)])

    def unit_of_adds(self, messages: Iterable[Message]) -> MemoryUnit:
        return MemoryUnit(everything, [self.adding(message) for message in messages])

    def unit_of_each(self, messages: Iterable[Message]) -> MemoryUnit:
        writes, outcomes = encode_each(messages, self.adding)
        return MemoryUnit(outcomes, writes)

    def unit_of_removes(self, messages: Sequence[Reference]) -> MemoryUnit:
        return MemoryUnit(nothing, [self._acknowledging(messages)])

    def unit_of_update(self, message: Message) -> MemoryUnit:
        return MemoryUnit(nothing, [self._updating(message)])

    def add_in(self, writes: MemoryUnit, message: Message) -> None:
        writes.writes.append(self.adding(message))

    def acknowledge_in(self, writes: MemoryUnit, messages: Sequence[Reference]) -> None:
        writes.writes.append(self._acknowledging(messages))

    def update_in(self, writes: MemoryUnit, message: Message) -> None:
        writes.writes.append(self._updating(message))

    def adding(self, message: Message) -> MemoryWrite:
        shelf, state = self.shelf, self._state
        encoded = self.encode(message)
        name = (encoded.producer, encoded.producer_sequence)

        def is_duplicate() -> bool:
            return state.audit is not None and state.audit.is_duplicate(*name)

        def add() -> MessageReference:
            return MessageReference(-1, encoded.message_id) if is_duplicate() else store()

        def store() -> MessageReference:
            sequence = state.last_sequence + 1
            self.put(sequence, encoded)
            return MessageReference(sequence, encoded.message_id)

        def hold() -> HeldWrite | None:
            return None if is_duplicate() else hold_added(state, shelf, name, store)

        return MemoryWrite(add, hold=hold)

    def put(self, sequence: int, encoded: EncodedMessage) -> None:
        """Store a message with a sequence higher than any other; the lock is held."""
        message = self._kept(encoded.blob_for(sequence), sequence)
        name = (encoded.producer, encoded.producer_sequence)
        stored = StoredMessage(message, len(encoded.blob), encoded.priority, encoded.expiration_ms, name)
        self.shelf.add(sequence, stored)
        self._state.last_sequence = sequence
        self._state.places[self.shelf.destination] = self  # it may have been deleted

    def replace(self, sequence: int, encoded: EncodedMessage) -> None:
        """Replace the contents of a message, if it is stored; the lock is held."""
        self.put_body(sequence, encoded.blob_for(sequence))

    def put_body(self, sequence: int, blob: bytes) -> None:
        """Replace the blob of a message, if it is stored; the lock is held."""
        stored = self.shelf.stored.get(sequence)
        if stored is not None:
            self.shelf.grow(len(blob) - stored.size)
            stored.message = self._kept(blob, sequence)
            stored.size = len(blob)

    def referring(self) -> Iterator[Referring]:
        """Yield the messages stored only as references into a journal, in no order; the lock is held."""
        for sequence, stored in self.shelf.stored.items():
            if isinstance(stored.message, bytes):
                yield Referring(sequence, self.destination.qualified_name, stored.message)

    def resolve(self, message: Reference, *, with_priority: bool = False) -> list[tuple[int, int]]:
        shelf = self.shelf
        with self._state.entered():
            numbers = shelf.find(name_of(message))
            return [(number, shelf.stored[number].lane if with_priority else 0) for number in numbers]

    def present(self, sequences: Sequence[int]) -> dict[int, int]:
        with self._state.entered():
            stored = self.shelf.stored
            return {number: stored[number].size for number in sequences if number in stored}

    def _kept(self, blob: bytes, sequence: int) -> Message | bytes:
        return blob if openwire.is_reference(blob) else self._decode(blob, sequence)

    def _message(self, sequence: int) -> Message:
        """Return the stored message.

        :raises CorruptMessage: it is a reference, and the journal does not have the message
        """
        message, find = self.shelf.stored[sequence].message, self._state.find_body
        if not isinstance(message, bytes):
            return message
        return self._decode(
            message if find is None else find(message, sequence, self.destination.qualified_name), sequence
        )

    def _decode(self, blob: bytes, sequence: int) -> Message:
        # As from a database: no reader shares an object with a writer.
        return openwire.decode(blob, sequence=sequence, container=self.destination.qualified_name)

    def get_message(self, message: MessageId | int) -> Message:
        with self._state.entered():
            return self._message(self._stored(message))

    def _stored(self, name: MessageId | int) -> int:
        for sequence in self.shelf.find(name):
            return sequence
        raise message_not_found(name, self.destination)

    def _acknowledging(self, messages: Sequence[Reference]) -> MemoryWrite:
        sequences = self.find(messages)

        def remove() -> None:
            for sequence in sequences:
                self.shelf.remove(sequence)

        return MemoryWrite(remove, hold=lambda: hold_taken(self.shelf, sequences))

    def find(self, messages: Sequence[Reference]) -> list[int]:
        """Return the sequences of the messages referred to that are still stored."""
        names = [name_of(message) for message in messages]
        with self._state.entered():
            return [sequence for name in names for sequence in self.shelf.find(name)]

    def _updating(self, message: Message) -> MemoryWrite:
        with self._state.entered():
            sequence = self._stored(name_of(message))
            old = self._message(sequence)
        if message.message_id is None:
            message = message.replace(message_id=old.message_id)
        encoded = self.encode(message)
        return MemoryWrite(lambda: self.replace(sequence, encoded))

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        with self._state.entered():
            return self._page([lane.behind for lane in self.shelf.lanes], limit, after)

    def recover_expired(self, limit: int = 500, after: Cursor | None = None) -> Page:
        now_ms = self._state.clock.now_ms()
        with self._state.entered():
            return self._page([lambda behind: self.shelf.expired(now_ms, behind)], limit, after)

    def _page(
        self, lanes: Sequence[Callable[[int], Iterator[int]]], limit: int, after: Cursor | None
    ) -> Page:
        def fetch(priority: int | None, behind: int, count: int) -> list[StoredRow]:
            return [(number,) for number in islice(lanes[priority or 0](behind), count)]

        rows, cursor = read_lanes(fetch, limit, after, [-1] * len(lanes))
        messages, corrupt = list[Message](), list[CorruptMessage]()
        for (number,) in rows:
            try:
                messages.append(self._message(number))
            except CorruptMessage as error:
                corrupt.append(error)
        return Page(messages, cursor, len(rows) < limit, corrupt)

    def message_count(self) -> int:
        with self._state.entered():
            return len(self.shelf.stored)

    def statistics(self) -> Statistics:
        with self._state.entered():
            oldest = self.shelf.oldest()
            timestamp_ms = None
            if oldest is not None:
                with contextlib.suppress(CorruptMessage):
                    timestamp_ms = self._message(oldest).timestamp_ms
            return Statistics(len(self.shelf.stored), self.shelf.total_size, timestamp_ms)

    def remove_all_messages(self, progress: Progress | None = None) -> int:
        return self._state.remove(self.shelf, lambda: self.shelf.stored, progress)

    def remove_expired(self, progress: Progress | None = None) -> int:
        now_ms = self._state.clock.now_ms()
        return self._state.remove(self.shelf, lambda: self.shelf.expired(now_ms, -1), progress)


class MemoryTopicMessageStore(MemoryMessageStore, SubscribedTopic[MemoryUnit]):
    """See :class:`jdbcstore.abc.TopicMessageStore`."""

    def _subscribe(self, info: SubscriptionInfo, *, retroactive: bool) -> None:
        check_subscription(info, self._state.lengths)
        with self._state.entered():
            existing = self.shelf.subscriptions.get((info.client_id, info.subscription_name))
            if existing is None:
                self.shelf.subscribe(info, retroactive=retroactive)
                self._state.places[self.destination] = self  # it may have been deleted
            elif existing.info != info:
                raise subscription_exists(existing.info)

    def _info_of(self, client_id: str, subscription_name: str) -> SubscriptionInfo:
        with self._state.entered():
            return self._subscription(client_id, subscription_name).info

    def subscriptions(self) -> list[SubscriptionInfo]:
        with self._state.entered():
            return [subscription.info for subscription in self.shelf.subscriptions.values()]

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        with self._state.entered():
            gone = self._subscription(client_id, subscription_name)
            del self.shelf.subscriptions[client_id, subscription_name]
            self._state.unsubscribed(gone.info)

    def remove_all_subscriptions(self) -> None:
        with self._state.entered():
            subscriptions = self.shelf.subscriptions
            for key in [key for key, subscription in subscriptions.items() if not subscription.in_doubt]:
                del subscriptions[key]

    def in_doubt(self) -> set[int]:
        with self._state.entered():
            return {
                number
                for subscription in self.shelf.subscriptions.values()
                for number in subscription.in_doubt
            }

    def _subscription(self, client_id: str, subscription_name: str) -> MemorySubscription:
        subscription = self.shelf.subscriptions.get((client_id, subscription_name))
        if subscription is None:
            raise subscription_not_found(client_id, subscription_name, self.destination)
        return subscription

    def acknowledge_for_in(
        self,
        writes: MemoryUnit,
        client_id: str,
        subscription_name: str,
        messages: Sequence[Reference],
    ) -> None:
        self._info_of(client_id, subscription_name)
        sequences = self.find(messages)

        def check() -> None:
            self._subscription(client_id, subscription_name)

        def acknowledge() -> None:
            subscription = self._subscription(client_id, subscription_name)
            for sequence in sequences:
                subscription.acknowledge(sequence)

        def hold() -> HeldWrite | None:
            subscription = self._subscription(client_id, subscription_name)
            return hold_acknowledged(subscription, sequences)

        writes.writes.append(MemoryWrite(acknowledge, check, hold))

    def acknowledgement(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> MemoryUnit:
        unit = MemoryUnit(nothing)
        self.acknowledge_for_in(unit, info.client_id, info.subscription_name, messages)
        return unit

    def recover_pending(self, info: SubscriptionInfo, limit: int, after: Cursor | None) -> Page:
        with self._state.entered():
            subscription = self._subscription(info.client_id, info.subscription_name)
            return self._page([lane.behind for lane in subscription.lanes], limit, after)

    def count_pending(self, info: SubscriptionInfo) -> int:
        with self._state.entered():
            return len(self._subscription(info.client_id, info.subscription_name))

    def cleanup(self, progress: Progress | None) -> int:
        """Remove what every subscription has acknowledged."""
        shelf = self.shelf
        # Asked again before each is removed: a retroactive subscription may have been made meanwhile.
        return self._state.remove(
            shelf, lambda: filter(shelf.is_done, shelf.stored), progress, still=shelf.is_done
        )
