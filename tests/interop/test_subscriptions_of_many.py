"""Durable subscriptions with several rows, by wildcard or by priority, are continued by either broker."""

from __future__ import annotations

import pytest

from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from tests.interop.conftest import ACKS_PRIMARY_KEY, OpenStore, StartBroker
from tests.support.databases import Database
from tests.support.interop.messages import text
from tests.support.interop.subscriptions import (
    CLIENT,
    NAME,
    TOPIC,
    acknowledge,
    add,
    everything_left,
    pending,
    receive,
    send,
    subscription,
)

pytestmark = pytest.mark.backends("postgresql", "mariadb", "mysql")

WILD = "topic://STOCKS.>"
MEMBERS = ("topic://STOCKS.a", "topic://STOCKS.b")


def test_a_wildcard_subscription_of_activemq(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with activemq() as broker:
        broker.subscribe(WILD, CLIENT, NAME)
        for topic in MEMBERS:
            send(broker, f"1 {topic}", f"2 {topic}", topic=topic)

    with open_jdbcstore() as store:
        for topic in MEMBERS:
            subscribed = subscription(store, topic)
            assert subscribed.info.subscribed_destination == Destination.parse(WILD)
            assert pending(subscribed) == [f"1 {topic}", f"2 {topic}"]
        acknowledge(subscription(store, MEMBERS[0]), f"1 {MEMBERS[0]}")

    with activemq() as broker:
        assert sorted(receive(broker, 3, WILD)) == sorted(
            [f"2 {MEMBERS[0]}", f"1 {MEMBERS[1]}", f"2 {MEMBERS[1]}"]
        )

    with open_jdbcstore() as store:
        assert [pending(subscription(store, topic)) for topic in MEMBERS] == [[], []]


def test_a_wildcard_subscription_of_jdbcstore(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with open_jdbcstore() as store:
        for topic in MEMBERS:
            store.topic(topic).subscribe(CLIENT, NAME, subscribed_destination=Destination.parse(WILD))
            add(store, f"1 {topic}", f"2 {topic}", topic=topic)
        acknowledge(subscription(store, MEMBERS[1]), f"1 {MEMBERS[1]}")

    with activemq() as broker:
        assert sorted(receive(broker, 3, WILD)) == sorted(
            [f"1 {MEMBERS[0]}", f"2 {MEMBERS[0]}", f"2 {MEMBERS[1]}"]
        )

    with open_jdbcstore() as store:
        assert [pending(subscription(store, topic)) for topic in MEMBERS] == [[], []]


PRIORITIES = [4, 0, 9, 4, 7, 9]
BY_PRIORITY = ["2", "5", "4", "0", "3", "1"]
PRIORITISED = {"prioritized": [TOPIC], "acks_primary_key": ACKS_PRIMARY_KEY}


def test_a_prioritised_subscription_of_activemq(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database
) -> None:
    with activemq(**PRIORITISED) as broker:
        broker.subscribe(TOPIC, CLIENT, NAME)
        broker.send(TOPIC, [text(str(i), priority=p) for i, p in enumerate(PRIORITIES)])
        assert receive(broker, 2) == BY_PRIORITY[:2]

    with open_jdbcstore() as store:
        assert store.topic(TOPIC).prioritized
        subscribed = subscription(store)
        assert pending(subscribed) == BY_PRIORITY[2:]
        subscribed.acknowledge(subscribed.recover(limit=1)[0])
        store.topic(TOPIC).add_message(Message("late", priority=8))

    with activemq(**PRIORITISED) as broker:
        assert everything_left(broker) == ["late", *BY_PRIORITY[3:]]

    with open_jdbcstore() as store:
        assert pending(subscription(store)) == []
        store.cleanup()
    assert database.rows("SELECT ID FROM ACTIVEMQ_MSGS") == []


def test_a_prioritised_subscription_of_jdbcstore(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database
) -> None:
    with activemq(**PRIORITISED):
        pass  # on PostgreSQL only a table made so can hold one
    with open_jdbcstore() as store:
        topic = store.topic(TOPIC, prioritized=True)
        subscribed = topic.subscribe(CLIENT, NAME)
        topic.add_messages(Message(str(i), priority=p) for i, p in enumerate(PRIORITIES))
        subscribed.acknowledge(*subscribed.recover(limit=2))
    rows = database.rows("SELECT PRIORITY FROM ACTIVEMQ_ACKS ORDER BY PRIORITY")
    assert rows == [(priority,) for priority in range(10)]

    with activemq(**PRIORITISED) as broker:
        assert receive(broker, 2) == BY_PRIORITY[2:4]

    with open_jdbcstore() as store:
        assert pending(subscription(store)) == BY_PRIORITY[4:]


def test_prioritised_acknowledgements_out_of_order(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with activemq(**PRIORITISED) as broker:
        broker.subscribe(TOPIC, CLIENT, NAME)
        broker.send(TOPIC, [text(str(i), priority=p) for i, p in enumerate(PRIORITIES)])

    with open_jdbcstore() as store:
        acknowledge(subscription(store), "5", "1")  # 2 of the same priority is before 5; 1 stands alone
        assert pending(subscription(store)) == ["2", "4", "0", "3"]

    with activemq(**PRIORITISED) as broker:
        left = everything_left(broker)
    assert left == ["2", "5", "4", "0", "3"]
