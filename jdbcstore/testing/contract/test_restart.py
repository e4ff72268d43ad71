"""A store that is opened again: everything is there, and no sequence comes twice."""

from __future__ import annotations

import pytest

from jdbcstore import Message, MessageReference, SubscriptionInfo
from jdbcstore.errors import MessageNotFound
from jdbcstore.testing.messages import content, fill, message_id
from jdbcstore.testing.provider import OpenStore
from jdbcstore.testing.tables import RawTables
from jdbcstore.testing.without import ONE_STORE, TOPICS_ELSEWHERE

pytestmark = pytest.mark.needs("durable")


@TOPICS_ELSEWHERE
def test_everything_is_there(open_store: OpenStore) -> None:
    store = open_store()
    queue, topic = store.queue("ORDERS"), store.topic("PRICES")
    topic.subscribe("client", "ticker", selector="a = 1")
    fill(queue, "a", "b", "c")
    queue.acknowledge(queue.recover()[1])
    d, _ = fill(topic, "d", "e")
    topic.subscription("client", "ticker").acknowledge(d)
    queue.update_message(queue.recover()[0].replace(redelivery_counter=3))
    before = [*queue.recover(), *topic.recover()]
    statistics = queue.statistics()
    store.close()

    store = open_store()
    queue, topic = store.queue("ORDERS"), store.topic("PRICES")

    assert [*queue.recover(), *topic.recover()] == before
    assert queue.recover()[0].redelivery_counter == 3
    assert queue.statistics() == statistics
    assert topic.subscriptions() == [
        SubscriptionInfo("client", "ticker", topic.destination, topic.destination, "a = 1")
    ]
    assert content(topic.subscription("client", "ticker")) == ["e"]
    assert store.last_sequence() == 5
    assert fill(queue, "f")[0].sequence == 6


@ONE_STORE
@pytest.mark.needs("shared")
def test_two_stores_at_once_see_each_other_s_messages(open_store: OpenStore) -> None:
    first, second = open_store(), open_store()

    sequences = [
        reference.sequence
        for _ in range(5)
        for store in (first, second)
        for reference in fill(store.queue("ORDERS"), "x", "y")
    ]

    assert len(set(sequences)) == 20
    assert first.queue("ORDERS").message_count() == second.queue("ORDERS").message_count() == 20
    second.queue("ORDERS").acknowledge(*first.queue("ORDERS").recover())
    assert first.queue("ORDERS").message_count() == 0


@pytest.mark.parametrize("end", ["closed", "drained"])
def test_sequences_go_on(open_store: OpenStore, end: str) -> None:
    last = 0
    for _ in range(4):
        store = open_store()
        assert store.last_sequence() == last
        queue = store.queue("ORDERS")
        for reference in (*fill(queue, "a", "b"), *fill(queue, "c")):
            assert reference.sequence == last + 1
            last += 1
        if end == "drained":
            queue.remove_all_messages()
        assert store.last_sequence() == last
        store.close()


def test_a_late_acknowledgement_removes_nothing_new(open_store: OpenStore) -> None:
    """ActiveMQ starts its IDs again in drained tables, and this one would hit another message."""
    store = open_store()
    [old] = fill(store.queue("ORDERS"), "old")
    store.queue("ORDERS").acknowledge(old)
    store.close()

    store = open_store()
    fill(store.queue("ORDERS"), "new")
    store.queue("ORDERS").acknowledge(old)

    assert content(store.queue("ORDERS")) == ["new"]
    with pytest.raises(MessageNotFound):
        store.queue("ORDERS").get_message(old.sequence)


@TOPICS_ELSEWHERE
def test_behind_what_an_activemq_wrote(open_store: OpenStore, database: RawTables) -> None:
    store = open_store()
    fill(store.queue("ORDERS"), "a")
    store.close()
    database.execute("UPDATE ACTIVEMQ_MSGS SET ID = 70000")
    store = open_store()
    assert store.last_sequence() == 70_000
    assert fill(store.queue("ORDERS"), "b")[0].sequence == 70_001
    store.topic("PRICES").subscribe("client", "ticker")
    store.close()

    database.execute("DELETE FROM ACTIVEMQ_MSGS")
    database.execute("UPDATE ACTIVEMQ_ACKS SET LAST_ACKED_ID = 90000")
    store = open_store()

    assert fill(store.queue("ORDERS"), "c")[0].sequence == 90_001


def test_references_outlive_the_store(open_store: OpenStore) -> None:
    store = open_store()
    reference = store.queue("ORDERS").add_message(Message("a", message_id=message_id(1)))
    kept = MessageReference(*reference)
    store.close()

    store = open_store()
    store.queue("ORDERS").acknowledge(kept)
    store.close()

    assert open_store().queue("ORDERS").message_count() == 0
