"""Local transactions."""

from __future__ import annotations

from typing import Any

import pytest

from jdbcstore.testing.polling import wait_until
from tests.interop.jms.conftest import Connect, RunningBroker
from tests.support.broker.openwire.jms import NON_PERSISTENT, Jms, is_left, java, refused, take


@pytest.fixture
def transacted(connect: Connect) -> Jms:
    return connect(None, jms__redeliveryPolicy__initialRedeliveryDelay=0)


def test_a_commit_sends_and_acknowledges(client: Jms, transacted: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2")
    consumer = transacted.consumer(queue)
    assert transacted.texts(consumer, 1) == ["m1"]
    transacted.send(f"{queue}.OUT", "made of m1")
    assert client.browse(f"{queue}.OUT") == []
    transacted.session.commit()
    is_left(client, queue, "m2")
    assert client.browse(f"{queue}.OUT") == ["made of m1"]


def test_a_rollback_drops_sends_and_delivers_again(client: Jms, transacted: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2")
    consumer = transacted.consumer(queue)
    assert transacted.texts(consumer, 2) == ["m1", "m2"]
    transacted.send(f"{queue}.OUT", "never")
    transacted.session.rollback()
    again = take(consumer)
    assert str(again.getText()) == "m1"
    assert again.getJMSRedelivered()
    assert again.getIntProperty("JMSXDeliveryCount") == 2
    assert str(take(consumer).getText()) == "m2"
    transacted.session.commit()
    is_left(client, queue)
    assert client.browse(f"{queue}.OUT") == []


def test_an_open_transaction_ends_with_its_connection(client: Jms, queue: str) -> None:
    client.send(queue, "m1")
    with Jms(client.url, None) as other:
        other.texts(other.consumer(queue), 1)
        other.send(f"{queue}.OUT", "never")
    again = take(client.consumer(queue))
    assert str(again.getText()) == "m1"
    assert again.getJMSRedelivered()
    assert client.browse(f"{queue}.OUT") == []


def test_an_open_transaction_ends_with_its_session(client: Jms, transacted: Jms, queue: str) -> None:
    client.send(queue, "m1")
    transacted.texts(transacted.consumer(queue), 1)
    transacted.send(f"{queue}.OUT", "never")
    transacted.session.close()
    assert client.texts(client.consumer(queue), 1) == ["m1"]
    assert client.browse(f"{queue}.OUT") == []


def test_a_transaction_of_several_consumers(client: Jms, transacted: Jms, queue: str) -> None:
    names = [f"{queue}.A", f"{queue}.B"]
    for name in names:
        client.send(name, "m1")
        transacted.texts(transacted.consumer(name), 1)
    transacted.session.commit()
    for name in names:
        is_left(client, name)


def test_a_transaction_of_queues_and_topics(client: Jms, transacted: Jms, queue: str, topic: str) -> None:
    subscriber = client.consumer(topic)
    for end in (transacted.session.rollback, transacted.session.commit):
        body = str(end)
        transacted.send(queue, body)
        transacted.send(topic, body)
        end()
    assert client.texts(subscriber, 1) == client.browse(queue) == [body]


def test_messages_of_a_transaction_are_in_order(client: Jms, transacted: Jms, queue: str) -> None:
    bodies = [str(number) for number in range(100)]
    transacted.send(queue, *bodies)
    transacted.session.commit()
    assert client.texts(client.consumer(queue), 100) == bodies


def test_messages_that_are_not_persistent(client: Jms, transacted: Jms, queue: str) -> None:
    transacted.send(queue, "never", mode=NON_PERSISTENT)
    transacted.session.rollback()
    transacted.send(queue, "x", mode=NON_PERSISTENT)
    transacted.session.commit()
    assert client.texts(client.consumer(queue), 1) == ["x"]


def test_a_session_begins_its_next_transaction_by_itself(client: Jms, transacted: Jms, queue: str) -> None:
    for number in range(3):
        transacted.send(queue, str(number))
        (transacted.session.rollback if number == 1 else transacted.session.commit)()
    assert client.browse(queue) == ["0", "2"]
    transacted.session.commit()  # nothing


def test_two_sessions_have_two_transactions(client: Jms, transacted: Jms, queue: str) -> None:
    other = transacted.new_session(None)
    producer = other.createProducer(transacted.destination(queue))
    producer.send(transacted.text("other's"))
    transacted.send(queue, "mine")
    transacted.session.commit()
    assert client.browse(queue) == ["mine"]
    other.rollback()
    assert client.texts(client.consumer(queue), 1) == ["mine"]


def test_a_session_without_a_transaction_cannot_commit(client: Jms, transacted: Jms) -> None:
    with refused("IllegalStateException"):
        client.session.commit()
    with refused("IllegalStateException"):
        transacted.session.recover()


def test_a_transaction_does_not_see_what_it_has_sent(transacted: Jms, queue: str) -> None:
    consumer = transacted.consumer(queue)
    transacted.send(queue, "later")
    assert consumer.receive(50) is None
    transacted.session.commit()
    assert transacted.texts(consumer, 1) == ["later"]
    transacted.session.commit()


def test_a_refused_send_in_a_transaction(client: Jms, transacted: Jms, queue: str) -> None:
    """A temporary queue that its connection has deleted takes nothing."""
    temporary = client.session.createTemporaryQueue()
    transacted.await_temporary(temporary)
    transacted.send(temporary, "x")
    transacted.session.rollback()
    temporary.delete()
    transacted.send(queue, "y")
    transacted.session.commit()
    assert client.browse(queue) == ["y"]


def test_a_message_that_waits_for_redelivery_while_the_connection_is_lost(
    broker: RunningBroker, client: Jms, queue: str
) -> None:
    """The client gets it twice, from itself after the delay and from the broker, and can commit it once."""
    options: dict[str, Any] = {
        "initialReconnectDelay": 1,
        "jms__redeliveryPolicy__maximumRedeliveries": -1,
        "jms__redeliveryPolicy__initialRedeliveryDelay": 2000,
        "jms__redeliveryPolicy__redeliveryDelay": 1,
    }
    client.send(queue, "m1")
    with Jms(f"failover:({broker.url})", None, **options) as transacted:
        consumer = transacted.consumer(queue)
        assert transacted.texts(consumer, 1) == ["m1"]
        transacted.session.rollback()
        transacted.cut()
        wait_until(lambda: consumer.getMessageSize() == 2, what="that it has m1 twice")
        # Had the client m2 before the cut, it might refuse it now as a duplicate: a race inside of it.
        client.send(queue, "m2")
        ends: list[str] = []
        while "m2" not in ends and len(ends) < broker.either(activemq=6, ours=20):
            body = str(take(consumer).getText())
            try:
                transacted.session.commit()
            except java("javax.jms.JMSException"):
                ends.append(f"not {body}")
            else:
                ends.append(body)
        # How often it rolls back before it goes on is a race inside of it.
        assert ends.count("m1") == 1
        assert ("m2" in ends) == broker.either(activemq=False, ours=True)
