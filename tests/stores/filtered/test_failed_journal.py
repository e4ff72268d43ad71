"""A journal that failed, or does not sync, does not know what it was writing; nothing is decided on that."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore import Destination, Message, XATransactionId
from jdbcstore.errors import JournalFailed, OutcomeUnknown
from jdbcstore.stores.filtered.transaction import FORMAT
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.messages import content
from tests.support.databases import SqliteDatabase
from tests.support.filtered.world import DATABASE, JOURNAL, FilteredWorld

STORES = {Destination.queue(DATABASE): DATABASE, Destination.queue(JOURNAL): JOURNAL}
SYNC_OF_ITS_PREPARE, SYNC_OF_ITS_COMMIT = 1, 3
"""The journal's operations, from the beginning of a transaction over several stores."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FilteredWorld]:
    for name in STORES.values():
        (tmp_path / name).mkdir()
    database, behind = (SqliteDatabase(tmp_path / name) for name in (DATABASE, JOURNAL))
    world = FilteredWorld(tmp_path, database, behind, STORES, FakeClock())
    yield world
    world.close()
    database.close()
    behind.close()


@pytest.mark.parametrize(
    ("first", "fails_at", "is_committed"),
    [
        (DATABASE, SYNC_OF_ITS_PREPARE, False),
        (JOURNAL, SYNC_OF_ITS_PREPARE, False),
        (JOURNAL, SYNC_OF_ITS_COMMIT, True),
    ],
)
def test_what_was_written_and_not_synced_has_one_outcome(
    first: str, fails_at: int, is_committed: bool, world: FilteredWorld
) -> None:
    store = world.open()
    transaction = store.transaction()
    for name in sorted((DATABASE, JOURNAL), key=lambda name: name != first):
        transaction.queue(name).add_message(Message("new"))
    files = world.journal.files
    files.stop_at = files.operations + fails_at
    with pytest.raises(OutcomeUnknown):
        transaction.commit()
    with pytest.raises(JournalFailed):
        store.outcomes.finish()

    world.crash()  # the process alone: what was written is there
    store = world.open()
    expected = [["new"]] * 2 if is_committed else [[]] * 2
    assert [content(store.queue(name)) for name in (DATABASE, JOURNAL)] == expected
    assert store.xa.recover() == []


def test_it_does_not_say_that_a_branch_is_not_prepared(world: FilteredWorld) -> None:
    store, xid = world.open(), XATransactionId(7, b"g", b"b")
    branch = store.xa.start(xid)
    branch.queue(JOURNAL).add_message(Message("new"))
    files = world.journal.files
    files.stop_at = files.operations + SYNC_OF_ITS_PREPARE
    with pytest.raises(OutcomeUnknown):
        branch.prepare()
    for ask in (store.xa.recover, lambda: store.xa.rollback(xid)):
        with pytest.raises(JournalFailed):
            ask()

    world.crash()
    store = world.open()
    store.xa.rollback(xid)
    assert store.queue(JOURNAL).message_count() == 0


class Nothing(random.Random):
    """Of what was not synced, nothing is left."""

    def choice(self, _: object) -> int:  # type: ignore[override]
        return 0


@pytest.mark.parametrize("first", [DATABASE, JOURNAL])
def test_a_journal_that_does_not_sync_keeps_the_outcome_of_several_stores(
    first: str, world: FilteredWorld
) -> None:
    """The A-MQ guide's mKahaDB has enableJournalDiskSyncs="false" for some of its stores."""
    world.journal.options["journal_disk_sync_strategy"] = "never"
    store = world.open()
    transaction = store.transaction()
    for name in sorted((DATABASE, JOURNAL), key=lambda name: name != first):
        transaction.queue(name).add_message(Message("new"))
    transaction.commit()

    world.crash(Nothing())
    store = world.open()

    assert [content(store.queue(name)) for name in (DATABASE, JOURNAL)] == [["new"]] * 2
    assert store.xa.recover() == []


@pytest.mark.parametrize("first", [DATABASE, JOURNAL])
def test_a_journal_that_does_not_sync_keeps_what_was_rolled_back(first: str, world: FilteredWorld) -> None:
    """Of a branch that is prepared in the database, it alone may know that it was not committed."""
    world.journal.options["journal_disk_sync_strategy"] = "never"
    store = world.open()
    xid = XATransactionId(
        FORMAT, b"of both", store.routes.name_of(store.routes.store_of(Destination.queue(first)))
    )
    for name in (DATABASE, JOURNAL):
        branch = world.inner[name].xa.start(xid)
        branch.queue(name).add_message(Message("new"))
        assert branch.prepare()
    world.inner[JOURNAL].checkpoint()  # which syncs what was prepared
    store.outcomes.finish()
    assert store.xa.recover() == []

    world.crash(Nothing())
    store = world.open()

    assert [content(store.queue(name)) for name in (DATABASE, JOURNAL)] == [[]] * 2
