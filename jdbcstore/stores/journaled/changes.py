"""A layer as the transactions that write it to the store behind."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from jdbcstore.message.openwire import SEQUENCE_AT, refer
from jdbcstore.stores.journaled.layers import SMALL, Layer
from jdbcstore.stores.shared.checkpoint import Changes, JournalMark, SubscriptionKey
from jdbcstore.stores.shared.encoding import EncodedMessage


def changes_of(
    layer: Layer, start: JournalMark, end: JournalMark, size: int, left_out: Collection[int]
) -> Iterator[Changes]:
    """Transactions of about ``size`` bytes that take the store from one mark to the other.

    Messages first, in their order, so that a reader of the tables never passes one over; the last transaction
    says that all is done. ``left_out`` are messages that nobody waits for any more. Of messages that the
    layer knows where to find, the store gets references.
    """
    batches = _Batches(start, size)
    for sequence, message in layer.adds.items():
        if sequence in left_out:
            continue
        found = layer.found.get(sequence)
        if found is None:
            yield from batches.add(sequence, message)
        else:
            yield from batches.refer(sequence, message, *found)
    for container, place in layer.places.items():
        for sequence, message in place.updates.items():
            yield from batches.update(sequence, message)
        for sequence in place.removes:
            yield from batches.remove(container, sequence)
    for key, consumed in layer.acknowledged.items():
        for sequence, priority in consumed.items():
            if sequence not in left_out:
                yield from batches.acknowledge(key, sequence, priority)
    yield batches.end(end)


class _Batches:
    """Fills one transaction after the other; each method gives the one that is full."""

    def __init__(self, mark: JournalMark, size: int) -> None:
        self._mark = mark
        self._written = mark.written
        self._referred = mark.referred
        self._most = size
        self._begin()

    def _begin(self) -> None:
        self._adds: list[tuple[int, EncodedMessage]] = []
        self._updates: list[tuple[int, EncodedMessage]] = []
        self._removes: list[tuple[str, int]] = []
        self._acknowledged: dict[SubscriptionKey, list[tuple[int, int]]] = {}
        self._size = 0

    def add(self, sequence: int, message: EncodedMessage) -> Iterator[Changes]:
        self._adds.append((sequence, message))
        self._written = sequence
        return self._grow(len(message.blob))

    def refer(self, sequence: int, message: EncodedMessage, segment: int, offset: int) -> Iterator[Changes]:
        """As :meth:`add`, where a journal keeps the message."""
        reference = refer(self._mark.journal, segment, offset, message.blob, message.slot)
        self._adds.append((sequence, message._replace(blob=reference, slot=SEQUENCE_AT)))
        self._written = sequence
        self._referred = self._referred or sequence
        return self._grow(len(reference) + SMALL)

    def update(self, sequence: int, message: EncodedMessage) -> Iterator[Changes]:
        self._updates.append((sequence, message))
        return self._grow(len(message.blob))

    def remove(self, container: str, sequence: int) -> Iterator[Changes]:
        self._removes.append((container, sequence))
        return self._grow(SMALL)

    def acknowledge(self, key: SubscriptionKey, sequence: int, priority: int) -> Iterator[Changes]:
        self._acknowledged.setdefault(key, []).append((sequence, priority))
        return self._grow(SMALL)

    def _grow(self, size: int) -> Iterator[Changes]:
        self._size += size
        if self._size >= self._most:
            yield self.end(replace(self._mark, written=self._written))
            self._begin()

    def end(self, mark: JournalMark) -> Changes:
        mark = replace(mark, referred=self._referred)
        return Changes(mark, self._adds, self._updates, self._removes, self._acknowledged)
