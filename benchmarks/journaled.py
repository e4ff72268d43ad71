"""A store with a journal that counts its syncs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.ours import BODY
from jdbcstore import JdbcStore, Message, StoreConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.journal.inspection import records
from jdbcstore.journal.layout import Record, space
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.util.files import Files


class _CountedFiles(Files):
    syncs = 0

    def sync(self, file: int) -> None:
        self.syncs += 1
        super().sync(file)


_NEVER: dict[str, Any] = {"checkpoint_interval": 0.0, "checkpoint_size": 1 << 40, "memory_limit": 1 << 40}


class Journaled:
    """A store with a journal's defaults, without background tasks of the database.

    Without ``checkpoints`` everything stays in the journal until the store is closed.
    """

    def __init__(self, url: str, folder: Path, *, checkpoints: bool = True) -> None:
        self._files = _CountedFiles()
        self._directory = folder / "journal"
        self.store = JournaledStore(
            JdbcStore(url, StoreConfig(cleanup_period=0.0), journaled=True),
            JournalConfig(directory=str(self._directory), **({} if checkpoints else _NEVER)),
            files=self._files,
        )
        self.batches: list[float] = []
        """Messages that became durable in one sync, for each measurement."""

    def record_size(self) -> int:
        """Measure the bytes of one message in the journal."""
        queue = self.store.queue("BENCHMARK")
        queue.add_message(Message(BODY))
        record = next(one for one in records(self._directory) if isinstance(one, Record))
        queue.remove_all_messages()
        return space(len(record.body))

    def counting(self, measure: Callable[[], float]) -> float:
        """Measure, and record the number of messages per sync."""
        syncs, last = self._files.syncs, self.store.last_sequence()
        rate = measure()
        self.batches.append((self.store.last_sequence() - last) / max(1, self._files.syncs - syncs))
        return rate

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.store.close()
