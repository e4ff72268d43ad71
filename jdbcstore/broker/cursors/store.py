"""The store-based cursor: a window in memory on what the store holds.

While consumers keep up, what is committed goes straight into the window. When the window is full, what
comes after is left to the store, and pages of it are read as the window empties. The last page says
that nothing more was stored when it was read; what was committed meanwhile is kept for that moment,
and then the window is up to date again. Sequences are committed in order, so nothing is skipped, and
``positions`` says what was in the window already, so nothing comes twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from jdbcstore.abc import Cursor, Page
from jdbcstore.broker.cursors.lanes import Lanes
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.errors import StoreClosed
from jdbcstore.message.message import Message
from jdbcstore.util.backoff import Backoff

log = logging.getLogger(__name__)

ReadPage = Callable[[int, Cursor, Callable[["asyncio.Future[Page]"], None]], None]
"""``recover(limit, after)`` in another thread, and who is called back on the loop."""

_LONGEST_PAUSE = 5.0
_PAGES = 5
"""In the window, where there is memory."""
_LEAST_BYTES = 256 * 1024
"""Of a page where there is none, unless the limit is small; and one message."""
_UNKNOWN = 8
"""Messages of a page whose size cannot be guessed yet."""
_NONE = -1
_NOTHING_LEFT = 1 << 63


class PageSize:
    """How many messages are read at once, so that they are not more bytes than there is room for.

    A store counts messages; how large they will be is guessed from those that came before.
    """

    __slots__ = ("_largest",)

    def __init__(self) -> None:
        self._largest = 0

    def most(self, count: int, size: int) -> int:
        """So many at most, and so many bytes; one at least."""
        if not self._largest:
            return min(count, _UNKNOWN)
        return max(1, min(count, size // self._largest))

    def saw(self, largest: int) -> None:
        """A page has been read, with a message of so many bytes."""
        # Large ones may follow those that were large; but not for ever.
        self._largest = max(self._largest // 2, largest)

    def expect(self, size: int) -> None:
        """A message of this size will have to be read."""
        self._largest = max(self._largest, size)


class StoreCursor:
    """See :class:`jdbcstore.broker.cursors.MessageCursor`. Memory is bounded by the page size."""

    def __init__(
        self,
        read: ReadPage,
        make_entry: Callable[[Message], Entry | None],
        on_ready: Callable[[], None],
        *,
        memory: MemoryUsage,
        page_size: int,
        lanes: int = 1,
        is_empty: bool = False,
    ) -> None:
        self._read_page = read
        self._make_entry = make_entry
        self._on_ready = on_ready
        self._memory = memory
        self._page_size = page_size
        self._window = Lanes(lanes)
        self._positions = [-1] * lanes
        """By lane: what is up to here has been in the window."""
        self._top = lanes - 1
        self._unread = _NONE if is_empty else self._top
        """The highest lane in which something is stored that was not in the window."""
        self._reading = False
        self._reads = 0
        """Counts the reads, to tell a page from one that is wanted no more."""
        self._meanwhile: list[Entry] = []
        """What was committed while a page was being read."""
        self._missed = _NONE
        """The highest lane with something that is not there."""
        self._left = [_NOTHING_LEFT] * lanes
        """By lane: the lowest sequence that was taken and is left to the store after all."""
        self._corrupt: set[int | None] = set()
        """The sequences of what was told to be damaged."""
        self._least_bytes = min(_LEAST_BYTES, memory.limit // 8)
        self._pages = PageSize()
        self._is_wanted = False
        """Whether a consumer has found nothing here."""
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

    @property
    def is_up_to_date(self) -> bool:
        """Whether nothing is stored that was not in the window."""
        return self._unread < 0

    def cover(self, entry: Entry) -> None:
        """An entry is stored, and needs not be in the window."""
        lane = self._window.lane_of(entry)
        if lane > self._unread:
            self._positions[lane] = max(self._positions[lane], entry.sequence)

    def lose_sight(self) -> None:
        """Something may have been stored that nobody pushes: look for it."""
        self._unread = self._missed = self._top

    @property
    def is_window(self) -> bool:
        """Whether what is taken from here can be had again from the store, without all the rest."""
        return True

    @property
    def is_empty(self) -> bool:
        nothing_read = not (self._reading or self._window.count or self._meanwhile)
        return nothing_read and self.is_up_to_date and min(self._left) == _NOTHING_LEFT

    def leave(self, entry: Entry) -> None:
        """Forget an entry that was taken; it is stored, and :meth:`go_back` finds it."""
        lane = self._window.lane_of(entry)
        self._left[lane] = min(self._left[lane], entry.sequence)
        self._memory.let_go([entry])

    def go_back(self) -> None:
        """Begin again at the first entry that was left, if there is one.

        All behind it comes again; ``make_entry`` returns None for what is elsewhere meanwhile.
        """
        if min(self._left) < _NOTHING_LEFT:
            self._go_back()

    def start_over(self) -> None:
        """Begin again at the first entry of all, as :meth:`go_back`."""
        self._left = [0] * len(self._left)
        self._go_back()

    def not_here(self, messages: Sequence[Message]) -> list[Message]:
        """Those of these stored messages that do not wait here."""
        window = {entry.sequence for entry in self._window}
        return [message for message in messages if message.sequence not in window]

    def _go_back(self) -> None:
        for entry in self._window:
            # In a lane that nothing was left of, too.
            lane = self._window.lane_of(entry)
            self._left[lane] = min(self._left[lane], entry.sequence)
        self._positions = [
            min(position, left - 1) for position, left in zip(self._positions, self._left, strict=True)
        ]
        self._left = [_NOTHING_LEFT] * len(self._left)
        self._memory.let_go(self._window)
        self._window.clear()
        self._unread = self._top
        # A page that is being read is not the next one any more.
        self._reads += 1
        self._reading = False
        self._take_meanwhile()

    def waiting(self) -> list[Entry]:
        return list(self._window)

    def take_expired(self, now_ms: int) -> list[Entry]:
        return self._window.take_expired(now_ms)

    def head(self) -> Entry | None:
        window = self._window
        head = window.head()
        self._is_wanted = head is None
        if self._unread < 0:
            return head
        # Something of more priority is stored, unless the window is so full that it has to wait.
        waits = head is not None and window.lane_of(head) < self._unread and window.count < 2 * self._limit
        if not self._reading and (waits or window.count * 2 <= self._limit):
            self._read()
        return None if waits else head

    def pop(self) -> Entry:
        return self._window.pop()

    @property
    def is_full(self) -> bool:
        return False

    def close(self) -> None:
        self._closed = True
        self._memory.let_go(self._window)
        self._window.clear()
        self._take_meanwhile()

    def _take_meanwhile(self) -> list[Entry]:
        meanwhile, self._meanwhile = self._meanwhile, []
        self._memory.let_go(meanwhile)
        return meanwhile

    @property
    def _limit(self) -> int:
        """Messages that are read at once, on behalf of a consumer.

        Where memory is short there is a little for each, or those who came late would starve.
        """
        if self._memory.is_high:
            return self._pages.most(self._page_size, self._least_bytes)
        return self._pages.most(_PAGES * self._page_size, max(self._memory.room, self._least_bytes))

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
        self._read_page(self._limit, after, partial(self._page_is_read, self._reads, after))

    def _page_is_read(self, number: int, after: Cursor, future: asyncio.Future[Page]) -> None:
        if self._closed or future.cancelled():
            return
        if number != self._reads:
            future.exception()  # seen
            self._on_ready()
            return
        meanwhile = self._take_meanwhile()
        error = future.exception()
        if error is not None:
            self._try_again(error)
            return
        self._reading = False
        self._backoff.reset()
        page = future.result()
        self._take_page(page)
        self._unread = max(_NONE if page.at_end else _last_lane(after, page.cursor), self._missed)
        for entry in meanwhile:
            self.push(entry)
        self._on_ready()

    def _take_page(self, page: Page) -> None:
        for error in page.corrupt:
            if error.sequence not in self._corrupt:
                self._corrupt.add(error.sequence)
                log.error("a message is not delivered: %s", error)
        prioritized, largest = self._top > 0, 0
        for message in page:
            lane = message.priority if prioritized else 0
            if (message.sequence or 0) > self._positions[lane]:
                entry = self._make_entry(message)
                if entry is not None:
                    self._append(lane, entry)
                    largest = max(largest, entry.whole_size)
        self._pages.saw(largest)
        self._positions = [max(pair) for pair in zip(self._positions, page.cursor.positions, strict=True)]

    def _try_again(self, error: BaseException) -> None:
        if isinstance(error, StoreClosed):
            return
        pause = self._backoff.pause()
        log.warning("cannot read a page, trying again in %.1f s: %s", pause, error)
        asyncio.get_running_loop().call_later(pause, self._look_again)

    def _look_again(self) -> None:
        self._reading = False
        if not self._closed:
            self._on_ready()


def _last_lane(before: Cursor, behind: Cursor) -> int:
    """The lane that a page ended in; the highest come first."""
    positions = zip(before.positions, behind.positions, strict=True)
    return next(lane for lane, (old, new) in enumerate(positions) if new > old)
