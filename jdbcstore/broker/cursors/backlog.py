"""The cursor protocol, the cursor in memory, and backlogs."""

from __future__ import annotations

from typing import Protocol

from jdbcstore.broker.entry import Entry, PriorityLanes, Wanted
from jdbcstore.broker.memory import MemoryUsage


class MessageCursor(Protocol):
    """Entries waiting for consumers, in delivery order.

    By priority (9 first) if the destination is prioritized, then by sequence. Used on the loop only. A cursor
    that reads from files or the store does so in the background; meanwhile :meth:`head` is None, and its
    ``on_ready`` is called once there is a head again.

    A cursor counts (:class:`~jdbcstore.broker.memory.MemoryUsage`) each entry that it has in memory; after
    :meth:`pop` the entry's source must release it.
    """

    def push(self, entry: Entry) -> None:
        """Add an entry at the end, within its priority. Never rejected."""

    def head(self) -> Entry | None:
        """Return the next entry, which stays; None if there is none, or none in memory yet."""

    def pop(self) -> Entry:
        """Remove the head, which must exist."""

    def waiting(self) -> list[Entry]:
        """Return the entries in memory, in order, for browsers."""

    def take(self, wanted: Wanted) -> list[Entry]:
        """Remove the wanted entries in memory, like :meth:`pop`."""

    @property
    def is_full(self) -> bool:
        """Whether producers should wait."""

    @property
    def is_empty(self) -> bool:
        """Whether no entry is known to wait in memory, in files or in the store."""

    def close(self) -> None:
        """Forget all entries and free their memory and files. A page that is being read is dropped."""


class MemoryCursor(PriorityLanes):
    """A :class:`MessageCursor` with all entries in memory; full when the memory is."""

    __slots__ = ("_memory",)

    def __init__(self, memory: MemoryUsage, lanes: int = 1) -> None:
        super().__init__(lanes)
        self._memory = memory

    def push(self, entry: Entry) -> None:
        self.append(entry)
        self._memory.hold(entry)

    def waiting(self) -> list[Entry]:
        return list(self)

    @property
    def is_full(self) -> bool:
        return self._memory.is_full

    @property
    def is_empty(self) -> bool:
        return not self.count

    def close(self) -> None:
        self._memory.release(self)
        self.clear()


class Backlog:
    """A cursor, with returned entries in their places before it."""

    __slots__ = ("cursor", "returned")

    def __init__(self, cursor: MessageCursor, lanes: int = 1) -> None:
        self.cursor = cursor
        self.returned = PriorityLanes(lanes)
        """Entries that were popped before, and were given back."""

    def head(self) -> Entry | None:
        """Return the next entry, which stays; None if none is in memory."""
        if not self.returned.count:
            return self.cursor.head()
        returned = self.returned.head()
        assert returned is not None  # noqa: S101 - they are counted
        waiting = self.cursor.head()
        return returned if waiting is None or self.returned.is_before(returned, waiting) else waiting

    def pop(self, head: Entry) -> None:
        """Remove the entry just returned by :meth:`head`."""
        if self.returned.count and self.returned.head() is head:
            self.returned.pop()
        else:
            self.cursor.pop()

    def take_returned(self) -> list[Entry]:
        """Remove returned entries."""
        taken = list(self.returned)
        self.returned.clear()
        return taken

    def waiting(self) -> list[Entry]:
        """Return the entries in memory, in order."""
        return [*self.returned, *self.cursor.waiting()]

    def take(self, wanted: Wanted) -> list[Entry]:
        """Remove the wanted entries in memory."""
        return self.returned.take(wanted) + self.cursor.take(wanted)

    @property
    def is_empty(self) -> bool:
        """Whether no entry is known to wait."""
        return not self.returned.count and self.cursor.is_empty

    def close(self) -> None:
        """Forget all. Their source must release returned entries."""
        self.returned.clear()
        self.cursor.close()
