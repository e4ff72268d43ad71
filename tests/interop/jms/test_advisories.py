"""Advisories: what a client is notified of about others."""

from __future__ import annotations

from typing import Any

import pytest
from jpype import JProxy

from tests.interop.jms.conftest import Connect
from tests.support.broker.openwire.jms import Jms, activemq, java, take
from tests.support.broker.stomp.serving import Client
from tests.support.polling import wait_until


@pytest.fixture
def support() -> Any:
    return java("org.apache.activemq.advisory.AdvisorySupport")


@pytest.fixture
def watching(connect: Connect) -> Jms:
    """Another connection than that of what it watches."""
    return connect()


def about(consumer: Any, kind: str) -> Any:
    """The next advisory with such an object."""
    while not isinstance((found := take(consumer)).getDataStructure(), activemq(f"command.{kind}")):
        pass
    return found


@pytest.mark.parametrize("prefix", ["", "topic://"])
def test_consumers_that_come_and_go(client: Jms, watching: Jms, support: Any, name: str, prefix: str) -> None:
    destination = client.destination(f"{prefix}{name}")
    advisories = watching.consumer(support.getConsumerAdvisoryTopic(destination))
    one = client.consumer(destination, "n > 1")
    came = take(advisories)
    info = came.getDataStructure()
    assert isinstance(info, activemq("command.ConsumerInfo"))
    assert (info.getDestination(), str(info.getSelector())) == (destination, "n > 1")
    assert info.getConsumerId().equals(one.getConsumerId())
    assert came.getIntProperty("consumerCount") == 1
    assert came.getStringProperty("originBrokerName") is not None
    assert str(came.getJMSType()) == "Advisory"
    another = client.consumer(destination)
    assert take(advisories).getIntProperty("consumerCount") == 2
    another.close()
    went = take(advisories)
    assert isinstance(went.getDataStructure(), activemq("command.RemoveInfo"))
    assert went.getDataStructure().getObjectId().equals(another.getConsumerId())
    assert went.getIntProperty("consumerCount") == 1


def test_what_was_there_before(client: Jms, watching: Jms, support: Any, queue: str) -> None:
    consumer = client.consumer(queue)
    producer = client.session.createProducer(client.destination(queue))
    first = take(watching.consumer(support.getConsumerAdvisoryTopic(client.destination(queue))))
    assert first.getDataStructure().getConsumerId().equals(consumer.getConsumerId())
    second = take(watching.consumer(support.getProducerAdvisoryTopic(client.destination(queue))))
    assert second.getDataStructure().getDestination().equals(producer.getDestination())


def test_producers_that_come_and_go(client: Jms, watching: Jms, support: Any, queue: str) -> None:
    destination = client.destination(queue)
    advisories = watching.consumer(support.getProducerAdvisoryTopic(destination))
    producer = client.session.createProducer(destination)
    came = take(advisories)
    assert isinstance(came.getDataStructure(), activemq("command.ProducerInfo"))
    assert came.getIntProperty("producerCount") == 1
    producer.close()
    went = take(advisories)
    assert isinstance(went.getDataStructure(), activemq("command.RemoveInfo"))
    assert went.getIntProperty("producerCount") == 0


def test_the_producers_of_a_session_end_with_it(
    connect: Connect, watching: Jms, support: Any, queue: str
) -> None:
    client = connect()
    destination = client.destination(queue)
    advisories = watching.consumer(support.getProducerAdvisoryTopic(destination))
    client.session.createProducer(destination)
    about(advisories, "ProducerInfo")
    client.session.close()
    about(advisories, "RemoveInfo")


def test_connections_that_come_and_go(connect: Connect, watching: Jms, support: Any, name: str) -> None:
    advisories = watching.consumer(support.getConnectionAdvisoryTopic())
    client = connect(client_id=name)
    while str((info := about(advisories, "ConnectionInfo").getDataStructure()).getClientId()) != name:
        pass
    assert not info.getPassword()
    client.connection.close()
    while not about(advisories, "RemoveInfo").getDataStructure().getObjectId().equals(info.getConnectionId()):
        pass


def test_a_consumer_of_stomp(watching: Jms, stomp: Client, support: Any, queue: str) -> None:
    advisories = watching.consumer(support.getConsumerAdvisoryTopic(watching.destination(queue)))
    stomp.subscribe(f"/queue/{queue}")
    came = take(advisories)
    assert str(came.getDataStructure().getDestination()) == f"queue://{queue}"
    assert came.getIntProperty("consumerCount") == 1


def test_wildcards(client: Jms, watching: Jms, name: str) -> None:
    advisories = watching.consumer(f"topic://ActiveMQ.Advisory.Consumer.Queue.{name}.>")
    client.consumer(f"{name}.A")
    client.consumer(f"{name}.B.C")
    found = [str(take(advisories).getDataStructure().getDestination()) for _ in range(2)]
    assert found == [f"queue://{name}.A", f"queue://{name}.B.C"]


def test_in_a_transaction(client: Jms, connect: Connect, support: Any, queue: str) -> None:
    watching = connect(None)
    advisories = watching.consumer(support.getConsumerAdvisoryTopic(client.destination(queue)))
    client.consumer(queue)
    about(advisories, "ConsumerInfo")
    watching.session.commit()


def test_the_events_of_the_client(client: Jms, watching: Jms, queue: str) -> None:
    """ActiveMQ's own listener of consumers."""
    destination = client.destination(queue)
    source = java("org.apache.activemq.advisory.ConsumerEventSource")(watching.connection, destination)
    events: list[Any] = []
    listener = java("org.apache.activemq.advisory.ConsumerListener")
    source.setConsumerListener(JProxy(listener, dict={"onConsumerEvent": events.append}))
    source.start()
    consumer = client.consumer(destination)
    wait_until(lambda: len(events) == 1, what="that it has come")
    consumer.close()
    wait_until(lambda: len(events) == 2, what="that it has gone")
    assert [bool(event.isStarted()) for event in events] == [True, False]
    source.stop()


def test_queues_are_listed(client: Jms, queue: str) -> None:
    source = client.connection.getDestinationSource()
    client.send(queue, "x")
    destination = client.destination(queue)
    wait_until(lambda: source.getQueues().contains(destination), what="that it is listed")
