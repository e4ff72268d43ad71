"""A journaled store on a machine that goes down, and a store behind that outlives it."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jdbcstore import Clock, JournaledStore
from jdbcstore.abc import Progress
from jdbcstore.errors import OutcomeUnknown, StoreError, StoreUnavailable
from jdbcstore.stores.shared.checkpoint import Changes, CheckpointedStore
from tests.conftest import small_journal
from tests.support.journal.crashing import CrashingFiles, State

JOURNAL = "journal"


class Behind:
    """The store behind, which goes down before step ``stop_at``; a transaction is two: itself, and to say so.

    What is not said here is asked of the real one.
    """

    def __init__(self, store: CheckpointedStore, *, stop_at: int | None = None, closes: bool = True) -> None:
        self.store = store
        self.stop_at = stop_at
        self.steps = 0
        self.down = False
        self.applied: list[Changes] = []
        self._closes = closes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def apply(self, changes: Changes) -> None:
        self._step(StoreUnavailable("the database does not answer"))
        self.store.apply(changes)
        self.applied.append(changes)
        self._step(OutcomeUnknown())

    def _step(self, error: StoreError) -> None:
        if self.steps == self.stop_at:
            self.down = True
        if self.down:
            raise error
        self.steps += 1

    def unsaved(self) -> int | None:
        """None: it outlives the processes."""
        return None

    def message_count(self, queue: str) -> int:
        """What is there without the journal."""
        return self.store.queue(queue).message_count()

    def close(self, timeout: float | None = None) -> None:
        if self._closes:
            self.store.close(timeout)


class World:
    """Opens stores on one disk after the other; ``make`` gives the store behind."""

    def __init__(
        self, folder: Path, make: Callable[[], CheckpointedStore], clock: Clock, *, closes: bool = True
    ) -> None:
        self._folder = folder
        self._make = make
        self._clock = clock
        self._closes = closes
        self._count = 0
        self.state: State = {}
        self.options: dict[str, Any] = {"journal_disk_sync_strategy": "always"}

    def open(
        self,
        *,
        stop_at: int | None = None,
        behind_stop_at: int | None = None,
        progress: Progress | None = None,
    ) -> JournaledStore:
        """A store on the disk as it is, and a machine that goes down there."""
        self._count += 1
        root = self._folder / str(self._count)
        (root / JOURNAL).mkdir(parents=True)
        self.files = CrashingFiles(root, self.state, stop_at)
        self.behind = Behind(self._make(), stop_at=behind_stop_at, closes=self._closes)
        try:
            self.store = JournaledStore(
                self.behind,
                small_journal(root / JOURNAL, **self.options),
                clock=self._clock,
                progress=progress,
                files=self.files,
            )
        except BaseException:
            self.behind.close()
            raise
        return self.store

    def crash(self, chance: random.Random | None = None) -> None:
        """Go down; of what was not synced, chance keeps some. Without, only the process was killed."""
        self.files.go_down()
        self.behind.down = True
        with contextlib.suppress(StoreError):
            self.store.close(10)
        self.lost(chance)

    def lost(self, chance: random.Random | None = None) -> None:
        """The disk, after the machine went down."""
        self.files.go_down()
        self.state = self.files.everything() if chance is None else self.files.after_some(chance)
        shutil.rmtree(self.files.root)

    def close(self) -> None:
        """As it should be."""
        self.store.close()
        self.state = self.files.everything()
        shutil.rmtree(self.files.root)
