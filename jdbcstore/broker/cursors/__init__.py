"""Where messages wait for consumers.

A :class:`MessageCursor` holds what has come and was not delivered yet, in delivery order: by priority
(9 first) where the destination is prioritised, then by sequence. Implementations differ in where they
hold it: the store's pages, memory, a temporary file. A :class:`Backlog` is a cursor, and before it
what consumers gave back.

Everything runs on the loop. A cursor that has to fetch something from elsewhere does it in the
background: :meth:`MessageCursor.head` is None meanwhile, and the cursor calls the ``on_ready`` it was
made with once there is a head again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jdbcstore.broker.cursors.lanes import Lanes
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.memory import MemoryUsage


class MessageCursor(Protocol):
    """Entries that wait, in delivery order.

    A cursor takes the memory (:class:`~jdbcstore.broker.memory.MemoryUsage`) of each entry that it has
    in memory; from :meth:`pop` on the source that the entry is of has to release it at its end.
    """

    def push(self, entry: Entry) -> None:
        """One has come, behind all that came before it (with its priority). Never refused."""

    def head(self) -> Entry | None:
        """The next one, which stays; None if there is none, or none in memory yet."""

    def pop(self) -> Entry:
        """Take the head, which must be there."""

    def waiting(self) -> list[Entry]:
        """What is in memory, in order, for browsers."""

    def take_expired(self, now_ms: int) -> list[Entry]:
        """Take out, as by :meth:`pop`, those in memory whose expiration has passed."""

    @property
    def is_full(self) -> bool:
        """Whether producers should wait, for what has come is more than it may hold."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits here, as far as is known: nor in files, nor in the store."""

    def close(self) -> None:
        """Forget all, and free what it took. What is read in the background goes nowhere."""


class MemoryCursor:
    """All in memory; full when the memory is."""

    def __init__(self, memory: MemoryUsage, lanes: int = 1) -> None:
        self._memory = memory
        self._lanes = Lanes(lanes)

    def push(self, entry: Entry) -> None:
        self._lanes.append(entry)
        self._memory.hold(entry)

    def head(self) -> Entry | None:
        return self._lanes.head()

    def pop(self) -> Entry:
        return self._lanes.pop()

    def waiting(self) -> list[Entry]:
        return list(self._lanes)

    def take_expired(self, now_ms: int) -> list[Entry]:
        return self._lanes.take_expired(now_ms)

    @property
    def is_full(self) -> bool:
        return self._memory.is_full

    @property
    def is_empty(self) -> bool:
        return not self._lanes.count

    def close(self) -> None:
        self._memory.let_go(self._lanes)
        self._lanes.clear()


class Backlog:
    """What waits in a cursor, and what was given back, each in its place."""

    __slots__ = ("_returned", "cursor")

    def __init__(self, cursor: MessageCursor, lanes: int = 1) -> None:
        self.cursor = cursor
        self._returned = Lanes(lanes)

    def head(self) -> Entry | None:
        """The next entry, which stays; None if none is in memory."""
        returned = self._returned.head()
        if returned is None:
            return self.cursor.head()
        waiting = self.cursor.head()
        return returned if waiting is None or self._returned.is_before(returned, waiting) else waiting

    def pop(self, head: Entry) -> None:
        """Take what :meth:`head` has just shown."""
        if self._returned.head() is head:
            self._returned.pop()
        else:
            self.cursor.pop()

    def give_back(self, entries: Sequence[Entry]) -> None:
        """Entries that were taken before wait again."""
        self._returned.insert(entries)

    def take_returned(self) -> list[Entry]:
        """Take out what was given back."""
        taken = list(self._returned)
        self._returned.clear()
        return taken

    def waiting(self) -> list[Entry]:
        """What is in memory, in order."""
        return [*self._returned, *self.cursor.waiting()]

    def take_expired(self, now_ms: int) -> list[Entry]:
        """Take out those in memory whose expiration has passed."""
        return self._returned.take_expired(now_ms) + self.cursor.take_expired(now_ms)

    @property
    def returned(self) -> list[Entry]:
        """What was given back, whose memory its source has to release."""
        return list(self._returned)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits here, as far as is known."""
        return not self._returned.count and self.cursor.is_empty

    def close(self) -> None:
        self._returned.clear()
        self.cursor.close()
