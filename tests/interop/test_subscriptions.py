"""A durable subscription made by one broker is continued by the other: nothing lost, nothing twice."""

from __future__ import annotations

import pytest

from jdbcstore.errors import SubscriptionExists, SubscriptionNotFound
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message
from tests.interop.conftest import OpenStore, StartBroker
from tests.support.broker.openwire import jms
from tests.support.databases import Database
from tests.support.interop.activemq import PeerError
from tests.support.interop.subscriptions import (
    CLIENT,
    NAME,
    TOPIC,
    acknowledge,
    add,
    bodies,
    everything_left,
    pending,
    receive,
    send,
    subscription,
)

pytestmark = pytest.mark.backends("postgresql", "mariadb", "mysql")


def test_jdbcstore_continues_a_subscription_and_gives_it_back(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq() as broker:
        broker.subscribe(TOPIC, CLIENT, NAME)
        send(broker, *"abcde")
        assert receive(broker, 2) == ["a", "b"]

    with open_jdbcstore() as store:
        subscribed = subscription(store)
        assert pending(subscribed) == ["c", "d", "e"]
        acknowledge(subscribed, "c")
        add(store, "f")
        assert pending(subscribed) == ["d", "e", "f"]

    with activemq() as broker:
        assert receive(broker, 1) == ["d"]
        assert everything_left(broker) == ["e", "f"]

    with open_jdbcstore() as store:
        assert pending(subscription(store)) == []


def test_activemq_continues_a_subscription_and_gives_it_back(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with open_jdbcstore() as store:
        add(store, "before")
        store.topic(TOPIC).subscribe(CLIENT, NAME)
        add(store, *"abcde")
        acknowledge(subscription(store), "a", "b")

    with activemq() as broker:
        assert receive(broker, 2) == ["c", "d"]
        send(broker, "f")

    with open_jdbcstore() as store:
        assert pending(subscription(store)) == ["e", "f"]


def test_a_retroactive_subscription_gets_what_was_stored_before(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with open_jdbcstore() as store:
        add(store, "before")
        store.topic(TOPIC).subscribe(CLIENT, NAME, retroactive=True)

    with activemq() as broker:
        assert everything_left(broker) == ["before"]


def test_acknowledgements_out_of_order_lose_nothing_with_activemq(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database
) -> None:
    with open_jdbcstore() as store:
        store.topic(TOPIC).subscribe(CLIENT, NAME)
        add(store, *"abcdef")
        acknowledge(subscription(store), "a", "c", "e")

    with activemq() as broker:
        left = everything_left(broker)

    # ActiveMQ knows a mark only: it delivers c and e again, and misses none of the others.
    assert left == ["b", "c", "d", "e", "f"]
    with open_jdbcstore() as store:
        assert pending(subscription(store)) == []
        store.cleanup()
    assert database.rows("SELECT * FROM JDBCSTORE_ACKS") == []


def test_acknowledgements_out_of_order_survive_a_turn_of_activemq(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with open_jdbcstore() as store:
        store.topic(TOPIC).subscribe(CLIENT, NAME)
        add(store, *"abcdef")
        acknowledge(subscription(store), "c", "e")

    with activemq() as broker:
        assert receive(broker, 1) == ["a"]
        send(broker, "g")

    with open_jdbcstore() as store:
        assert pending(subscription(store)) == ["b", "d", "f", "g"]
        acknowledge(subscription(store), "b", "d")

    with activemq() as broker:
        assert everything_left(broker) == ["f", "g"]


def test_activemq_skips_what_is_before_an_acknowledged_message(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with activemq() as broker:
        broker.subscribe(TOPIC, CLIENT, NAME)
        send(broker, *"abcdef")
        with jms.Jms(broker.openwire_url, jms.INDIVIDUAL, client_id=CLIENT) as client:
            topic = client.session.createTopic(TOPIC.removeprefix("topic://"))
            subscriber = client.session.createDurableSubscriber(topic, NAME)
            messages = [jms.take(subscriber) for _ in range(4)]
            messages[3].acknowledge()

    # It stores the number of d, without a trace of a, b and c.
    with open_jdbcstore() as store:
        assert pending(subscription(store)) == ["e", "f"]
    with activemq() as broker:
        assert everything_left(broker) == ["e", "f"]


def test_ids_that_activemq_gives_anew_are_not_taken_for_acknowledged_ones(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database
) -> None:
    with open_jdbcstore() as store:
        store.topic(TOPIC).subscribe(CLIENT, NAME)
        old = [reference.sequence for reference in store.topic(TOPIC).add_messages(map(Message, "abcd"))]
        acknowledge(subscription(store), "b", "d")

    with activemq() as broker:
        broker.unsubscribe(CLIENT, NAME)
    database.execute("DELETE FROM ACTIVEMQ_MSGS")  # what was left of the topic is now nobody's
    with activemq() as broker:
        broker.subscribe(TOPIC, CLIENT, NAME)
        send(broker, *"wxyz")
    assert [row[0] for row in database.rows("SELECT ID FROM ACTIVEMQ_MSGS ORDER BY ID")] == old

    with open_jdbcstore() as store:
        assert pending(subscription(store)) == ["w", "x", "y", "z"]


def test_a_selector_is_kept(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with activemq() as broker:
        broker.subscribe(TOPIC, CLIENT, NAME, selector="colour = 'red'")

    with open_jdbcstore() as store:
        [info] = store.topic(TOPIC).subscriptions()
        assert (info.client_id, info.subscription_name) == (CLIENT, NAME)
        assert info.selector == "colour = 'red'"
        assert info.subscribed_destination == Destination.topic("PRICES")
        with pytest.raises(SubscriptionExists):
            store.topic(TOPIC).subscribe(CLIENT, NAME, selector="colour = 'blue'")
        store.topic(TOPIC).add_message(Message("no", properties={"colour": "blue"}))
        store.topic(TOPIC).add_message(Message("yes", properties={"colour": "red"}))

    with activemq() as broker:
        received = broker.durable_receive(TOPIC, CLIENT, NAME, 1, selector="colour = 'red'")
        assert bodies(received) == ["yes"]


def test_a_selector_of_jdbcstore_is_applied_by_activemq(
    activemq: StartBroker, open_jdbcstore: OpenStore
) -> None:
    with open_jdbcstore() as store:
        store.topic(TOPIC).subscribe(CLIENT, NAME, selector="n > 1")
        for n in range(4):
            store.topic(TOPIC).add_message(Message(str(n), properties={"n": n}))

    with activemq() as broker:
        assert bodies(broker.durable_receive(TOPIC, CLIENT, NAME, 2, selector="n > 1")) == ["2", "3"]


def test_an_unsubscribe_by_either_is_one_for_both(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database
) -> None:
    with open_jdbcstore() as store:
        store.topic(TOPIC).subscribe(CLIENT, NAME)
        store.topic(TOPIC).subscribe(CLIENT, "other")

    with activemq() as broker:
        broker.unsubscribe(CLIENT, NAME)

    with open_jdbcstore() as store:
        assert [info.subscription_name for info in store.topic(TOPIC).subscriptions()] == ["other"]
        with pytest.raises(SubscriptionNotFound):
            subscription(store)
        store.topic(TOPIC).unsubscribe(CLIENT, "other")
    assert database.rows("SELECT * FROM ACTIVEMQ_ACKS") == []

    with activemq() as broker, pytest.raises(PeerError, match="InvalidDestinationException"):
        broker.unsubscribe(CLIENT, "other")


def test_either_cleans_up_what_both_have_acknowledged(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database
) -> None:
    def stored() -> int:
        return len(database.rows("SELECT ID FROM ACTIVEMQ_MSGS"))

    with activemq() as broker:
        broker.subscribe(TOPIC, CLIENT, NAME)
        send(broker, *"abcdef")
        receive(broker, 2)

    with open_jdbcstore() as store:
        assert store.cleanup() == 2
        assert stored() == 4
        acknowledge(subscription(store), "c", "e")

    with activemq() as broker:
        broker.cleanup()
        assert stored() == 3  # e is ahead of the mark, which is all that ActiveMQ looks at
        assert everything_left(broker) == ["d", "e", "f"]

    with open_jdbcstore() as store:
        store.cleanup()
    assert stored() == 0


def test_subscriptions_of_two_clients_are_apart(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with activemq() as broker:
        broker.subscribe(TOPIC, CLIENT, NAME)
        broker.subscribe(TOPIC, "client-2", NAME)
        send(broker, *"abc")
        receive(broker, 3)

    with open_jdbcstore() as store:
        assert pending(subscription(store)) == []
        second = store.topic(TOPIC).subscription("client-2", NAME)
        assert pending(second) == ["a", "b", "c"]
        acknowledge(second, "a")

    with activemq() as broker:
        assert bodies(broker.durable_receive(TOPIC, "client-2", NAME, 2)) == ["b", "c"]
        assert everything_left(broker) == []
