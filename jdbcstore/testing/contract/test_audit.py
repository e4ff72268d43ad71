"""The duplicate audit: a message that is sent again is not stored again."""

from __future__ import annotations

import pytest

from jdbcstore import Message, MessageStore, ProducerId, Store
from jdbcstore.errors import InvalidMessage, SchemaError
from jdbcstore.testing.messages import content, message_id
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import NO_WAITING


@pytest.fixture
def audited(open_store: OpenStore) -> Store:
    return open_store(enable_audit=True)


def send(destination: MessageStore, number: int, body: str = "a") -> int:
    return destination.add_message(Message(body, message_id=message_id(number))).sequence


@pytest.mark.ours
def test_off_by_default(queue: MessageStore) -> None:
    assert [send(queue, 1), send(queue, 1)] == [1, 2]
    assert queue.message_count() == 2


def test_a_duplicate_is_not_stored(audited: Store) -> None:
    queue = audited.queue("ORDERS")
    original = Message("a", message_id=message_id(7))

    assert queue.add_message(original).sequence == 1
    again = queue.add_message(original)
    later = queue.add_message_async(original).result(180)

    assert again == later == (-1, message_id(7))
    assert content(queue) == ["a"]
    assert send(queue, 8) == 2


@pytest.mark.one_writer
@pytest.mark.ours
def test_across_destinations(audited: Store) -> None:
    """As in ActiveMQ: one audit for the whole store."""
    assert send(audited.queue("A"), 1) == 1
    assert send(audited.topic("B"), 1) == -1
    assert audited.destinations() == [audited.queue("A").destination]


@pytest.mark.ours
def test_after_it_was_acknowledged(audited: Store) -> None:
    queue = audited.queue("ORDERS")
    queue.acknowledge(send(queue, 1))

    assert send(queue, 1) == -1
    assert queue.message_count() == 0


@pytest.mark.ours
def test_among_many(audited: Store) -> None:
    queue = audited.queue("ORDERS")
    send(queue, 2)

    references = queue.add_messages(Message(str(n), message_id=message_id(n)) for n in (1, 2, 3, 3, 4))

    assert [reference.sequence for reference in references] == [2, -1, 3, -1, 4]
    assert [reference.message_id for reference in references] == [message_id(n) for n in (1, 2, 3, 3, 4)]
    assert content(queue) == ["a", "1", "3", "4"]
    assert [r.sequence for r in queue.add_messages([Message("x", message_id=message_id(1))])] == [-1]


@pytest.mark.ours
def test_in_a_transaction(audited: Store) -> None:
    queue = audited.queue("ORDERS")
    send(queue, 1)
    dropped = audited.transaction()
    dropped.queue("ORDERS").add_message(Message("dropped", message_id=message_id(3)))
    dropped.rollback()

    transaction = audited.transaction()
    for number in (1, 2, 2, 3):
        transaction.queue("ORDERS").add_message(Message(str(number), message_id=message_id(number)))
    references = transaction.commit()

    assert [reference.sequence for reference in references] == [-1, 2, -1, 3]
    assert [reference.message_id for reference in references] == [message_id(n) for n in (1, 2, 2, 3)]
    assert content(queue) == ["a", "2", "3"]
    assert send(queue, 2) == -1


@pytest.mark.ours
def test_out_of_order_and_far_apart(audited: Store) -> None:
    queue = audited.queue("ORDERS")
    first = [5, 1, 3, 1_000, 999, 4]

    assert all(send(queue, number) > 0 for number in first)
    assert all(send(queue, number) == -1 for number in first)
    assert send(queue, 2) > 0


@pytest.mark.ours
def test_below_the_window_everything_is_new(open_store: OpenStore) -> None:
    queue = open_store(enable_audit=True, max_audit_depth=10).queue("ORDERS")
    for number in (1, 100, 90):
        assert send(queue, number) > 0

    assert send(queue, 90) == -1
    assert send(queue, 1) > 0
    assert send(queue, 89) > 0


@pytest.mark.ours
def test_the_producer_that_was_silent_longest_is_forgotten(open_store: OpenStore) -> None:
    queue = open_store(enable_audit=True, max_producers_to_audit=2).queue("ORDERS")
    first, two, three = (ProducerId("ID:a-1-1:1", 1, value) for value in (1, 2, 3))

    def is_new(producer: ProducerId) -> bool:
        return queue.add_message(Message("x", message_id=message_id(1, producer))).sequence > 0

    assert is_new(first)
    assert is_new(two)
    assert not is_new(first)
    assert is_new(three)  # two goes
    assert not is_new(first)
    assert is_new(two)


@NO_WAITING
def test_what_was_refused_may_come_again(audited: Store, database: RawTables) -> None:
    """The database refuses the row after the audit has seen it."""
    queue = audited.queue("ORDERS")
    database.rename("ACTIVEMQ_MSGS", "HIDDEN")
    with pytest.raises(SchemaError):
        send(queue, 1)
    with pytest.raises(SchemaError):
        queue.add_message_async(Message("a", message_id=message_id(1))).result(180)
    with pytest.raises(SchemaError):
        queue.add_messages([Message("a", message_id=message_id(1))])
    database.rename("HIDDEN", "ACTIVEMQ_MSGS")

    assert send(queue, 1) > 0
    assert send(queue, 1) == -1


@pytest.mark.ours
def test_what_cannot_be_encoded_may_come_again(audited: Store) -> None:
    queue = audited.queue("ORDERS")
    bad = ProducerId("x" * 300, 1, 1)
    for _ in range(2):
        with pytest.raises(InvalidMessage):
            queue.add_message(Message("a", message_id=message_id(1, bad)))


def test_it_remembers_what_is_stored(open_store: OpenStore, database: RawTables) -> None:
    store = open_store(enable_audit=True)
    for number in range(1, 6):
        send(store.queue("ORDERS"), number)
    store.queue("ORDERS").acknowledge(message_id(2))
    store.close()

    queue = open_store(enable_audit=True, audit_recovery_depth=3).queue("ORDERS")

    assert [send(queue, number) > 0 for number in range(1, 6)] == [True, True, False, False, False]
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(6,)]
