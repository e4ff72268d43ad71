"""The messages of one destination in memory, without locking: callers hold the store's lock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from jdbcstore.abc import SubscriptionInfo
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message

_OVERHEAD = 1536
"""Approximate bytes of a message in memory beside its blob."""


class Sequences:
    """Sequences in ascending order: appended at the end, removed anywhere, read in pages."""

    def __init__(self) -> None:
        self._present: set[int] = set()
        self._order: list[int] = []
        """Messages that are present, and some that were removed."""
        self._first = 0
        """The place where the first one may be: removed ones at the head are not visited again."""

    def __len__(self) -> int:
        return len(self._present)

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._present

    def append(self, sequence: int) -> None:
        self._order.append(sequence)
        self._present.add(sequence)

    def extend(self, sequences: range) -> None:
        self._order.extend(sequences)
        self._present.update(sequences)

    def discard(self, sequence: int) -> None:
        order, present = self._order, self._present
        present.discard(sequence)
        while self._first < len(order) and order[self._first] not in present:
            self._first += 1
        if len(order) > 2 * len(present) + 100:
            self._order = [number for number in order[self._first :] if number in present]
            self._first = 0

    def restore(self, sequence: int) -> None:
        """Put a removed one back in its place."""
        at = bisect_left(self._order, sequence)
        if self._order[at : at + 1] != [sequence]:
            self._order.insert(at, sequence)
        self._first = min(self._first, at)
        self._present.add(sequence)

    def behind(self, after: int) -> Iterator[int]:
        """Yield the numbers greater than ``after``."""
        for at in range(bisect_right(self._order, after, lo=self._first), len(self._order)):
            if self._order[at] in self._present:
                yield self._order[at]


@dataclass(slots=True)
class StoredMessage:
    """A message with the other columns of its row; an update changes neither lane nor expiration."""

    message: Message | bytes
    """The message, or a reference to its body in a journal."""
    size: int
    lane: int
    expiration_ms: int
    name: tuple[str, int]
    """The columns of the message id: producer and producer's sequence."""


@dataclass(slots=True)
class MemorySubscription:
    """A durable subscription and the messages that it has not acknowledged."""

    info: SubscriptionInfo
    lanes: list[Sequences]
    in_doubt: dict[int, Sequences] = field(default_factory=dict)
    """Messages that a prepared transaction acknowledges, with the lane of each."""

    def __len__(self) -> int:
        return sum(map(len, self.lanes))

    def acknowledge(self, sequence: int) -> None:
        for lane in self.lanes:
            lane.discard(sequence)

    def hold(self, sequence: int) -> bool:
        """Hide a message that a prepared transaction acknowledges; False if it is not pending."""
        for lane in self.lanes:
            if sequence in lane:
                lane.discard(sequence)
                self.in_doubt[sequence] = lane
                return True
        return False

    def give_back(self, sequence: int) -> None:
        """Note that the acknowledgement was rolled back."""
        lane = self.in_doubt.pop(sequence, None)
        if lane is not None:
            lane.restore(sequence)

    def awaits(self, sequence: int) -> bool:
        return sequence in self.in_doubt or any(sequence in lane for lane in self.lanes)


@dataclass(slots=True)
class Total:
    """The memory of the messages of all destinations of a store."""

    size: int = 0
    """Approximate bytes, the objects included."""


@dataclass(slots=True)
class Shelf:
    """The messages and durable subscriptions of one destination."""

    destination: Destination
    prioritized: bool
    total: Total = field(default_factory=Total)
    stored: dict[int, StoredMessage] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], MemorySubscription] = field(default_factory=dict)
    lanes: list[Sequences] = field(init=False)
    expiring: Sequences = field(default_factory=Sequences)
    named: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    in_doubt: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Message ids held by prepared transactions."""
    total_size: int = 0
    recorded: bool = False
    """Whether it is a queue that is kept while it is empty."""

    def __post_init__(self) -> None:
        self.lanes = self.new_lanes()

    @property
    def is_used(self) -> bool:
        """Whether it is recorded, or has a message, even in doubt, or a durable subscription."""
        return bool(self.recorded or self.stored or self.subscriptions or +self.in_doubt)

    def grow(self, size: int, overhead: int = 0) -> None:
        """Count more bytes of messages, or fewer, and those of their objects."""
        self.total_size += size
        self.total.size += size + overhead

    def new_lanes(self) -> list[Sequences]:
        """One for each priority, or one for all."""
        return [Sequences() for _ in range(10 if self.prioritized else 1)]

    def add(self, sequence: int, stored: StoredMessage) -> None:
        self.stored[sequence] = stored
        self.grow(stored.size, _OVERHEAD)
        self.lanes[stored.lane].append(sequence)
        self.named.setdefault(stored.name, []).append(sequence)
        if stored.expiration_ms > 0:
            self.expiring.append(sequence)
        for subscription in self.subscriptions.values():
            subscription.lanes[stored.lane].append(sequence)

    def remove(self, sequence: int) -> bool:
        """Remove a message; False if it is gone, or in doubt for a subscription."""
        if any(sequence in subscription.in_doubt for subscription in self.subscriptions.values()):
            return False
        stored = self.stored.pop(sequence, None)
        if stored is None:
            return False
        self.grow(-stored.size, -_OVERHEAD)
        self.lanes[stored.lane].discard(sequence)
        self.expiring.discard(sequence)
        same_name = self.named[stored.name]
        same_name.remove(sequence)
        if not same_name:
            del self.named[stored.name]
        for subscription in self.subscriptions.values():
            subscription.acknowledge(sequence)
        return True

    def restore(self, sequence: int, stored: StoredMessage) -> None:
        """Put a removed message back in its place; subscriptions do not get it."""
        self.stored[sequence] = stored
        self.grow(stored.size, _OVERHEAD)
        self.lanes[stored.lane].restore(sequence)
        self.named.setdefault(stored.name, []).append(sequence)
        if stored.expiration_ms > 0:
            self.expiring.restore(sequence)

    def find(self, name: MessageId | int) -> list[int]:
        if isinstance(name, int):
            return [name] if name in self.stored else []
        if name.producer_id is None:
            return []
        return list(self.named.get((str(name.producer_id), name.producer_sequence), ()))

    def subscribe(self, info: SubscriptionInfo, *, retroactive: bool) -> None:
        lanes = self.new_lanes()
        if retroactive:
            for lane, mine in zip(self.lanes, lanes, strict=True):
                for sequence in lane.behind(-1):
                    mine.append(sequence)
        self.subscriptions[info.client_id, info.subscription_name] = MemorySubscription(info, lanes)

    def expired(self, now_ms: int, after: int) -> Iterator[int]:
        """Yield the messages after ``after`` whose expiration has passed."""
        for sequence in self.expiring.behind(after):
            if self.stored[sequence].expiration_ms < now_ms:
                yield sequence

    def is_done(self, sequence: int) -> bool:
        """Return whether there are subscriptions and all have acknowledged it."""
        subscriptions = self.subscriptions.values()
        return bool(subscriptions) and not any(
            subscription.awaits(sequence) for subscription in subscriptions
        )

    def oldest(self) -> int | None:
        """Return the sequence of the message stored first; None if there is none."""
        return min((head for lane in self.lanes for head in islice(lane.behind(-1), 1)), default=None)
