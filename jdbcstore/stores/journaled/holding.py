"""What a transaction may take when it is prepared: what is there, and nobody else takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from jdbcstore.abc import PreparedWrites
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.journaled.counting import pending
from jdbcstore.stores.journaled.operations import Writes
from jdbcstore.stores.journaled.overlay import Held, SourceName
from jdbcstore.stores.journaled.parts import Parts
from jdbcstore.stores.journaled.reading import Source
from jdbcstore.stores.shared.checkpoint import SubscriptionKey
from jdbcstore.stores.shared.paging import PRIORITIES
from jdbcstore.stores.shared.transaction import prepared_before


class Claims:
    """Keeps two transactions that are being prepared from taking the same."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._xids: set[XATransactionId] = set()
        self._claimed: defaultdict[SourceName, set[int]] = defaultdict(set)

    @contextmanager
    def claimed(self, xid: XATransactionId, writes: Writes) -> Iterator[Writes]:
        """The writes without what is not there to be taken."""
        overlay, taken = self._parts.overlay, list[tuple[SourceName, set[int]]]()
        with overlay.lock:
            if xid in overlay.prepared or xid in self._xids or xid in self._parts.behind_prepared:
                raise prepared_before(xid)
            self._xids.add(xid)
        try:
            found = Writes(adds=writes.adds)
            for container, sequences in writes.removes:
                mine = self._claim(Source(overlay, container, 1), sequences)
                taken.append((container, mine))
                if mine:
                    found.removes.append((container, sorted(mine)))
            for key, messages in writes.acknowledgements:
                container = key.topic.qualified_name
                mine = self._claim(
                    Source(overlay, container, PRIORITIES, key), [pair[0] for pair in messages]
                )
                taken.append((key, mine))
                if mine:
                    found.acknowledgements.append((key, [pair for pair in messages if pair[0] in mine]))
            yield found
        finally:
            with overlay.lock:
                self._xids.discard(xid)
                for name, mine in taken:
                    self._claimed[name] -= mine

    def _claim(self, source: Source, sequences: Iterable[int]) -> set[int]:
        """Those that are there, for whoever asks first."""
        overlay, container = self._parts.overlay, source.container
        with overlay.lock:
            oldest = overlay.oldest
            there = {number for number in sequences if overlay.message(container, number, oldest)}
        there |= self._behind(source, [number for number in sequences if number not in there])
        with overlay.lock:
            there.difference_update(*source.hidden(oldest), self._claimed[source.name])
            self._claimed[source.name] |= there
        return there

    def _behind(self, source: Source, sequences: Sequence[int]) -> set[int]:
        if not sequences:
            return set()
        key, store = source.key, self._parts.store
        if key is not None:
            topic = store.topic(key.topic)
            return pending(topic.subscription(key.client_id, key.subscription_name), sequences)
        return set(store.queue(Destination.parse(source.container)).present(sequences))


def described(held: Held) -> tuple[PreparedWrites, ...]:
    """What a transaction manager is told."""
    places: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for message in held.writes.adds:
        places[message.container][0] += 1
    for container, sequences in held.writes.removes:
        places[container][1] += len(sequences)
    writes = [
        PreparedWrites(Destination.parse(name), added=places[name][0], acknowledged=places[name][1])
        for name in sorted(places)
    ]
    consumed: dict[SubscriptionKey, int] = defaultdict(int)
    for key, messages in held.writes.acknowledgements:
        consumed[key] += len(messages)
    for key in sorted(consumed, key=lambda key: (str(key.topic), *key[1:])):
        writes.append(PreparedWrites(key.topic, 0, consumed[key], key.client_id, key.subscription_name))
    return tuple(writes)
