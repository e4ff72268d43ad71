"""Local transactions: all of it commits, or nothing."""

from __future__ import annotations

import pytest

from jdbcstore import Destination, Message, MessageStore, ProducerId, Store, TopicMessageStore
from jdbcstore.errors import (
    InvalidDestination,
    InvalidMessage,
    MessageNotFound,
    SubscriptionNotFound,
    TransactionError,
)
from jdbcstore.testing.messages import content, fill, message_id
from jdbcstore.testing.tables import RawTables


@pytest.mark.one_writer
def test_a_commit_is_seen_whole(store: Store) -> None:
    orders, audit = store.queue("ORDERS"), store.topic("AUDIT")
    subscription = audit.subscribe("client", "auditor")
    old, kept = fill(orders, "old", "kept")
    [seen] = fill(audit, "seen")

    transaction = store.transaction()
    transaction.queue("ORDERS").add_message(Message("first"))
    transaction.topic("AUDIT").add_message(Message("second"))
    transaction.queue("ORDERS").add_message(Message("third"))
    transaction.queue("ORDERS").acknowledge(old)
    transaction.queue("ORDERS").update_message(orders.get_message(kept.sequence).replace(body="KEPT"))
    transaction.topic("AUDIT").acknowledge_subscription("client", "auditor", seen)
    assert content(orders) == ["old", "kept"]
    assert content(subscription) == ["seen"]

    references = transaction.commit()

    assert [reference.sequence for reference in references] == [4, 5, 6]
    assert content(orders) == ["KEPT", "first", "third"]
    assert content(audit) == ["seen", "second"]
    assert content(subscription) == ["second"]
    assert audit.get_message(references[1].message_id).body == "second"


def test_a_rollback_drops_everything(store: Store) -> None:
    orders = store.queue("ORDERS")
    [reference] = fill(orders, "a")

    transaction = store.transaction()
    transaction.queue("ORDERS").add_message(Message("b"))
    transaction.queue("ORDERS").acknowledge(reference)
    transaction.rollback()

    assert content(orders) == ["a"]
    assert orders.add_message(Message("c")).sequence == 2


@pytest.mark.ours
def test_as_a_context_it_commits_at_the_end(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.queue("ORDERS").add_message(Message("a"))
        assert store.queue("ORDERS").message_count() == 0

    assert content(store.queue("ORDERS")) == ["a"]


@pytest.mark.ours
def test_as_a_context_it_rolls_back_when_the_block_raises(store: Store) -> None:
    transaction = store.transaction()

    def fail_inside() -> None:
        with transaction:
            transaction.queue("ORDERS").add_message(Message("a"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()

    assert store.queue("ORDERS").message_count() == 0
    with pytest.raises(TransactionError):
        transaction.commit()


@pytest.mark.ours
def test_as_a_context_it_may_end_before_its_block(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.queue("ORDERS").add_message(Message("a"))
        transaction.commit()
    with store.transaction() as transaction:
        transaction.queue("ORDERS").add_message(Message("b"))
        transaction.rollback()

    assert content(store.queue("ORDERS")) == ["a"]


def test_without_waiting(store: Store) -> None:
    transaction = store.transaction()
    transaction.queue("ORDERS").add_message(Message("a"))

    [reference] = transaction.commit_async().result(180)

    assert store.queue("ORDERS").get_message(reference.sequence).body == "a"


def test_an_empty_transaction(store: Store) -> None:
    assert store.transaction().commit() == []
    store.transaction().rollback()
    with store.transaction():
        pass

    assert store.last_sequence() == 0


@pytest.mark.ours
def test_it_ends_once(store: Store) -> None:
    committed, rolled_back = store.transaction(), store.transaction()
    inside = committed.queue("ORDERS")
    committed.commit()
    rolled_back.rollback()

    for use in (
        committed.commit,
        committed.commit_async,
        committed.rollback,
        rolled_back.commit,
        rolled_back.rollback,
        lambda: inside.add_message(Message("a")),
        lambda: inside.acknowledge(1),
        lambda: committed.queue("ORDERS").add_message(Message("a")),
    ):
        with pytest.raises(TransactionError, match="begin another"):
            use()
    assert store.queue("ORDERS").message_count() == 0


@pytest.mark.ours
def test_writes_are_checked_as_they_come(store: Store) -> None:
    unfit = Message("x", message_id=message_id(1, ProducerId("x" * 300, 1, 1)))
    store.topic("AUDIT")

    with store.transaction() as transaction:
        queue, topic = transaction.queue("ORDERS"), transaction.topic("AUDIT")
        queue.add_message(Message("good"))
        with pytest.raises(InvalidMessage):
            queue.add_message(unfit)
        with pytest.raises(MessageNotFound):
            queue.update_message(Message("x", message_id=message_id(2)))
        with pytest.raises(InvalidMessage):
            queue.acknowledge(Message("x"))
        with pytest.raises(SubscriptionNotFound):
            topic.acknowledge_subscription("client", "nobody", 1)
        with pytest.raises(InvalidDestination):
            transaction.queue("topic://AUDIT")

    assert content(store.queue("ORDERS")) == ["good"]
    assert store.topic("AUDIT").message_count() == 0


@pytest.mark.one_writer
def test_one_that_cannot_commit_writes_nothing(store: Store) -> None:
    orders, topic = store.queue("ORDERS"), store.topic("AUDIT")
    gone, stays = topic.subscribe("client", "gone"), topic.subscribe("client", "stays")
    [old] = fill(orders, "old")
    [seen] = fill(topic, "seen")

    transaction = store.transaction()
    transaction.queue("ORDERS").add_message(Message("new"))
    transaction.queue("ORDERS").acknowledge(old)
    transaction.topic("AUDIT").acknowledge_subscription("client", "stays", seen)
    transaction.topic("AUDIT").acknowledge_subscription("client", "gone", seen)
    topic.unsubscribe("client", "gone")
    with pytest.raises(SubscriptionNotFound):
        transaction.commit()

    assert content(orders) == ["old"]
    assert content(stays) == ["seen"]
    with pytest.raises(SubscriptionNotFound):
        gone.recover()
    assert orders.add_message(Message("next")).sequence == 3
    with pytest.raises(TransactionError):
        transaction.commit()


@pytest.mark.one_writer
def test_many_destinations(store: Store) -> None:
    with store.transaction() as transaction:
        for number in range(120):
            transaction.queue(f"Q{number % 7}").add_message(Message(str(number)))
            transaction.topic(Destination.topic(f"T{number % 3}")).add_message(Message(str(number)))

    assert content(store.queue("Q3")) == [str(number) for number in range(3, 120, 7)]
    assert content(store.topic("T2")) == [str(number) for number in range(2, 120, 3)]
    assert store.last_sequence() == 240


def test_two_at_once(store: Store) -> None:
    first, second = store.transaction(), store.transaction()
    first.queue("ORDERS").add_message(Message("first"))
    second.queue("ORDERS").add_message(Message("second"))
    first.queue("ORDERS").add_message(Message("third"))

    second.commit()
    first.commit()

    assert content(store.queue("ORDERS")) == ["second", "first", "third"]


def test_acknowledging_one_message_in_two_transactions(store: Store) -> None:
    [reference] = fill(store.queue("ORDERS"), "a")
    first, second = store.transaction(), store.transaction()
    for transaction, name in ((first, "one"), (second, "two")):
        transaction.queue("ORDERS").acknowledge(reference)
        transaction.queue("DONE").add_message(Message(name))

    first.commit()
    second.commit()

    assert content(store.queue("DONE")) == ["one", "two"]


def test_updating_a_message_that_goes_meanwhile(store: Store, queue: MessageStore) -> None:
    [reference] = fill(queue, "a")
    transaction = store.transaction()
    transaction.queue("ORDERS").update_message(queue.get_message(reference.sequence).replace(body="A"))
    queue.acknowledge(reference)

    transaction.commit()

    assert queue.message_count() == 0


def test_nothing_is_written_before_the_commit(store: Store, database: RawTables) -> None:
    count = "SELECT COUNT(*) FROM ACTIVEMQ_MSGS"
    transaction = store.transaction()
    for number in range(20):
        transaction.queue(f"Q{number}").add_message(Message("a"))
    assert database.rows(count) == [(0,)]

    transaction.commit()

    assert database.rows(count) == [(20,)]
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS WHERE XID IS NOT NULL") == [(0,)]


def test_a_subscription_that_was_deleted_is_told_at_once(store: Store, topic: TopicMessageStore) -> None:
    for delete in (
        lambda: topic.unsubscribe("client", "ticker"),
        lambda: store.delete_destination(topic.destination),
    ):
        subscription = topic.subscribe("client", "ticker")
        [reference] = fill(topic, "a")
        subscription.acknowledge(reference)
        delete()
        with store.transaction() as transaction, pytest.raises(SubscriptionNotFound):
            transaction.topic("PRICES").acknowledge_subscription("client", "ticker", reference)
