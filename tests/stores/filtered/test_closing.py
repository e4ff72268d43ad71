"""Closing a filtered store does not wait longer for one of its stores than it was told to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Destination, Message
from jdbcstore.errors import OutcomeUnknown, StoreClosed
from jdbcstore.stores.filtered import FilteredStore, Route
from jdbcstore.testing.messages import content
from tests.support.databases import SqliteDatabase
from tests.support.faults.blocking import writes_held

NAMES = "A", "B"


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[list[SqliteDatabase]]:
    for name in NAMES:
        (tmp_path / name).mkdir()
    databases = [SqliteDatabase(tmp_path / name) for name in NAMES]
    yield databases
    for database in databases:
        database.close()


def open_both(databases: list[SqliteDatabase]) -> FilteredStore:
    return FilteredStore(
        [
            Route(store=jdbcstore.open(database.url), destination=Destination.queue(name))
            for name, database in zip(NAMES, databases, strict=True)
        ]
    )


def test_a_commit_that_a_database_holds_up_is_given_up(databases: list[SqliteDatabase]) -> None:
    store = open_both(databases)
    transaction = store.transaction()
    for name in NAMES:
        transaction.queue(name).add_message(Message("1"))
    with writes_held(databases[1]):
        committed = transaction.commit_async()
        with pytest.raises(StoreClosed) as closed:
            store.close(0.1)
        with pytest.raises((OutcomeUnknown, StoreClosed)):
            committed.result(180)
        assert closed.value.unwritten > 0

    with open_both(databases) as store:
        assert [content(store.queue(name)) for name in NAMES] in ([["1"], ["1"]], [[], []])
        assert store.xa.recover() == []


def test_nothing_is_given_up_where_nothing_waits(databases: list[SqliteDatabase]) -> None:
    store = open_both(databases)
    store.queue("A").add_message(Message("1"))
    store.close(0)
    with open_both(databases) as store:
        assert content(store.queue("A")) == ["1"]
