"""Pages of the store behind and of what is laid over it, as one.

The store is read first, in its own time, then the layers in one moment:
:mod:`jdbcstore.stores.journaled.overlay` says why nothing is missed or seen twice.
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
from jdbcstore.stores.journaled.layers import Layer, Place
from jdbcstore.stores.journaled.overlay import Overlay
from jdbcstore.stores.shared.checkpoint import SubscriptionKey
from jdbcstore.stores.shared.encoding import EncodedMessage
from jdbcstore.stores.shared.paging import PRIORITIES

_Found = tuple[int, Message | CorruptMessage]
Recover = Callable[[int, Cursor | None], Page]


class _Row(NamedTuple):
    lane: int
    sequence: int
    item: Message | CorruptMessage | None
    """As the store behind has it; None if the layers have it."""

    @property
    def order(self) -> tuple[int, int]:
        """Its place in delivery order."""
        return -self.lane, self.sequence


@dataclass(frozen=True, slots=True)
class Source:
    """Something that is read in pages: a destination, or one durable subscription of it."""

    overlay: Overlay
    container: str
    lanes: int
    """How many there are: one, or one for each priority."""
    key: SubscriptionKey | None = None
    expired_ms: int | None = None
    """Read only what has expired then."""

    @property
    def name(self) -> str | SubscriptionKey:
        return self.container if self.key is None else self.key

    def hidden(self, oldest: Layer) -> list[Collection[int]]:
        """Sets of sequences that are not to be seen."""
        held, sets = self.overlay.held, list[Collection[int]]()
        for layer in oldest.chain():
            place = layer.places.get(self.container)
            if place is not None and place.removes:
                sets.append(place.removes)
            if self.key is not None and self.key in layer.acknowledged:
                sets.append(layer.acknowledged[self.key])
        sets += [held[name] for name in {self.container, self.name} if name in held]
        return sets

    def places(self, oldest: Layer) -> list[Place]:
        """What each layer has of it, from the oldest on."""
        found = (layer.places.get(self.container) for layer in oldest.chain())
        return [place for place in found if place is not None]

    def added(self, oldest: Layer, start: Sequence[int]) -> Iterator[_Row]:
        """What the layers add behind these positions, in delivery order."""
        if self.expired_ms is not None:
            yield from self._expired(oldest, start[0], self.expired_ms)
            return
        places = self.places(oldest)
        if self.lanes == 1:
            for place in places:
                lanes = [lane.behind(start[0]) for lane in place.lanes.values()]
                for sequence in lanes[0] if len(lanes) == 1 else merge(*lanes):
                    yield _Row(0, sequence, None)
            return
        for lane in reversed(range(PRIORITIES)):
            for place in places:
                if lane in place.lanes:
                    for sequence in place.lanes[lane].behind(start[lane]):
                        yield _Row(lane, sequence, None)

    def _expired(self, oldest: Layer, start: int, now_ms: int) -> Iterator[_Row]:
        for layer in oldest.chain():
            place = layer.places.get(self.container)
            for sequence in place.expiring.behind(start) if place else ():
                if layer.adds[sequence].expiration_ms < now_ms:
                    yield _Row(0, sequence, None)

    def is_plain(self, oldest: Layer) -> bool:
        """Whether the layers say nothing of it."""
        return not (self.places(oldest) or self.hidden(oldest))


def read_page(source: Source, recover: Recover, limit: int, after: Cursor | None) -> Page:
    """The next messages behind ``after``."""
    return _Reading(source, recover, limit, after).page()


def decode(message: EncodedMessage, sequence: int) -> Message:
    """A message of the overlay as a reader gets it."""
    return openwire.decode(message.blob_for(sequence), sequence=sequence, container=message.container)


class _Reading:
    """One page."""

    def __init__(self, source: Source, recover: Recover, limit: int, after: Cursor | None) -> None:
        if limit < 1:
            raise ValueError(f"a page has at least one message, not {limit}")
        self._source = source
        self._overlay = source.overlay
        self._recover = recover
        self._limit = limit
        self._after = _positions(after, source.lanes)
        with self._overlay.lock:
            self._oldest = self._overlay.oldest
            last_behind = self._overlay.last_behind
            self._floor = None if source.expired_ms is not None else self._overlay.floors.get(source.name)
        floor = self._floor.positions if self._floor else self._after
        self._start = [max(pair) for pair in zip(self._after, floor, strict=True)]
        self._keeps_up = min(self._start) >= last_behind
        """With the producers: there is no question to the store behind."""
        self._rows: list[_Row] = []
        """What the store behind has, as far as it was read, without what is hidden."""
        self._bound: tuple[int, int] | None = None
        """Up to where that is; None when there is no more."""

    def page(self) -> Page:
        if self._keeps_up:
            return self._laid_over()
        place = Cursor(tuple(self._start))
        while True:
            behind = self._recover(self._limit, place)
            with self._overlay.lock:
                if not self._rows and self._source.is_plain(self._oldest):
                    return behind
                rows = _in_lanes(behind, place.positions)
                self._bound = None if behind.at_end else rows[-1].order
                hidden = self._source.hidden(self._oldest)
                self._rows += [row for row in rows if not _is_hidden(row, hidden)]
                taken = self._merged(hidden)
                if taken is not None:
                    cursor = self._cursor(taken, behind.cursor)
                    found = [(row, self._latest(row)) for row in taken]
                    self._raise_floor(taken)
                    break
            place = behind.cursor
        return self._decoded(found, cursor)

    def _laid_over(self) -> Page:
        """A page of which the store behind has nothing that the layers have not."""
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
            found = [(row, self._latest(row)) for row in taken]
            self._raise_floor(taken)
        return self._decoded(found, Cursor(tuple(positions)))

    def _merged(self, hidden: Sequence[Collection[int]]) -> list[_Row] | None:
        """The page, or None if more of the store behind must be known."""
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
        """What the layers know of a message, if anything."""
        return self._overlay.message(self._source.container, row.sequence, self._oldest)

    def _cursor(self, taken: list[_Row], behind: Cursor) -> Cursor:
        positions = list(self._start)
        for row in taken:
            positions[row.lane] = row.sequence
        if len(taken) < self._limit or not self._rows or self._rows[-1].order <= taken[-1].order:
            # Nothing that was read of the store behind is left for the next page.
            positions = [max(pair) for pair in zip(positions, behind.positions, strict=True)]
        return Cursor(tuple(positions))

    def _raise_floor(self, taken: list[_Row]) -> None:
        """Remember up to where nothing is seen, so that who reads from the start need not pass it again."""
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

    def _decoded(self, found: list[tuple[_Row, EncodedMessage | None]], cursor: Cursor) -> Page:
        messages: list[Message] = []
        corrupt: list[CorruptMessage] = []
        for row, latest in found:
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
        return Page(messages, cursor, len(found) < self._limit, corrupt)


def _is_hidden(row: _Row, hidden: Sequence[Collection[int]]) -> bool:
    return any(row.sequence in some for some in hidden)


def _positions(after: Cursor | None, lanes: int) -> tuple[int, ...]:
    """Where to start in each lane; a cursor may be of a time when there were more or fewer."""
    if after is None:
        return (-1,) * lanes
    return after.positions if len(after.positions) == lanes else (min(after.positions),) * lanes


def _in_lanes(page: Page, start: Sequence[int]) -> list[_Row]:
    """The rows of a page with the lane of each, which is not always what the message says by now.

    A lane that has rows in the page ends with the one that its position names; others stay where they were,
    or are at the mark of a subscription, which is no row of the page.
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
    """Take the first rows, which rise up to ``end``."""
    count, last = 0, -1
    while count < len(rows) and last < rows[count][0] <= end:
        last = rows[count][0]
        count += 1
        if last == end:
            break
    taken = rows[:count]
    del rows[:count]
    return taken
