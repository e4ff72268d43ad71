"""Queues, topics and durable subscriptions behind a journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from jdbcstore.abc import (
    Cursor,
    DurableSubscription,
    Page,
    Progress,
    Reference,
    Statistics,
    SubscriptionInfo,
)
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message
from jdbcstore.message.openwire.reference import REFERENCE_SIZE
from jdbcstore.stores.journaled.entries import Add, JournalUnit, Removal
from jdbcstore.stores.journaled.front import JournalFront
from jdbcstore.stores.journaled.overlay import Layer
from jdbcstore.stores.journaled.reading import PageSource, decode, read_page
from jdbcstore.stores.journaled.records import FORGET, RecordedWrites
from jdbcstore.stores.shared.checkpoint import (
    CheckpointedDestination,
    CheckpointedTopic,
    SubscriptionKey,
)
from jdbcstore.stores.shared.checks import message_not_found, name_of
from jdbcstore.stores.shared.encoding import encode_each, nothing
from jdbcstore.stores.shared.paging import PRIORITIES, REMOVE_BATCH, counted
from jdbcstore.stores.shared.rows import EncodedMessage
from jdbcstore.stores.shared.subscriptions import (
    SubscribedTopic,
)
from jdbcstore.stores.shared.writing import UnitWrites

_END = 2**63 - 1


class JournaledMessageStore(UnitWrites[JournalUnit]):
    """See :class:`jdbcstore.abc.MessageStore`."""

    def __init__(self, front: JournalFront, backing: CheckpointedDestination) -> None:
        self._front = front
        self._writer = front.writer
        self.execute, self.submit = front.writer.execute, front.writer.submit
        self.encode = backing.encode
        self._overlay = front.overlay
        self._backing = backing
        self.destination = backing.destination
        self.prioritized = backing.prioritized
        self._container = backing.destination.qualified_name
        self._lanes = PRIORITIES if self.prioritized else 1
        self._source = PageSource(front.overlay, self._container, self._lanes)

    def unit_of_add(self, message: Message) -> JournalUnit:
        return Add(self.encode(message))

    def unit_of_adds(self, messages: Iterable[Message]) -> JournalUnit:
        return JournalUnit(RecordedWrites(adds=self._backing.encode_all(messages)))

    def unit_of_each(self, messages: Iterable[Message]) -> JournalUnit:
        adds, outcomes = encode_each(messages, self.encode)
        return JournalUnit(RecordedWrites(adds=adds), outcomes)

    def unit_of_removes(self, messages: Sequence[Reference]) -> JournalUnit:
        return Removal(self._container, self._resolved(messages))

    def unit_of_update(self, message: Message) -> JournalUnit:
        writes = RecordedWrites()
        self.update_in(writes, message)
        return JournalUnit(writes, nothing)

    def add_in(self, writes: RecordedWrites, message: Message) -> None:
        writes.adds.append(self.encode(message))

    def acknowledge_in(self, writes: RecordedWrites, messages: Sequence[Reference]) -> None:
        sequences = self._resolved(messages)
        if sequences:
            writes.removes.append((self._container, sequences))

    def _resolved(self, messages: Sequence[Reference]) -> list[int]:
        recent = self._recent(messages)
        rest = messages[len(recent) :]
        return self._decided([*recent, *(number for name in rest for number, _ in self.resolve(name))])

    def _recent(self, messages: Sequence[Reference]) -> list[int]:
        """Return the sequences of messages that a layer has, up to the first that none has."""
        recent: list[int] = []
        overlay, container = self._overlay, self._container
        self._writer.check_open()
        with overlay.lock:
            layers = [layer.adds for layer in overlay.oldest.chain()]
            for message in messages:
                name = name_of(message)
                if not isinstance(name, int):
                    break
                added = next((adds[name] for adds in layers if name in adds), None)
                if added is None or added.container != container:
                    break
                recent.append(name)
        return recent

    def _decided(self, sequences: list[int]) -> list[int]:
        """Return the sequences without those prepared by a durable subscription."""
        return sequences

    def update_in(self, writes: RecordedWrites, message: Message) -> None:
        try:
            stored: Message | CorruptMessage = self.get_message(name_of(message))
        except CorruptMessage as error:
            stored = error
        if message.message_id is None:
            if isinstance(stored, CorruptMessage):
                raise stored
            message = message.replace(message_id=stored.message_id)
        writes.updates.append((stored.sequence or 0, self.encode(message)))

    def get_message(self, message: MessageId | int) -> Message:
        sequences = [message] if isinstance(message, int) else [number for number, _ in self.resolve(message)]
        overlay = self._overlay
        self._writer.check_open()
        for sequence in sorted(sequences):
            with overlay.lock:
                oldest = overlay.oldest
                if overlay.is_gone(self._container, sequence, oldest):
                    continue
                encoded = overlay.message(self._container, sequence, oldest)
            return self._backing.get_message(sequence) if encoded is None else decode(encoded, sequence)
        raise message_not_found(message, self.destination)

    def resolve(self, message: Reference, *, with_priority: bool = False) -> list[tuple[int, int]]:
        overlay, container, name = self._overlay, self._container, name_of(message)
        if not isinstance(name, int):
            return self._named(name, with_priority=with_priority)
        self._writer.check_open()
        with overlay.lock:
            if not 0 <= name <= overlay.last_sequence:
                return []
            for layer in overlay.oldest.chain():
                added = layer.adds.get(name)
                if added is not None:
                    return [(name, added.priority)] if added.container == container else []
        return self._backing.resolve(message, with_priority=with_priority)

    def _named(self, name: MessageId, *, with_priority: bool) -> list[tuple[int, int]]:
        if name.producer_id is None:
            return []
        overlay = self._overlay
        with overlay.lock:
            oldest = overlay.oldest
            sequences = overlay.find(self._container, (str(name.producer_id), name.producer_sequence))
        # A message id may be stored twice. The layers are asked first: messages only move from them to there.
        every = dict(self._backing.resolve(name, with_priority=with_priority))
        with overlay.lock:
            for sequence in sequences:
                message = overlay.message(self._container, sequence, oldest)
                every[sequence] = message.priority if message else 0
            gone = [number for number in every if overlay.is_gone(self._container, number, oldest)]
        for number in gone:
            del every[number]
        return sorted(every.items())

    def recover(self, limit: int = 500, after: Cursor | None = None) -> Page:
        return read_page(self._source, self._backing.recover, limit, after)

    def recover_expired(self, limit: int = 500, after: Cursor | None = None) -> Page:
        source = PageSource(self._overlay, self._container, 1, expired_ms=self._front.clock.now_ms())
        return read_page(source, self._backing.recover_expired, limit, after)

    def message_count(self) -> int:
        # While no transaction of a checkpoint is written, the content of the backing store is known exactly.
        with self._front.checkpointer.gate:
            laid = _overlaid(self._source)
            gone: Collection[int] = self._backing.present(laid.gone) if laid.gone else ()
            return self._backing.message_count() - len(gone) + laid.count

    def statistics(self) -> Statistics:
        front, source, backing = self._front, self._source, self._backing
        with front.checkpointer.gate:
            laid = _overlaid(source)
            asked = [*laid.gone, *laid.updated]
            referred = front.bodies.sizes(front.checkpointer.mark, source.container)
            present = backing.present(asked) if asked else {}
            more = sum(size - REFERENCE_SIZE for size in referred.values())
            present.update((sequence, referred[sequence]) for sequence in present.keys() & referred.keys())
            stored = backing.statistics()
            oldest = stored.oldest_timestamp_ms
            if present or not stored.message_count:
                oldest = _oldest_timestamp(source, backing)
        gone = [present[sequence] for sequence in laid.gone if sequence in present]
        more += sum(
            size - present[sequence] for sequence, size in laid.updated.items() if sequence in present
        )
        return Statistics(
            stored.message_count - len(gone) + laid.count,
            stored.message_bytes - sum(gone) + more + laid.size,
            oldest,
        )

    def remove_all_messages(self, progress: Progress | None = None) -> int:
        return self._remove_found(self.recover, progress)

    def remove_expired(self, progress: Progress | None = None) -> int:
        return self._remove_found(self.recover_expired, progress)

    def _remove_found(self, find: Callable[[int, Cursor | None], Page], progress: Progress | None) -> int:
        """Remove found messages up to the store's current sequence, each page as one unit."""
        with self._overlay.lock:
            last = self._overlay.last_sequence

        def counts() -> Iterator[int]:
            after, at_end = None, False
            while not at_end:
                page = find(REMOVE_BATCH, after)
                sequences_seen = [
                    item.sequence for item in (*page, *page.corrupt) if item.sequence is not None
                ]
                sequences = self._decided([sequence for sequence in sequences_seen if sequence <= last])
                if sequences:
                    self._writer.execute(Removal(self._container, sequences))
                yield len(sequences)
                after, at_end = page.cursor, page.at_end

        return counted(counts(), progress)


class JournaledTopicMessageStore(JournaledMessageStore, SubscribedTopic[JournalUnit]):
    """See :class:`jdbcstore.abc.TopicMessageStore`. Subscriptions are created and deleted at a checkpoint."""

    def __init__(self, front: JournalFront, backing: CheckpointedTopic) -> None:
        super().__init__(front, backing)
        self._topic = backing

    def _key(self, client_id: str, subscription_name: str) -> SubscriptionKey:
        return SubscriptionKey(self.destination, client_id, subscription_name)

    def _subscribe(self, info: SubscriptionInfo, *, retroactive: bool) -> None:
        key, subscriptions = self._key(info.client_id, info.subscription_name), self._front.subscriptions
        with self._front.checkpointer.up_to_date():
            try:
                self._topic.subscribe(
                    info.client_id,
                    info.subscription_name,
                    selector=info.selector,
                    retroactive=retroactive,
                    subscribed_destination=info.subscribed_destination,
                )
            finally:
                subscriptions.changed(key)
            subscriptions.lanes(key)

    def _info_of(self, client_id: str, subscription_name: str) -> SubscriptionInfo:
        self._writer.check_open()
        return self._front.subscriptions.find(self._key(client_id, subscription_name))

    def subscriptions(self) -> list[SubscriptionInfo]:
        self._writer.check_open()
        return list(self._front.subscriptions.of(self.destination).values())

    def unsubscribe(self, client_id: str, subscription_name: str) -> None:
        key = self._key(client_id, subscription_name)
        with self._front.checkpointer.up_to_date():
            try:
                self._topic.unsubscribe(client_id, subscription_name)
            finally:
                self._front.subscriptions.changed(key)
            # Acknowledgements in the journal must not apply to another subscription of this name.
            forget = JournalUnit(RecordedWrites(acknowledgements=[(key, ())]), nothing, kind=FORGET)
            self._writer.execute(forget)

    def remove_all_subscriptions(self) -> None:
        in_doubt = self._in_doubt_in_backing()
        for key in list(self._front.subscriptions.of(self.destination)):
            with self._overlay.lock:
                is_held = key in self._overlay.held
            if not is_held and key not in in_doubt:
                self.unsubscribe(key.client_id, key.subscription_name)

    def _in_doubt_in_backing(self) -> set[tuple[Destination, str | None, str | None]]:
        """Return the subscriptions that have something in doubt in the backing store."""
        transactions = self._front.store.xa.recover() if self._front.prepared_before else ()
        writes = [write for transaction in transactions for write in transaction.writes]
        return {(write.destination, write.client_id, write.subscription_name) for write in writes}

    def _decided(self, sequences: list[int]) -> list[int]:
        with self._overlay.lock:
            doubtful = {*self._overlay.doubtful(self._container)}
        if self._front.prepared_before:
            doubtful |= self._topic.in_doubt()
        return [sequence for sequence in sequences if sequence not in doubtful] if doubtful else sequences

    def acknowledge_for_in(
        self, writes: RecordedWrites, client_id: str, subscription_name: str, messages: Sequence[Reference]
    ) -> None:
        key = self._key(client_id, subscription_name)
        self._front.subscriptions.find(key)
        with_priority = self._lanes > 1
        pairs = [pair for name in messages for pair in self.resolve(name, with_priority=with_priority)]
        if pairs:
            writes.acknowledgements.append((key, pairs))

    def _pages_of(self, info: SubscriptionInfo) -> tuple[PageSource, DurableSubscription]:
        """Return the sources of a subscription: the layers, and the backing store."""
        key = self._key(info.client_id, info.subscription_name)
        source = PageSource(self._overlay, self._container, self._front.subscriptions.lanes(key), key)
        return source, self._topic.subscription(info.client_id, info.subscription_name)

    def recover_pending(self, info: SubscriptionInfo, limit: int, after: Cursor | None) -> Page:
        source, backing = self._pages_of(info)
        return read_page(source, backing.recover, limit, after)

    def count_pending(self, info: SubscriptionInfo) -> int:
        source, backing = self._pages_of(info)
        with self._front.checkpointer.gate:
            laid = _overlaid(source)
            gone: Collection[int] = pending(backing, laid.gone) if laid.gone else ()
            return backing.message_count() - len(gone) + laid.count

    def acknowledgement(self, info: SubscriptionInfo, messages: Sequence[Reference]) -> JournalUnit:
        writes = RecordedWrites()
        self.acknowledge_for_in(writes, info.client_id, info.subscription_name, messages)
        return JournalUnit(writes, nothing)


def pending(backing: DurableSubscription, sequences: Sequence[int]) -> set[int]:
    """Return those of the sequences that the backing store would still deliver to the subscription."""
    wanted, last, pending = set(sequences), max(sequences), set[int]()
    # A cursor with one position applies to every lane.
    after = Cursor((min(sequences) - 1,))
    while True:
        page = backing.recover(500, after)
        seen = [item.sequence or 0 for item in (*page, *page.corrupt)]
        pending |= wanted.intersection(seen)
        after = page.cursor
        if page.at_end or (len(after.positions) == 1 and after.positions[0] >= last):
            return pending


@dataclass(slots=True)
class _Overlaid:
    """The changes of the layers to a source: added, removed, updated."""

    count: int = 0
    size: int = 0
    gone: list[int] = field(default_factory=list)
    """Messages that are hidden, if the backing store has them."""
    updated: dict[int, int] = field(default_factory=dict)
    """Sequence -> new bytes of messages that the layers update, if the backing store has them."""


def _overlaid(source: PageSource) -> _Overlaid:
    overlay, laid = source.overlay, _Overlaid()
    with overlay.lock:
        oldest, written = overlay.oldest, overlay.written
        hidden = set[int]().union(*source.hidden(oldest))
        for layer in oldest.chain():
            destination = layer.destinations.get(source.container)
            if destination is None:
                continue
            if layer is overlay.active:
                laid.count += destination.count
                laid.size += destination.size
            else:
                # The backing store counts messages that a checkpoint has written.
                rest = [number for lane in destination.lanes.values() for number in lane.behind(written)]
                laid.count += len(rest)
                laid.size += sum(len(layer.adds[number].blob) for number in rest)
            for sequence, message in destination.updates.items():
                if sequence in hidden:
                    continue
                added = _added(oldest, source.container, sequence) if sequence > written else None
                if added is None:
                    laid.updated[sequence] = len(message.blob)
                else:
                    laid.size += len(message.blob) - len(added.blob)
        for sequence in hidden:
            added = _added(oldest, source.container, sequence) if sequence > written else None
            if added is None:
                laid.gone.append(sequence)
            else:
                laid.count -= 1
                laid.size -= len(added.blob)
    return laid


def _added(oldest: Layer, container: str, sequence: int) -> EncodedMessage | None:
    for layer in oldest.chain():
        message = layer.adds.get(sequence)
        if message is not None and message.container == container:
            return message
    return None


def _oldest_timestamp(source: PageSource, backing: CheckpointedDestination) -> int | None:
    """Return when the message with the lowest sequence was sent, in epoch milliseconds."""
    heads: list[Message] = []
    for lane in range(source.lanes):
        only = Cursor(tuple(-1 if other == lane else _END for other in range(source.lanes)))
        heads += read_page(source, backing.recover, 1, only)
    first = min(heads, key=lambda message: message.sequence or 0, default=None)
    return None if first is None else first.timestamp_ms
