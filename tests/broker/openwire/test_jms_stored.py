"""What the store holds of messages that ActiveMQ's JMS client has sent: the bytes in which they came."""

from __future__ import annotations

import random
from typing import Any

import jpype
import pytest

from jdbcstore import Store
from jdbcstore.config.policy import PolicyEntry, RedeliveryPolicy
from jdbcstore.message.destination import Destination
from jdbcstore.testing.polling import wait_until
from tests.support.broker.openwire.jms import NON_PERSISTENT, Jms, take
from tests.support.broker.openwire.serving import Served

pytestmark = [pytest.mark.backends("memory"), pytest.mark.usefixtures("java_client")]


@pytest.fixture
def client(broker_url: str) -> Any:
    with Jms(broker_url, jms__copyMessageOnSend="false") as client:
        yield client


def content(message: Any) -> bytes:
    """The bytes of the body, as they are on the wire."""
    data = message.getContent()
    assert data is not None
    return bytes(data.getData())[data.getOffset() : data.getOffset() + data.getLength()]


def test_the_stored_bytes_are_those_that_were_sent(client: Jms, store: Store) -> None:
    message = client.text("body", k="v")
    client.send("Q", message)
    [stored] = store.queue("Q").recover()
    assert stored._source.content == content(message)
    assert stored.body == "body"
    assert stored.properties == {"k": "v"}


def test_an_object_is_passed_on_and_never_deserialised(client: Jms, store: Store) -> None:
    numbers = jpype.JClass("java.util.ArrayList")([1, 2, 3])
    message = client.session.createObjectMessage(numbers)
    client.send("Q", message)
    [stored] = store.queue("Q").recover()
    assert stored.body == content(message)
    assert [*take(client.consumer("Q")).getObject()] == [1, 2, 3]


def test_a_compressed_body_is_not_inflated(broker_url: str, store: Store) -> None:
    with Jms(broker_url, jms__useCompression="true", jms__copyMessageOnSend="false") as client:
        message = client.text("y" * 5000)
        client.send("Q", message)
        [stored] = store.queue("Q").recover()
        assert stored.compressed
        assert stored._source.content == content(message)


def test_a_large_message(client: Jms) -> None:
    data = random.Random(2).randbytes(20_000_000)
    message = client.session.createBytesMessage()
    message.writeBytes(data)
    client.send("Q", message)
    assert content(take(client.consumer("Q"))) == data


def test_headers(client: Jms, store: Store) -> None:
    message = client.text("x")
    message.setJMSCorrelationID("correlation")
    message.setJMSType("kind")
    message.setJMSReplyTo(client.session.createQueue("ANSWERS"))
    message.setStringProperty("JMSXGroupID", "group")
    message.setIntProperty("JMSXGroupSeq", 3)
    client.send("Q", message, priority=7, ttl=3_600_000)
    [stored] = store.queue("Q").recover()
    assert str(stored.message_id) == str(message.getJMSMessageID())
    assert stored.timestamp_ms == message.getJMSTimestamp()
    assert stored.expiration_ms == message.getJMSExpiration()
    assert stored.broker_in_time_ms >= message.getJMSTimestamp()
    assert (stored.priority, stored.correlation_id, stored.jms_type) == (7, "correlation", "kind")
    assert (stored.group_id, stored.group_sequence) == ("group", 3)
    assert stored.reply_to == Destination.queue("ANSWERS")


def test_messages_that_are_not_persistent(client: Jms, store: Store) -> None:
    client.send("Q", client.text("x"), mode=NON_PERSISTENT)
    assert client.texts(client.consumer("Q"), 1) == ["x"]
    assert store.destinations() == []


def test_temporary_queues(client: Jms, store: Store) -> None:
    queue = client.session.createTemporaryQueue()
    client.send(queue, "x")
    assert client.texts(client.consumer(queue), 1) == ["x"]
    assert all(not destination.is_temporary for destination in store.destinations())


def test_subscriptions(broker_url: str, store: Store) -> None:
    for client_id in ("a", "b"):
        with Jms(broker_url, client_id=client_id) as client:
            topic = client.session.createTopic("T")
            client.session.createDurableSubscriber(topic, "s").close()
    subscriptions = store.topic("T").subscriptions()
    assert {(one.client_id, one.subscription_name) for one in subscriptions} == {("a", "s"), ("b", "s")}
    with Jms(broker_url, client_id="a") as client:
        client.session.unsubscribe("s")
    assert {one.client_id for one in store.topic("T").subscriptions()} == {"b"}


def test_dead_letters(broker_url: str, store: Store) -> None:
    with Jms(broker_url, None, jms__redeliveryPolicy__maximumRedeliveries=0) as client:
        client.send("Q", "x")
        client.session.commit()
        take(client.consumer("Q"))
        client.session.rollback()
        wait_until(lambda: not [*store.queue("Q").recover()], what="that it is dead")
    [dead] = store.queue("ActiveMQ.DLQ").recover()
    assert dead.original_destination == Destination.queue("Q")


def test_a_policy_without_priorities_among_consumers(store: Store) -> None:
    policy = PolicyEntry(queue=">", use_consumer_priority=False)
    with Served(store, policy) as served, Jms(served.url) as one, Jms(served.url) as two:
        low, high = one.consumer("Q"), two.consumer("Q?consumer.priority=10")
        one.send("Q", "a", "b")
        assert sorted([*one.texts(low, 1), *two.texts(high, 1)]) == ["a", "b"]


@pytest.mark.parametrize("topic", [False, True])
def test_a_redelivery_policy_of_the_broker_beside_the_clients(store: Store, topic: bool) -> None:
    """The client hands out what the broker redelivers, though its own policy allows no redelivery."""
    again = RedeliveryPolicy(maximum_redeliveries=2, initial_redelivery_delay=0.01, redelivery_delay=0.01)
    with (
        Served(store, PolicyEntry(redelivery_policy=again)) as served,
        Jms(served.url, None, client_id="c", jms__redeliveryPolicy__maximumRedeliveries=0) as client,
    ):
        name = "topic://T" if topic else "Q"
        destination, session = client.destination(name), client.session
        consumer = session.createDurableSubscriber(destination, "s") if topic else client.consumer(name)
        client.send(name, "x")
        session.commit()
        for count in range(3):
            message = take(consumer)
            assert message.getIntProperty("JMSXDeliveryCount") == count + 1
            assert message.propertyExists("redeliveryDelay") == (count > 0)
            session.rollback()
        assert client.texts(client.consumer("ActiveMQ.DLQ"), 1) == ["x"]
