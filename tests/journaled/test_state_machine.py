"""JournaledStore and MemoryStore under random operations, checkpoints, crashes and restarts.

``python -m tests.journaled`` is the long run.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

import jdbcstore
from jdbcstore import MemoryStore, Store, StoreConfig, XATransactionId
from jdbcstore.checkpoint import CheckpointedStore
from jdbcstore.store import JdbcStore
from tests.clock import FakeClock
from tests.conformance.conftest import empty
from tests.conformance.machine import (
    PLACES,
    SUBSCRIBERS,
    Place,
    StoreMachine,
    attempt,
    kinds,
    messages,
    names,
    numbers,
    places,
)
from tests.databases import Database
from tests.journaled.world import World

EXAMPLES = {"memory": 10, "sqlite": 4}
XIDS = [XATransactionId(7, bytes([number]), b"b") for number in range(3)]


class JournaledMachine(StoreMachine):
    """With what only a journal has, and with XA, whose branches outlive crashes."""

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
        self.model._shared.last_sequence = real.last_sequence()
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

    @rule(step=st.integers(0, 5), seed=st.integers(0, 1 << 16))
    def crash_in_a_checkpoint(self, step: int, seed: int) -> None:
        behind = self._world.behind
        behind.stop_at = behind.steps + step
        attempt(lambda _: self._world.store.checkpoint(), None)
        self._world.crash(random.Random(seed))
        self.real = self._opened()

    @rule(
        steps=st.lists(st.tuples(kinds, places, messages, numbers), max_size=6),
        who=st.sampled_from(SUBSCRIBERS),
        by=names,
        xid=st.sampled_from(XIDS),
    )
    def prepare(
        self,
        steps: list[tuple[str, Place, dict[str, Any], int]],
        who: tuple[str, str],
        by: str,
        xid: XATransactionId,
    ) -> None:
        writes = [self.step(*one, who, by) for one in steps]

        def run(store: Store) -> Any:
            for place in PLACES:
                place.on(store)
            branch = store.xa.start(xid)
            return [attempt(write, branch) for write in writes], attempt(lambda _: branch.prepare(), None)

        self.both(run)

    @rule(xid=st.sampled_from(XIDS), commits=st.booleans())
    def decide(self, xid: XATransactionId, commits: bool) -> None:
        self.both(lambda store: store.xa.commit(xid) if commits else store.xa.rollback(xid))

    @rule()
    def in_doubt(self) -> None:
        self.both(lambda store: store.xa.recover())

    def teardown(self) -> None:
        self.model.close()
        self._world.close()
        self._world.behind.store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """For directories of machines, in memory where there is such a place."""
    memory = Path("/dev/shm")  # noqa: S108
    place = tempfile.mkdtemp(prefix="jdbcstore-journaled-", dir=memory if memory.is_dir() else tmp_path)
    yield Path(place)
    shutil.rmtree(place)


def run(new_machine: Callable[[], JournaledMachine], examples: int) -> None:
    run_state_machine_as_test(
        new_machine,  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
        ),
    )


CONFIG = StoreConfig(cleanup_period=0)


def over_memory(folder: Path) -> Callable[[], JournaledMachine]:
    """Makes machines whose store behind is in memory."""

    def new_machine() -> JournaledMachine:
        clock = FakeClock()
        behind = MemoryStore(CONFIG, clock=clock)
        world = World(Path(tempfile.mkdtemp(dir=folder)), lambda: behind, clock, closes=False)
        return JournaledMachine(MemoryStore(CONFIG, clock=clock), world, clock)

    return new_machine


def over_database(database: Database, folder: Path) -> Callable[[], JournaledMachine]:
    """Makes machines of which each has the database for itself, emptied."""
    jdbcstore.open(database.url).close()

    def new_machine() -> JournaledMachine:
        clock = FakeClock()
        empty(database)

        def behind() -> CheckpointedStore:
            return JdbcStore(database.url, CONFIG, clock=clock, journaled=True)

        world = World(Path(tempfile.mkdtemp(dir=folder)), behind, clock)
        return JournaledMachine(MemoryStore(CONFIG, clock=clock), world, clock)

    return new_machine


def test_over_memory(folder: Path) -> None:
    run(over_memory(folder), EXAMPLES["memory"])


@pytest.mark.backends("sqlite")
def test_over_a_database(database: Database, folder: Path) -> None:
    run(over_database(database, folder), EXAMPLES["sqlite"])
