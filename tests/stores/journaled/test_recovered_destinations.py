"""What a journal brings back can be asked for, before anybody says how its destinations are used."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from jdbcstore import Destination, JdbcStore, JournaledStore, MemoryStore, Message, StoreConfig
from jdbcstore.stores.journaled.destinations import JournaledMessageStore
from jdbcstore.stores.shared.checkpoint import CheckpointedStore
from jdbcstore.testing.clock import FakeClock
from tests.conftest import small_journal
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


def test_deleted_destinations_are_forgotten(tmp_path: Path) -> None:
    with JournaledStore(MemoryStore(StoreConfig(cleanup_period=0)), small_journal(tmp_path)) as store:
        kept = store.queue("KEPT")
        for number in range(20):
            queue, topic = Destination.queue(f"Q{number}"), Destination.topic(f"T{number}")
            store.queue(queue).add_message(Message("a"))
            store.topic(topic).subscribe("client", "reader")
            assert store.delete_destination(queue) == 1
            assert store.delete_destination(topic) == 0
        gc.collect()
        alive = [one for one in gc.get_objects() if isinstance(one, JournaledMessageStore)]
        assert [one for one in alive if one._front.store is store._store] == [kept]

        kept.add_message(Message("a"))
        assert store.delete_destination(kept.destination) == 1
        kept.add_message(Message("b"))
        assert store.destinations() == [kept.destination]
        assert store.queue("KEPT") is kept
