"""What cannot be stored fails alone, whatever commits beside it."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from sqlalchemy import Connection, text

from jdbcstore import Message, MessageReference
from jdbcstore.abc import Store
from jdbcstore.errors import InvalidMessage, StoreError
from tests.conftest import OpenStore
from tests.databases import Database
from tests.faults.blocking import writes_held
from tests.faults.effects import WAIT

# The store checks messages before they reach the database. These rules are the database's own.
_REFUSE_BAD = {
    "sqlite": (
        "CREATE TRIGGER refuse BEFORE INSERT ON ACTIVEMQ_MSGS WHEN NEW.CONTAINER = 'queue://BAD'"
        " BEGIN SELECT RAISE(ABORT, 'refused'); END",
    ),
    "postgresql": ("ALTER TABLE ACTIVEMQ_MSGS ADD CONSTRAINT refuse CHECK (CONTAINER <> 'queue://BAD')",),
    "mariadb": ("ALTER TABLE ACTIVEMQ_MSGS ADD CONSTRAINT refuse CHECK (CONTAINER <> 'queue://BAD')",),
}
UNSENDABLE = ("half a pair \ud800", "a NUL \0")


@pytest.fixture
def store(open_store: OpenStore, database: Database) -> Store:
    store = open_store(cleanup_period=0)
    for statement in _REFUSE_BAD[database.engine.dialect.name]:
        database.execute(statement)
    return store


def test_bad_units_among_fifty_good_ones(store: Store, database: Database) -> None:
    good, bad = store.queue("GOOD"), store.queue("BAD")
    with writes_held(database):
        first = good.add_message_async(Message("the writer waits with this one"))
        results: list[tuple[bool, Future[MessageReference]]] = []
        for number in range(50):
            results.append((True, good.add_message_async(Message(str(number)))))
            if number % 20 == 7:
                results.append((False, bad.add_message_async(Message(str(number)))))
    first.result(WAIT)
    references = [result.result(WAIT) for expected, result in results if expected]
    for expected, result in results:
        if not expected:
            with pytest.raises(InvalidMessage, match="cannot hold"):
                result.result(WAIT)
    assert [message.body for message in good.recover()][1:] == [str(number) for number in range(50)]
    sequences = [reference.sequence for reference in references]
    assert sequences == sorted(set(sequences))
    assert bad.message_count() == 0


def test_a_bad_transaction_leaves_nothing(store: Store, database: Database) -> None:
    good = store.queue("GOOD")
    old = good.add_message(Message("old"))
    with writes_held(database):
        first = good.add_message_async(Message("the writer waits with this one"))
        transaction = store.transaction()
        transaction.queue("GOOD").add_message(Message("half"))
        transaction.queue("GOOD").acknowledge(old)
        transaction.queue("BAD").add_message(Message("the other half"))
        failed = transaction.commit_async()
        later = good.add_message_async(Message("later"))
    first.result(WAIT)
    later.result(WAIT)
    with pytest.raises(InvalidMessage):
        failed.result(WAIT)
    assert [message.body for message in good.recover()] == ["old", "the writer waits with this one", "later"]


@pytest.mark.parametrize("name", UNSENDABLE, ids=["surrogate", "nul"])
def test_a_name_that_no_column_holds(store: Store, connection: Connection, name: str) -> None:
    with pytest.raises(StoreError):
        store.queue(name).add_message(Message("never stored"))
    with pytest.raises(StoreError):
        store.queue(name).recover()
    store.queue("GOOD").add_message(Message("stored"))
    assert connection.execute(text("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")).scalar() == 1
