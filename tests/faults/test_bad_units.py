"""What cannot be stored fails alone, whatever commits beside it."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from sqlalchemy import Connection, text

from jdbcstore import Destination, Message, MessageId, MessageReference, ProducerId
from jdbcstore.abc import Store
from jdbcstore.errors import InvalidMessage, StoreError
from jdbcstore.testing import OpenStore
from tests.support.databases import Database
from tests.support.faults.blocking import writes_held
from tests.support.faults.effects import WAIT
from tests.support.faults.refusing import refuse_bad

UNSENDABLE = ("half a pair \ud800", "a NUL \0")


@pytest.fixture
def store(open_store: OpenStore, database: Database) -> Store:
    store = open_store(cleanup_period=0)
    refuse_bad(database)
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


@pytest.mark.backends("sqlite", "postgresql")
def test_bad_messages_among_those_stored_together(store: Store, database: Database) -> None:
    """What comes behind them does not overtake the good ones."""
    good, bad = Destination.queue("GOOD"), Destination.queue("BAD")
    messages = [Message(str(n), destination=bad if n in (3, 4, 9) else good) for n in range(10)]
    with writes_held(database):
        first = store.queue("GOOD").add_message_async(Message("the writer waits with this one"))
        together = store.add_each_async(messages)
        later = store.queue("GOOD").add_message_async(Message("later"))
    first.result(WAIT)
    later.result(WAIT)
    outcomes = together.result(WAIT)
    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, InvalidMessage)] == [3, 4, 9]
    stored = store.queue("GOOD").recover()
    assert [message.body for message in stored][1:] == [*"0125678", "later"]
    references = [outcome for outcome in outcomes if isinstance(outcome, MessageReference)]
    assert [reference.sequence for reference in references] == [each.sequence for each in stored][1:-1]


@pytest.mark.backends("sqlite")
def test_a_bad_message_may_come_again(open_store: OpenStore, database: Database) -> None:
    """The audit has not seen what was not stored."""
    store = open_store(cleanup_period=0, enable_audit=True)
    refuse_bad(database)
    good, bad = Destination.queue("GOOD"), Destination.queue("BAD")
    ids = [MessageId(ProducerId("ID:a", 1, 1), n) for n in range(2)]
    outcomes = store.add_each_async(
        [Message("a", destination=good, message_id=ids[0]), Message("b", destination=bad, message_id=ids[1])]
    ).result(WAIT)
    assert isinstance(outcomes[1], InvalidMessage)
    again = store.add_each_async([Message("x", destination=good, message_id=each) for each in ids])
    assert [type(outcome) for outcome in again.result(WAIT)] == [MessageReference] * 2
    assert [message.body for message in store.queue("GOOD").recover()] == ["a", "x"]


@pytest.mark.parametrize("name", UNSENDABLE, ids=["surrogate", "nul"])
def test_a_name_that_no_column_holds(store: Store, connection: Connection, name: str) -> None:
    with pytest.raises(StoreError):
        store.queue(name).add_message(Message("never stored"))
    with pytest.raises(StoreError):
        store.queue(name).recover()
    store.queue("GOOD").add_message(Message("stored"))
    assert connection.execute(text("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")).scalar() == 1
