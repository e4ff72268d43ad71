"""ActiveMQ's JMS client: topics, and their durable subscriptions."""

from __future__ import annotations

import pytest

from jdbcstore import Store
from tests.support.broker.openwire.jms import NON_PERSISTENT, Jms, refused, take
from tests.support.polling import wait_until

pytestmark = pytest.mark.backends("memory")


def test_every_subscriber_gets_every_message(broker_url: str) -> None:
    with Jms(broker_url) as one, Jms(broker_url) as two:
        consumers = [one.consumer("topic://T"), two.consumer("topic://T"), one.consumer("topic://>")]
        two.send("topic://T", "a", "b")
        for client, consumer in zip((one, two, one), consumers, strict=True):
            assert client.texts(consumer, 2) == ["a", "b"]


def test_a_subscriber_gets_what_comes_after_it(broker_url: str) -> None:
    with Jms(broker_url) as client:
        client.send("topic://T", "before")
        consumer = client.consumer("topic://T")
        client.send("topic://T", "after", mode=NON_PERSISTENT)
        assert client.texts(consumer, 1) == ["after"]


def test_no_local(broker_url: str) -> None:
    with Jms(broker_url) as one, Jms(broker_url) as two:
        consumer = one.consumer("topic://T", None, True)
        one.send("topic://T", "mine")
        two.send("topic://T", "another's")
        assert one.texts(consumer, 1) == ["another's"]


def test_a_selector_of_a_topic(broker_url: str) -> None:
    with Jms(broker_url) as client:
        consumer = client.consumer("topic://T", "k = '2'")
        client.send("topic://T", client.text("a", k="1"), client.text("b", k="2"))
        assert client.texts(consumer, 1) == ["b"]


def subscribe(client: Jms, name: str = "sub", selector: str | None = None) -> object:
    return client.session.createDurableSubscriber(client.session.createTopic("T"), name, selector, False)


def test_a_durable_subscription_waits_for_its_client(broker_url: str) -> None:
    with Jms(broker_url, client_id="c") as client:
        subscribe(client)
    with Jms(broker_url) as producer:
        producer.send("topic://T", "1", "2")
    with Jms(broker_url, client_id="c") as client:
        assert client.texts(subscribe(client), 2) == ["1", "2"]
        client.send("topic://T", "3")
    with Jms(broker_url, client_id="c") as client:
        assert client.texts(subscribe(client), 1) == ["3"]


def test_a_durable_subscription_in_a_transaction(broker_url: str) -> None:
    with Jms(broker_url, None, client_id="c") as client:
        consumer = subscribe(client)
        client.send("topic://T", "1", "2")
        client.session.commit()
        assert client.texts(consumer, 2) == ["1", "2"]
        client.session.rollback()
        assert client.texts(consumer, 1) == ["1"]
        client.session.commit()
    with Jms(broker_url, None, client_id="c") as client:
        assert client.texts(subscribe(client), 1) == ["2"]


def test_another_selector_starts_anew(broker_url: str) -> None:
    with Jms(broker_url, client_id="c") as client:
        subscribe(client, selector="k = '1'")
    with Jms(broker_url, client_id="c") as client:
        client.send("topic://T", client.text("lost", k="1"))
        consumer = subscribe(client, selector="k = '2'")
        client.send("topic://T", client.text("a", k="1"), client.text("b", k="2"))
        assert client.texts(consumer, 1) == ["b"]


def test_a_durable_subscription_has_one_consumer(broker_url: str) -> None:
    with Jms(broker_url, client_id="c") as client:
        subscribe(client)
        with refused("JMSException"):
            client.new_session(1).createDurableSubscriber(client.session.createTopic("T"), "sub")


def test_unsubscribing(broker_url: str, store: Store) -> None:
    with Jms(broker_url, client_id="c") as client:
        consumer = subscribe(client)
        with refused("JMSException"):
            client.session.unsubscribe("sub")
        consumer.close()  # type: ignore[attr-defined]
        client.session.unsubscribe("sub")
        assert [*store.topic("T").subscriptions()] == []
        with refused("InvalidDestinationException"):
            client.session.unsubscribe("sub")


def test_subscriptions_belong_to_their_clients(broker_url: str, store: Store) -> None:
    for client_id in ("a", "b"):
        with Jms(broker_url, client_id=client_id) as client:
            subscribe(client)
    subscriptions = store.topic("T").subscriptions()
    assert {one.client_id for one in subscriptions} == {"a", "b"}


def test_a_client_id_has_one_connection(broker_url: str) -> None:
    with Jms(broker_url, client_id="c"), refused("InvalidClientIDException"):
        Jms(broker_url, client_id="c")

    def is_free() -> bool:
        with Jms(broker_url, client_id="c") as client:
            return bool(client.connection.getClientID() == "c")

    wait_until(is_free, 30, "that the client id is free")


def test_retroactive_subscribers_are_accepted(broker_url: str) -> None:
    with Jms(broker_url) as client:
        consumer = client.consumer("topic://T?consumer.retroactive=true")
        client.send("topic://T", "x")
        assert str(take(consumer).getText()) == "x"
