"""What is in the journal and not in the store behind it: what readers see before the tables do.

Two layers at most take part in writing: the active one, which takes what the journal has made durable, and a
frozen one, which a checkpoint is writing to the store. To lay a layer over the store once more, after it was
written there in part or whole, changes nothing. So a reader holds on to the oldest layer there is, reads the
store in its own time, and then lays over what it read all layers from that one on.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable

from jdbcstore.abc import Cursor
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.layers import OVERHEAD, SMALL, Layer
from jdbcstore.stores.journaled.operations import COMMIT, PREPARE, ROLLBACK, WRITE, Writes
from jdbcstore.stores.shared.checkpoint import SubscriptionKey
from jdbcstore.stores.shared.encoding import EncodedMessage

SourceName = str | SubscriptionKey
"""What is read in pages: a destination, by its container, or a durable subscription."""


class Held:
    """A prepared XA transaction: nothing else touches what it holds."""

    __slots__ = ("deciding", "is_changed", "journaled", "number", "size", "writes")

    def __init__(self, writes: Writes, number: int, journaled: int) -> None:
        self.writes = writes
        self.deciding = threading.Lock()
        """Whoever writes a record of it, its outcome or itself again."""
        self.number = number
        """The last record that has it as it was prepared."""
        self.journaled = journaled
        """Bytes of records that had been written by then."""
        self.is_changed = False
        """It is not any more as that record has it."""
        taken = sum(len(some) for _, some in (*writes.removes, *writes.acknowledgements))
        self.size = sum(len(message.blob) + OVERHEAD for message in writes.adds) + SMALL * taken


class Overlay:
    """All of it. Whatever is not said to lock is called under :attr:`lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.active = Layer()
        self.frozen: Layer | None = None
        self.last_number = 0
        """Of the last record in it."""
        self.last_sequence = 0
        self.written = 0
        """Messages up to this sequence are in the store behind, if they are still wanted."""
        self.found = 0
        """The store behind had no higher sequence when it was opened."""
        self.journaled = 0
        """Bytes of the records in it, and of those before that are known."""
        self.prepared: dict[XATransactionId, Held] = {}
        self.prepared_size = 0
        self.held: defaultdict[SourceName, set[int]] = defaultdict(set)
        """What prepared transactions take."""
        self.refused: dict[int, str] = {}
        """Sequence -> container of messages that the store behind refused, and that stand aside."""
        self.consumed: list[int] = []
        """Of these, those that are gone since."""
        self.floors: dict[SourceName, Cursor] = {}
        """Up to where there is nothing to read: all is gone there."""

    @property
    def oldest(self) -> Layer:
        return self.frozen or self.active

    @property
    def last_behind(self) -> int:
        """Of higher sequences, the store behind has what a layer has, too, or nothing."""
        return max(self.found, self.written)

    @property
    def size(self) -> int:
        """Roughly the bytes it takes in memory."""
        return self.active.size + (self.frozen.size if self.frozen else 0) + self.prepared_size

    def take(self, kind: int, xid: XATransactionId | None, writes: Writes, first: int, number: int) -> None:
        """Take what the record of a number says, its first sequence being this one."""
        if xid is not None and kind == PREPARE:
            held = self.prepared.get(xid)
            if held is None:
                self.hold(xid, Held(writes, number, self.journaled))
            else:
                held.number, held.journaled, held.is_changed = number, self.journaled, False
        elif xid is not None and kind in (COMMIT, ROLLBACK):
            self.let_go(xid)
        elif kind != WRITE:
            for key, _ in writes.acknowledgements:
                self.forget(key)
        if kind in (WRITE, COMMIT):
            self.write(writes, first)

    def write(self, writes: Writes, first: int) -> None:
        """Take what was written, the messages added from this sequence on."""
        active = self.active
        for sequence, message in enumerate(writes.adds, first):
            if sequence > self.written:  # else it is replayed, and is in the store behind if it is wanted
                active.add(sequence, message)
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

    def locate(self, first: int, places: Iterable[tuple[int, int]]) -> None:
        """Remember the segment and offset of each message that was added from this sequence on."""
        active = self.active
        for sequence, place in enumerate(places, first):
            if sequence in active.adds:
                active.found[sequence] = place

    def remove(self, container: str, sequences: Iterable[int]) -> None:
        """Messages of a destination are gone."""
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
        """What prepared transactions take there, for everybody or for a durable subscription."""
        if not self.held:
            return ()
        found = set(self.held.get(container, ()))
        for name, sequences in self.held.items():
            if isinstance(name, SubscriptionKey) and name.topic.qualified_name == container:
                found |= sequences
        return found

    def _may_touch(self, container: str, sequence: int) -> bool:
        """Whether a sequence can be a message of this destination that is not in doubt."""
        if sequence in self.held.get(container, ()):
            return False
        for layer in self.oldest.chain():
            message = layer.adds.get(sequence)
            if message is not None and message.container != container:
                return False
        return True

    @staticmethod
    def _is_removed(layer: Layer, container: str, sequence: int) -> bool:
        place = layer.places.get(container)
        return place is not None and sequence in place.removes

    def find(self, container: str, name: tuple[str, int]) -> list[int]:
        """The messages that were added here under a producer's name and are not gone, by sequence."""
        return [
            sequence
            for layer in self.oldest.chain()
            for sequence in layer.find(container, name)
            if not self.is_gone(container, sequence, self.oldest)
        ]

    def is_gone(self, container: str, sequence: int, oldest: Layer) -> bool:
        """Whether it was removed in one of the layers from ``oldest`` on, or is in doubt."""
        return sequence in self.held.get(container, ()) or any(
            self._is_removed(layer, container, sequence) for layer in oldest.chain()
        )

    def message(self, container: str, sequence: int, oldest: Layer) -> EncodedMessage | None:
        """A message that is not gone as the layers have it, if they do."""
        found = None
        for layer in oldest.chain():
            added = layer.adds.get(sequence)
            if added is not None and added.container == container:
                found = added
            place = layer.places.get(container)
            if place is not None and sequence in place.updates:
                update = place.updates[sequence]
                found = update if found is None else found._replace(blob=update.blob, slot=update.slot)
        return found

    def containers(self) -> tuple[set[str], set[str]]:
        """Destinations with messages in doubt, or added and not gone; and those with anything at all."""
        used = {message.container for held in self.prepared.values() for message in held.writes.adds}
        used |= {name for name in self.held if isinstance(name, str)}
        touched = {name for layer in self.oldest.chain() for name in layer.places}
        used |= {name for name, place in self.active.places.items() if place.count}
        return used, touched

    def has_priorities(self, container: str) -> bool:
        """Whether messages were added there as by priority."""
        places = [layer.places[container] for layer in self.oldest.chain() if container in layer.places]
        return any(priority > 0 for place in places for priority in place.lanes)

    def removes_anything(self) -> bool:
        """Whether the store behind has, or may have, messages that are gone."""
        return any(place.removes for layer in self.oldest.chain() for place in layer.places.values())

    def last_of_producer(self, producer: str) -> int | None:
        """The highest number of a producer's messages that are added, or are to be."""
        added = [message for layer in self.oldest.chain() for message in layer.adds.values()]
        for held in self.prepared.values():
            added += held.writes.adds
        names = [(message.producer, message.producer_sequence) for message in added]
        return max((number for by, number in names if by == producer), default=None)

    def hold(self, xid: XATransactionId, held: Held) -> None:
        """A transaction is prepared."""
        self.prepared[xid] = held
        self.prepared_size += held.size
        for container, sequences in held.writes.removes:
            self.held[container].update(sequences)
        for key, messages in held.writes.acknowledgements:
            self.held[key].update(sequence for sequence, _ in messages)

    def let_go(self, xid: XATransactionId) -> Held | None:
        """It has an outcome: what it held is as any other."""
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
        """A subscription is no more."""
        self.active.size -= SMALL * len(self.active.acknowledged.pop(key, ()))
        for held in self.prepared.values():
            acknowledged = held.writes.acknowledgements
            left = [(other, some) for other, some in acknowledged if other != key]
            held.is_changed |= len(left) < len(acknowledged)
            acknowledged[:] = left
        self.held.pop(key, None)
        self.floors.pop(key, None)

    def freeze(self) -> Layer:
        """Have what is there written by a checkpoint; there is no other under way."""
        self.frozen, self.active = self.active, Layer()
        self.frozen.newer = self.active
        return self.frozen

    def melt(self) -> None:
        """What was frozen is in the store now."""
        self.frozen = None
