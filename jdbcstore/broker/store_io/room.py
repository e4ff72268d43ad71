"""The room for further messages: sends are rejected before the disk is full, so that removals still work."""

from __future__ import annotations

import asyncio
import shutil
from asyncio import Task
from collections.abc import Callable, Sequence
from pathlib import Path

from jdbcstore.abc import Examined, Store
from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.errors import DestinationFull, StorageFull, StoreError

_PERIOD = 2.0
_RETRY = 10.0
"""Seconds after which a database that had no space left gets a message again."""
_STEPS = 8
"""The free space is read again after each eighth of the limit is written."""


class StorageRoom:
    """The free space of a broker's folders, and of the database as far as that reports it.

    :param folders: the folders of the journal and of the database's file, which is the last
    :param limit: the free bytes below which messages are rejected; 0 means no limit
    """

    def __init__(self, loop: BrokerLoop, store: Store, folders: Sequence[Path], limit: int) -> None:
        self._loop = loop
        self._store = store
        self._folders = folders
        self._limit = limit
        self.step = limit // _STEPS or 1 << 60
        """The bytes after which :meth:`look` is called."""
        self.refusal: DestinationFull | None = None
        """The error for each send; None while there is room."""
        self.refused = 0
        """Messages that were rejected."""
        self.on_change: Callable[[float | None], None] = lambda _: None
        """Called when :attr:`refusal` changes, with the seconds until the next attempt, if they are known."""
        self._reusable = 0.0
        """Bytes of the database's file that removed messages have left."""
        self._is_filled = False
        """Whether the database itself has rejected a message."""
        self._watching: Task[None] | None = None

    def start(self) -> None:
        """Watch the folders."""
        if self._folders and self._limit:
            self.look()
            self._watching = self._loop.create_task(self._watch())

    async def stop(self) -> None:
        """Stop watching."""
        self.on_change = lambda _: None
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})

    async def _watch(self) -> None:
        while True:
            self._reusable = await self._reusable_bytes() if self._shortage(0) is not None else 0.0
            self.look()
            await asyncio.sleep(_PERIOD)

    async def _reusable_bytes(self) -> float:
        if not isinstance(self._store, Examined):
            return 0.0
        try:
            checkup = await self._loop.run(self._store.examine)
        except StoreError:
            return 0.0
        return checkup.figures.get("reusable_bytes", 0.0)

    def _shortage(self, reusable: float) -> str | None:
        """Return which disk has too little free space, counting these bytes of the database's file."""
        for folder in self._folders:
            try:
                free = shutil.disk_usage(folder).free
            except OSError:
                continue
            if free + (reusable if folder is self._folders[-1] else 0) < self._limit:
                return (
                    f"the disk of {folder} has {free >> 10:,} KiB of free space, and disk_free_limit is"
                    f" {self._limit >> 10:,} KiB"
                )
        return None

    def look(self) -> None:
        """Read the free space, and reject sends if it is below the limit."""
        shortage = self._shortage(self._reusable)
        if shortage is not None:
            self._close(shortage, None)
        elif self.refusal is not None and not self._is_filled:
            self._open()

    def written(self, size: int) -> None:
        """Record so many bytes of messages, and look."""
        self._reusable = max(0.0, self._reusable - 2 * size)  # the rows also need indexes
        self.look()

    def refuse(self, count: int) -> DestinationFull | None:
        """Count rejected messages; return the error for them, None if there is room."""
        if self.refusal is not None:
            self.refused += count
        return self.refusal

    def filled(self, error: StorageFull, count: int) -> None:
        """Reject sends for some seconds, because the database had no space left for so many messages."""
        self.refused += count
        if not self._is_filled:
            self._is_filled = True
            self._loop.call_later(_RETRY, self._try_again)
            self._close(str(error), _RETRY)

    def _try_again(self) -> None:
        self._is_filled = False
        self._open()
        self.look()

    def _close(self, reason: str, pause: float | None) -> None:
        is_new = self.refusal is None
        self.refusal = DestinationFull(f"{reason}; consume messages or free space, then send again")
        if is_new:
            self.on_change(pause)

    def _open(self) -> None:
        self.refusal = None
        self.on_change(None)
