"""A database, a journal in front of another, and memory, as one store; on a machine that goes down."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from jdbcstore import Clock, Destination, JdbcStore, Store, StoreConfig
from jdbcstore.errors import StoreError
from jdbcstore.stores.filtered import FilteredStore, Route
from jdbcstore.stores.shared.checkpoint import CheckpointedStore
from tests.support.databases import Database
from tests.support.filtered.mortal import NEVER, Died, Fate, Mortal, MortalMemory
from tests.support.journaled.world import World

CONFIG = StoreConfig(cleanup_period=0)
DATABASE, JOURNAL, MEMORY = NAMES = ("database", "journal", "memory")


class FilteredWorld:
    """Opens filtered stores on it, one after the other. ``stores`` names the store of each destination."""

    def __init__(
        self,
        folder: Path,
        database: Database,
        behind: Database,
        stores: Mapping[Destination, str],
        clock: Clock,
    ) -> None:
        def open_behind() -> CheckpointedStore:
            return JdbcStore(behind.url, CONFIG, clock=clock, journaled=True)

        self.journal = World(folder, open_behind, clock)
        self.fate = Fate(NEVER, Died, done=False)
        self.inner: dict[str, Any] = {}
        self._database = database
        self._stores = stores
        self._clock = clock

    def open(self) -> FilteredStore:
        """Whatever is left of the one before, but for what was in memory."""
        memory = MortalMemory(CONFIG, clock=self._clock)
        memory.fate = self.fate
        self.inner = {MEMORY: memory, JOURNAL: self.journal.open()}
        self.inner[DATABASE] = JdbcStore(self._database.url, CONFIG, clock=self._clock)
        known: dict[str, Store] = {
            name: store if store is memory else cast(Store, Mortal(store, self.fate))
            for name, store in self.inner.items()
        }
        # As the process: who finds it dead has no store, and those that it has opened are lost with it.
        self.store: FilteredStore | None = None
        self.store = FilteredStore(
            [
                *(Route(store=known[name], destination=one) for one, name in self._stores.items()),
                *(Route(store=known[name], destination=Destination.queue(f"of.{name}")) for name in NAMES),
            ],
            clock=self._clock,
        )
        return self.store

    def crash(self, chance: random.Random | None = None) -> None:
        """Go down; of what the journal has not synced, chance keeps some. Without, it was only killed."""
        self.fate.spare()
        self.journal.crash(chance)
        self._close()

    def close(self) -> None:
        """As it should be."""
        self.journal.close()
        self._close()

    def _close(self) -> None:
        for store in (self.store, *self.inner.values()):
            if store is not None:
                with contextlib.suppress(StoreError):
                    store.close(10)
