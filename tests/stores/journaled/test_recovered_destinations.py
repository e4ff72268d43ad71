"""What a journal brings back can be asked for, before anybody says how its destinations are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore import Destination, JdbcStore, Message, StoreConfig
from jdbcstore.stores.shared.checkpoint import CheckpointedStore
from tests.support.clock import FakeClock
from tests.support.databases import Database
from tests.support.journaled.world import World


@pytest.mark.backends("sqlite")
def test_to_list_destinations_does_not_decide_whether_one_is_by_priority(
    database: Database, tmp_path: Path
) -> None:
    clock = FakeClock()

    def behind() -> CheckpointedStore:
        return JdbcStore(database.url, StoreConfig(cleanup_period=0), clock=clock, journaled=True)

    world = World(tmp_path, behind, clock)
    store = world.open()
    for name in ("GONE", "KEPT"):
        queue = store.queue(name, prioritized=True)
        first, _ = queue.add_messages([Message(name, priority=0), Message(name, priority=0)])
        store.checkpoint()
        queue.acknowledge(*([first] if name == "KEPT" else queue.recover()))
    world.crash()

    store = world.open()
    assert store.destinations() == [Destination.queue("KEPT")]
    assert [store.queue(name, prioritized=True).message_count() for name in ("GONE", "KEPT")] == [0, 1]
    world.close()
