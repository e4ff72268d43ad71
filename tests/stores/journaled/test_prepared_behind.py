"""XA branches in doubt that the store behind had before there was a journal: who decides them, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jdbcstore import JdbcStore, MemoryStore, Message, Store, StoreConfig, XATransactionId
from jdbcstore.errors import TransactionError, TransactionNotFound
from jdbcstore.stores.shared.checkpoint import CheckpointedStore
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import content, fill
from tests.support.databases import Database
from tests.support.journaled.world import World

CONFIG = StoreConfig(cleanup_period=0)
BEHIND, OTHER, LATER = (XATransactionId(7, name, b"b") for name in (b"1", b"2", b"3"))


@pytest.fixture
def memory_world(tmp_path: Path) -> Iterator[World]:
    clock = FakeClock()
    behind = MemoryStore(CONFIG, clock=clock)
    with_branches(behind)
    yield World(tmp_path, lambda: behind, clock, closes=False)
    behind.close()


@pytest.fixture
def database_world(database: Database, tmp_path: Path) -> World:
    clock = FakeClock()
    with JdbcStore(database.url, CONFIG, clock=clock) as before:
        with_branches(before)

    def behind() -> CheckpointedStore:
        return JdbcStore(database.url, CONFIG, clock=clock, journaled=True)

    return World(tmp_path, behind, clock)


def with_branches(store: Store) -> None:
    """Two that are in doubt: each takes a message of a queue and one of a subscription, and adds one."""
    reader = store.topic("T").subscribe("c", "s")
    taken = fill(store.queue("A"), "first", "second", "third")
    read = fill(store.topic("T"), "one", "two", "three")
    for number, xid in enumerate((BEHIND, OTHER)):
        branch = store.xa.start(xid)
        branch.queue("A").acknowledge(taken[number])
        branch.topic("T").acknowledge_subscription("c", "s", read[number])
        branch.queue("B").add_message(Message(f"of {number}"))
        assert branch.prepare()
    assert content(reader) == ["three"]


def seen(store: Store) -> tuple[list[object], list[object], list[object]]:
    reader = store.topic("T").subscription("c", "s")
    found = content(store.queue("A")), content(store.queue("B")), content(reader)
    assert [store.queue(name).message_count() for name in "AB"] == [len(found[0]), len(found[1])]
    assert reader.message_count() == len(found[2])
    return found


def in_doubt(store: Store) -> list[XATransactionId]:
    return [one.xid for one in store.xa.recover()]


def killed(world: World) -> Store:
    world.crash()
    return world.open()


def closed(world: World) -> Store:
    world.close()
    return world.open()


def stays(world: World) -> Store:
    return world.store


def go_through(world: World, again: Callable[[World], Store]) -> None:
    """Both and one of the journal's own are decided, with ``again`` after each step."""
    store: Store = world.open()
    assert in_doubt(store) == [BEHIND, OTHER]
    assert seen(store) == (["third"], [], ["three"])
    with pytest.raises(TransactionError):
        prepare(store, BEHIND)
    fill(store.queue("A"), "fourth")
    prepare(store, LATER)

    store = again(world)
    assert in_doubt(store) == [BEHIND, OTHER, LATER]
    first, second, _ = store.xa.recover()
    assert first.writes == second.writes != ()
    last = store.last_sequence()
    store.xa.commit(BEHIND)
    assert seen(store) == (["third", "fourth"], ["of 0"], ["three"])
    [fifth] = fill(store.queue("A"), "fifth")
    assert last < (store.queue("B").recover()[0].sequence or 0) < (fifth.sequence or 0)

    store = again(world)
    assert in_doubt(store) == [OTHER, LATER]
    for decide in (store.xa.commit, store.xa.rollback):
        with pytest.raises(TransactionNotFound):
            decide(BEHIND)
    store.xa.rollback(OTHER)
    assert seen(store) == (["second", "third", "fourth", "fifth"], ["of 0"], ["two", "three"])

    store = again(world)
    assert in_doubt(store) == [LATER]
    store.xa.commit(LATER)
    assert seen(store) == (["second", "third", "fourth", "fifth"], ["of 0", "later"], ["two", "three"])
    world.close()


def prepare(store: Store, xid: XATransactionId) -> None:
    branch = store.xa.start(xid)
    branch.queue("B").add_message(Message("later"))
    assert branch.prepare()


@pytest.mark.parametrize("again", [stays, closed, killed])
def test_in_memory(memory_world: World, again: Callable[[World], Store]) -> None:
    go_through(memory_world, again)


@pytest.mark.backends("sqlite", "postgresql")
def test_in_a_database(database_world: World) -> None:
    go_through(database_world, killed)
