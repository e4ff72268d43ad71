"""Pages that merge the backing store with the overlay.

The backing store is read first, without any lock, and then the layers under the overlay's lock:
:mod:`jdbcstore.stores.journaled.overlay` says why nothing is missed or returned twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from jdbcstore.abc import Cursor, Page
from jdbcstore.errors import CorruptMessage
from jdbcstore.message import openwire
from jdbcstore.message.message import Message
from jdbcstore.stores.journaled.overlay import Layer, LayerDestination, Overlay
from jdbcstore.stores.shared.checkpoint import SubscriptionKey
from jdbcstore.stores.shared.paging import PRIORITIES
from jdbcstore.stores.shared.rows import EncodedMessage

_Found = tuple[int, Message | CorruptMessage]
Recover = Callable[[int, Cursor | None], Page]


class _Row(NamedTuple):
    lane: int
    sequence: int
    item: Message | CorruptMessage | None
    """The message in the backing store; None if the layers have it."""

    @property
    def order(self) -> tuple[int, int]:
        """Sort key of the delivery order."""
        return -self.lane, self.sequence


@dataclass(frozen=True, slots=True)
class PageSource:
    """A source of pages: a destination, or one of its durable subscriptions."""

    overlay: Overlay
    container: str
    lanes: int
    """One, or one per priority."""
    key: SubscriptionKey | None = None
    expired_ms: int | None = None
    """Only messages that have expired at this time are read."""

    @property
    def name(self) -> str | SubscriptionKey:
        return self.container if self.key is None else self.key

    def hidden(self, oldest: Layer) -> list[Collection[int]]:
        """Return sets of sequences that readers must not see."""
        held, sets = self.overlay.held, list[Collection[int]]()
        for layer in oldest.chain():
            destination = layer.destinations.get(self.container)
            if destination is not None and destination.removes:
                sets.append(destination.removes)
            if self.key is not None and self.key in layer.acknowledged:
                sets.append(layer.acknowledged[self.key])
        sets += [held[name] for name in {self.container, self.name} if name in held]
        return sets

    def destinations(self, oldest: Layer) -> list[LayerDestination]:
        """Return its destination in each layer that mentions it, oldest first."""
        destinations = (layer.destinations.get(self.container) for layer in oldest.chain())
        return [destination for destination in destinations if destination is not None]

    def added(self, oldest: Layer, start: Sequence[int]) -> Iterator[_Row]:
        """Yield the layers' additions after these positions, in delivery order."""
        if self.expired_ms is not None:
            yield from self._expired(oldest, start[0], self.expired_ms)
            return
        destinations = self.destinations(oldest)
        if self.lanes == 1:
            for destination in destinations:
                lanes = [lane.behind(start[0]) for lane in destination.lanes.values()]
                for sequence in lanes[0] if len(lanes) == 1 else merge(*lanes):
                    yield _Row(0, sequence, None)
            return
        for lane in reversed(range(PRIORITIES)):
            for destination in destinations:
                if lane in destination.lanes:
                    for sequence in destination.lanes[lane].behind(start[lane]):
                        yield _Row(lane, sequence, None)

    def _expired(self, oldest: Layer, start: int, now_ms: int) -> Iterator[_Row]:
        for layer in oldest.chain():
            destination = layer.destinations.get(self.container)
            for sequence in destination.expiring.behind(start) if destination else ():
                if layer.adds[sequence].expiration_ms < now_ms:
                    yield _Row(0, sequence, None)

    def is_plain(self, oldest: Layer) -> bool:
        """Return whether the layers do not affect it."""
        return not (self.destinations(oldest) or self.hidden(oldest))


def read_page(source: PageSource, recover: Recover, limit: int, after: Cursor | None) -> Page:
    """Return the next messages after a cursor."""
    return _Reading(source, recover, limit, after).page()


def decode(message: EncodedMessage, sequence: int) -> Message:
    """Return a message of the overlay, decoded for a reader."""
    return openwire.decode(message.blob_for(sequence), sequence=sequence, container=message.container)


class _Reading:
    """The reading of one page."""

    def __init__(self, source: PageSource, recover: Recover, limit: int, after: Cursor | None) -> None:
        if limit < 1:
            raise ValueError(f"a page has at least one message, not {limit}")
        self._source = source
        self._overlay = source.overlay
        self._recover = recover
        self._limit = limit
        self._after = _positions(after, source.lanes)
        with self._overlay.lock:
            self._oldest = self._overlay.oldest
            last_in_backing = self._overlay.last_in_backing
            self._floor = None if source.expired_ms is not None else self._overlay.floors.get(source.name)
        floor = self._floor.positions if self._floor else self._after
        self._start = [max(pair) for pair in zip(self._after, floor, strict=True)]
        self._keeps_up = min(self._start) >= last_in_backing
        """Whether it is ahead of the backing store, which is then not queried."""
        self._rows: list[_Row] = []
        """The rows of the backing store read so far, without hidden ones."""
        self._bound: tuple[int, int] | None = None
        """The last position read there; None at its end."""

    def page(self) -> Page:
        if self._keeps_up:
            return self._from_layers()
        start = Cursor(tuple(self._start))
        while True:
            stored = self._recover(self._limit, start)
            with self._overlay.lock:
                if not self._rows and self._source.is_plain(self._oldest):
                    return stored
                rows = _in_lanes(stored, start.positions)
                self._bound = None if stored.at_end else rows[-1].order
                hidden = self._source.hidden(self._oldest)
                self._rows += [row for row in rows if not _is_hidden(row, hidden)]
                taken = self._merged(hidden)
                if taken is not None:
                    cursor = self._cursor(taken, stored.cursor)
                    latest = [(row, self._latest(row)) for row in taken]
                    self._raise_floor(taken)
                    break
            start = stored.cursor
        return self._decoded(latest, cursor)

    def _from_layers(self) -> Page:
        """Return a page for which the layers have everything."""
        source, oldest = self._source, self._oldest
        positions = list(self._start)
        with self._overlay.lock:
            hidden = source.hidden(oldest)
            rows = source.added(oldest, self._start)
            if hidden:
                rows = (row for row in rows if not _is_hidden(row, hidden))
            taken = list(islice(rows, self._limit))
            for lane, sequence, _ in taken:
                positions[lane] = sequence
            latest = [(row, self._latest(row)) for row in taken]
            self._raise_floor(taken)
        return self._decoded(latest, Cursor(tuple(positions)))

    def _merged(self, hidden: Sequence[Collection[int]]) -> list[_Row] | None:
        """Return the rows of the page; None if more of the backing store must be read."""
        taken: list[_Row] = []
        every = self._source.added(self._oldest, self._start)
        added = (row for row in every if not _is_hidden(row, hidden))
        last = None
        for row in merge(self._rows, added, key=lambda row: row.order):
            if self._bound is not None and row.order > self._bound:
                return None
            if row.sequence == last:
                continue  # a checkpoint is writing it just now
            last = row.sequence
            taken.append(row)
            if len(taken) == self._limit:
                return taken
        return taken if self._bound is None else None

    def _latest(self, row: _Row) -> EncodedMessage | None:
        """Return the latest contents of a message in the layers, if any."""
        return self._overlay.message(self._source.container, row.sequence, self._oldest)

    def _cursor(self, taken: list[_Row], stored: Cursor) -> Cursor:
        positions = list(self._start)
        for row in taken:
            positions[row.lane] = row.sequence
        if len(taken) < self._limit or not self._rows or self._rows[-1].order <= taken[-1].order:
            # Nothing that was read from the backing store is left for the next page.
            positions = [max(pair) for pair in zip(positions, stored.positions, strict=True)]
        return Cursor(tuple(positions))

    def _raise_floor(self, taken: list[_Row]) -> None:
        """Note the positions before which nothing is visible: readers from the beginning start there."""
        name, floors = self._source.name, self._overlay.floors
        if self._source.expired_ms is not None or floors.get(name) is not self._floor:
            return
        lowest = self._floor.positions if self._floor else (-1,) * len(self._after)
        if any(at > low for at, low in zip(self._after, lowest, strict=True)):
            return
        seen_through = -1 if len(taken) < self._limit else taken[-1].lane
        positions = list(self._start)
        positions[max(seen_through, 0) :] = [self._overlay.last_sequence] * len(
            positions[max(seen_through, 0) :]
        )
        for row in reversed(taken):
            positions[row.lane] = row.sequence - 1
        floors[name] = Cursor(tuple(positions))

    def _decoded(self, rows: list[tuple[_Row, EncodedMessage | None]], cursor: Cursor) -> Page:
        messages: list[Message] = []
        corrupt: list[CorruptMessage] = []
        for row, latest in rows:
            item = row.item
            if latest is not None:
                try:
                    item = decode(latest, row.sequence)
                except CorruptMessage as error:
                    item = error
            if isinstance(item, Message):
                messages.append(item)
            elif item is not None:
                corrupt.append(item)
        return Page(messages, cursor, len(rows) < self._limit, corrupt)


def _is_hidden(row: _Row, hidden: Sequence[Collection[int]]) -> bool:
    return any(row.sequence in some for some in hidden)


def _positions(after: Cursor | None, lanes: int) -> tuple[int, ...]:
    """Return the position in each lane; a cursor may date from a time with more or fewer lanes."""
    if after is None:
        return (-1,) * lanes
    return after.positions if len(after.positions) == lanes else (min(after.positions),) * lanes


def _in_lanes(page: Page, start: Sequence[int]) -> list[_Row]:
    """Return the rows of a page with the lane of each, which may differ from the message's priority by now.

    A lane that has rows in the page ends with the row at its position in the cursor. The other positions are
    unchanged, or are a subscription's last acknowledged sequence, which is not in the page.
    """
    good: list[_Found] = [(message.sequence or 0, message) for message in page]
    bad: list[_Found] = [(error.sequence or 0, error) for error in page.corrupt]
    if len(start) == 1:
        return [_Row(0, *row) for row in merge(good, bad, key=itemgetter(0))]
    present = {sequence for sequence, _ in good} | {sequence for sequence, _ in bad}
    rows: list[_Row] = []
    for lane in reversed(range(len(start))):
        end = page.cursor.positions[lane]
        if end > start[lane] and end in present:
            parts = (_run(good, end), _run(bad, end))
            rows += [_Row(lane, *row) for row in merge(*parts, key=itemgetter(0))]
    return rows


def _run(rows: list[_Found], end: int) -> list[_Found]:
    """Remove and return the first rows, which ascend to ``end``."""
    count, last = 0, -1
    while count < len(rows) and last < rows[count][0] <= end:
        last = rows[count][0]
        count += 1
        if last == end:
            break
    taken = rows[:count]
    del rows[:count]
    return taken
