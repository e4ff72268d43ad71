"""A cursor in memory up to a limit, and behind that in temporary files."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from struct import Struct

from jdbcstore.broker.cursors.spill import Spill
from jdbcstore.broker.entry import Entry, Source
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.errors import SpillFailed
from jdbcstore.message import openwire
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)

_LARGE = 64 << 20
"""Bytes in files that are told of; and then when they have doubled."""
_ENDLESS = 1 << 62
_PAGE_BYTES = 64 << 10
"""Read back at once, at most."""
_head = Struct(">qB")  # the entry's sequence, and what else is true of it
_STORED, _REDELIVERED, _NUMBERED = 1, 2, 4


class FileCursor:
    """A :class:`jdbcstore.broker.cursors.MessageCursor`. Nothing of it survives its process.

    When the disk is full, what comes stays in memory, the error is logged, and the cursor is full until
    it can be written. When what was written cannot be read back, it is lost, which is logged and told
    to ``on_lost``; entries that are stored are still in the store.

    :param name: whose messages these are, for the log
    :param source_of: the source of an entry with this message
    :param memory: until this is high, entries stay in memory; what is read back comes on top
    :param files: what the files of all cursors take; when that is full, this is, if it has any
    :param may_read: whether there may be more in memory now; whoever says no has to look again later
    :param folder: where the files are; None is the system's folder for temporary files
    """

    def __init__(
        self,
        name: str,
        source_of: Callable[[Message], Source],
        memory: MemoryUsage,
        *,
        lanes: int = 1,
        folder: Path | None = None,
        on_lost: Callable[[SpillFailed], None] | None = None,
        may_read: Callable[[], bool] | None = None,
        files: MemoryUsage | None = None,
    ) -> None:
        self._name = name
        self._files = files or MemoryUsage(_ENDLESS)
        self._in_files = 0
        self._worth_telling = _LARGE
        self._may_read = may_read
        self._source_of = source_of
        self._memory = memory
        self._folder = folder
        self._on_lost = on_lost
        self._lanes = [_Lane() for _ in range(lanes)]
        self._failed = False
        self.count = 0
        """Of entries, wherever they are."""
        self.count_in_memory = 0

    def push(self, entry: Entry) -> None:
        """As in :class:`jdbcstore.broker.cursors.MessageCursor`.

        :raises InvalidMessage: the message was never stored, and cannot be
        """
        lane = self._lanes[entry.message.priority if len(self._lanes) > 1 else 0]
        if lane.spill is None and not self._memory.is_high:
            self._hold(lane, entry)
        else:
            record = _record(entry)
            lane.spill = lane.spill or Spill(self._folder)
            self._try(lane.spill.append, record)
            self._count_files()
        self.count += 1

    def head(self) -> Entry | None:
        lane = self._first_lane()
        return None if lane is None else lane.memory[0]

    def pop(self) -> Entry:
        lane = self._first_lane()
        if lane is None:
            raise IndexError("nothing waits here")
        entry = lane.memory.popleft()
        self.count -= 1
        self.count_in_memory -= 1
        return entry

    def waiting(self) -> list[Entry]:
        return [entry for lane in reversed(self._lanes) for entry in lane.memory]

    def take_expired(self, now_ms: int) -> list[Entry]:
        """Take out those in memory whose expiration has passed; the others are looked at when they are."""
        expired: list[Entry] = []
        for lane in self._lanes:
            gone = [entry for entry in lane.memory if 0 < entry.message.expiration_ms < now_ms]
            if gone:
                expired += gone
                lane.memory = deque(entry for entry in lane.memory if entry not in gone)
        self.count -= len(expired)
        self.count_in_memory -= len(expired)
        return expired

    @property
    def is_full(self) -> bool:
        """Whether the disk takes nothing more, which is asked again, or may not."""
        if self._in_files and self._files.is_full:
            return True
        if self._failed:
            stuck = [lane.spill for lane in self._lanes if lane.spill is not None and lane.spill.is_stuck]
            for spill in stuck:
                self._try(spill.flush)
            self._failed = any(spill.is_stuck for spill in stuck)
        return self._failed

    def _try(self, write: Callable[..., None], *records: bytes) -> None:
        try:
            write(*records)
        except SpillFailed as error:
            if not self._failed:
                log.error("%s waits in memory, and producers wait too: %s", self._name, error)
            self._failed = True

    @property
    def is_empty(self) -> bool:
        return not self.count

    def close(self) -> None:
        held = self.waiting()
        for lane in self._lanes:
            lane.clear()
        self._count_files()
        self._memory.let_go(held)
        self.count = self.count_in_memory = 0
        self._failed = False

    def _first_lane(self) -> _Lane | None:
        """The lane with the head, which is in memory then."""
        if not self.count:
            return None
        for lane in reversed(self._lanes):
            if lane.spill is not None and not lane.memory:
                if self._may_read is not None and not self._may_read():
                    return None
                self._read_back(lane, lane.spill)
            if lane.memory:
                return lane
        return None

    def _read_back(self, lane: _Lane, spill: Spill) -> None:
        try:
            for record in spill.read(_PAGE_BYTES):
                self._hold(lane, _entry(record, self._source_of))
        except SpillFailed as error:
            self.count -= len(spill)
            log.error("%d messages of %s are lost: %s", len(spill), self._name, error)
            spill.close()
            if self._on_lost is not None:
                self._on_lost(error)
        if not spill:
            spill.close()
            lane.spill = None
        self._count_files()

    def _count_files(self) -> None:
        size = sum(lane.spill.size for lane in self._lanes if lane.spill is not None)
        before, self._in_files = self._in_files, size
        if size > before:
            self._files.take(size - before)
        else:
            self._files.release(before - size)
        if size >= self._worth_telling:
            self._worth_telling *= 2
            log.warning(
                "%d MiB of %s wait in files: they come faster than they are consumed",
                *(size >> 20, self._name),
                extra={"limit": self._files.reached, "bytes": size},
            )
        elif not size:
            self._worth_telling = _LARGE

    def _hold(self, lane: _Lane, entry: Entry) -> None:
        lane.memory.append(entry)
        self.count_in_memory += 1
        self._memory.hold(entry)


class _Lane:
    """The entries of one priority: first those in memory, then those in files."""

    __slots__ = ("memory", "spill")

    def __init__(self) -> None:
        self.memory: deque[Entry] = deque()
        self.spill: Spill | None = None

    def clear(self) -> None:
        self.memory.clear()
        if self.spill is not None:
            self.spill.close()
            self.spill = None


def _record(entry: Entry) -> bytes:
    message = entry.message
    flags = (
        (_STORED if entry.stored else 0)
        | (_REDELIVERED if entry.redelivered else 0)
        | (_NUMBERED if message.sequence is not None else 0)
    )
    return _head.pack(entry.sequence, flags) + openwire.encode(message)


def _entry(record: bytes, source_of: Callable[[Message], Source]) -> Entry:
    sequence, flags = _head.unpack_from(record)
    message = openwire.decode(record[_head.size :], sequence=sequence if flags & _NUMBERED else None)
    return Entry(
        message,
        source_of(message),
        sequence,
        stored=bool(flags & _STORED),
        redelivered=bool(flags & _REDELIVERED),
    )
