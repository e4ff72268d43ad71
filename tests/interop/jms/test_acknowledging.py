"""The modes of acknowledgement: what is delivered again, and what is not."""

from __future__ import annotations

import threading
from typing import Any

import jpype
import pytest

from tests.interop.jms.conftest import Connect
from tests.support.broker.openwire.jms import (
    AUTO,
    CLIENT,
    DUPS_OK,
    INDIVIDUAL,
    NON_PERSISTENT,
    Jms,
    is_left,
    java,
    refused,
    take,
)

ALL = ["m1", "m2", "m3", "m4"]


@pytest.mark.parametrize("mode", [AUTO, DUPS_OK])
def test_modes_that_acknowledge_by_themselves(connect: Connect, client: Jms, queue: str, mode: int) -> None:
    client.send(queue, *ALL)
    other = connect(mode)
    consumer = other.consumer(queue)
    assert other.texts(consumer, 4) == ALL
    consumer.close()
    is_left(client, queue)


def test_client_acknowledges_all_so_far(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, *ALL)
    other = connect(CLIENT)
    consumer = other.consumer(queue)
    take(consumer)
    take(consumer).acknowledge()
    take(consumer)
    is_left(client, queue, "m3", "m4")


def test_client_acknowledges_all_of_its_session(connect: Connect, client: Jms, queue: str) -> None:
    client.send(f"{queue}.A", "a")
    client.send(f"{queue}.B", "b")
    other = connect(CLIENT)
    take(other.consumer(f"{queue}.A"))
    take(other.consumer(f"{queue}.B")).acknowledge()
    is_left(client, f"{queue}.A")
    is_left(client, f"{queue}.B")


def test_client_acknowledges_by_an_earlier_message(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, *ALL)
    other = connect(CLIENT)
    consumer = other.consumer(queue)
    first = take(consumer)
    take(consumer)
    first.acknowledge()
    is_left(client, queue, "m3", "m4")


def test_what_is_not_acknowledged_comes_again_and_says_so(client: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2", "m3")
    with Jms(client.url, CLIENT) as other:
        consumer = other.consumer(queue)
        take(consumer).acknowledge()
        take(consumer)
    consumer = client.consumer(queue)
    second, third = take(consumer), take(consumer)
    assert [str(second.getText()), str(third.getText())] == ["m2", "m3"]
    assert second.getJMSRedelivered()
    assert second.getIntProperty("JMSXDeliveryCount") == 2
    assert not third.getJMSRedelivered()  # it was only prefetched


@pytest.mark.parametrize("what", ["consumer", "session"])
def test_what_is_not_acknowledged_comes_to_others(
    connect: Connect, client: Jms, queue: str, what: str
) -> None:
    client.send(queue, "m1", "m2")
    other = connect(CLIENT)
    consumer = other.consumer(queue)
    take(consumer)
    if what == "session":
        other.session.close()
        # A consumer that is closed leaves what it has delivered to its session.
        received = take(client.consumer(queue))
        assert str(received.getText()) == "m1"
        assert received.getJMSRedelivered()
    else:
        consumer.close()
        assert client.texts(client.consumer(queue), 2) == ["m1", "m2"]


def test_individual_acknowledgements_in_any_order(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, *ALL)
    other = connect(INDIVIDUAL)
    consumer = other.consumer(queue)
    messages = [take(consumer) for _ in range(4)]
    for message in (messages[2], messages[0]):
        message.acknowledge()
    is_left(client, queue, "m2", "m4")


def test_an_individual_acknowledgement_of_a_topic(connect: Connect, name: str) -> None:
    def subscriber(client: Jms) -> Any:
        return client.session.createDurableSubscriber(client.session.createTopic(name), "s")

    with Jms(connect().url, INDIVIDUAL, client_id=name) as client:
        consumer = subscriber(client)
        client.send(f"topic://{name}", "a", "b", "c")
        messages = [take(consumer) for _ in range(3)]
        messages[1].acknowledge()
        messages[0].acknowledge()
    client = connect(client_id=name)
    assert client.texts(subscriber(client), 1) == ["c"]


def test_recover_delivers_again(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2")
    other = connect(CLIENT)
    consumer = other.consumer(queue)
    assert other.texts(consumer, 2) == ["m1", "m2"]
    other.session.recover()
    again = take(consumer)
    assert str(again.getText()) == "m1"
    assert again.getJMSRedelivered()
    assert again.getIntProperty("JMSXDeliveryCount") == 2
    take(consumer).acknowledge()
    is_left(client, queue)


def test_recover_does_not_deliver_what_was_acknowledged(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2")
    other = connect(CLIENT)
    consumer = other.consumer(queue)
    take(consumer).acknowledge()
    take(consumer)
    other.session.recover()
    assert other.texts(consumer, 1) == ["m2"]


def test_optimised_acknowledgements(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, *(str(number) for number in range(30)))
    other = connect(jms__optimizeAcknowledge="true", jms__prefetchPolicy__all="10")
    consumer = other.consumer(queue)
    assert len(other.texts(consumer, 30)) == 30
    consumer.close()
    is_left(client, queue)


def test_messages_that_are_not_persistent(client: Jms, queue: str) -> None:
    client.send(queue, *ALL, mode=NON_PERSISTENT)
    with Jms(client.url, CLIENT) as other:
        consumer = other.consumer(queue)
        take(consumer).acknowledge()
        take(consumer)
    consumer = client.consumer(queue)
    again = take(consumer)
    assert str(again.getText()) == "m2"
    assert again.getJMSRedelivered()
    assert client.texts(consumer, 2) == ["m3", "m4"]


def test_acknowledging_after_the_consumer(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, *ALL)
    other = connect(CLIENT)
    consumer = other.consumer(queue)
    message = take(consumer)
    other.session.close()
    with refused("IllegalStateException"):
        message.acknowledge()
    is_left(client, queue, *ALL)
    assert client.texts(client.consumer(queue), 4) == ALL


# Listeners


class Received:
    """A listener that keeps what it gets, until there are so many."""

    def __init__(self, count: int, failures: int = 0) -> None:
        self.bodies: list[str] = []
        self.redelivered: list[bool] = []
        done = self._done = threading.Event()
        bodies, redelivered = self.bodies, self.redelivered

        @jpype.JImplements(java("javax.jms.MessageListener"))
        class Listener:
            @jpype.JOverride  # type: ignore[untyped-decorator]
            def onMessage(self, message: Any) -> None:  # noqa: N802
                bodies.append(str(message.getText()))
                redelivered.append(bool(message.getJMSRedelivered()))
                if len(bodies) == count:
                    done.set()
                if len(bodies) <= failures:
                    raise java("java.lang.RuntimeException")("not now")

        self.listener = Listener()

    def wait(self) -> None:
        assert self._done.wait(120), self.bodies


def test_a_listener(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, *ALL)
    received = Received(4)
    connect().consumer(queue).setMessageListener(received.listener)
    received.wait()
    assert received.bodies == ALL
    is_left(client, queue)


def test_a_listener_that_fails_gets_the_message_again(connect: Connect, client: Jms, queue: str) -> None:
    client.send(queue, "m1", "m2")
    received = Received(3, failures=1)
    other = connect(jms__redeliveryPolicy__initialRedeliveryDelay=1)
    other.consumer(queue).setMessageListener(received.listener)
    received.wait()
    assert received.bodies == ["m1", "m1", "m2"]
    assert received.redelivered == [False, True, False]
    is_left(client, queue)


def test_nothing_comes_before_the_start(connect: Connect, queue: str) -> None:
    client = connect(started=False)
    client.send(queue, "m1")
    consumer = client.consumer(queue)
    assert consumer.receive(50) is None
    client.connection.start()
    assert client.texts(consumer, 1) == ["m1"]


def test_a_connection_that_is_stopped_for_a_while(client: Jms, queue: str) -> None:
    consumer = client.consumer(queue)
    client.connection.stop()
    client.send(queue, "m1")
    assert consumer.receiveNoWait() is None
    client.connection.start()
    assert client.texts(consumer, 1) == ["m1"]
