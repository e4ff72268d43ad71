"""Redelivery, dead letters, and messages that expire."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import jdbcstore
from jdbcstore import Message
from jdbcstore.errors import StoreUnavailable
from jdbcstore.testing.polling import wait_until
from tests.interop.jms.conftest import Connect, RunningBroker
from tests.support.broker.openwire.jms import (
    CLIENT,
    NON_PERSISTENT,
    Jms,
    activemq,
    elements,
    is_left,
    java,
    take,
)
from tests.support.interop.behaviours.brokers import MARKED

DEAD = "ActiveMQ.DLQ"
AT_ONCE: dict[str, Any] = {
    "jms__redeliveryPolicy__initialRedeliveryDelay": 0,
    "jms__redeliveryPolicy__redeliveryDelay": 1,
}


def buried(client: Jms, queue: str, count: int = 1) -> list[Any]:
    """The dead letters of a test, whose property ``of`` is its queue; once there are so many."""

    def found() -> list[Any]:
        browser = client.session.createBrowser(client.destination(DEAD), f"of = '{queue}'")
        messages = [*elements(browser.getEnumeration())]
        browser.close()
        return messages

    wait_until(lambda: len(found()) == count, what=f"that there are {count} dead letters")
    return found()


def test_a_message_that_is_rolled_back_too_often_is_dead(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, client.text("m1", of=queue), "m2")
    other = connect(None, **AT_ONCE, jms__redeliveryPolicy__maximumRedeliveries=2)
    consumer = other.consumer(f"{queue}?consumer.prefetchSize=1")
    counts = []
    for _ in range(3):
        message = take(consumer)
        assert str(message.getText()) == "m1"
        counts.append(message.getIntProperty("JMSXDeliveryCount"))
        other.session.rollback()
    assert counts == [1, 2, 3]
    assert other.texts(consumer, 1) == ["m2"]
    other.session.commit()
    [dead] = buried(client, queue)
    assert str(dead.getText()) == "m1"
    assert str(dead.getOriginalDestination()) == f"queue://{queue}"
    assert str(dead.getJMSDestination()) == f"queue://{DEAD}"
    cause = str(dead.getStringProperty("dlqDeliveryFailureCause"))
    assert cause.startswith("java.lang.Throwable: Delivery[3] exceeds redelivery policy limit:"), cause
    assert "maximumRedeliveries = 2" in cause


def test_a_message_that_is_recovered_too_often_is_dead(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, client.text("m1", of=queue))
    other = connect(CLIENT, **AT_ONCE, jms__redeliveryPolicy__maximumRedeliveries=1)
    consumer = other.consumer(queue)
    for _ in range(2):
        take(consumer)
        other.session.recover()
    [dead] = buried(client, queue)
    assert str(dead.getText()) == "m1"
    is_left(client, queue)


def test_no_redelivery_at_all(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, client.text("m1", of=queue))
    other = connect(None, jms__redeliveryPolicy__maximumRedeliveries=0)
    take(other.consumer(queue))
    other.session.rollback()
    assert len(buried(client, queue)) == 1


def test_redelivery_without_end(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, "m1")
    other = connect(None, **AT_ONCE, jms__redeliveryPolicy__maximumRedeliveries=-1)
    consumer = other.consumer(queue)
    for number in range(1, 20):
        assert take(consumer).getIntProperty("JMSXDeliveryCount") == number
        other.session.rollback()
    take(consumer)
    other.session.commit()
    is_left(client, queue)


def test_a_policy_for_one_destination(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, client.text("m1", of=queue))
    other = connect(None)
    policy = other.connection.getRedeliveryPolicy().copy()
    policy.setMaximumRedeliveries(0)
    other.connection.getRedeliveryPolicyMap().put(other.destination(queue), policy)
    take(other.consumer(queue))
    other.session.rollback()
    assert len(buried(client, queue)) == 1


def test_a_delay_that_does_not_block(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2")
    other = connect(
        None,
        jms__nonBlockingRedelivery="true",
        jms__redeliveryPolicy__initialRedeliveryDelay=200,
    )
    consumer = other.consumer(queue)
    other.texts(consumer, 1)
    other.session.rollback()
    assert other.texts(consumer, 2) == ["m2", "m1"]
    other.session.commit()
    is_left(client, queue)


def test_a_delivery_is_counted_over_connections(client: Jms, queue: str) -> None:
    client.send(queue, "m1")
    counts = []
    for _ in range(3):
        with Jms(client.url, CLIENT) as other:
            counts.append(int(take(other.consumer(queue)).getIntProperty("JMSXDeliveryCount")))
    assert counts == [1, 2, 3]


@contextmanager
def to_be_cut(client: Jms, **options: Any) -> Iterator[Jms]:
    """Another connection, with transactions, whose socket is closed at the end, before it can log out."""
    other = Jms(client.url, None, **AT_ONCE, **options)
    yield other
    other.connection.getTransport().narrow(activemq("transport.tcp.TcpTransport").class_).stop()
    with suppress(java("javax.jms.JMSException")):
        other.connection.close()


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_delivery_is_counted_when_a_connection_is_cut(client: Jms, queue: str, is_seen: bool) -> None:
    """Also if the client has not looked at the message: the broker does not know."""
    client.send(queue, "m1", "m2")
    with to_be_cut(client) as other:
        consumer = other.consumer(queue)
        if is_seen:
            assert other.texts(consumer, 1) == ["m1"]
        wait_until(lambda: consumer.getMessageSize() == 2 - is_seen, what="that both are prefetched")
    again = client.consumer(queue)
    messages = [take(again) for _ in range(2)]
    assert [str(message.getText()) for message in messages] == ["m1", "m2"]
    assert all(message.getJMSRedelivered() for message in messages)
    assert [int(message.getIntProperty("JMSXDeliveryCount")) for message in messages] == [2, 2]


def test_cut_connections_make_a_dead_letter(connect: Connect, client: Jms, queue: str) -> None:
    """The client to which it comes once too often rejects it before the consumer gets it."""
    client.send(queue, client.text("m1", of=queue))
    for count in (1, 2, 3):
        with to_be_cut(client, jms__redeliveryPolicy__maximumRedeliveries=2) as other:
            message = take(other.consumer(queue))
            assert message.getIntProperty("JMSXDeliveryCount") == count
    other = connect(None, jms__redeliveryPolicy__maximumRedeliveries=2)
    consumer = other.consumer(queue)
    client.send(queue, "m2")
    assert other.texts(consumer, 1) == ["m2"]
    [dead] = buried(client, queue)
    cause = str(dead.getStringProperty("dlqDeliveryFailureCause"))
    assert cause.startswith("java.lang.Throwable: Dispatch[3] to "), cause
    assert "exceeds redelivery policy limit" in cause


def test_without_the_check_a_message_comes_however_often(client: Jms, queue: str) -> None:
    client.send(queue, "m1")
    options = {
        "jms__redeliveryPolicy__maximumRedeliveries": 1,
        "jms__redeliveryPolicy__preDispatchCheck": "false",
    }
    for count in (1, 2, 3, 4):
        with to_be_cut(client, **options) as other:
            assert take(other.consumer(queue)).getIntProperty("JMSXDeliveryCount") == count


def test_what_a_client_has_rolled_back_is_one_delivery_to_the_next(client: Jms, queue: str) -> None:
    client.send(queue, "m1")
    with Jms(client.url, None, **AT_ONCE) as other:
        consumer = other.consumer(queue)
        for _ in range(3):
            take(consumer)
            other.session.rollback()
    again = take(client.consumer(queue))
    assert again.getJMSRedelivered()
    assert again.getIntProperty("JMSXDeliveryCount") == 2


def test_dead_letters_that_are_not_persistent(connect: Connect, client: Jms, queue: str) -> None:
    """They are dropped, unless the policy says otherwise."""
    client.send(queue, client.text("dropped", of=queue), mode=NON_PERSISTENT)
    client.send(queue, client.text("kept", of=queue))
    other = connect(None, jms__redeliveryPolicy__maximumRedeliveries=0)
    consumer = other.consumer(queue)
    for _ in range(2):
        take(consumer)
        other.session.rollback()
    assert [str(dead.getText()) for dead in buried(client, queue)] == ["kept"]


def test_a_durable_subscriber_that_rejects(connect: Connect, client: Jms, name: str) -> None:
    other = connect(None, client_id=name, jms__redeliveryPolicy__maximumRedeliveries=0)
    subscriber = other.session.createDurableSubscriber(other.session.createTopic(name), "s")
    client.send(f"topic://{name}", client.text("x", of=name))
    take(subscriber)
    other.session.rollback()
    [dead] = buried(client, name)
    assert str(dead.getOriginalDestination()) == f"topic://{name}"


# The flag in the store


def stored(broker: RunningBroker, queue: str) -> list[Message]:
    """The messages that the next broker would find."""
    for last in (False,) * 11 + (True,):
        try:
            with jdbcstore.open(broker.store_url, cleanup_period=0.0, locker=None) as store:
                return [*store.queue(queue).recover()]
        except StoreUnavailable:  # the machine is so busy that the connection takes too long
            if last:
                raise
    raise AssertionError


@pytest.mark.parametrize("prefetch", [0, 1000])
def test_the_flag_is_stored_before_a_message_is_delivered(
    connect: Connect, client: Jms, broker: RunningBroker, name: str, prefetch: int
) -> None:
    queue = f"{MARKED}.{name}"
    client.send(queue, *map(str, range(3)))
    assert [one.redelivery_counter for one in stored(broker, queue)] == [0, 0, 0]
    other = connect(CLIENT)
    consumer = other.consumer(f"{queue}?consumer.prefetchSize={prefetch}")
    for number in range(3):
        message = take(consumer)
        assert str(message.getText()) == str(number)
        assert (bool(message.getJMSRedelivered()), message.getIntProperty("JMSXDeliveryCount")) == (False, 1)
        marked = number + 1 if prefetch == 0 else 3
        assert [one.redelivery_counter for one in stored(broker, queue)] == [1] * marked + [0] * (3 - marked)
    message.acknowledge()
    is_left(client, queue)
    assert stored(broker, queue) == []


def test_what_was_delivered_has_the_flag_next_time(
    connect: Connect, client: Jms, broker: RunningBroker, name: str
) -> None:
    """Even if it was not looked at."""
    queue = f"{MARKED}.{name}"
    other = connect(CLIENT)
    consumer = other.consumer(queue)
    client.send(queue, "m1")
    wait_until(lambda: consumer.getMessageSize() == 1, what="that it is prefetched")
    assert [one.redelivery_counter for one in stored(broker, queue)] == [1]
    consumer.close()
    message = take(client.consumer(queue))
    assert (bool(message.getJMSRedelivered()), message.getIntProperty("JMSXDeliveryCount")) == (True, 2)


def test_a_pull_that_does_not_wait_gets_what_has_to_be_marked(client: Jms, name: str) -> None:
    queue = f"{MARKED}.{name}"
    client.send(queue, "m1", "m2")
    consumer = client.consumer(f"{queue}?consumer.prefetchSize=0")
    assert [str(consumer.receiveNoWait().getText()) for _ in range(2)] == ["m1", "m2"]
    assert consumer.receiveNoWait() is None


def test_without_the_policy_the_flag_is_not_stored(
    connect: Connect, client: Jms, broker: RunningBroker, queue: str
) -> None:
    client.send(queue, "m1")
    message = take(connect(CLIENT).consumer(queue))
    assert [one.redelivery_counter for one in stored(broker, queue)] == [0]
    message.acknowledge()


# Expiry


def test_expired_messages_are_not_delivered(client: Jms, queue: str) -> None:
    client.send_expired(queue, client.text("old", of=queue))
    client.send(queue, "new")
    assert client.texts(client.consumer(queue), 1) == ["new"]
    [dead] = buried(client, queue)
    assert str(dead.getText()) == "old"
    assert dead.getJMSExpiration() == 0
    assert dead.getLongProperty("originalExpiration") > 0
    cause = str(dead.getStringProperty("dlqDeliveryFailureCause"))
    assert cause.startswith("java.lang.Throwable: Message Expired. Expiration:"), cause


def test_what_expires_with_its_consumer_is_dead_too(client: Jms, queue: str) -> None:
    consumer = client.consumer(queue)
    message = client.text("gone in a moment", of=queue)
    client.send(queue, message, ttl=6_000)
    wait_until(lambda: consumer.getMessageSize() == 1, what="that it is prefetched")
    client.connection.stop()
    client.send(queue, "marker")
    wait_until(lambda: time.time() * 1000 > message.getJMSExpiration() + 1, what="that it has expired")
    client.connection.start()
    assert client.texts(consumer, 1) == ["marker"]
    assert len(buried(client, queue)) == 1


def test_a_time_to_live_that_is_long_enough(client: Jms, queue: str) -> None:
    client.send(queue, "x", ttl=60_000)
    received = take(client.consumer(queue))
    assert received.getJMSExpiration() - received.getJMSTimestamp() == 60_000


@pytest.mark.parametrize("how", ["browse", "selector"])
def test_expired_messages_are_not_seen(client: Jms, queue: str, how: str) -> None:
    client.send_expired(queue, client.text("old", k="v"))
    client.send(queue, client.text("new", k="v"))
    wait_until(lambda: client.browse(queue) == ["new"], what="that it has expired")
    if how == "selector":
        assert client.texts(client.consumer(queue, "k = 'v'"), 1) == ["new"]


def test_expired_messages_of_a_topic(client: Jms, topic: str) -> None:
    consumer = client.consumer(topic)
    client.connection.stop()
    client.send_expired(topic, client.text("old"))
    client.send(topic, "new")
    client.connection.start()
    assert client.texts(consumer, 1) == ["new"]


def test_a_rejected_dead_letter(connect: Connect, client: Jms, broker: RunningBroker, queue: str) -> None:
    other = connect(None, jms__redeliveryPolicy__maximumRedeliveries=0)
    client.send(queue, client.text("x", of=queue))
    for place in (queue, DEAD):
        if place == DEAD:
            buried(client, queue)
        consumer = other.consumer(place, f"of = '{queue}'")
        take(consumer)
        other.session.rollback()
        consumer.close()
    buried(client, queue, broker.either(activemq=0, ours=1))
