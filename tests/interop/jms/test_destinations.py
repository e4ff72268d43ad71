"""Wildcards, composite destinations, virtual topics, temporary destinations."""

from __future__ import annotations

import threading

import pytest

from jdbcstore.testing.polling import wait_until
from tests.interop.jms.conftest import Connect, RunningBroker
from tests.support.broker.openwire.jms import Jms, activemq, is_left, java, refused, take
from tests.support.interop.activemq import NUMBER
from tests.support.interop.behaviours.brokers import FORWARDED, FORWARDING, HEARD, SHOUTING, URGENT


def test_a_composite_destination(client: Jms, name: str) -> None:
    a, b, topic = f"{name}.A", f"{name}.B", f"topic://{name}"
    subscriber = client.consumer(topic)
    client.send(f"{a},{b},{topic}", "to all")
    assert client.texts(subscriber, 1) == ["to all"]
    consumer = client.consumer(f"{a},{b}")
    messages = [take(consumer), take(consumer)]
    assert {str(message.getJMSDestination()) for message in messages} == {f"queue://{a}", f"queue://{b}"}
    assert [str(message.getText()) for message in messages] == ["to all"] * 2
    is_left(client, a)
    is_left(client, b)


def test_a_composite_destination_in_a_transaction(connect: Connect, client: Jms, name: str) -> None:
    other = connect(None)
    for end in (other.session.rollback, other.session.commit):
        other.send(f"{name}.A,{name}.B", str(end))
        end()
    assert client.browse(f"{name}.A") == client.browse(f"{name}.B") == [str(end)]


def test_a_composite_reply(client: Jms, name: str) -> None:
    message = client.text("x")
    message.setJMSReplyTo(client.destination(f"{name}.A,topic://{name}.B"))
    client.send(name, message)
    received = take(client.consumer(name))
    assert received.getJMSReplyTo().equals(message.getJMSReplyTo())


def test_wildcards(client: Jms, name: str) -> None:
    consumer = client.consumer(f"{name}.*.orders")
    client.send(f"{name}.north.orders", "n")
    client.send(f"{name}.south.orders", "s")
    assert sorted(client.texts(consumer, 2)) == ["n", "s"]


def test_a_wildcard_of_queues_that_were_there(client: Jms, name: str) -> None:
    for suffix in ("A", "A.B", "C"):
        client.send(f"{name}.{suffix}", suffix)
    assert sorted(client.texts(client.consumer(f"{name}.>"), 3)) == ["A", "A.B", "C"]


def test_the_name_of_a_queue_has_options(client: Jms, queue: str) -> None:
    consumer = client.consumer(f"{queue}?consumer.prefetchSize=3&consumer.dispatchAsync=false")
    client.send(f"{queue}?other=1", "x")
    received = take(consumer)
    assert str(received.getText()) == "x"
    assert str(received.getJMSDestination()) == f"queue://{queue}"


def test_unusual_names(client: Jms, queue: str) -> None:
    for name in (f"{queue} with spaces", f"{queue}/a:b", f"{queue}ö", "x" * 200):
        client.send(name, name)
        assert client.texts(client.consumer(name), 1) == [name]


# Virtual topics, and composite destinations of the configuration


def test_a_virtual_topic(client: Jms, name: str) -> None:
    queues = [f"Consumer.{letter}.VirtualTopic.{name}" for letter in "AB"]
    consumers = [client.consumer(queue) for queue in queues]
    client.send(f"topic://VirtualTopic.{name}", "to each")
    for queue, consumer in zip(queues, consumers, strict=True):
        message = take(consumer)
        assert str(message.getText()) == "to each"
        assert str(message.getJMSDestination()) == f"queue://{queue}"
        assert str(message.getOriginalDestination()) == f"topic://VirtualTopic.{name}"


def test_a_wildcard_consumer_of_virtual_topics(client: Jms, name: str) -> None:
    """It has a queue of its own, and shares those that come later."""
    several, single = f"Consumer.A.VirtualTopic.{name}.>", f"Consumer.A.VirtualTopic.{name}.1"
    consumer = client.consumer(several)
    client.send(f"topic://VirtualTopic.{name}.1", "1")
    client.send(f"topic://VirtualTopic.{name}.2", "2")
    got = [take(consumer) for _ in "12"]
    assert [(str(one.getJMSDestination()), str(one.getText())) for one in got] == [
        (f"queue://{several}", "1"),
        (f"queue://{several}", "2"),
    ]
    client.consumer(single).close()
    client.send(f"topic://VirtualTopic.{name}.1", "3")
    assert {
        (str(one.getJMSDestination()), str(one.getText())) for one in (take(consumer), take(consumer))
    } == {
        (f"queue://{several}", "3"),
        (f"queue://{single}", "3"),
    }


def test_consumers_share_the_queue_of_a_virtual_topic(connect: Connect, name: str) -> None:
    clients = [connect(), connect()]
    consumers = [client.consumer(f"Consumer.A.VirtualTopic.{name}") for client in clients]
    clients[0].send(f"topic://VirtualTopic.{name}", *(str(number) for number in range(10)))
    received = [client.texts(consumer, 5) for client, consumer in zip(clients, consumers, strict=True)]
    assert sorted(received[0] + received[1]) == [str(number) for number in range(10)]


def test_subscribers_of_a_virtual_topic_get_it_too(connect: Connect, name: str) -> None:
    client = connect(client_id=name)
    topic = f"topic://VirtualTopic.{name}"
    durable = client.session.createDurableSubscriber(client.destination(topic), "s")
    plain, queue = client.consumer(topic), client.consumer(f"Consumer.A.VirtualTopic.{name}")
    client.send(topic, "x")
    for consumer in (durable, plain, queue):
        assert client.texts(consumer, 1) == ["x"]


def test_a_virtual_topic_without_a_consumer(client: Jms, name: str) -> None:
    queue = f"Consumer.A.VirtualTopic.{name}"
    client.consumer(queue).close()
    client.send(f"topic://VirtualTopic.{name}", "kept")
    assert client.browse(queue) == ["kept"]
    assert client.texts(client.consumer(queue), 1) == ["kept"]


def test_a_virtual_topic_in_a_transaction(connect: Connect, client: Jms, name: str) -> None:
    other = connect(None)
    consumer = client.consumer(f"Consumer.A.VirtualTopic.{name}")
    for body, end in (("no", other.session.rollback), ("yes", other.session.commit)):
        other.send(f"topic://VirtualTopic.{name}", body)
        end()
    assert client.texts(consumer, 1) == ["yes"]


def test_a_selector_of_a_virtual_topics_queue(client: Jms, name: str) -> None:
    queue = f"Consumer.A.VirtualTopic.{name}"
    consumer = client.consumer(queue, "k = 1")
    client.send(f"topic://VirtualTopic.{name}", client.text("rest", k=2), client.text("mine", k=1))
    assert client.texts(consumer, 1) == ["mine"]
    assert client.browse(queue) == ["rest"]


def test_a_composite_queue(client: Jms) -> None:
    urgent = client.consumer(f"topic://{URGENT}")
    client.send(FORWARDING, client.text("calm", urgent=False), client.text("urgent", urgent=True))
    assert client.texts(urgent, 1) == ["urgent"]
    assert client.texts(client.consumer(FORWARDED), 2) == ["calm", "urgent"]
    assert client.browse(FORWARDING) == []


def test_a_composite_topic_that_is_a_topic_too(client: Jms) -> None:
    subscriber = client.consumer(f"topic://{SHOUTING}")
    client.send(f"topic://{SHOUTING}", "!")
    assert client.texts(subscriber, 1) == ["!"]
    heard = take(client.consumer(HEARD))
    assert str(heard.getJMSDestination()) == f"queue://{HEARD}"
    assert str(heard.getOriginalDestination()) == f"topic://{SHOUTING}"


# Temporary destinations


def test_request_and_reply(connect: Connect, queue: str) -> None:
    asking, answering = connect(), connect()
    requests = answering.consumer(queue)
    replies = asking.session.createTemporaryQueue()
    consumer = asking.consumer(replies)
    for number in range(3):
        request = asking.text(f"question {number}")
        request.setJMSReplyTo(replies)
        asking.send(queue, request)
        received = take(requests)
        reply = answering.text(f"answer to {received.getText()}")
        reply.setJMSCorrelationID(received.getJMSMessageID())
        answering.await_temporary(received.getJMSReplyTo())
        answering.send(received.getJMSReplyTo(), reply)
        answer = take(consumer)
        assert str(answer.getText()) == f"answer to question {number}"
        assert str(answer.getJMSCorrelationID()) == str(request.getJMSMessageID())


def test_a_queue_requestor(connect: Connect, queue: str) -> None:
    asking, answering = connect(), connect()
    requests = answering.consumer(queue)

    def answer() -> None:
        received = take(requests)
        answering.await_temporary(received.getJMSReplyTo())
        answering.send(received.getJMSReplyTo(), f"answer to {received.getText()}")

    thread = threading.Thread(target=answer)
    thread.start()
    session = asking.connection.createQueueSession(False, 1)
    requestor = java("javax.jms.QueueRequestor")(session, session.createQueue(queue))
    assert str(requestor.request(asking.text("?")).getText()) == "answer to ?"
    thread.join(120)
    requestor.close()


def test_a_temporary_topic(connect: Connect) -> None:
    one, two = connect(), connect()
    topic = one.session.createTemporaryTopic()
    consumer = one.consumer(topic)
    two.await_temporary(topic)
    two.send(topic, "hello")
    assert one.texts(consumer, 1) == ["hello"]


def test_a_temporary_queue_keeps_messages(connect: Connect) -> None:
    one, two = connect(), connect()
    temporary = one.session.createTemporaryQueue()
    two.await_temporary(temporary)
    two.send(temporary, "1", "2")
    assert one.texts(one.consumer(temporary), 2) == ["1", "2"]


def test_only_the_owner_consumes_a_temporary_queue(connect: Connect) -> None:
    one, two = connect(), connect()
    replies = one.session.createTemporaryQueue()
    foreign = activemq("command.ActiveMQTempQueue")(replies.getQueueName())
    with refused("InvalidDestinationException"):
        two.consumer(foreign)


@pytest.mark.parametrize("kind", ["Queue", "Topic"])
def test_the_broker_checks_the_owner_of_a_temporary_destination(
    connect: Connect, broker: RunningBroker, kind: str
) -> None:
    """The JMS client does that itself; this is a client that does not."""
    one, two = connect(), connect()
    replies = getattr(one.session, f"createTemporary{kind}")()
    connection_id = two.connection.getConnectionInfo().getConnectionId()
    session_id = activemq("command.SessionId")(connection_id, 1)
    consumer = activemq("command.ConsumerInfo")(activemq("command.ConsumerId")(session_id, 99))
    consumer.setDestination(replies)
    consumer.setPrefetchSize(1)

    if broker.either(activemq=(5, 19, 8) <= NUMBER < (6,) or NUMBER >= (6, 2, 7), ours=True):
        with refused("InvalidDestinationException"):
            two.connection.syncSendPacket(consumer)
    else:
        two.connection.syncSendPacket(consumer)


@pytest.mark.parametrize("kind", ["Queue", "Topic"])
def test_a_deleted_temporary_destination_takes_no_messages(connect: Connect, kind: str) -> None:
    one, two = connect(), connect()
    temporary = getattr(one.session, f"createTemporary{kind}")()
    consumer = one.consumer(temporary)
    with refused("JMSException", "InvalidDestinationException"):
        temporary.delete()
    two.await_temporary(temporary)
    two.send(temporary, "in time")
    assert one.texts(consumer, 1) == ["in time"]
    consumer.close()
    temporary.delete()
    wait_until(lambda: two.connection.isDeleted(temporary), what="that the other one knows")
    with refused("InvalidDestinationException", "DestinationDoesNotExistException"):
        two.send(temporary, "too late")


def test_temporary_queues_end_with_their_connection(connect: Connect, broker: RunningBroker) -> None:
    two = connect()
    with Jms(broker.url) as one:
        temporary = one.session.createTemporaryQueue()
        two.await_temporary(temporary)
    wait_until(lambda: two.connection.isDeleted(temporary), what="that it is gone")
    with refused("InvalidDestinationException", "DestinationDoesNotExistException"):
        two.send(temporary, "?")


def test_a_connection_without_advisories(connect: Connect) -> None:
    """It sends to temporary queues all the same."""
    one, two = connect(), connect(jms__watchTopicAdvisories="false")
    temporary = one.session.createTemporaryQueue()
    consumer = one.consumer(temporary)
    two.send(temporary, "x")
    assert one.texts(consumer, 1) == ["x"]


# What clients do with destinations beside


def test_queues_are_deleted(client: Jms, queue: str) -> None:
    client.send(queue, "x")
    destination = client.destination(queue)
    consumer = client.consumer(queue)
    with refused("JMSException", "InvalidDestinationException"):
        client.connection.destroyDestination(destination)
    consumer.close()
    assert client.browse(queue) == ["x"]
    client.connection.destroyDestination(destination)
    client.connection.destroyDestination(destination)
    assert client.browse(queue) == []


def test_topics_are_deleted(connect: Connect, topic: str) -> None:
    """Not one with durable subscriptions, even if nobody consumes them."""
    client = connect(client_id=topic)
    destination = client.destination(topic)
    client.session.createDurableSubscriber(destination, "s").close()
    with refused("JMSException", "InvalidDestinationException"):
        client.connection.destroyDestination(destination)
    client.session.unsubscribe("s")
    client.connection.destroyDestination(destination)


def test_a_null_destination(client: Jms) -> None:
    with refused("UnsupportedOperationException", "InvalidDestinationException"):
        client.session.createProducer(None).send(client.text("x"))
    with refused("InvalidDestinationException"):
        client.session.createConsumer(None)
