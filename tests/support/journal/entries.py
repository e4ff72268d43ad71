"""Entries, and a journal that remembers what it was told of each."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreError
from jdbcstore.journal.layout import JournalEntry, WrittenEntry
from jdbcstore.journal.log import Journal
from jdbcstore.testing.clock import FakeClock


@dataclass(slots=True, eq=False)
class Item:
    body: bytes
    kind: int = 1
    sequences: int = 1
    taken: bool = False

    @property
    def size(self) -> int:
        return len(self.body)

    @property
    def chunks(self) -> Sequence[bytes]:
        middle = len(self.body) // 2
        return (self.body[:middle], self.body[middle:]) if middle else (self.body,)


class Told:
    """What the callbacks said; ``wait`` waits until they have spoken of so many entries."""

    def __init__(self) -> None:
        self.written: list[WrittenEntry] = []
        self.batches: list[int] = []
        self.failed: list[tuple[JournalEntry, StoreError]] = []
        self._changed = threading.Condition()

    def committed(self, batch: Sequence[WrittenEntry]) -> None:
        with self._changed:
            self.written += batch
            self.batches.append(len(batch))
            self._changed.notify_all()

    def fail(self, entries: Sequence[JournalEntry], error: StoreError) -> None:
        with self._changed:
            self.failed += [(entry, error) for entry in entries]
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.written) + len(self.failed) >= count, 60)

    @property
    def bodies(self) -> list[bytes]:
        return [b"".join(written.entry.chunks) for written in self.written]


def configured(directory: Path, **options: Any) -> JournalConfig:
    """Small files, made when they are needed: nothing happens in the background."""
    small = {"journal_log_files": 1, "journal_log_file_size": 4096, "preallocation_scope": "none"}
    return JournalConfig(directory=str(directory), **{**small, **options})


def opened(config: JournalConfig, told: Told, **options: Any) -> Journal:
    return Journal(config, committed=told.committed, failed=told.fail, **{"clock": FakeClock(), **options})
