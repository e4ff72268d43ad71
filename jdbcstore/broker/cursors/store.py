"""Cursors over stored messages: a window in memory on the store, or all stored messages.

While consumers keep up, committed messages go straight into the window. When the window is full, later
messages stay in the store, and pages of them are read as the window empties. The last page reports that no
more messages were stored when it was read. Messages committed meanwhile are kept for that moment, and then
the window is up to date again. Sequences are committed in order, so no message is skipped; positions record
the messages that were in the window, so no message is delivered twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from jdbcstore.abc import Cursor, MessageStore, Page, Transaction
from jdbcstore.broker.cursors.backlog import MessageCursor
from jdbcstore.broker.entry import Entry, PriorityLanes, SharedMessage, Wanted, size_of
from jdbcstore.broker.memory import Account
from jdbcstore.errors import StoreClosed
from jdbcstore.message.message import Message
from jdbcstore.util.backoff import Backoff
from jdbcstore.util.futures import StoreFuture

log = logging.getLogger(__name__)

_LONGEST_PAUSE = 5.0
_PAGES = 5
"""Pages in the window while there is memory."""
_LEAST_BYTES = 256 * 1024
"""The size of a page without free memory, unless the limit is small; at least one message."""
_SHARE = 8
"""The part of the memory above the high-water mark that one page may take."""
_UNKNOWN = 8
"""Messages of a page whose size cannot be estimated yet."""
_PAGE_BYTES = 1024 * 1024
"""The size of a page for other uses than consumers."""
_NONE = -1
_NOTHING_LEFT = 1 << 63


class PageSize:
    """The number of messages to read together, so that their bytes fit into the free memory.

    A store counts messages; their size is estimated from earlier messages.
    """

    __slots__ = ("_largest",)

    def __init__(self) -> None:
        self._largest = 0

    def most(self, count: int, size: int) -> int:
        """At most this many messages and about this many bytes; at least one message."""
        if not self._largest:
            return min(count, _UNKNOWN)
        return max(1, min(count, size // self._largest))

    def saw(self, largest: int) -> None:
        """Record the largest message of a page, in bytes."""
        # Large messages may follow large messages, but not forever.
        self._largest = max(self._largest // 2, largest)

    def expect(self, size: int) -> None:
        """Record the size of a message that must be read later."""
        self._largest = max(self._largest, size)


class AllPages:
    """Pages of all stored messages, with a limit of messages and about one MiB each.

    :param read: calls a blocking function in a thread
    :param after: the start position; None means the beginning
    """

    def __init__(
        self,
        read: Callable[[Callable[[], Page]], Awaitable[Page]],
        recover: Callable[[int, Cursor | None], Page],
        most: int,
        after: Cursor | None = None,
    ) -> None:
        self._read, self._recover, self._most = read, recover, most
        self._sizes = PageSize()
        self._after = after
        self._at_end = False

    def __aiter__(self) -> AllPages:
        return self

    async def __anext__(self) -> Page:
        if self._at_end:
            raise StopAsyncIteration
        limit = self._sizes.most(self._most, _PAGE_BYTES)
        page = await self._read(partial(self._recover, limit, self._after))
        self._sizes.saw(max(map(size_of, page), default=0))
        self._after, self._at_end = page.cursor, page.at_end
        return page


class StoredRows:
    """The stored messages of a queue, or the unacknowledged messages of a durable subscription.

    :param cursor_policy: the name of ActiveMQ's cursor for them
    :param name: their name in the log
    :param is_empty: whether nothing is stored yet
    """

    subscriber: str | None = None
    """``client id:name`` of the durable subscription."""
    share: Callable[[Message, int], SharedMessage] | None = None
    """Returns the message of a sequence, shared with other sources."""

    def __init__(self, store: MessageStore, cursor_policy: str, name: str, *, is_empty: bool = False) -> None:
        self.store, self.cursor_policy, self.name, self.is_empty = store, cursor_policy, name, is_empty

    def recover(self, limit: int, after: Cursor | None) -> Page:
        """Read a page of messages after a position; called in a thread."""
        raise NotImplementedError

    def acknowledge(self, entries: list[Entry]) -> StoreFuture[None]:
        """Start removing entries."""
        raise NotImplementedError

    def stage_acknowledgement(self, transaction: Transaction, entries: Sequence[Entry]) -> None:
        """Remove entries in a transaction."""
        raise NotImplementedError


class InFlight:
    """Sequences that have left their cursor but are still stored, so pages must not return them again.

    A sequence stays until the store has removed the message and no page from before that is being read.

    :param last_sequence: the last sequence in the store when the broker started: messages up to it may have
        been delivered before, and are marked as redelivered
    """

    def __init__(self, last_sequence: int) -> None:
        self.last_sequence = last_sequence
        self.redeliveries: dict[int, int] = {}
        """The redelivery counts of returned messages that are only in the store."""
        self.sequences: set[int] = set()
        self._gone: set[int] = set()
        self._reading = 0

    @property
    def count(self) -> int:
        """Messages in flight, and pages that are being read."""
        return len(self.sequences) + self._reading

    def __contains__(self, sequence: int) -> bool:
        return sequence in self.sequences or sequence in self._gone

    def removed(self, entries: Sequence[Entry]) -> None:
        """Forget removed entries."""
        gone = [entry.sequence for entry in entries]
        self.sequences.difference_update(gone)
        if self._reading:
            self._gone.update(gone)
        if self.redeliveries:
            for sequence in gone:
                self.redeliveries.pop(sequence, None)

    def release(self, entries: Sequence[Entry]) -> None:
        """Leave entries to the store, whose pages may return them again."""
        self.sequences.difference_update(entry.sequence for entry in entries)

    def leave_to_store(self, entries: Sequence[Entry]) -> None:
        """Release entries that were with a consumer, like :meth:`release`."""
        self.redeliveries.update((entry.sequence, entry.message.redelivery_counter) for entry in entries)
        self.release(entries)

    def begin_reading(self) -> None:
        if not self._reading:
            self._gone.clear()
        self._reading += 1

    def end_reading(self) -> None:
        self._reading -= 1


@dataclass(eq=False, repr=False)
class StoreCursor:
    """A :class:`~jdbcstore.broker.cursors.backlog.MessageCursor` whose memory is bounded by the page size."""

    _account: Account
    _rows: StoredRows
    _in_flight: InFlight
    """Messages that pages must not return again."""
    _make_entry: Callable[[Message], Entry]
    _on_ready: Callable[[], None]
    """Called when there is a head again."""

    def __post_init__(self) -> None:
        self._loop, self._memory = self._account.loop, self._account.memory
        self._page_size, lanes = self._account.policy.max_page_size, self._account.lanes
        self._window = PriorityLanes(lanes)
        self._positions = [-1] * lanes
        """By lane: the sequence up to which all messages have been in the window."""
        self._top = lanes - 1
        self._unread = _NONE if self._rows.is_empty else self._top
        """The highest lane with stored messages that have not been in the window."""
        self._reading = False
        self._reads = 0
        """The number of the last read; pages of earlier reads are dropped."""
        self._meanwhile: list[Entry] = []
        """Entries committed while a page is being read."""
        self._missed = _NONE
        """The highest lane of entries that were committed meanwhile and not kept."""
        self._left = [_NOTHING_LEFT] * lanes
        """By lane: the lowest sequence that was popped and then left to the store."""
        self._corrupt: set[int | None] = set()
        """The sequences of damaged messages that were logged."""
        self._least_bytes = min(_LEAST_BYTES, self._memory.limit // 8)
        self._pages = PageSize()
        self._is_wanted = False
        """Whether a consumer found no entry here."""
        self._closed = False
        self._backoff = Backoff(_LONGEST_PAUSE)

    def push(self, entry: Entry) -> None:
        lane = self._window.lane_of(entry)
        if entry.sequence <= self._positions[lane]:
            return  # a page was faster
        if lane > self._unread:
            if self._has_room():
                self._append(lane, entry)
                return
            self._unread = lane
        self._pages.expect(entry.whole_size)
        if self._reading:
            if len(self._meanwhile) < self._page_size and not self._memory.is_high:
                self._meanwhile.append(entry)
                self._memory.hold(entry)
            else:
                self._missed = max(self._missed, lane)

    def pass_over(self, message: Message, sequence: int) -> bool:
        """Leave a stored message without a waiting consumer to the store; pages return it later.

        Return false while the window has less than a page, because such a queue is searched in memory.
        """
        lane = message.priority if self._top else 0
        if sequence <= self._positions[lane]:
            return True  # a page was faster
        if lane > self._unread:
            if self._window.count < self._page_size:
                return False
            self._unread = lane
        if self._reading:
            self._missed = max(self._missed, lane)
        self._pages.expect(size_of(message))
        return True

    @property
    def is_up_to_date(self) -> bool:
        """Whether all stored messages have been in the window."""
        return self._unread < 0

    @property
    def holds_all(self) -> bool:
        """Whether all stored messages wait here or are in flight."""
        return self.is_up_to_date and not self._reading and min(self._left) == _NOTHING_LEFT

    def skip(self, entry: Entry) -> None:
        """Record that an entry is stored which was dispatched without being in the window."""
        lane = self._window.lane_of(entry)
        if lane > self._unread:
            self._positions[lane] = max(self._positions[lane], entry.sequence)

    def resync(self) -> None:
        """Read from the store, because committed messages may not have been pushed."""
        self._unread = self._missed = self._top

    @property
    def is_window(self) -> bool:
        """Whether a popped entry can be read again without reading all others."""
        return True

    @property
    def is_empty(self) -> bool:
        nothing_read = not (self._reading or self._window.count or self._meanwhile)
        return nothing_read and self.is_up_to_date and min(self._left) == _NOTHING_LEFT

    def leave(self, entry: Entry) -> None:
        """Forget a popped, stored entry; :meth:`rewind` reads it again."""
        lane = self._window.lane_of(entry)
        self._left[lane] = min(self._left[lane], entry.sequence)
        self._memory.release([entry])

    def rewind(self) -> None:
        """Read again from the first entry that was left to the store, if any.

        All entries after it are read again, except entries in flight.
        """
        if min(self._left) < _NOTHING_LEFT:
            self._rewind()

    def read_again(self, entries: Sequence[Entry]) -> None:
        """Leave entries that were with a consumer to the store; pages return them in their places."""
        self._in_flight.leave_to_store(entries)
        for entry in entries:
            self.leave(entry)
        self.rewind()

    def start_over(self) -> None:
        """Read again from the first stored message, like :meth:`rewind`."""
        self._left = [0] * len(self._left)
        self._rewind()

    def read_from(self, sequence: int | None) -> None:
        """Read stored messages again from a sequence on, or from the first message, like :meth:`rewind`."""
        self._left = [min(left, sequence or 0) for left in self._left]
        self._rewind()

    @property
    def is_reading(self) -> bool:
        """Whether a page is being read."""
        return self._reading

    def not_waiting(self, messages: Sequence[Message]) -> list[Message]:
        """Return the stored messages that are not pending here."""
        window = {entry.sequence for entry in self._window}
        return [message for message in messages if message.sequence not in window]

    def _rewind(self) -> None:
        for entry in self._window:
            self.leave(entry)  # also in a lane from which nothing was left to the store
        self._positions = [
            min(position, left - 1) for position, left in zip(self._positions, self._left, strict=True)
        ]
        self._left = [_NOTHING_LEFT] * len(self._left)
        self._window.clear()
        self._unread = self._top
        # A page that is being read is no longer the next one.
        self._reads += 1
        self._reading = False
        self._take_meanwhile()

    def waiting(self) -> list[Entry]:
        return list(self._window)

    def take(self, wanted: Wanted) -> list[Entry]:
        # The window would get messages committed meanwhile once the current page arrives.
        taken = [*self._window.take(wanted), *(entry for entry in self._meanwhile if wanted(entry))]
        if self._meanwhile:
            gone = set(taken)
            self._meanwhile = [entry for entry in self._meanwhile if entry not in gone]
        return taken

    def head(self) -> Entry | None:
        window = self._window
        head = window.head()
        self._is_wanted = head is None
        if self._unread < 0:
            return head
        if self._reading and not self._top:
            return head
        # A message of higher priority is stored, unless the window is so full that it must wait.
        waits = head is not None and window.lane_of(head) < self._unread and window.count < 2 * self._limit
        if not self._reading and (waits or self._is_half_empty()):
            self._read()
        return None if waits else head

    def pop(self) -> Entry:
        return self._window.pop()

    @property
    def is_full(self) -> bool:
        return False

    def close(self) -> None:
        self._closed = True
        self._memory.release(self._window)
        self._window.clear()
        self._take_meanwhile()

    def _take_meanwhile(self) -> list[Entry]:
        meanwhile, self._meanwhile = self._meanwhile, []
        self._memory.release(meanwhile)
        return meanwhile

    @property
    def _limit(self) -> int:
        """The number of messages to read together for a consumer.

        Without free memory every destination still gets a few, because later destinations would otherwise
        starve. The rest up to the limit is for destinations with consumers: each takes a part of it, up to a
        page.
        """
        if self._memory.is_high:
            size = max(self._memory.left // _SHARE, self._least_bytes)
            return self._pages.most(self._page_size, size)
        return self._pages.most(_PAGES * self._page_size, max(self._memory.room, self._least_bytes))

    def _is_half_empty(self) -> bool:
        count = self._window.count
        return count * 2 <= _PAGES * self._page_size and count * 2 <= self._limit

    def _has_room(self) -> bool:
        window = self._window
        if self._memory.is_high:
            return self._is_wanted and window.size < self._least_bytes
        return window.count < _PAGES * self._page_size

    def _append(self, lane: int, entry: Entry) -> None:
        self._positions[lane] = entry.sequence
        self._window.append(entry)
        self._memory.hold(entry)

    def _read(self) -> None:
        self._reading, self._missed = True, _NONE
        self._reads += 1
        after = Cursor(tuple(self._positions))
        self._in_flight.begin_reading()
        page = self._loop.run(partial(self._rows.recover, self._limit, after))
        page.add_done_callback(self._loop.guarded(partial(self._page_is_read, self._reads, after)))
        page.add_done_callback(lambda _: self._in_flight.end_reading())

    def _page_is_read(self, number: int, after: Cursor, future: asyncio.Future[Page]) -> None:
        if future.cancelled():
            return
        error = future.exception()  # retrieve it in any case, otherwise asyncio logs it
        if self._closed:
            return
        if number != self._reads:
            self._on_ready()
            return
        meanwhile = self._take_meanwhile()
        if error is not None:
            self._try_again(error)
            return
        self._reading = False
        self._backoff.reset()
        page = future.result()
        self._add_page(page)
        self._unread = max(_NONE if page.at_end else _last_lane(after, page.cursor), self._missed)
        for entry in meanwhile:
            self.push(entry)
        self._on_ready()

    def _add_page(self, page: Page) -> None:
        for error in page.corrupt:
            if error.sequence not in self._corrupt:
                self._corrupt.add(error.sequence)
                log.error("a message is not delivered: %s", error)
        prioritized, largest = self._top > 0, 0
        for message in page:
            lane, sequence = message.priority if prioritized else 0, message.sequence or 0
            if sequence > self._positions[lane] and sequence not in self._in_flight:
                entry = self._make_entry(message)
                self._append(lane, entry)
                largest = max(largest, entry.whole_size)
        self._pages.saw(largest)
        self._positions = [max(pair) for pair in zip(self._positions, page.cursor.positions, strict=True)]

    def _try_again(self, error: BaseException) -> None:
        if isinstance(error, StoreClosed):
            return
        pause = self._backoff.pause()
        log.warning("cannot read a page, trying again in %.1f s: %s", pause, error)
        self._loop.call_later(pause, self._retry)

    def _retry(self) -> None:
        self._reading = False
        if not self._closed:
            self._on_ready()


def _last_lane(before: Cursor, behind: Cursor) -> int:
    """Return the last lane of a page; the highest lanes come first."""
    positions = zip(before.positions, behind.positions, strict=True)
    return next(lane for lane, (old, new) in enumerate(positions) if new > old)


@dataclass(eq=False, repr=False)
class LoadedCursor(StoreCursor):
    """A cursor that holds all stored messages in another cursor: in memory, or in files.

    First it reads the stored messages into that cursor, page by page while there is room; from then on it
    passes on pushed entries.
    """

    _cursor: MessageCursor

    def head(self) -> Entry | None:
        head = self._cursor.head()
        if self._unread >= 0 and not self._reading and (head is None or not self._cursor.is_full):
            self._read()
        return head

    def pop(self) -> Entry:
        return self._cursor.pop()

    def waiting(self) -> list[Entry]:
        return self._cursor.waiting()

    def take(self, wanted: Wanted) -> list[Entry]:
        return [*self._cursor.take(wanted), *super().take(wanted)]

    @property
    def is_full(self) -> bool:
        return self._cursor.is_full

    @property
    def is_empty(self) -> bool:
        return super().is_empty and self._cursor.is_empty

    @property
    def is_window(self) -> bool:
        return False

    def close(self) -> None:
        super().close()
        self._cursor.close()

    def not_waiting(self, messages: Sequence[Message]) -> list[Message]:
        # Files cannot be searched; all messages read so far are or were in them.
        return [
            message
            for message in messages
            if (message.sequence or 0) > self._positions[message.priority if self._top else 0]
        ]

    def _rewind(self) -> None:
        self._cursor.close()
        self._left = [0] * len(self._left)
        super()._rewind()

    def _has_room(self) -> bool:
        return True

    def _append(self, lane: int, entry: Entry) -> None:
        self._positions[lane] = entry.sequence
        self._cursor.push(entry)
