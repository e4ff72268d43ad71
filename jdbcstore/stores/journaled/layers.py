"""One generation of what is in the journal and not in the store behind it. Nothing here locks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jdbcstore.stores.memory.shelf import Sequences
from jdbcstore.stores.shared.checkpoint import SubscriptionKey
from jdbcstore.stores.shared.encoding import EncodedMessage

OVERHEAD = 512
"""Roughly what a message takes beside its blob, and bytes for whatever else is kept."""
SMALL = 96
"""Roughly what it takes to know that a message is gone."""


@dataclass(slots=True)
class Place:
    """What one layer has of one destination."""

    lanes: dict[int, Sequences] = field(default_factory=dict)
    """The sequences of the messages added, by the priority of their rows."""
    expiring: Sequences = field(default_factory=Sequences)
    """Of these, those that expire some day."""
    named: dict[tuple[str, int], list[int]] | None = None
    """The same by the names that their producers gave them, once somebody asks for one."""
    count: int = 0
    size: int = 0
    """Bytes of their blobs."""
    updates: dict[int, EncodedMessage] = field(default_factory=dict)
    """New contents of messages of earlier layers, or of the store behind."""
    removes: set[int] = field(default_factory=set)
    """Messages of earlier layers, or of the store behind, that are gone."""


@dataclass(slots=True, eq=False)
class Layer:
    """One generation. Those that are read at one time are linked, from the oldest on."""

    adds: dict[int, EncodedMessage] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    """By container."""
    acknowledged: dict[SubscriptionKey, dict[int, int]] = field(default_factory=dict)
    """Sequence -> priority of what each durable subscription has consumed."""
    found: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Segment and offset of added messages, as they are in the journal, if the store behind is to refer to
    them."""
    size: int = 0
    """Roughly the bytes it takes in memory."""
    newer: Layer | None = None

    def place(self, container: str) -> Place:
        found = self.places.get(container)
        if found is None:
            found = self.places[container] = Place()
        return found

    def chain(self) -> Iterator[Layer]:
        """This layer and all later ones."""
        layer: Layer | None = self
        while layer is not None:
            yield layer
            layer = layer.newer

    def add(self, sequence: int, message: EncodedMessage) -> None:
        """A message with a sequence that is higher than any."""
        _, producer, number, container, expiration_ms, priority, blob, _ = message
        self.adds[sequence] = message
        place = self.places.get(container)
        if place is None:
            place = self.places[container] = Place()
        lane = place.lanes.get(priority)
        if lane is None:
            lane = place.lanes[priority] = Sequences()
        lane.append(sequence)
        if expiration_ms > 0:
            place.expiring.append(sequence)
        if place.named is not None:
            place.named.setdefault((producer, number), []).append(sequence)
        size = len(blob)
        place.count += 1
        place.size += size
        self.size += size + OVERHEAD

    def find(self, container: str, name: tuple[str, int]) -> Sequence[int]:
        """The messages that were added under a producer's name, by sequence."""
        place = self.places.get(container)
        if place is None:
            return ()
        if place.named is None:
            place.named = {}
            for sequence, message in self.adds.items():
                if message.container == container:
                    key = (message.producer, message.producer_sequence)
                    place.named.setdefault(key, []).append(sequence)
        return place.named.get(name, ())

    def drop(self, sequence: int) -> None:
        """Forget a message that was added in this layer."""
        message = self.adds.pop(sequence)
        self.found.pop(sequence, None)
        place = self.places[message.container]
        place.lanes[message.priority].discard(sequence)
        if message.expiration_ms > 0:
            place.expiring.discard(sequence)
        if place.named is not None:
            name = (message.producer, message.producer_sequence)
            same_name = place.named[name]
            same_name.remove(sequence)
            if not same_name:
                del place.named[name]
        size = len(message.blob)
        place.count -= 1
        place.size -= size
        self.size -= size + OVERHEAD

    def remove(self, container: str, sequence: int) -> None:
        """A message that is not of this layer is gone."""
        place = self.place(container)
        updated = place.updates.pop(sequence, None)
        if updated is not None:
            self.size -= len(updated.blob) + OVERHEAD
        if sequence not in place.removes:
            place.removes.add(sequence)
            self.size += SMALL

    def update(self, container: str, sequence: int, message: EncodedMessage) -> None:
        """Another content, for a message of this layer or of before."""
        added = self.adds.get(sequence)
        place = self.place(container)
        if added is not None:
            # As in a row: the lane and the expiration stay what they were.
            self.adds[sequence] = added._replace(blob=message.blob, slot=message.slot)
            self.found.pop(sequence, None)
            more = len(message.blob) - len(added.blob)
            place.size += more
            self.size += more
            return
        before = place.updates.get(sequence)
        place.updates[sequence] = message
        self.size += len(message.blob) + (OVERHEAD if before is None else -len(before.blob))

    def acknowledge(self, key: SubscriptionKey, sequence: int, priority: int) -> None:
        """A subscription has consumed a message of this layer or of before."""
        consumed = self.acknowledged.setdefault(key, {})
        if sequence not in consumed:
            consumed[sequence] = priority
            self.size += SMALL

    def consumed_by_all(self, keys: Sequence[SubscriptionKey]) -> set[int]:
        """The messages added in this layer that each of these subscriptions has consumed in it."""
        consumed = [self.acknowledged.get(key, {}).keys() for key in keys]
        return self.adds.keys() & set.intersection(*map(set, consumed)) if consumed else set()
