"""Writes that are in the journal and not yet in the backing store, which readers see before the tables do.

At most two layers are involved in writing: the active one, which takes durable records of the journal, and
a frozen one, which a checkpoint is writing to the backing store. Applying a layer a second time, after all or
a part of it was written there, changes nothing. So a reader holds on to the oldest layer there is, reads the
backing store without any lock, and then applies all layers from that one on to its page.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from jdbcstore.abc import Cursor
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.records import COMMIT, OPERATE, PREPARE, ROLLBACK, WRITE, RecordedWrites
from jdbcstore.stores.memory.shelf import Sequences
from jdbcstore.stores.shared.checkpoint import SubscriptionKey
from jdbcstore.stores.shared.operations import UNSUBSCRIBE, RecordedOperation
from jdbcstore.stores.shared.rows import EncodedMessage

OVERHEAD = 512
"""Roughly the bytes that a message takes besides its blob."""
SMALL = 96
"""Roughly the bytes it takes to remember that a message is gone."""


@dataclass(slots=True)
class LayerDestination:
    """One destination in one layer."""

    lanes: dict[int, Sequences] = field(default_factory=dict)
    """The sequences of added messages, by the priority of their rows."""
    expiring: Sequences = field(default_factory=Sequences)
    named: dict[tuple[str, int], list[int]] | None = None
    """The added messages by producer and producer sequence, once one is looked up."""
    count: int = 0
    size: int = 0
    """The bytes of the added messages' blobs."""
    updates: dict[int, EncodedMessage] = field(default_factory=dict)
    """New contents of messages of earlier layers or the backing store."""
    removes: set[int] = field(default_factory=set)
    """Messages of earlier layers or the backing store that are gone."""


@dataclass(slots=True, eq=False)
class Layer:
    """The writes between two checkpoints; layers that are read together are linked, oldest first.

    Not locked by itself.
    """

    adds: dict[int, EncodedMessage] = field(default_factory=dict)
    destinations: dict[str, LayerDestination] = field(default_factory=dict)
    """By container."""
    acknowledged: dict[SubscriptionKey, dict[int, int]] = field(default_factory=dict)
    """The messages that each durable subscription has consumed: sequence -> priority."""
    found: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Segment and offset in the journal of added messages to which the backing store is to refer."""
    size: int = 0
    """Roughly the bytes in memory."""
    newer: Layer | None = None

    def destination(self, container: str) -> LayerDestination:
        destination = self.destinations.get(container)
        if destination is None:
            destination = self.destinations[container] = LayerDestination()
        return destination

    def chain(self) -> Iterator[Layer]:
        """Yield this layer and all later ones."""
        layer: Layer | None = self
        while layer is not None:
            yield layer
            layer = layer.newer

    def add(self, sequence: int, message: EncodedMessage) -> None:
        """Add a message with a higher sequence than any other."""
        _, producer, number, container, expiration_ms, priority, blob, _ = message
        self.adds[sequence] = message
        destination = self.destinations.get(container)
        if destination is None:
            destination = self.destinations[container] = LayerDestination()
        lane = destination.lanes.get(priority)
        if lane is None:
            lane = destination.lanes[priority] = Sequences()
        lane.append(sequence)
        if expiration_ms > 0:
            destination.expiring.append(sequence)
        if destination.named is not None:
            destination.named.setdefault((producer, number), []).append(sequence)
        size = len(blob)
        destination.count += 1
        destination.size += size
        self.size += size + OVERHEAD

    def add_all(self, first: int, messages: Sequence[EncodedMessage]) -> None:
        """As :meth:`add` for each, with sequences from ``first`` on."""
        if len(messages) == 1:
            self.add(first, messages[0])
            return
        container, priority = messages[0].container, messages[0].priority
        destination = self.destination(container)
        size = 0
        for _, _, _, into, expiration_ms, lane, blob, _ in messages:
            if into != container or lane != priority or expiration_ms > 0 or destination.named is not None:
                for sequence, message in enumerate(messages, first):
                    self.add(sequence, message)
                return
            size += len(blob)
        count = len(messages)
        sequences = range(first, first + count)
        self.adds.update(zip(sequences, messages, strict=True))
        destination.lanes.setdefault(priority, Sequences()).extend(sequences)
        destination.count += count
        destination.size += size
        self.size += size + OVERHEAD * count

    def find(self, container: str, name: tuple[str, int]) -> Sequence[int]:
        """Return the sequences of messages added with a producer and producer sequence."""
        destination = self.destinations.get(container)
        if destination is None:
            return ()
        if destination.named is None:
            destination.named = {}
            for sequence, message in self.adds.items():
                if message.container == container:
                    key = (message.producer, message.producer_sequence)
                    destination.named.setdefault(key, []).append(sequence)
        return destination.named.get(name, ())

    def drop(self, sequence: int) -> None:
        """Remove a message that was added in this layer."""
        message = self.adds.pop(sequence)
        self.found.pop(sequence, None)
        destination = self.destinations[message.container]
        destination.lanes[message.priority].discard(sequence)
        if message.expiration_ms > 0:
            destination.expiring.discard(sequence)
        if destination.named is not None:
            name = (message.producer, message.producer_sequence)
            same_name = destination.named[name]
            same_name.remove(sequence)
            if not same_name:
                del destination.named[name]
        size = len(message.blob)
        destination.count -= 1
        destination.size -= size
        self.size -= size + OVERHEAD

    def remove(self, container: str, sequence: int) -> None:
        """Remove a message that was not added in this layer."""
        destination = self.destination(container)
        updated = destination.updates.pop(sequence, None)
        if updated is not None:
            self.size -= len(updated.blob) + OVERHEAD
        if sequence not in destination.removes:
            destination.removes.add(sequence)
            self.size += SMALL

    def update(self, container: str, sequence: int, message: EncodedMessage) -> None:
        """Replace the contents of a message of this layer or an earlier one."""
        added = self.adds.get(sequence)
        destination = self.destination(container)
        if added is not None:
            # As in a row: the lane and the expiration do not change.
            self.adds[sequence] = added._replace(blob=message.blob, slot=message.slot)
            self.found.pop(sequence, None)
            more = len(message.blob) - len(added.blob)
            destination.size += more
            self.size += more
            return
        before = destination.updates.get(sequence)
        destination.updates[sequence] = message
        self.size += len(message.blob) + (OVERHEAD if before is None else -len(before.blob))

    def acknowledge(self, key: SubscriptionKey, sequence: int, priority: int) -> None:
        """Note that a subscription has consumed a message of this layer or an earlier one."""
        consumed = self.acknowledged.setdefault(key, {})
        if sequence not in consumed:
            consumed[sequence] = priority
            self.size += SMALL

    def consumed_by_all(self, keys: Sequence[SubscriptionKey]) -> set[int]:
        """Return the messages added in this layer that each of these subscriptions has consumed in it."""
        consumed = [self.acknowledged.get(key, {}).keys() for key in keys]
        return self.adds.keys() & set.intersection(*map(set, consumed)) if consumed else set()


SourceName = str | SubscriptionKey
"""A source of pages: a destination, by its container, or a durable subscription."""


class PreparedBranch:
    """A prepared XA transaction, which alone decides about the messages it acknowledges."""

    __slots__ = ("deciding", "is_changed", "is_decided", "journaled", "number", "size", "writes")

    def __init__(self, writes: RecordedWrites, number: int, journaled: int) -> None:
        self.writes = writes
        self.deciding = threading.Lock()
        """Held while a record of it is written: its outcome, or the prepare once more."""
        self.number = number
        """The latest record of its prepare."""
        self.journaled = journaled
        """The bytes of records written before that one."""
        self.is_changed = False
        """Whether it differs from that record."""
        self.is_decided = False
        """Whether its outcome is on its way to the journal, also if the caller was interrupted meanwhile."""
        taken = sum(len(some) for _, some in (*writes.removes, *writes.acknowledgements))
        self.size = sum(len(message.blob) + OVERHEAD for message in writes.adds) + SMALL * taken


class Overlay:
    """The layers, and the prepared XA transactions. Call everything under :attr:`lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.active = Layer()
        self.frozen: Layer | None = None
        self.last_number = 0
        """The last record that was applied to it."""
        self.last_sequence = 0
        self.written = 0
        """Messages up to this sequence are in the backing store, unless they are gone."""
        self.found = 0
        """The last sequence of the backing store when it was opened."""
        self.journaled = 0
        """The bytes of all records applied to it."""
        self.prepared: dict[XATransactionId, PreparedBranch] = {}
        self.prepared_size = 0
        self.held: defaultdict[SourceName, set[int]] = defaultdict(set)
        """The messages that prepared transactions acknowledge."""
        self.refused: dict[int, str] = {}
        """Messages set aside because the backing store refused them: sequence -> container."""
        self.consumed: list[int] = []
        """Refused messages that were acknowledged since."""
        self.operation: RecordedOperation | None = None
        """The operation that follows the writes of the next checkpoint, which are all before it."""
        self.floors: dict[SourceName, Cursor] = {}
        """The positions up to which every message of a source is gone."""

    @property
    def oldest(self) -> Layer:
        return self.frozen or self.active

    @property
    def last_in_backing(self) -> int:
        """Higher sequences are in a layer, if they are in the backing store at all."""
        return max(self.found, self.written)

    @property
    def size(self) -> int:
        """Roughly the bytes in memory."""
        return self.active.size + (self.frozen.size if self.frozen else 0) + self.prepared_size

    def apply(
        self, kind: int, xid: XATransactionId | None, writes: RecordedWrites, first: int, number: int
    ) -> None:
        """Apply a record with this number, and with ``first`` as its first sequence."""
        if xid is not None and kind == PREPARE:
            held = self.prepared.get(xid)
            if held is None:
                self.hold(xid, PreparedBranch(writes, number, self.journaled))
            else:
                held.number, held.journaled, held.is_changed = number, self.journaled, False
        elif xid is not None and kind in (COMMIT, ROLLBACK):
            self.end_prepared(xid)
        elif kind == OPERATE and writes.operation is not None:
            self.operation = writes.operation
            self.note(writes.operation)
        elif kind != WRITE:
            for key, _ in writes.acknowledgements:
                self.forget(key)
        if kind in (WRITE, COMMIT):
            self.write(writes, first)

    def note(self, operation: RecordedOperation) -> None:
        """Apply an operation to prepared transactions: drop acknowledgements of a deleted subscription."""
        if operation.kind == UNSUBSCRIBE:
            self.forget(SubscriptionKey(operation.destination, *operation.subscriber))

    def add_all(self, first: int, messages: Sequence[EncodedMessage]) -> None:
        """Apply added messages, with sequences from ``first`` on, higher than any before."""
        if messages:
            self.active.add_all(first, messages)
            self.last_sequence = first + len(messages) - 1

    def write(self, writes: RecordedWrites, first: int) -> None:
        """Apply writes; the messages added get sequences from ``first`` on."""
        active, new = self.active, writes.adds
        if first <= self.written:  # a replay: the backing store has these, unless they are gone
            new = new[self.written - first + 1 :]
        if new:
            active.add_all(max(first, self.written + 1), new)
        self.last_sequence = max(self.last_sequence, first + len(writes.adds) - 1)
        for sequence, message in writes.updates:
            container = message.container
            if self._may_touch(container, sequence) and not self.is_gone(container, sequence, self.oldest):
                active.update(container, sequence, message)
        for container, sequences in writes.removes:
            self.remove(container, sequences)
        for key, messages in writes.acknowledgements:
            held = self.held.get(key, ())
            for sequence, priority in messages:
                if sequence not in held:
                    active.acknowledge(key, sequence, priority)

    def locate(self, first: int, positions: Iterable[tuple[int, int]]) -> None:
        """Note the segment and offset of each message added from ``first`` on."""
        active = self.active
        for sequence, position in enumerate(positions, first):
            if sequence in active.adds:
                active.found[sequence] = position

    def remove(self, container: str, sequences: Iterable[int]) -> None:
        active, held = self.active, self.doubtful(container)
        for sequence in sequences:
            added = active.adds.get(sequence)
            if added is None:
                if self.refused and self.refused.get(sequence) == container:
                    del self.refused[sequence]
                    self.consumed.append(sequence)
                if sequence not in held and self._may_touch(container, sequence):
                    active.remove(container, sequence)
            elif added.container == container and sequence not in held:
                active.drop(sequence)

    def doubtful(self, container: str) -> Collection[int]:
        """Return the messages that prepared transactions acknowledge, for any subscription too."""
        if not self.held:
            return ()
        doubtful = set(self.held.get(container, ()))
        for name, sequences in self.held.items():
            if isinstance(name, SubscriptionKey) and name.topic.qualified_name == container:
                doubtful |= sequences
        return doubtful

    def _may_touch(self, container: str, sequence: int) -> bool:
        """Return whether a sequence may be a message of this destination that is not in doubt."""
        if sequence in self.held.get(container, ()):
            return False
        for layer in self.oldest.chain():
            message = layer.adds.get(sequence)
            if message is not None and message.container != container:
                return False
        return True

    @staticmethod
    def _is_removed(layer: Layer, container: str, sequence: int) -> bool:
        destination = layer.destinations.get(container)
        return destination is not None and sequence in destination.removes

    def find(self, container: str, name: tuple[str, int]) -> list[int]:
        """Return the sequences of messages with a producer and producer sequence that are not gone."""
        return [
            sequence
            for layer in self.oldest.chain()
            for sequence in layer.find(container, name)
            if not self.is_gone(container, sequence, self.oldest)
        ]

    def is_gone(self, container: str, sequence: int, oldest: Layer) -> bool:
        """Return whether a message was removed in one of the layers from ``oldest`` on, or is in doubt."""
        return sequence in self.held.get(container, ()) or any(
            self._is_removed(layer, container, sequence) for layer in oldest.chain()
        )

    def message(self, container: str, sequence: int, oldest: Layer) -> EncodedMessage | None:
        """Return the latest contents of a message that is not gone, if the layers have it."""
        latest = None
        for layer in oldest.chain():
            added = layer.adds.get(sequence)
            if added is not None and added.container == container:
                latest = added
            destination = layer.destinations.get(container)
            if destination is not None and sequence in destination.updates:
                update = destination.updates[sequence]
                latest = update if latest is None else latest._replace(blob=update.blob, slot=update.slot)
        return latest

    def containers(self) -> tuple[set[str], set[str]]:
        """Destinations with messages in doubt, or added and not gone; and all that a layer mentions."""
        used = {message.container for held in self.prepared.values() for message in held.writes.adds}
        used |= {name for name in self.held if isinstance(name, str)}
        touched = {name for layer in self.oldest.chain() for name in layer.destinations}
        used |= {name for name, destination in self.active.destinations.items() if destination.count}
        return used, touched

    def has_priorities(self, container: str) -> bool:
        destinations = [
            layer.destinations[container] for layer in self.oldest.chain() if container in layer.destinations
        ]
        return any(priority > 0 for destination in destinations for priority in destination.lanes)

    def removes_anything(self) -> bool:
        """Return whether the backing store may have messages that are gone."""
        return any(
            destination.removes
            for layer in self.oldest.chain()
            for destination in layer.destinations.values()
        )

    def last_of_producer(self, producer: str) -> int | None:
        """Return the highest producer sequence among a producer's added and prepared messages."""
        added = [message for layer in self.oldest.chain() for message in layer.adds.values()]
        for held in self.prepared.values():
            added += held.writes.adds
        names = [(message.producer, message.producer_sequence) for message in added]
        return max((number for by, number in names if by == producer), default=None)

    def hold(self, xid: XATransactionId, held: PreparedBranch) -> None:
        self.prepared[xid] = held
        self.prepared_size += held.size
        for container, sequences in held.writes.removes:
            self.held[container].update(sequences)
        for key, messages in held.writes.acknowledgements:
            self.held[key].update(sequence for sequence, _ in messages)

    def end_prepared(self, xid: XATransactionId) -> PreparedBranch | None:
        """Remove a prepared transaction, and make its messages visible."""
        held = self.prepared.pop(xid, None)
        if held is None:
            return None
        self.prepared_size -= held.size
        taken: list[tuple[SourceName, Iterable[int]]] = [*held.writes.removes]
        taken += [(key, [number for number, _ in some]) for key, some in held.writes.acknowledgements]
        for source, sequences in taken:
            self.held[source].difference_update(sequences)
            if not self.held[source]:
                del self.held[source]
            self.floors.pop(source, None)
        return held

    def forget(self, key: SubscriptionKey) -> None:
        """Remove the acknowledgements of a deleted subscription."""
        self.active.size -= SMALL * len(self.active.acknowledged.pop(key, ()))
        for held in self.prepared.values():
            acknowledged = held.writes.acknowledgements
            others = [(other, some) for other, some in acknowledged if other != key]
            held.is_changed |= len(others) < len(acknowledged)
            acknowledged[:] = others
        self.held.pop(key, None)
        self.floors.pop(key, None)

    def freeze(self) -> Layer:
        """Begin a new layer, and return the one before for a checkpoint; there must be no other one."""
        self.frozen, self.active = self.active, Layer()
        self.frozen.newer = self.active
        return self.frozen

    def drop_frozen(self) -> None:
        self.frozen = None
