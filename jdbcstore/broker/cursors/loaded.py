"""A cursor that holds all that is stored: in memory, or in files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jdbcstore.broker.cursors import MessageCursor
from jdbcstore.broker.cursors.store import ReadPage, StoreCursor
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.message.message import Message


class LoadedCursor(StoreCursor):
    """See :class:`jdbcstore.broker.cursors.MessageCursor`.

    At first it reads what is stored into another cursor, page by page while that has room, and from
    then on it passes on what comes.
    """

    def __init__(
        self,
        cursor: MessageCursor,
        read: ReadPage,
        make_entry: Callable[[Message], Entry | None],
        on_ready: Callable[[], None],
        *,
        memory: MemoryUsage,
        page_size: int,
        lanes: int = 1,
        is_empty: bool = False,
    ) -> None:
        super().__init__(
            read, make_entry, on_ready, memory=memory, page_size=page_size, lanes=lanes, is_empty=is_empty
        )
        self._cursor = cursor

    def head(self) -> Entry | None:
        head = self._cursor.head()
        if self._unread >= 0 and not self._reading and (head is None or not self._cursor.is_full):
            self._read()
        return head

    def pop(self) -> Entry:
        return self._cursor.pop()

    def waiting(self) -> list[Entry]:
        return self._cursor.waiting()

    def take_expired(self, now_ms: int) -> list[Entry]:
        return self._cursor.take_expired(now_ms)

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

    def not_here(self, messages: Sequence[Message]) -> list[Message]:
        # What is in a file cannot be looked for; what has been read is in it, or was.
        return [
            message
            for message in messages
            if (message.sequence or 0) > self._positions[message.priority if self._top else 0]
        ]

    def _go_back(self) -> None:
        self._cursor.close()
        self._left = [0] * len(self._left)
        super()._go_back()

    def _has_room(self) -> bool:
        return True

    def _append(self, lane: int, entry: Entry) -> None:
        self._positions[lane] = entry.sequence
        self._cursor.push(entry)
