"""A journaled store compared with MemoryStore over random operations."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

import jdbcstore
from jdbcstore import MemoryStore, Store, StoreConfig
from jdbcstore.errors import StoreError
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.shared.checkpoint import CheckpointedStore
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.machine import PLACES, Step, attempt, names
from tests.support.contract.xa_machine import XIDS, XAMachine, some_steps, subscribers
from tests.support.databases import Database
from tests.support.journaled.world import World

QUICK: dict[str, Any] = {
    "use_quick_journal": True,
    "journal_log_file_size": 4096,
    "max_checkpoint_message_add_size": 1_000,
}
"""In files that are so small that messages have to leave them again and again."""


_LITTLE = 2_000
"""Bytes in which a replay makes a checkpoint every few records."""
_LONG = 15
"""Records after which a checkpoint writes small prepared transactions again."""


class JournaledMachine(XAMachine):
    """With what only a journal has."""

    def __init__(self, model: MemoryStore, world: World, clock: FakeClock) -> None:
        super().__init__(model, world.open(), self.open_again, clock)
        self._world = world

    def open_again(self) -> Store:
        self._world.close()
        return self._opened()

    def _opened(self) -> Store:
        real = self._world.open()
        # What a store behind had reserved, and gave nobody, is passed over.
        assert isinstance(self.model, MemoryStore)
        assert real.last_sequence() >= self.model.last_sequence()
        self.model._state.last_sequence = real.last_sequence()
        return real

    @rule()
    def checkpoint(self) -> None:
        self._world.store.checkpoint()

    @rule(seed=st.integers(0, 1 << 16))
    def crash(self, seed: int) -> None:
        self._world.crash(random.Random(seed))
        self.real = self._opened()

    @rule()
    def kill(self) -> None:
        self._world.crash()
        self.real = self._opened()

    @rule(steps=some_steps, who=subscribers, by=names, commits=st.none() | st.booleans())
    def decide_late(self, steps: list[Step], who: tuple[str, str], by: str, commits: bool | None) -> None:
        """What a replay in little memory comes to long after the prepare, if there is a decision at all."""
        self.prepare(steps, who, by, XIDS[0])
        for _ in range(_LONG):
            self.add(PLACES[0], {"size": 300, "id": "new", "lifetime": None, "priority": 4}, "add")
        if commits is not None:
            self.decide(XIDS[0], commits)
        self.kill_twice(None)

    @rule(step=st.none() | st.integers(1, 8))
    def kill_twice(self, step: int | None) -> None:
        """The second time after a replay in little memory, which makes checkpoints itself, or during one."""
        self._world.crash()
        world = self._world
        world.options["memory_limit"] = _LITTLE
        try:
            world.open(behind_stop_at=step)
        except StoreError:
            assert world.behind.down
            world.lost()
        else:
            world.crash()
        finally:
            del world.options["memory_limit"]
        self.real = self._opened()

    @rule(step=st.integers(0, 5), seed=st.integers(0, 1 << 16))
    def crash_in_a_checkpoint(self, step: int, seed: int) -> None:
        behind = self._world.behind
        behind.stop_at = behind.steps + step
        attempt(lambda _: self._world.store.checkpoint(), None)
        self._world.crash(random.Random(seed))
        self.real = self._opened()

    def teardown(self) -> None:
        self.model.close()
        self._world.close()
        self._world.behind.store.close()


CONFIG = StoreConfig(cleanup_period=0)


def over_memory(folder: Path, options: dict[str, Any]) -> Callable[[], JournaledMachine]:
    """Makes machines whose store behind is in memory."""

    def new_machine() -> JournaledMachine:
        clock = FakeClock()
        behind = MemoryStore(CONFIG, clock=clock)
        world = World(Path(tempfile.mkdtemp(dir=folder)), lambda: behind, clock, closes=False)
        world.options |= options
        return JournaledMachine(MemoryStore(CONFIG, clock=clock), world, clock)

    return new_machine


def over_database(
    database: Database, folder: Path, options: dict[str, Any]
) -> Callable[[], JournaledMachine]:
    """Makes machines of which each has the database for itself, emptied."""
    jdbcstore.open(database.url).close()

    def new_machine() -> JournaledMachine:
        clock = FakeClock()
        database.empty()

        def behind() -> CheckpointedStore:
            return JdbcStore(database.url, CONFIG, clock=clock, journaled=True)

        world = World(Path(tempfile.mkdtemp(dir=folder)), behind, clock)
        world.options |= options
        return JournaledMachine(MemoryStore(CONFIG, clock=clock), world, clock)

    return new_machine
