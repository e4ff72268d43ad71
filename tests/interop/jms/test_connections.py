"""Connections and their options, and producers."""

from __future__ import annotations

import itertools
import threading
from typing import Any
from urllib.parse import urlsplit

import jpype
import pytest

from jdbcstore.broker.openwire.commands import Type
from jdbcstore.message.openwire.encoder import encode_map
from jdbcstore.testing.polling import wait_until
from tests.interop.jms.conftest import Connect, RunningBroker
from tests.support.broker.openwire.client import Client, offer_of
from tests.support.broker.openwire.jms import AUTO, NON_PERSISTENT, Jms, activemq, is_left, refused, take
from tests.support.interop.activemq import NUMBER

MANY = [str(number) for number in range(100)]


def round_trip(client: Jms, queue: str) -> None:
    client.send(queue, "x")
    assert client.texts(client.consumer(queue), 1) == ["x"]


# Connections


@pytest.mark.parametrize(
    "options",
    [
        "wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=true",
        "wireFormat.tightEncodingEnabled=false&wireFormat.cacheEnabled=false",
        "wireFormat.version=11",
        "wireFormat.version=10",
        "wireFormat.version=9",
        "wireFormat.stackTraceEnabled=false&wireFormat.sizePrefixDisabled=false",
        "wireFormat.maxInactivityDuration=0",
        # The client waits for the broker's wire format no longer than that delay.
        "wireFormat.maxInactivityDuration=30000&wireFormat.maxInactivityDurationInitalDelay=60000",
        "wireFormat.maxFrameSize=1000000",
        "keepAlive=true&tcpNoDelay=false&soTimeout=60000&connectionTimeout=60000",
        "jms.alwaysSessionAsync=false&jms.dispatchAsync=false",
        "jms.alwaysSyncSend=true&jms.checkForDuplicates=false",
        "jms.useAsyncSend=true&jms.copyMessageOnSend=false",
        "jms.watchTopicAdvisories=false",
        "jms.statsEnabled=true&jms.messagePrioritySupported=true",
        "jms.sendTimeout=60000&jms.closeTimeout=60000",
        "jms.consumerExpiryCheckEnabled=false",
        "jms.clientIDPrefix=mine&jms.connectionIDPrefix=ours",
        "jms.maxThreadPoolSize=1",
        "jms.rmIdFromConnectionId=true",
        "jms.transactedIndividualAck=true",
        "jms.nestedMapAndListEnabled=false",
    ],
)
def test_options(broker: RunningBroker, queue: str, options: str) -> None:
    with Jms(f"{broker.url}?{options}") as client:
        round_trip(client, queue)


@pytest.mark.parametrize(
    "address",
    ["failover:({})", "failover:({})?randomize=false&maxReconnectAttempts=3", "nio"],
)
def test_addresses(broker: RunningBroker, queue: str, address: str) -> None:
    url = broker.url.replace("tcp://", "nio://") if address == "nio" else address.format(broker.url)
    with Jms(url) as client:
        round_trip(client, queue)


def test_failover_finds_the_one_that_is_there(broker: RunningBroker, queue: str) -> None:
    with Jms(f"failover:(tcp://127.0.0.1:1,{broker.url})?randomize=false&initialReconnectDelay=1") as client:
        round_trip(client, queue)


def test_failover_goes_on_after_a_lost_connection(broker: RunningBroker, queue: str) -> None:
    """The socket is closed under the client, which does not notice more than a delay."""
    with Jms(f"failover:({broker.url})?initialReconnectDelay=1") as client:
        temporary = client.session.createTemporaryQueue()
        answers, consumer = client.consumer(temporary), client.consumer(queue)
        client.send(queue, "before")
        assert client.texts(consumer, 1) == ["before"]
        client.cut()
        client.send(queue, "after")
        assert client.texts(consumer, 1) == ["after"]
        client.send(temporary, "answer")
        assert client.texts(answers, 1) == ["answer"]


def test_what_the_broker_says_of_itself(client: Jms) -> None:
    connection = client.connection
    wait_until(lambda: connection.getBrokerInfo() is not None, what="that it has said so")
    assert connection.getBrokerName()
    assert connection.getMetaData().getJMSMajorVersion() == (3 if NUMBER >= (6, 3) else 1)
    assert str(connection.getMetaData().getJMSProviderName()) == "ActiveMQ"


@pytest.mark.parametrize(
    ("properties", "is_right"),
    [
        ({f"{n}": n for n in range(64)}, True),
        ({f"{n}": n for n in range(65)}, False),
        ({"k": "v" * 512}, True),
        ({"k": "v" * 513}, False),
        ({"k" * 513: "v"}, False),
        ({"k": b"v" * 513}, False),
        ({"k": {}}, False),
        ({"k": [1]}, False),
    ],
    ids=itertools.count(1),
)
def test_properties_of_a_wire_format(
    broker: RunningBroker, properties: dict[str, Any], is_right: bool
) -> None:
    """Since 6.3 ActiveMQ refuses hostile ones, and so do we."""
    accepts = is_right or broker.either(activemq=NUMBER < (6, 3), ours=False)
    port = urlsplit(broker.url).port
    assert port is not None
    with Client(port, login=False) as client:
        client.socket.sendall(offer_of(encode_map(properties)))
        kinds = set()
        while Type.BROKER_INFO not in kinds and (frame := client.frame()) is not None:
            kinds.add(frame[4])
        assert (Type.BROKER_INFO in kinds) == accepts


def test_a_client_id_is_made(client: Jms) -> None:
    assert str(client.connection.getClientID()).startswith("ID:")


def test_a_client_id_is_set_first(connect: Connect, name: str) -> None:
    client = connect(client_id=name)
    with refused("IllegalStateException"):
        client.connection.setClientID("other")


def test_what_is_closed_cannot_be_used(connect: Connect, queue: str) -> None:
    client = connect()
    consumer = client.consumer(queue)
    consumer.close()
    with refused("IllegalStateException"):
        consumer.receive(1)
    client.session.close()
    with refused("IllegalStateException"):
        client.session.createTextMessage("x")
    client.connection.close()
    with refused("ConnectionClosedException"):
        client.connection.createSession(False, 1)
    client.connection.close()  # again does nothing


def test_many_sessions_and_consumers(client: Jms, queue: str) -> None:
    sessions = [client.new_session(1) for _ in range(30)]
    consumers = [
        session.createConsumer(session.createQueue(f"{queue}.{number}"))
        for number, session in enumerate(sessions)
    ]
    for number in range(30):
        client.send(f"{queue}.{number}", str(number))
    assert [str(take(consumer).getText()) for consumer in consumers] == [str(n) for n in range(30)]


# Producers


def test_asynchronous_sends(connect: Connect, queue: str) -> None:
    client = connect(jms__useAsyncSend="true")
    client.send(queue, *MANY)
    assert client.texts(client.consumer(queue), 100) == MANY


def test_a_send_with_a_callback(client: Jms, queue: str) -> None:
    done = threading.Event()

    @jpype.JImplements(activemq("AsyncCallback"))
    class Callback:
        @jpype.JOverride  # type: ignore[untyped-decorator]
        def onSuccess(self) -> None:  # noqa: N802
            done.set()

        @jpype.JOverride  # type: ignore[untyped-decorator]
        def onException(self, exception: Any) -> None: ...  # noqa: N802

    client.session.createProducer(client.destination(queue)).send(client.text("x"), Callback())
    assert done.wait(120)
    assert client.browse(queue) == ["x"]


@pytest.mark.parametrize("mode", [2, NON_PERSISTENT])
def test_a_window(connect: Connect, queue: str, mode: int) -> None:
    """The producer goes on as the broker acknowledges what it has sent."""
    client = connect(jms__useAsyncSend="true", jms__producerWindowSize=5000)
    client.send(queue, *("x" * 1000 for _ in range(50)), mode=mode)
    assert len(client.texts(client.consumer(queue), 50)) == 50


def test_a_window_in_the_name(connect: Connect, queue: str) -> None:
    client = connect(jms__useAsyncSend="true")
    client.send(f"{queue}?producer.windowSize=3000", *("x" * 1000 for _ in range(20)))
    assert len(client.texts(client.consumer(queue), 20)) == 20


def test_a_window_smaller_than_a_message(connect: Connect, queue: str) -> None:
    client = connect(jms__useAsyncSend="true", jms__producerWindowSize=100)
    client.send(queue, *("x" * 1000 for _ in range(5)))
    assert len(client.texts(client.consumer(queue), 5)) == 5


def test_a_producer_without_a_destination(client: Jms, queue: str) -> None:
    producer = client.session.createProducer(None)
    for suffix in ("A", "B"):
        producer.send(client.destination(f"{queue}.{suffix}"), client.text(suffix))
        assert client.browse(f"{queue}.{suffix}") == [suffix]


def test_what_a_producer_is_set_to(client: Jms, queue: str) -> None:
    producer = client.session.createProducer(client.destination(queue))
    producer.setDeliveryMode(NON_PERSISTENT)
    producer.setPriority(8)
    producer.setTimeToLive(60_000)
    producer.send(client.text("x"))
    received = take(client.consumer(queue))
    assert received.getJMSDeliveryMode() == NON_PERSISTENT
    assert received.getJMSPriority() == 8
    assert received.getJMSExpiration() == received.getJMSTimestamp() + 60_000


def test_several_producers_at_once(connect: Connect, queue: str) -> None:
    clients = [connect() for _ in range(4)]

    def produce(number: int) -> None:
        clients[number].send(queue, *(f"{number}-{count}" for count in range(25)))

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    bodies = clients[0].texts(clients[0].consumer(queue), 100)
    for number in range(4):
        mine = [body for body in bodies if body.startswith(f"{number}-")]
        assert mine == [f"{number}-{count}" for count in range(25)]
    is_left(clients[0], queue)


def test_a_connection_that_is_opened_again(broker: RunningBroker, connect: Connect, name: str) -> None:
    """Pools do so: the same socket serves for another client id, and nothing of the first is left."""
    client = connect(client_id=name)
    queue = client.session.createTemporaryQueue()
    client.send(queue, "gone")
    client.connection.doCleanup(True)
    with Jms(broker.url, client_id=name):
        client.connection.setClientID(f"{name}-2")
        with refused("InvalidClientIDException"):
            connect(client_id=f"{name}-2")
    client.connection.start()
    client.session = client.new_session(AUTO)
    client.send(name, "m1")
    assert client.texts(client.consumer(name), 1) == ["m1"]
