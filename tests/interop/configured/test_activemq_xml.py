"""Plug-ins and settings of an activemq.xml, as clients notice them: of the real broker, and of ours."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from jdbcstore.testing.polling import wait_until
from tests.interop.configured.conftest import Configured
from tests.support.broker.openwire.jms import CLIENT, Jms, refused, take
from tests.support.broker.stomp.serving import Client
from tests.support.interop.activemq import PeerMissing
from tests.support.require import unavailable

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


@pytest.fixture
def stomp(configured: Configured) -> Iterator[Client]:
    with Client(configured.stomp_port) as client:
        yield client


@pytest.fixture
def jms(configured: Configured) -> Iterator[Jms]:
    try:
        with Jms(configured.openwire_url) as client:
            yield client
    except PeerMissing as missing:
        unavailable("activemq", str(missing))


def test_force_persistency_mode(stomp: Client) -> None:
    stomp.send("/queue/FORCED", "x", persistent="false")
    stomp.subscribe("/queue/FORCED")

    assert stomp.expect("MESSAGE").headers["persistent"] == "true"


def test_time_stamping(stomp: Client) -> None:
    now_ms = int(time.time() * 1000)
    wrong_ms = now_ms - 24 * HOUR_MS
    stomp.send("/queue/TIMES", "for ever", timestamp=str(wrong_ms))
    stomp.send("/queue/TIMES", "too long", timestamp=str(wrong_ms), expires=str(wrong_ms + 9 * HOUR_MS))
    stomp.send("/queue/TIMES", "a minute", timestamp=str(wrong_ms), expires=str(wrong_ms + MINUTE_MS))
    stomp.subscribe("/queue/TIMES")

    found = [frame.headers for frame in stomp.messages(3)]
    assert all(abs(int(headers["timestamp"]) - now_ms) < MINUTE_MS for headers in found)
    lives = [int(headers["expires"]) - int(headers["timestamp"]) for headers in found]
    assert lives == [HOUR_MS, HOUR_MS, MINUTE_MS]


def test_dead_letters_that_are_dropped(configured: Configured) -> None:
    for name in ("DROPPED.A", "KEPT"):
        with Client(configured.stomp_port) as client:
            client.send(f"/queue/{name}", name)
            client.subscribe(f"/queue/{name}", ack="client-individual")
            message = client.expect("MESSAGE")
            client.request("NACK", {"id": message.headers["ack"]})
    with Client(configured.stomp_port) as client:
        client.subscribe("/queue/ActiveMQ.DLQ")

        assert client.expect("MESSAGE").body == b"KEPT"
        assert client.has_nothing_more()


def test_a_queue_that_is_there_from_the_start_gets_what_is_sent_to_its_virtual_topic(stomp: Client) -> None:
    stomp.send("/topic/VirtualTopic.NEWS", "early")
    stomp.subscribe("/queue/Consumer.early.VirtualTopic.NEWS")

    assert stomp.expect("MESSAGE").body == b"early"


def test_the_most_destinations_of_a_policy(jms: Jms) -> None:
    jms.send("FEW.1", "x")
    jms.send("FEW.2", "x")
    with refused("IllegalStateException", "InvalidDestinationException"):
        jms.send("FEW.3", "x")
    jms.send("FEW.2", "y")
    jms.send("OTHER.3", "x")

    assert jms.texts(jms.consumer("FEW.2"), 2) == ["x", "y"]


def test_a_slow_subscriber_is_disconnected(configured: Configured, stomp: Client) -> None:
    with Client(configured.stomp_port) as slow:
        slow.subscribe("/topic/SLOW.A", ack="client", activemq__prefetchSize="2")
        for number in range(12):
            stomp.send("/topic/SLOW.A", str(number))

        slow.messages(2)
        assert [frame.command for frame in slow.rest()] in ([], ["ERROR"])


def test_a_consumer_that_does_not_acknowledge_is_disconnected(configured: Configured, stomp: Client) -> None:
    with Client(configured.stomp_port) as slow:
        slow.subscribe("/queue/UNACKNOWLEDGED.A", ack="client")
        stomp.send("/queue/UNACKNOWLEDGED.A", "x")

        slow.messages(1)
        assert [frame.command for frame in slow.rest()] in ([], ["ERROR"])
    stomp.subscribe("/queue/UNACKNOWLEDGED.A", ack="auto")
    assert stomp.expect("MESSAGE").body == b"x"


def test_the_most_pending_messages_by_the_prefetch(configured: Configured, jms: Jms) -> None:
    with Jms(configured.openwire_url) as subscriber:
        consumer = subscriber.consumer("topic://RATED.A?consumer.prefetchSize=3")
        jms.send("topic://RATED.A", *map(str, range(20)))

        assert subscriber.texts(consumer, 9) == [str(n) for n in (0, 1, 2, *range(14, 20))]


def ask(jms: Jms, about: str, answers: int = 1) -> list[dict[str, object]]:
    """What the statistics plug-in answers."""
    replies = jms.session.createTemporaryQueue()
    consumer = jms.session.createConsumer(replies)
    request = jms.session.createMessage()
    request.setJMSReplyTo(replies)
    request.setJMSCorrelationID("asked")
    jms.send(about, request)
    found = []
    for _ in range(answers):
        message = take(consumer)
        assert str(message.getJMSCorrelationID()) == "asked"
        names = message.getMapNames()
        values = {}
        while names.hasMoreElements():
            name = str(names.nextElement())
            values[name] = message.getObject(name)
        found.append(values)
    consumer.close()
    return found


COUNTERS = (
    "size",
    "enqueueCount",
    "dequeueCount",
    "dispatchCount",
    "inflightCount",
    "expiredCount",
    "consumerCount",
)


def test_statistics_of_a_destination(configured: Configured, jms: Jms) -> None:
    jms.send("COUNTED.A", "1", "2", "3")
    with Jms(configured.openwire_url, CLIENT) as other:
        consumer = other.consumer("COUNTED.A")
        take(consumer).acknowledge()
        take(consumer)

        def counted() -> list[int]:
            [values] = ask(jms, "ActiveMQ.Statistics.Destination.COUNTED.A")
            assert values["destinationName"] == "queue://COUNTED.A"
            assert values["brokerName"] == "configured"
            return [int(str(values[name])) for name in COUNTERS]

        wait_until(lambda: counted() == [2, 3, 1, 3, 2, 0, 1], what="the counters of a queue")


def test_statistics_of_what_a_wildcard_matches(jms: Jms) -> None:
    for name in ("LISTED.A", "LISTED.B"):
        jms.send(name, name)

    found = ask(jms, "ActiveMQ.Statistics.Destination.LISTED.>", 2)
    assert {values["destinationName"] for values in found} == {"queue://LISTED.A", "queue://LISTED.B"}


def test_statistics_of_the_broker(configured: Configured, jms: Jms) -> None:
    jms.send("COUNTED.B", "1")

    [values] = ask(jms, "ActiveMQ.Statistics.Broker")
    assert int(str(values["enqueueCount"])) > 0
    for scheme, name, port in (
        ("tcp", "openwire", configured.openwire_url.rpartition(":")[2]),
        ("stomp", "stomp", configured.stomp_port),
    ):
        assert re.match(rf"{scheme}://(localhost|127\.0\.0\.1):{port}", str(values[name]))


def test_the_log_has_events(configured: Configured, jms: Jms) -> None:
    jms.send("LOGGED", "1")
    jms.texts(jms.consumer("LOGGED"), 1)

    log = configured.log
    words = ("sent: message", "acknowledged: ", "consumer", "connection") if configured.is_ours else (
        "Sending message", "Acknowledging message", "Adding Consumer", "Adding Connection",
    )  # fmt: skip
    wait_until(lambda: all(word in log.read_text() for word in words), what="the events in the log")
    assert "LOGGED" in log.read_text()
